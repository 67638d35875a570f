"""Receipts: built, chained, signed and verified without reading a clock."""
