"""Removing what a file still holds of bytes that were replaced.

SQLite leaves old content where it was, in free parts of pages and in the log, until something else
is written there. Compacting writes the file anew from what is stored now, moves the log into it and
cuts the log to nothing; after that the old bytes are in neither.

Deliberately not here: what was replaced, and old bytes that a disk or a backup holds elsewhere.
"""

from pathlib import Path

import apsw

from amends.contracts.errors import Unavailable
from amends.stores.sqlite.connection import BUSY_MS, let_go
from amends.stores.sqlite.failures import unopenable


def compact(path: Path) -> None:
    """Write a store's file anew. It may be open elsewhere, as long as nobody is reading just then.

    It takes as much room beside the file as the file has, and writers wait meanwhile. Raises
    `Unavailable` (`store.not_compacted`) where somebody else was in the way, and as opening does.
    """
    try:
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        raise unopenable(path, error) from error
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("VACUUM")
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (1,)
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _in_the_way() from error
    except apsw.Error as error:
        raise unopenable(path, error) from error
    finally:
        let_go(connection)
    if busy:
        raise _in_the_way()


def _in_the_way() -> Unavailable:
    return Unavailable(
        "store.not_compacted",
        "What was forgotten is forgotten, but its old bytes may still lie in the file: somebody "
        "else was using it.",
        next_step="Run amends retention run again when no other program has the store open.",
    )
