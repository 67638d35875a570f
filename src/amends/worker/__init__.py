"""The contained worker: adapters, and the shell that serves one session with them."""
