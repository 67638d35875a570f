"""Stores: documents with revisions, changed by one atomic change set at a time."""
