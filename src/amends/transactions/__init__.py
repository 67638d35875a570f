"""The rules of one transaction record: pure functions over tables, documents in, documents out.

Nothing here reads a clock, a store or a random number. Every rule either returns what changes or
raises a coded error and changes nothing.
"""
