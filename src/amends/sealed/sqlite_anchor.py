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
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

import apsw

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchors import Anchor, Floor
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
_RESERVE: Final = "UPDATE floors SET fence = fence + 1 WHERE namespace = ? AND name = ?"
_READ: Final = "SELECT revision, commitment, fence FROM floors WHERE namespace = ? AND name = ?"
_ADVANCE: Final = """
UPDATE floors SET revision = ?, commitment = ?
WHERE namespace = ? AND name = ? AND revision = ? AND commitment = ? AND fence = ?
"""
_T = TypeVar("_T")


class Protection(StrEnum):
    """Against what an anchor protects."""

    SINGLE_FILES = "single_files"
    RESTORED_DISK = "restored_disk"


class SqliteAnchor(Anchor):
    """An open anchor file. Close it when done."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._poisoned = False
        self._turn = threading.Lock()

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
        return self._step(lambda: self._read(place))

    def create(self, place: Place, floor: Floor) -> None:
        """See `Anchor`."""

        def insert() -> bool:
            values = (*place, floor.revision, floor.commitment, floor.fence)
            self._connection.execute(_CREATE, values)
            return self._connection.changes() == 1

        if not self._step(insert):
            raise coded("sealed.initialised")

    def reserve(self, place: Place) -> Floor:
        """See `Anchor`."""

        def take() -> Floor | None:
            self._connection.execute(_RESERVE, place)
            return self._read(place)

        floor = self._step(take)
        if floor is None:
            raise coded("sealed.not_initialised")
        return floor

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        """See `Anchor`."""
        values = (*place, floor.revision, floor.commitment, floor.fence)

        def put() -> None:
            self._connection.execute(_PUT, values)
            self._connection.execute(_NOTE, (*values, who, why))

        self._step(put)

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        """See `Anchor`."""

        moved = (after.revision, after.commitment)
        expected = (before.revision, before.commitment, before.fence)

        def move() -> Floor | None:
            self._connection.execute(_ADVANCE, (*moved, *place, *expected))
            return self._read(place)

        found = self._step(move)
        if found is None or found.fence != before.fence:
            raise coded("sealed.fenced")
        if found != Floor(after.revision, after.commitment, before.fence):
            raise coded("sealed.anchor_moved")

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            self._connection.close()

    def _read(self, place: Place) -> Floor | None:
        row = self._connection.execute(_READ, place).fetchone()
        return None if row is None else Floor(row[0], Fingerprint(row[1]), row[2])

    def _step(self, step: Callable[[], _T]) -> _T:
        """One transaction, begun by one thread at a time.

        An error after it was begun may leave a commit in doubt, so that was the last call. One that
        could not begin, as when another process holds the file for too long, has done nothing.
        """
        with self._turn, _told():
            if self._poisoned:
                raise coded("sealed.anchor_unreachable")
            self._connection.execute("BEGIN IMMEDIATE")
            self._poisoned = True
            answer = step()
            self._connection.execute("COMMIT")
            self._poisoned = False
            return answer


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
