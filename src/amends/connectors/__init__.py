"""Connectors: each carries out one attempt and reports one outcome."""
