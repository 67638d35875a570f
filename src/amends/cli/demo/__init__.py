"""The demonstration: a real payment against a stateful fake of the Stripe API.

Invariants: the provider is always another process, reached over loopback only; what is heavy (the
Stripe client above all) is imported when the command runs, so that asking it for help costs
nothing. Not here: any rule of a transaction. The demonstration uses the library as a user would.
"""
