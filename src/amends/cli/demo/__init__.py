"""The demonstration: a real payment against a stateful fake of the Stripe API.

Invariants: the provider is always another process, reached over loopback only; heavy imports
(the Stripe client above all) happen inside functions, so that asking the command for help costs
nothing. Not here: any rule of a transaction. The demonstration uses the library as a user would.
"""
