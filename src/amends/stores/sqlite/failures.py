"""What SQLite reports, turned into what a caller can act on. The only place where that happens.

Three failures leave the store as it was: somebody else held the lock too long, the disk is full,
and a full disk once more when it is the flush that finds out (SQLite reports it from a write that
did not fit, the mark that ends a transaction is written last, and the transaction is rolled back).
After any other error nobody can say what the file holds: the store is poisoned, every later call
is refused, and only opening it again, which reads what the disk really has, helps. An error of
COMMIT itself also leaves the change sets in it unknown.

Deliberately not here: trying again.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import apsw
import msgspec

from amends.contracts.errors import Corrupt, Misuse, Unavailable
from amends.contracts.json_types import Json

BUSY: Final = "store.busy"


class Failure(msgspec.Struct, frozen=True):
    """One failure, from which each caller that it hits gets an exception of its own."""

    code: str
    message: str
    next_step: str
    cause: BaseException | None = None

    def exception(self) -> Unavailable:
        """A new exception with the failure's cause."""
        error = Unavailable(
            self.code, self.message, details=_details(self.cause), next_step=self.next_step
        )
        error.__cause__ = self.cause
        return error


CLOSED: Final = Failure(
    "store.closed", "This store has been closed; nothing was changed.", "Open the store again."
)


class Health:
    """Whether the file can still be trusted by this process."""

    def __init__(self) -> None:
        self.poison: Failure | None = None

    def judge(self, error: BaseException) -> Failure:
        """What an error means outside of COMMIT, poisoning the store if it must be."""
        match error:
            case apsw.BusyError() | apsw.LockedError():
                return _busy(error)
            case apsw.FullError():
                return _full(error)
            case _:
                return self.condemn(error)

    def judge_commit(self, error: BaseException, *, rolled_back: bool) -> Failure:
        """What an error of COMMIT means for the change sets in it."""
        if rolled_back and isinstance(error, apsw.FullError):
            return _full(error)
        self.condemn(error)
        return unknown(error)

    def condemn(self, error: BaseException) -> Failure:
        """Poison the store. The first cause stays."""
        if self.poison is None:
            self.poison = Failure(
                "store.poisoned",
                "The store failed in a way that leaves its file in doubt; it refuses every call.",
                "Close the store, look at the disk and the system's log, and open it again.",
                error,
            )
        return self.poison


def damaged(path: Path, said: str) -> Corrupt:
    """What a question gets that meets a damaged page; `said` is what SQLite said, in one line."""
    return Corrupt(
        "store.file_damaged",
        f"The file {path.name} is damaged. SQLite says: {said}.",
        details={"file": path.name},
        next_step="Stop whatever uses it, keep the files as they are, and restore a backup.",
    )


_NAME_SHOWN: Final = 255
"""Longer names no file can have."""


def unopenable(path: Path, error: BaseException) -> Unavailable | Corrupt:
    """What a path that cannot be opened gets; there is no falling back to anything weaker.

    A store that is damaged is told from one that cannot be reached, which may be asked again.
    """
    if isinstance(error, apsw.CorruptError):
        return damaged(path, type(error).__name__)
    failure = Failure(
        "store.unavailable",
        f"The store {path.name} cannot be opened: {_reason(error)}.",
        "Check that the folder exists, is writable and has space, and that the path names a file.",
        error,
    )
    return failure.exception()


def unwritable(path: Path, error: BaseException) -> Unavailable:
    """What a new file beside a store gets, such as a backup, that cannot be written."""
    failure = Failure(
        "backup.target_unwritable",
        f"The file {path.name[:_NAME_SHOWN]} cannot be written: {_reason(error)}.",
        "Name a file in a folder that this user can write, on a disk with space and hard links.",
        error,
    )
    return failure.exception()


def forked() -> Misuse:
    """What a store gets that was carried into a child process."""
    return Misuse(
        "store.forked",
        "A store that was open when the process forked cannot be used, nor opened, in the child.",
        next_step="Open it after the fork, or start workers with 'spawn' or 'forkserver'.",
    )


def unknown(error: BaseException) -> Failure:
    """What change sets get whose transaction may or may not have ended."""
    return Failure(
        "store.commit_unknown",
        "Changes were being made durable when that failed; nobody knows whether they are.",
        "Open the store again and read what it holds before doing anything else.",
        error,
    )


def _busy(error: BaseException) -> Failure:
    return Failure(
        BUSY,
        "Another process held the store for too long. Nothing was changed.",
        "Ask again; if it goes on, find the process that keeps a transaction open on the file.",
        error,
    )


def _full(error: BaseException) -> Failure:
    return Failure(
        "store.full",
        "There is no space left to store this. Nothing was changed.",
        "Free some space and ask again; the store goes on without a repair.",
        error,
    )


def _details(cause: BaseException | None) -> dict[str, Json]:
    """SQLite's own word for it. Its message is left to the cause: it may quote what was stored."""
    if not isinstance(cause, apsw.Error):
        return {}
    return {"sqlite": type(cause).__name__, "sqlite_code": getattr(cause, "extendedresult", None)}


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return _WORDS.get(type(error), f"SQLite says {type(error).__name__}")


_WORDS: Final[Mapping[type[BaseException], str]] = MappingProxyType(
    {
        apsw.NotADBError: "it is not a SQLite database",
        apsw.CantOpenError: "it, or one of the files beside it, cannot be opened",
        apsw.ReadOnlyError: "it cannot be written",
        apsw.BusyError: "another process held it for too long",
        apsw.FullError: "there is no space left",
    }
)
