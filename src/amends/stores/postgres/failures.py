"""What the server or the network reports, turned into what a caller can act on.

An error before COMMIT was sent leaves nothing behind: the server takes back what was not committed.
So the driver begins anew by itself where that can help, which is where somebody was in the way, or
the connection was lost. An error *of* COMMIT leaves the change sets unknown until they are looked
up (`truth`). The server's own words are kept as the cause only, since they may quote what was
stored; its five-character code is shown.

Deliberately not here: trying again, and looking up.
"""

from enum import Enum, auto
from typing import Final

import asyncpg
import msgspec

from amends.contracts.errors import Misuse, Unavailable

REPORTED: Final = (
    OSError,
    EOFError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What may be raised for the server or the network.

The last is what asyncpg raises when it is asked again on a connection whose server has just ended
in the middle of an answer.
"""

_IN_THE_WAY: Final = frozenset({"40001", "40P01", "55P03", "23505"})
_GONE: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25006", "53300"})
_FULL: Final = frozenset({"53100"})


class Trouble(Enum):
    """What kind of failure it is, before a COMMIT was sent."""

    IN_THE_WAY = auto()
    GONE = auto()
    FULL = auto()
    OTHER = auto()


class Failure(msgspec.Struct, frozen=True):
    """One failure, from which each caller that it hits gets an exception of its own."""

    code: str
    message: str
    next_step: str
    cause: BaseException | None = None

    def exception(self) -> Unavailable:
        """A new exception with the failure's cause."""
        state = getattr(self.cause, "sqlstate", None)
        details = {"sqlstate": state} if isinstance(state, str) else None
        error = Unavailable(self.code, self.message, details=details, next_step=self.next_step)
        error.__cause__ = self.cause
        return error


CLOSED: Final = Failure(
    "store.closed", "This store has been closed; nothing was changed.", "Open the store again."
)


def judge(error: BaseException) -> Trouble:
    """What kind of failure an error is."""
    if isinstance(error, asyncpg.PostgresError):
        state = str(error.sqlstate or "")
        if state in _IN_THE_WAY:
            return Trouble.IN_THE_WAY
        if state in _FULL:
            return Trouble.FULL
        gone = state in _GONE or state.startswith("08")
        return Trouble.GONE if gone else Trouble.OTHER
    return Trouble.GONE if isinstance(error, REPORTED) else Trouble.OTHER


def failed(error: BaseException) -> Failure:
    """What change sets get that could not be written, and were not."""
    match judge(error):
        case Trouble.IN_THE_WAY:
            return Failure(
                "store.busy",
                "Others held what was to be changed for too long. Nothing was changed.",
                "Ask again; if it goes on, find the transaction that stays open on the server.",
                error,
            )
        case Trouble.FULL:
            return Failure(
                "store.full",
                "The server has no space left to store this. Nothing was changed.",
                "Free some space on the server and ask again.",
                error,
            )
        case Trouble.GONE:
            return unreachable(error)
        case Trouble.OTHER:
            return Failure(
                "store.unavailable",
                "The server refused what the store asked of it. Nothing was changed.",
                "Look the code up in PostgreSQL's list, and look at the server's log.",
                error,
            )


def unreachable(error: BaseException) -> Failure:
    """What everybody gets while there is no server to be had that takes writes."""
    return Failure(
        "store.unavailable",
        "The server cannot be reached, or takes no writes just now. Nothing was changed.",
        "Check that the primary runs and can be reached from here, then ask again.",
        error,
    )


def unknown(error: BaseException | None) -> Failure:
    """What change sets get whose transaction may or may not have ended."""
    return Failure(
        "store.commit_unknown",
        "The answer to COMMIT was lost, and it could not be found out whether it was carried out.",
        "Read what the store holds, once the primary answers again, before doing anything else.",
        error,
    )


def foreign_loop() -> Misuse:
    """What a store gets that is asked from another event loop than the one it was opened in."""
    return Misuse(
        "store.foreign_loop",
        "A PostgreSQL store belongs to the event loop in which it was opened.",
        next_step="Open a store of its own in each event loop, and after a fork in the child.",
    )
