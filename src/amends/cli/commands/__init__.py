"""The commands over a store. Each module is loaded for its own help, so it is light until run."""
