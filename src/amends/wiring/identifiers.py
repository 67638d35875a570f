"""Identifiers and owners of a real process."""

import os
import secrets
import socket
import time
from typing import Final

from amends.contracts.ids import uuid7_at, uuid7_chance, uuid7_hex

_NS_IN_MS: Final = 1_000_000
_BYTES: Final = 10
_DRAWN: Final = 256


def new_id(prefix: str) -> str:
    """The prefix and a UUIDv7: ordered by time, so that inserts stay at the end of an index."""
    return prefix + uuid7_hex(time.time_ns() // _NS_IN_MS, os.urandom(_BYTES))


class Identifiers:
    """Makes identifiers as `new_id` does, from random bytes that are drawn for many at once.

    A draw gives the interpreter's lock away, and to get it back from another thread takes longer
    than the draw. Nothing that was drawn is used twice, and a forked child draws its own.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._drawn: list[str] = []

    def __call__(self, prefix: str) -> str:
        """A new identifier; safe to ask from any thread."""
        if self._pid != os.getpid():
            self._pid, self._drawn = os.getpid(), []
        try:
            drawn = self._drawn.pop()
        except IndexError:
            self._drawn += self._draw()
            drawn = self._drawn.pop()
        return f"{prefix}{uuid7_at(time.time_ns() // _NS_IN_MS, drawn)}"

    def _draw(self) -> list[str]:
        much = os.urandom(_BYTES * _DRAWN)
        return [uuid7_chance(much[at : at + _BYTES]) for at in range(0, len(much), _BYTES)]


def new_owner() -> str:
    """A name for this incarnation of the process: never the same again after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
