"""One connection to the file, with the settings that durability needs or not at all.

The order matters. The file is made first, readable by its owner alone, with a call that fails if
it exists: opening and closing an existing one would drop the locks that this process holds on it.
The busy timeout is set before the first look at the file, since that look can already meet another
process. Every setting is read back, and a connection that did not take one is refused.

Deliberately not here: what is stored, and sharing between users (`opened`).
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from amends.contracts.errors import Unavailable
from amends.stores.sqlite.failures import unopenable
from amends.stores.sqlite.migrations import migrate, missing_steps

OLDEST_SQLITE: Final = (3, 51, 3)
"""SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when a checkpoint and a restart meet."""

BUSY_MS: Final = 5_000
PAGE_BYTES: Final = 4096
"""Measured against 8192: half as much is flushed, and one caller at a time waits a tenth less; many
at once, whose flush is hidden, take 2 % more, and so does the file 8 %."""

WAL_PAUSE_S: Final = 0.01
FULL: Final = 2
STATEMENTS_CACHED: Final = 200


def check_sqlite(version: str) -> None:
    """Raises `Unavailable` (`store.sqlite_too_old`)."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Unavailable(
            "store.sqlite_too_old",
            f"SQLite {version} can damage the kind of file that Amends keeps.",
            next_step=f"Install an apsw that brings SQLite {oldest} or newer.",
        )


def create(path: Path) -> None:
    """Make an empty file that only its owner can read, unless something is there already.

    Raises `OSError` where that is impossible, also when what is there is no plain file.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file") from None


class Connected(NamedTuple):
    """A connection that is ready, and the lineage id of the store behind it."""

    connection: apsw.Connection
    lineage: str


def connect(path: Path, clock: Callable[[], datetime], vfs: str | None = None) -> Connected:
    """Open an existing file and bring it up to this program's schema.

    Raises `Unavailable` (`store.unavailable`, `store.not_durable`, and as `migrate` does) and
    `Corrupt`; a file that is not ours or newer than this program is left as it is.
    """
    connection = None
    try:
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE, vfs, STATEMENTS_CACHED)
        return Connected(connection, _prepare(connection, clock))
    except BaseException as error:
        if connection is not None:
            let_go(connection)
        if isinstance(error, apsw.Error):
            raise unopenable(path, error) from error
        raise


def let_go(connection: apsw.Connection) -> None:
    """Close a connection; a transaction that is open is rolled back by SQLite.

    Closing moves the log into the file. Where the disk refuses that, nothing is lost: what was
    accepted is in the log, and whoever opens the file next finds it there.
    """
    with contextlib.suppress(apsw.Error):
        connection.close(True)


def _prepare(connection: apsw.Connection, clock: Callable[[], datetime]) -> str:
    connection.set_busy_timeout(BUSY_MS)
    missing_steps(connection)
    connection.pragma("page_size", PAGE_BYTES)
    enter_wal(connection)
    connection.pragma("synchronous", "FULL")
    check_settings(connection)
    # The lock that keeps processes apart must really be had: with a file beside ours that can only
    # be read, SQLite would open and then fail at the first write.
    connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    return migrate(connection, clock())


def enter_wal(connection: apsw.Connection) -> None:
    """Change to WAL. Where two processes do this at once SQLite refuses one without waiting."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.pragma("journal_mode", "WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(WAL_PAUSE_S)


def check_settings(connection: apsw.Connection) -> None:
    """Raises `Unavailable` (`store.not_durable`) for a connection that could lose what it wrote."""
    wanted = {"journal_mode": "wal", "synchronous": FULL, "encoding": "UTF-8"}
    for name, value in wanted.items():
        if connection.pragma(name) != value:
            raise Unavailable(
                "store.not_durable",
                f"SQLite does not keep the setting {name} that durability needs.",
                next_step="Put the store on a local disk, not on a network or read-only one.",
            )
    if connection.readonly("main"):
        raise Unavailable(
            "store.unavailable",
            "The store can only be read.",
            next_step="Give this user write access to the file and its folder.",
        )
