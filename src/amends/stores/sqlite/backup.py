"""Whole files: copied while they are in use, and put back only where nobody uses them.

A copy is one moment of the store, whatever is written meanwhile. It is one file without others
beside it, checked and flushed before it gets its name, and it never replaces anything.

Putting back goes the other way, through SQLite itself and under the lock that excludes every other
process: pages of the old content are kept in a journal until all of the new ones are there. So a
crash in between leaves the old content, and no file of it stays behind beside the new content. A
file that was replaced under its name instead would have kept its old log, which SQLite would then
have played into the new pages.

Deliberately not here: what a restored store must not go on with (`recovery`), and keys.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

import apsw

from amends.contracts.errors import Conflict, Misuse
from amends.contracts.ids import uuid7_hex
from amends.stores.rows import to_micros
from amends.stores.sqlite.connection import BUSY_MS, let_go
from amends.stores.sqlite.failures import damaged, unopenable, unwritable
from amends.stores.sqlite.survey import Survey

Told: TypeAlias = Callable[[int, int], None]
"""Called as a copy goes on, with pages done and pages in all."""

SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_PAGES_AT_ONCE: Final = 500
_PATIENCE_MS: Final = 500
"""Somebody who has the file open keeps it open; only a look in passing ends sooner."""


def back_up(path: Path, target: Path, told: Told) -> None:
    """Copy a store as it stands now to a new file, while others go on with it.

    When this returns the copy is whole and survives a crash. Raises as `require_absent` and
    `fresh_beside`, `Unavailable` as opening a store does, and `Corrupt` (`store.file_damaged`) for
    a store whose copy is not whole; nothing is left behind then.
    """
    require_absent(target)
    with fresh_beside(target) as copy:
        copy_into(path, copy, told)
        give_name(copy, target)


def copy_into(path: Path, target: Path, told: Told) -> None:
    """Copy a store as it stands now into an empty file. Raises as `back_up`."""
    with Survey(path) as survey, survey.snapshot() as source:
        _copy(source, target, told)


def check_whole(path: Path) -> str:
    """The lineage of a store or a backup that is whole.

    Raises `Corrupt` (`store.file_damaged`), `Misuse` (`backup.empty`), and as `Survey` does.
    """
    with Survey(path) as survey:
        if found := survey.integrity(quick=False):
            raise damaged(path, found[0])
        if survey.is_empty:
            raise Misuse(
                "backup.empty",
                f"The file {path.name} holds no store.",
                next_step="Name a file that amends backup has written.",
            )
        return survey.lineage


def orphans(path: Path) -> tuple[str, ...]:
    """Files that belong beside a store that is not there; SQLite would play them into a new one."""
    if path.exists():
        return ()
    beside = (path.with_name(path.name + suffix) for suffix in SIDE_FILES)
    return tuple(one.name for one in beside if one.exists())


def renew_lineage(path: Path, now: datetime) -> str:
    """Give a file that nobody else has open a lineage of its own, and return it."""
    lineage = uuid7_hex(to_micros(now) // 1000, os.urandom(10))
    connection = _open(path)
    try:
        connection.execute("UPDATE store SET lineage = ?", (lineage,))
    finally:
        let_go(connection)
    return lineage


@contextmanager
def fresh_beside(target: Path) -> Iterator[Path]:
    """An empty file that only its owner can read, in the folder of another; gone with the block.

    Raises `Unavailable` (`backup.target_unwritable`).
    """
    path = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        yield path
    finally:
        for name in ("", *SIDE_FILES):
            with contextlib.suppress(OSError):
                path.with_name(path.name + name).unlink()


def give_name(path: Path, name: Path) -> None:
    """Let a file that is finished be found under its name, unless something is there.

    Raises `Misuse` (`backup.target_exists`) and `Unavailable` (`backup.target_unwritable`).
    """
    try:
        flush(path)
        name.hardlink_to(path)
        flush(name.parent)
    except FileExistsError:
        raise occupied(name) from None
    except OSError as error:
        raise unwritable(name, error) from error


def flush(path: Path) -> None:
    """Make a file or a folder survive a crash. Not for a file that this process has open."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_plain(path: Path) -> None:
    """Bring everything into the one file and check it. Raises `Corrupt` (`store.file_damaged`)."""
    connection = _open(path)
    try:
        connection.pragma("journal_mode", "DELETE")
        if (found := connection.execute("PRAGMA integrity_check(1)").get) != "ok":
            raise damaged(path, str(found))
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise damaged(path, type(error).__name__) from error
    finally:
        let_go(connection)


class Held:
    """A store's file that this process alone has open, and nobody else can open.

    Use it in a `with` block. Raises `Conflict` (`restore.store_in_use`) where anybody has it open,
    and as `Survey` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with Survey(path) as survey:
            self.is_empty = survey.is_empty
            self.lineage = None if survey.is_empty else survey.lineage
        self._connection = _open(path, _PATIENCE_MS)
        try:
            self._connection.pragma("locking_mode", "EXCLUSIVE")
            self._connection.pragma("journal_mode", "DELETE")
            self._connection.execute("BEGIN EXCLUSIVE; COMMIT")
        except (apsw.BusyError, apsw.LockedError) as error:
            let_go(self._connection)
            raise _in_use(path) from error
        except apsw.Error as error:
            let_go(self._connection)
            raise unopenable(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        let_go(self._connection)

    def keep_as(self, target: Path, told: Told) -> None:
        """Copy what the file holds now. Raises as `back_up`."""
        require_absent(target)
        with fresh_beside(target) as copy:
            _copy(self._connection, copy, told)
            give_name(copy, target)

    def replace_by(self, source: Path, told: Told) -> None:
        """Put the content of another file in the place of this one's, all of it or nothing.

        When this returns it survives a crash. Raises `Unavailable` (`store.unavailable`).
        """
        connection = _open(source)
        try:
            _copy_pages(connection, self._connection, told)
            self._path.with_name(self._path.name + "-shm").unlink(missing_ok=True)
        except apsw.Error as error:
            raise unopenable(self._path, error) from error
        finally:
            let_go(connection)


def _copy(source: apsw.Connection, target: Path, told: Told) -> None:
    """Copy into an empty file, which is a plain and whole one afterwards."""
    connection = _open(target)
    try:
        _copy_pages(source, connection, told)
    except apsw.FullError as error:
        raise unwritable(target, error) from error
    except apsw.Error as error:
        raise unopenable(target, error) from error
    finally:
        let_go(connection)
    make_plain(target)


def _copy_pages(source: apsw.Connection, target: apsw.Connection, told: Told) -> None:
    with target.backup("main", source, "main") as copying:
        while not copying.done:
            copying.step(_PAGES_AT_ONCE)
            told(copying.page_count - copying.remaining, copying.page_count)


def _open(path: Path, patience_ms: int = BUSY_MS) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(patience_ms)
    except apsw.Error as error:
        raise unopenable(path, error) from error
    return connection


def require_absent(target: Path) -> None:
    """Look that nothing is there yet.

    Raises `Misuse` (`backup.target_exists`) and `Unavailable` (`backup.target_unwritable`).
    """
    try:
        if target.exists():
            raise occupied(target)
    except OSError as error:
        raise unwritable(target, error) from error


def occupied(target: Path) -> Misuse:
    """What a file gets that was to be new and is there."""
    return Misuse(
        "backup.target_exists",
        f"There is a file {target.name} already, and it was left as it is.",
        next_step="Name a file that does not exist yet.",
    )


def _in_use(path: Path) -> Conflict:
    return Conflict(
        "restore.store_in_use",
        f"Another process has the store {path.name} open, so nothing was changed.",
        next_step="Stop every process that uses the store, then try again.",
    )
