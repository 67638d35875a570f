"""An anchor in a SQLite file of its own (ST-2, ST-3).

It protects against records that are swapped or rolled back as single files. Where it lies on the
same disk as the records, it does not protect against a disk that is restored as a whole; `protects`
says which it is. After an error that leaves the file in doubt it answers no more. Threads may
share one: its steps are taken one at a time.

Deliberately not here: anchors for several machines.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

import apsw

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchors import Anchor, Floor, Protection, check_moved
from amends.sealed.envelopes import Place

_APPLICATION: Final = 0x616D616E
"""`aman` in the file's header: no other database is taken for an anchor."""

_SETTINGS: Final = (
    "PRAGMA journal_mode=DELETE",
    "PRAGMA synchronous=EXTRA",
    "PRAGMA trusted_schema=OFF",
)
_SCHEMA: Final = f"""
CREATE TABLE floors (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL CHECK (revision >= 0),
    commitment TEXT NOT NULL,
    fence INTEGER NOT NULL CHECK (fence >= 0),
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE reseatings (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    commitment TEXT NOT NULL,
    fence INTEGER NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
PRAGMA application_id={_APPLICATION};
"""
_PUT: Final = "INSERT OR REPLACE INTO floors VALUES (?, ?, ?, ?, ?)"
_NOTE: Final = "INSERT INTO reseatings VALUES (?, ?, ?, ?, ?, ?, ?)"
_BUSY_MS: Final = 5_000
_OTHERS: Final = 0o077
_CREATE: Final = "INSERT OR IGNORE INTO floors VALUES (?, ?, ?, ?, ?)"
_RESERVE: Final = """
UPDATE floors SET fence = fence + 1 WHERE namespace = ? AND name = ?
RETURNING revision, commitment, fence
"""
_READ: Final = "SELECT revision, commitment, fence FROM floors WHERE namespace = ? AND name = ?"
_ADVANCE: Final = """
UPDATE floors SET revision = ?, commitment = ?
WHERE namespace = ? AND name = ? AND revision = ? AND commitment = ? AND fence = ?
"""
_Row: TypeAlias = tuple[int, Fingerprint, int]


class SqliteAnchor(Anchor):
    """An open anchor file, for any thread. Close it when done."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._poisoned = False
        self._turn = Lock()

    @classmethod
    def create_file(cls, path: Path, *, vfs: str | None = None) -> None:
        """Make an empty anchor file, mode 0600. Explicit: a missing anchor is never made anew.

        Raises `Conflict` (`sealed.initialised`), `Unavailable` (`sealed.anchor_unreachable`).
        """
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise coded("sealed.initialised") from None
        except OSError:
            raise coded("sealed.anchor_unreachable") from None
        with _told(), contextlib.closing(_connect(path, vfs)) as connection:
            connection.execute(_SCHEMA)

    @classmethod
    def open_file(cls, path: Path, *, vfs: str | None = None) -> "SqliteAnchor":
        """Open an anchor file that is there, of this user alone and no link.

        Raises `Unavailable` (`sealed.anchor_unreachable`, `sealed.file_unsafe`).
        """
        with _told():
            _check_private(path)
            connection = _connect(path, vfs)
            if connection.pragma("application_id") != _APPLICATION:
                connection.close()
                raise coded("sealed.anchor_unreachable")
        return cls(connection, path)

    def protects(self, directory: Path) -> Protection:
        """Against what this anchor protects records in that folder."""
        same = directory.stat().st_dev == self._path.stat().st_dev
        return Protection.SINGLE_FILES if same else Protection.RESTORED_DISK

    def floor(self, place: Place) -> Floor | None:
        """See `Anchor`."""
        with self._alone():
            return self._read(place)

    def create(self, place: Place, floor: Floor) -> None:
        """See `Anchor`."""
        with self._alone():
            self._connection.execute(_CREATE, (*place, *_values(floor)))
            is_new = self._connection.changes() == 1
        if not is_new:
            raise coded("sealed.initialised")

    def reserve(self, place: Place) -> Floor:
        """See `Anchor`."""
        with self._alone():
            rows = self._connection.execute(_RESERVE, place).fetchall()
        if not rows:
            raise coded("sealed.not_initialised")
        return _floor_of(rows[0])

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        """See `Anchor`."""
        values = (*place, *_values(floor))
        with self._alone():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(_PUT, values)
            self._connection.execute(_NOTE, (*values, who, why))
            self._connection.execute("COMMIT")

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        """See `Anchor`."""
        moved = Floor(after.revision, after.commitment, before.fence)
        with self._alone():
            self._connection.execute(
                _ADVANCE, (moved.revision, moved.commitment, *place, *_values(before))
            )
            found = moved if self._connection.changes() == 1 else self._read(place)
        check_moved(found, moved)

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            self._connection.close()

    def _read(self, place: Place) -> Floor | None:
        rows = self._connection.execute(_READ, place).fetchall()
        return _floor_of(rows[0]) if rows else None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One step, by one thread at a time.

        An error may leave a commit in doubt, so that was the last step. But where another process
        held the file for too long, and no transaction is open, nothing was done.
        """
        with self._turn, _told():
            if self._poisoned:
                raise coded("sealed.anchor_unreachable")
            self._poisoned = True
            try:
                yield
            except apsw.BusyError:
                self._poisoned = self._connection.in_transaction
                raise
            self._poisoned = False


def _values(floor: Floor) -> _Row:
    return floor.revision, floor.commitment, floor.fence


def _floor_of(row: tuple[Any, ...]) -> Floor:
    return Floor(row[0], Fingerprint(row[1]), row[2])


def _check_private(path: Path) -> None:
    found = path.lstat()
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if not is_own or found.st_mode & _OTHERS:
        raise coded("sealed.file_unsafe", {"file": path.name})


def _connect(path: Path, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    connection.set_busy_timeout(_BUSY_MS)
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


class _told(contextlib.AbstractContextManager[None]):  # noqa: N801  # reads as a verb where it is used
    """Turns what SQLite raises into the one thing that callers can act on."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error | OSError) and not isinstance(error, AmendsError):
            raise coded("sealed.anchor_unreachable") from None
