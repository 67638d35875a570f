"""How the bytes of a session reach the other process."""
