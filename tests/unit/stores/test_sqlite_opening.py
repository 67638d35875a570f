"""Opening a file: what is made, what is required of it, and what is refused."""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from amends.contracts.errors import AmendsError, Corrupt, Unavailable
from amends.stores.port import Insert
from amends.stores.schema_steps import Migration
from amends.stores.sqlite import SqliteStore, open_sqlite
from amends.stores.sqlite import connection as opening
from amends.stores.sqlite.connection import (
    PAGE_BYTES,
    check_settings,
    check_sqlite,
    connect,
    create,
    enter_wal,
)
from amends.stores.sqlite.failures import unopenable
from amends.stores.sqlite.migrations import (
    APPLICATION_ID,
    MIGRATIONS,
    migrate,
)
from amends.testing.clock import FixedClock
from amends.testing.faulty_files import FaultyFiles
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import TENANT, a_transaction

LATER_STEP = Migration(
    len(MIGRATIONS) + 1, "something later", "CREATE TABLE later (x INTEGER) STRICT"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


def _connection(path: Path) -> apsw.Connection:
    create(path)
    return connect(path, FixedClock()).connection


async def _refused(path: Path) -> AmendsError:
    """How opening is refused; the folder holds the same files with the same bytes afterwards."""
    before = _bytes(path.parent)
    error = await error_of(open_sqlite(path))
    assert _bytes(path.parent) == before
    return error


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _make_folder(path: Path) -> None:
    path.mkdir()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _bytes(folder: Path) -> dict[str, bytes | None]:
    if not folder.is_dir():
        return {}
    return {one.name: one.read_bytes() if one.is_file() else None for one in folder.iterdir()}


async def test_a_new_file_is_readable_by_its_owner_alone(path: Path) -> None:
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction()))
    for suffix in ("", "-wal", "-shm"):
        assert _mode(Path(f"{path}{suffix}")) == 0o600
    await store.close()
    assert list(_bytes(path.parent)) == ["amends.db"]


def test_a_connection_flushes_every_commit_and_says_whose_file_it_is(path: Path) -> None:
    connection = _connection(path)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2
    assert connection.pragma("page_size") == PAGE_BYTES
    assert connection.pragma("application_id") == APPLICATION_ID


@pytest.mark.parametrize("setting", ["synchronous = NORMAL", "journal_mode = DELETE"])
def test_a_connection_that_could_lose_a_commit_is_refused(path: Path, setting: str) -> None:
    connection = _connection(path)
    connection.execute(f"PRAGMA {setting}")
    with pytest.raises(Unavailable, match=r"store\.not_durable"):
        check_settings(connection)


def test_a_connection_that_cannot_write_is_refused(path: Path) -> None:
    _connection(path).close()
    reading = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    with pytest.raises(Unavailable, match="can only be read"):
        check_settings(reading)


@pytest.mark.parametrize("version", ["3.7.0", "3.51.2", "3.9.9"])
def test_a_sqlite_that_can_damage_wal_files_is_refused(version: str) -> None:
    with pytest.raises(Unavailable, match=r"store\.sqlite_too_old"):
        check_sqlite(version)


def test_a_sound_sqlite_is_taken() -> None:
    for version in ("3.51.3", "3.52.0", "4.0", apsw.sqlite_lib_version()):
        check_sqlite(version)


async def test_an_old_sqlite_is_refused_before_anything_is_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.50.4")
    assert (await _refused(path)).code == "store.sqlite_too_old"


@pytest.mark.case("SQL-05")
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("missing/amends.db", id="no such folder"),
        pytest.param("file/amends.db", id="the folder is a file"),
        pytest.param("folder", id="the path is a folder"),
        pytest.param("dangling", id="a link to nowhere"),
        pytest.param("pipe", id="not a plain file"),
        pytest.param("n" * 300, id="a name that is too long"),
        pytest.param("/sys/amends.db", id="a place where nobody may write"),
    ],
)
async def test_a_path_that_cannot_be_opened_is_unavailable_and_nothing_is_made(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "x")
    os.mkfifo(tmp_path / "pipe")
    for _writer in range(2):
        before = _bytes(tmp_path)
        error = await error_of(open_sqlite(tmp_path / where))
        assert isinstance(error, Unavailable)
        assert error.code == "store.unavailable"
        assert error.next_step
        assert _bytes(tmp_path) == before


@pytest.mark.case("SQL-05")
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_without_the_files_that_locks_live_in_there_is_no_store(
    path: Path, suffix: str
) -> None:
    """The shared memory file is where processes lock one another out; no lock, no store."""
    await (await open_sqlite(path)).close()
    before = _bytes(path.parent)[path.name]
    _make_folder(Path(f"{path}{suffix}"))
    for _writer in range(2):
        error = await error_of(open_sqlite(path))
        assert isinstance(error, Unavailable)
        assert error.code == "store.unavailable"
        assert _bytes(path.parent)[path.name] == before


@pytest.mark.case("SQL-05")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (apsw.SQLITE_FULL, "no space"),
        (apsw.SQLITE_IOERR_WRITE, "IOError"),
        (apsw.SQLITE_READONLY, "cannot be written"),
    ],
)
async def test_a_disk_that_refuses_the_first_write_leaves_no_store_behind(
    path: Path, code: int, said: str
) -> None:
    with FaultyFiles() as files:
        files.fail("write", code=code)
        error = await error_of(open_sqlite(path, vfs=files.name))
        assert isinstance(error, Unavailable)
        assert error.code == "store.unavailable"
        assert said in error.message
        files.heal()
        store = await open_sqlite(path, vfs=files.name)
        await commit(store, Insert(a_transaction()))
        await store.close()


@contextmanager
def _looking(path: Path, sql: str) -> Iterator[apsw.Connection]:
    """Another process that keeps a lock on a file which is not in WAL mode yet."""
    create(path)
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("sql", ["BEGIN EXCLUSIVE", "BEGIN; SELECT count(*) FROM sqlite_schema"])
async def test_a_file_that_another_process_holds_for_too_long_is_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(opening, "BUSY_MS", 50)
    with _looking(path, sql):
        error = await error_of(open_sqlite(path))
    assert error.code == "store.unavailable"
    assert "held it for too long" in error.message


async def test_opening_waits_until_the_file_can_change_to_wal(path: Path) -> None:
    with _looking(path, "BEGIN; SELECT count(*) FROM sqlite_schema") as other:
        asyncio.get_running_loop().call_later(0.05, other.close)
        store = await open_sqlite(path)
    await commit(store, Insert(a_transaction()))
    await store.close()


@pytest.mark.case("SQL-02")
def test_a_change_to_wal_that_met_another_is_tried_again(path: Path) -> None:
    """Of many processes that start on a new file, SQLite tells some at once that it is busy."""
    create(path)
    connection = apsw.Connection(str(path))
    met = iter([True, True, False])

    def meet(_cursor: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        if next(met):
            raise apsw.exception_for(apsw.SQLITE_BUSY)
        return True

    connection.set_exec_trace(meet)
    enter_wal(connection)
    connection.set_exec_trace(None)
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


def test_what_cannot_be_opened_says_why_in_the_words_of_the_system(path: Path) -> None:
    error = unopenable(path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    assert "Read-only file system" in error.message
    assert "OSError" in unopenable(path, OSError()).message


async def test_a_file_of_something_else_is_refused_and_left_as_it_is(path: Path) -> None:
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE customers (id)")
    foreign.close()
    error = await _refused(path)
    assert isinstance(error, Unavailable)
    assert error.code == "store.foreign_file"


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"\xff" * 4096])
async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    path: Path, content: bytes
) -> None:
    _write(path, content)
    error = await _refused(path)
    assert error.code == "store.unavailable"
    assert "not a SQLite database" in error.message


async def test_a_store_that_is_damaged_is_told_from_one_that_cannot_be_reached(path: Path) -> None:
    store = await open_sqlite(path)
    await store.close()
    content = _torn(path)
    error = await error_of(open_sqlite(path))
    assert (type(error), error.code) == (Corrupt, "store.file_damaged")
    assert "restore a backup" in error.next_step
    assert _content(path) == content


def _torn(path: Path) -> bytes:
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 64] = b"\xff" * 64
    path.write_bytes(content)
    return bytes(content)


def _content(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.fault(43)
@pytest.mark.case("VER-01")
async def test_a_store_of_a_later_version_is_refused_and_left_as_it_is(path: Path) -> None:
    """A new status or field takes a migration, so an older program never meets one unawares."""
    connection = _connection(path)
    migrate(connection, FixedClock()(), (*MIGRATIONS, LATER_STEP))
    connection.close()
    error = await _refused(path)
    assert isinstance(error, Unavailable)
    assert error.code == "store.schema_too_new"
    assert dict(error.details) == {"store": LATER_STEP.number, "program": len(MIGRATIONS)}


async def test_a_store_whose_schema_had_another_text_is_refused(path: Path) -> None:
    connection = _connection(path)
    connection.execute("UPDATE migrations SET checksum = 'another'")
    connection.close()
    error = await _refused(path)
    assert isinstance(error, Corrupt)
    assert error.code == "store.schema_changed"


def test_a_later_step_is_applied_once_to_a_store_that_exists(path: Path) -> None:
    connection = _connection(path)
    lineage = migrate(connection, FixedClock()())
    for _ in range(2):
        assert migrate(connection, FixedClock()(), (*MIGRATIONS, LATER_STEP)) == lineage
    steps = list(connection.execute("SELECT number, name FROM migrations ORDER BY number"))
    assert steps == [(one.number, one.name) for one in (*MIGRATIONS, LATER_STEP)]


def test_a_step_that_fails_leaves_the_store_as_it_was(path: Path) -> None:
    connection = _connection(path)
    twice = "CREATE TABLE third (x); CREATE TABLE third (x)"
    broken = Migration(LATER_STEP.number + 1, "broken", twice)
    with pytest.raises(apsw.SQLError):
        migrate(connection, FixedClock()(), (*MIGRATIONS, LATER_STEP, broken))
    taken = list(connection.execute("SELECT number FROM migrations ORDER BY number"))
    assert taken == [(one.number,) for one in MIGRATIONS]
    tables = list(connection.execute("SELECT name FROM sqlite_schema WHERE name = 'later'"))
    assert tables == []


def test_the_released_steps_are_never_edited() -> None:
    """Files remember these checksums: once a step is out, a change would lock every store out."""
    assert {step.number: step.checksum for step in MIGRATIONS} == {
        1: "34e2a007e3988087c466c9d9def8d3b51ac380de5b486892e4d08d2f642ff69b",
        2: "5fca0b4b3d2b74c769e58331cc0fb749b71e43120e5276bd7cb4d1496ae799c2",
        3: "852b94302536537490af26124fdaaf552d4a3b4be52e8a79fa34e2d79282f34d",
        4: "138061122bc829598d3b3def619ce5b7a8d1aa264ed3c8159cff4e439eeb1a51",
        5: "6bcc2534d72329fb1b5d4ee0f5081ef4a711c8cbb668a8d054464b74dcec2112",
    }


async def test_a_second_connection_that_cannot_be_had_gives_the_first_one_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _connection(path)
    first.close()
    settings: list[apsw.Connection] = []

    def fails_the_second_time(connection: apsw.Connection) -> None:
        settings.append(connection)
        if len(settings) == 2:
            raise unopenable(path, OSError())

    monkeypatch.setattr(opening, "check_settings", fails_the_second_time)
    assert (await error_of(open_sqlite(path))).code == "store.unavailable"
    with pytest.raises(apsw.ConnectionClosedError):
        settings[0].pragma("synchronous")


async def test_whoever_opens_the_same_file_again_shares_its_connections(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "amends.db")
    first = await open_sqlite(tmp_path / "amends.db")
    second = await open_sqlite(str(tmp_path / "link.db"))
    third = await open_sqlite(tmp_path / "other.db")
    assert _file(first) is _file(second)
    assert _file(first) is not _file(third)
    await first.close()
    await commit(second, Insert(a_transaction()))
    await second.close()
    await third.close()
    again = await open_sqlite(tmp_path / "amends.db")
    assert _file(again) is not _file(first)
    assert await again.get(type(a_transaction()), TENANT, "txn_1") is not None
    await again.close()


def _file(store: SqliteStore) -> object:
    return store._file
