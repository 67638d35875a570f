"""Receipts: built, chained, signed and verified without reading a clock.

`chain` makes the next links, `signing` signs a head, `verify` finds what is wrong with a chain.
"""
