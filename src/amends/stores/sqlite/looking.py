"""A file that this user may only read, opened for questions.

SQLite reads a file in WAL mode together with the two files beside it, and makes these where they
are not there. Where it can do neither, it can be told that the file is *immutable*: it looks for no
log then and takes no lock. What lies in a log would be passed over in silence, and a program that
writes meanwhile would be read in pieces. So that is done only where there is no log with anything
in it, and nobody can write: the file system is mounted to be read only, or neither the file nor its
folder gives anybody the permission to write. Elsewhere it is refused, with what to do instead.

Deliberately not here: writing, and bringing a file up to date.
"""

import os
from pathlib import Path
from typing import Final, NoReturn

import apsw

from amends.contracts.errors import Unavailable
from amends.stores.sqlite.changes import Prepared
from amends.stores.sqlite.connection import BUSY_MS, Connected, let_go
from amends.stores.sqlite.failures import unopenable
from amends.stores.sqlite.migrations import missing_steps

_LOGS: Final = ("-wal", "-journal")
"""What SQLite would have to take in first; the second only where a file was moved between modes."""

_ANYBODY_WRITES: Final = 0o222
_SCHEMA: Final = "SELECT count(*) FROM sqlite_schema"


class NoWriter:
    """Stands in for the writer of a file that is only looked at."""

    async def commit(self, prepared: Prepared) -> NoReturn:
        """Raises `Unavailable` (`store.read_only`)."""
        raise _read_only("This command has the store open for looking only.")

    async def drain(self) -> None:
        """Nothing was queued."""

    def shut_down(self) -> None:
        """There is nothing to shut down."""


def look(path: Path) -> apsw.Connection:
    """A connection that answers questions and writes nothing, whatever this user may do there.

    Raises `apsw.Error`, and `Unavailable` (`store.read_only`) where only writing could tell what
    the store holds.
    """
    connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        return _answering(connection)
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        _check_that_it_lies_still(path, error)
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return _answering(apsw.Connection(uri, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI))


def look_at_store(path: Path) -> Connected:
    """The same of a file that this program's schema is in.

    Raises as `connect` does, `Unavailable` (`store.read_only`), and changes nothing.
    """
    connection = None
    try:
        connection = look(path)
        if missing_steps(connection):
            raise _read_only("The store has an older schema, and bringing it up to date writes.")
        return Connected(connection, str(connection.execute("SELECT lineage FROM store").get))
    except BaseException as error:
        if connection is not None:
            let_go(connection)
        if isinstance(error, apsw.Error):
            raise unopenable(path, error) from error
        raise


def _answering(connection: apsw.Connection) -> apsw.Connection:
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("query_only", True)
        connection.execute(_SCHEMA).fetchall()
    except BaseException:
        let_go(connection)
        raise
    return connection


def _check_that_it_lies_still(path: Path, error: apsw.Error) -> None:
    """Raises `Unavailable` (`store.read_only`)."""
    try:
        logs = [path.with_name(path.name + ending) for ending in _LOGS]
        if any(log.exists() and log.stat().st_size for log in logs):
            raise _read_only("What was written last lies in the log beside it.") from error
        if not _nobody_writes(path):
            raise _read_only("Others may write it meanwhile.") from error
    except OSError:
        raise error from None


def _nobody_writes(path: Path) -> bool:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return True
    return not (path.stat().st_mode | path.parent.stat().st_mode) & _ANYBODY_WRITES


def _read_only(why: str) -> Unavailable:
    return Unavailable(
        "store.read_only",
        f"This user can only read the store. {why}",
        next_step="Use a user that may write the file and its folder; or make a copy with amends "
        "backup and look at that; or take from everybody the permission to write both.",
    )
