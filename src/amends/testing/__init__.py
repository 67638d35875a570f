"""The public test kit: fakes that are products, fixtures and invariants."""
