"""The command line: it shows and asks, and decides nothing."""
