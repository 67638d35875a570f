"""The channel between host and worker: frames, sessions of both roles, narrowing, budgets.

Sans-IO: bytes go in and events come out, a message goes in and bytes come out. Nonces are
arguments, and nothing here reads a clock. `host.HostSession` and `worker.WorkerSession` are what
shells use; `table` says which message may pass when; `lines` is version 5 and `records` is version
6."""
