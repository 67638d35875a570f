"""Disks that fail while the store is used: what is kept, what is refused, what is unknown."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Unavailable
from amends.stores.port import Accepted, Change, ChangeSet, Insert, Replace, Store, Stored
from amends.stores.sqlite import SqliteStore, open_sqlite
from amends.stores.sqlite.writer import Writer
from amends.testing.faulty_files import WAL, FaultyFiles, Operation
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import (
    TENANT,
    a_reservation,
    a_transaction,
    an_action,
    changed,
    links,
    tail_of,
)

CLAIM = (Replace(changed(a_transaction())), links(tail=tail_of(links())))
ADMISSION = (Insert(an_action("2")), Insert(a_reservation("2")))
SETTLEMENT = (Replace(changed(a_transaction())), Insert(an_action("2")))
RECEIPTS = (links(2, tail=tail_of(links())),)
AT = pytest.mark.parametrize(
    "changes",
    [CLAIM, ADMISSION, SETTLEMENT, RECEIPTS],
    ids=["claim", "admission", "settle", "receipt"],
)


@pytest.fixture
def files() -> Iterator[FaultyFiles]:
    with FaultyFiles() as files:
        yield files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


@pytest.fixture(params=[True, False], ids=["threads", "no threads"])
async def store(
    path: Path, files: FaultyFiles, request: pytest.FixtureRequest
) -> AsyncIterator[SqliteStore]:
    """A store that holds one record and one receipt."""
    store = await open_sqlite(path, vfs=files.name, threads=request.param)
    await commit(store, Insert(a_transaction()), links())
    yield store
    files.heal()
    await store.close()


def _stored(path: Path) -> dict[str, int]:
    """What an independent connection sees, on a file that must be sound."""
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    questions = {
        "transactions": "SELECT count(*) FROM transactions",
        "actions": "SELECT count(*) FROM actions",
        "reservations": "SELECT count(*) FROM reservations",
        "receipts": "SELECT count(*) FROM receipts",
        "revision": "SELECT sum(revision) FROM transactions",
    }
    answers = {name: connection.execute(sql).get for name, sql in questions.items()}
    connection.close()
    return answers


@pytest.mark.case("JRN-05")
@AT
async def test_a_full_disk_refuses_a_change_set_and_the_store_works_again_once_there_is_space(
    store: SqliteStore, files: FaultyFiles, path: Path, changes: tuple[Change, ...]
) -> None:
    """The flush is where a full disk is mostly met."""
    before = _stored(path)
    files.fail("write", code=apsw.SQLITE_FULL, suffix=WAL)
    for _ in range(2):
        error = await error_of(commit(store, *changes))
        assert isinstance(error, Unavailable)
        assert error.code == "store.full"
        assert _stored(path) == before
        assert await store.get(TransactionRecord, TENANT, "txn_1") is not None
    files.heal()
    await commit(store, *changes)
    assert _stored(path) != before


@pytest.mark.case("JRN-05")
async def test_a_disk_that_fills_up_before_the_flush_refuses_just_as_well(
    store: SqliteStore, files: FaultyFiles, path: Path
) -> None:
    """More than the page cache holds is written to the disk while statements still run."""
    huge = an_action()
    huge.metadata["text"] = "x" * 8_000_000
    before = _stored(path)
    files.fail("write", code=apsw.SQLITE_FULL, suffix=WAL)
    error = await error_of(commit(store, Insert(a_transaction("2")), Insert(huge)))
    assert error.code == "store.full"
    files.heal()
    assert _stored(path) == before
    await commit(store, Insert(a_transaction("2")), Insert(huge))


@pytest.mark.case("DBC-06")
@pytest.mark.parametrize(
    ("operation", "code"),
    [("sync", apsw.SQLITE_IOERR_FSYNC), ("write", apsw.SQLITE_IOERR_WRITE)],
)
async def test_an_error_of_the_flush_leaves_the_change_set_unknown_and_refuses_all_later_calls(
    store: SqliteStore, files: FaultyFiles, path: Path, operation: Operation, code: int
) -> None:
    files.fail(operation, code=code, suffix=WAL, times=1)
    error = await error_of(commit(store, Replace(changed(a_transaction()))))
    assert isinstance(error, Unavailable)
    assert error.code == "store.commit_unknown"
    assert isinstance(error.__cause__, apsw.IOError)
    assert dict(error.details) == {"sqlite": "IOError", "sqlite_code": code}
    await _is_poisoned(store)
    again = await open_sqlite(path, vfs=files.name)
    found = await again.get(TransactionRecord, TENANT, "txn_1")
    assert found is not None
    following = changed(found.document)
    await commit(again, Replace(following), links(tail=tail_of(links())))
    assert _stored(path) == {
        "transactions": 1,
        "actions": 0,
        "reservations": 0,
        "receipts": 2,
        "revision": following.revision,
    }
    await _is_poisoned(store)
    await again.close()


@pytest.mark.case("DBC-06")
async def test_a_transaction_that_can_neither_be_ended_nor_undone_swallows_nothing(
    store: SqliteStore, path: Path
) -> None:
    """Its connection is closed, so that no later write can vanish into it, and the lock is free."""
    _connection(store).set_exec_trace(_fail_to_end)
    error = await error_of(commit(store, *CLAIM))
    assert error.code == "store.commit_unknown"
    await _is_poisoned(store)
    again = await open_sqlite(path)
    await commit(again, *CLAIM)
    await commit(again, Insert(an_action()))
    seen = _seen_by_a_new_process(path, "SELECT sum(revision) FROM transactions")
    assert seen == "2"
    assert _seen_by_a_new_process(path, "SELECT count(*) FROM actions") == "1"
    await again.close()


async def test_a_statement_that_fails_is_undone_or_its_connection_is_closed(
    store: SqliteStore, path: Path
) -> None:
    before = _stored(path)

    def fail_to_insert(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        if sql.startswith(("INSERT", "ROLLBACK")):
            raise apsw.exception_for(apsw.SQLITE_FULL)
        return True

    _connection(store).set_exec_trace(fail_to_insert)
    error = await error_of(commit(store, Insert(an_action())))
    assert error.code == "store.full"
    await _is_poisoned(store)
    assert _stored(path) == before
    again = await open_sqlite(path)
    await commit(again, Insert(an_action()))
    await again.close()


async def test_a_disk_that_cannot_be_read_refuses_all_later_calls(
    store: SqliteStore, files: FaultyFiles
) -> None:
    files.fail("read", code=apsw.SQLITE_IOERR_READ)
    error = await error_of(store.list(TransactionRecord, TENANT))
    assert error.code == "store.poisoned"
    files.heal()
    await _is_poisoned(store)


async def test_a_file_that_is_no_longer_a_database_refuses_all_later_calls(
    store: SqliteStore, path: Path
) -> None:
    await commit(store, *[Insert(a_transaction(str(number))) for number in range(2, 200)])
    _blank(path)
    error = await error_of(store.list(TransactionRecord, TENANT))
    assert error.code == "store.poisoned"
    await _is_poisoned(store)


async def test_every_single_failing_write_or_flush_leaves_what_was_accepted_and_a_sound_file(
    tmp_path: Path, files: FaultyFiles
) -> None:
    """Fail the first, the second, and so on; then open again and look."""
    kinds: list[tuple[Operation, int]] = [
        ("write", apsw.SQLITE_FULL),
        ("write", apsw.SQLITE_IOERR_WRITE),
        ("sync", apsw.SQLITE_IOERR_FSYNC),
    ]
    for operation, code in kinds:
        for spare in range(30):
            path = tmp_path / f"{operation}{code}{spare}.db"
            store = await open_sqlite(path, vfs=files.name, threads=False)
            files.fail(operation, code=code, after=spare, times=1)
            accepted, unknown = await _insert_many(store, 12)
            files.heal()
            await store.close()
            again = await open_sqlite(path, vfs=files.name, threads=False)
            page = await again.list(TransactionRecord, TENANT)
            found = {
                item.document.transaction_id for item in page.items if isinstance(item, Stored)
            }
            assert accepted <= found <= accepted | unknown
            await commit(again, Insert(a_transaction("after")))
            await again.close()
            assert _stored(path)["transactions"] == len(found) + 1


async def _insert_many(store: Store, count: int) -> tuple[set[str], set[str]]:
    """The ids that were accepted, and those nobody knows of."""
    accepted: set[str] = set()
    unknown: set[str] = set()
    for number in range(count):
        record = a_transaction(str(number))
        try:
            answer = await store.commit(ChangeSet(changes=(Insert(record),)))
        except Unavailable as error:
            if error.code == "store.commit_unknown":
                unknown.add(record.transaction_id)
        else:
            assert isinstance(answer, Accepted)
            accepted.add(record.transaction_id)
    return accepted, unknown


def _blank(path: Path) -> None:
    """Write zeros over the whole database, behind the store's back."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    path.write_bytes(b"\x00" * path.stat().st_size)


def _connection(store: SqliteStore) -> apsw.Connection:
    """The one that writes."""
    writer = store._file.writer
    assert isinstance(writer, Writer)
    return writer._session._connection


def _fail_to_end(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
    if sql.startswith(("COMMIT", "ROLLBACK")):
        raise apsw.exception_for(apsw.SQLITE_IOERR_WRITE)
    return True


def _seen_by_a_new_process(path: Path, sql: str) -> str:
    program = "import apsw, sys; print(apsw.Connection(sys.argv[1]).execute(sys.argv[2]).get)"
    run = subprocess.run(
        [sys.executable, "-c", program, str(path), sql], capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


async def _is_poisoned(store: SqliteStore) -> None:
    for call in (
        commit(store, Insert(an_action())),
        store.get(TransactionRecord, TENANT, "txn_1"),
        store.due(TransactionRecord, 1),
        store.feed(),
        store.now(),
    ):
        error = await error_of(call)
        assert isinstance(error, Unavailable)
        assert error.code == "store.poisoned"
