"""Identifiers and owners of a real process."""

import os
import secrets
import socket
import time

from amends.contracts.ids import uuid7_hex

_NS_IN_MS = 1_000_000


def new_id(prefix: str) -> str:
    """The prefix and a UUIDv7: ordered by time, so that inserts stay at the end of an index."""
    return prefix + uuid7_hex(time.time_ns() // _NS_IN_MS, os.urandom(10))


def new_owner() -> str:
    """A name for this incarnation of the process: never the same again after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
