"""Exit codes: one table, by what the caller must do next.

A script can tell "nobody knows" (5) from "nothing happened" (3, 6) without reading a word. The core
knows none of these numbers.
"""

import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The command ran and its answer is no; or it broke, and a traceback says where."""

KILLED: Final = 128
"""Plus the number of the signal, as shells have it."""

INTERRUPTED: Final = KILLED + signal.SIGINT
PIPE_CLOSED: Final = KILLED + signal.SIGPIPE

OF_FAMILY: Final[Mapping[str, int]] = MappingProxyType(
    {
        "misuse": 2,
        "refused": 3,
        "conflict": 4,
        "outcome_unknown": 5,
        "provider_failed": 6,
        "peer_violation": 7,
        "unavailable": 8,
        "corrupt": 9,
    }
)


class Ended(SystemExit):
    """A signal ended the command before it began anything, or after everything was as before."""

    def __init__(self, number: int) -> None:
        super().__init__(KILLED + number)
        self.number = number
