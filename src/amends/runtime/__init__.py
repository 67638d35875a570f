"""The one engine: `begin`, the one connector call, `settle`. Every entrance drives these.

Rules come from the rooms below and are pure; this room reads, applies them, and writes one change
set at a time. It knows no HTTP and no SQL.
"""
