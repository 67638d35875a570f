"""Who is written together, who waits for whom, and what a lost caller leaves behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Unavailable
from amends.stores.port import Accepted, ChangeSet, Insert, Loss, Lost, Replace, Store
from amends.stores.sharing import BATCH
from amends.stores.sqlite import SqliteStore, open_sqlite
from amends.stores.sqlite.changes import Prepared
from amends.stores.sqlite.session import Verdict
from amends.stores.sqlite.writer import Writer
from amends.testing.faulty_files import WAL, FaultyFiles
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import TENANT, a_transaction, changed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


def _writer_of(store: SqliteStore) -> Writer:
    writer = store._file.writer
    assert isinstance(writer, Writer)
    return writer


def _insert(name: object) -> ChangeSet:
    return ChangeSet(changes=(Insert(a_transaction(str(name))),))


def _count(path: Path) -> int:
    connection = apsw.Connection(str(path))
    count = connection.execute("SELECT count(*) FROM transactions").get
    connection.close()
    assert isinstance(count, int)
    return count


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Another connection holds the store, as another process would."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@pytest.mark.parametrize(("threads", "flushes"), [(True, 2), (False, 1)])
async def test_change_sets_that_wait_together_share_flushes(
    path: Path, threads: bool, flushes: int
) -> None:
    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name, threads=threads)
        await commit(store, Insert(a_transaction("first")))
        before = files.counts["sync"]
        answers = await asyncio.gather(*(store.commit(_insert(number)) for number in range(64)))
        assert all(isinstance(answer, Accepted) for answer in answers)
        # It was calm, so the first of them did not wait for the others.
        assert files.counts["sync"] == before + 1 + flushes
        await asyncio.gather(*(store.commit(_insert(number)) for number in range(64, 128)))
        assert files.counts["sync"] == before + 1 + 2 * flushes
        for number in range(128, 131):
            await store.commit(_insert(number))
        assert files.counts["sync"] == before + 4 + 2 * flushes
        await store.close()


async def test_while_it_is_calm_nobody_waits_for_the_end_of_the_turn(path: Path) -> None:
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction("first")))
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    count()
    for number in range(3):
        await store.commit(_insert(number))
    assert turns == 1
    await store.close()


async def test_what_comes_during_a_flush_forms_the_next_batch(path: Path) -> None:
    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name)
        await commit(store, Insert(a_transaction("first")))
        before = files.counts["sync"]
        first = [asyncio.ensure_future(store.commit(_insert(f"a{n}"))) for n in range(8)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = [asyncio.ensure_future(store.commit(_insert(f"b{n}"))) for n in range(8)]
        await asyncio.gather(*first, *second)
        # The first goes at once, then come the others of its turn, then those of the next.
        assert files.counts["sync"] == before + 3
        await store.close()


@pytest.fixture
async def written(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """How many change sets went together, one batch after the other, while a store is open."""
    store = await open_sqlite(path)
    sizes: list[int] = []
    session = _writer_of(store)._session
    write = session.write

    def note(batch: Sequence[Prepared], patience_ms: int) -> list[Verdict]:
        sizes.append(len(batch))
        return write(batch, patience_ms)

    monkeypatch.setattr(session, "write", note)
    yield sizes
    await store.close()


async def _come_back(store: Store, caller: int, times: int) -> None:
    for number in range(times):
        await store.commit(_insert(f"{caller}-{number}"))


@pytest.mark.parametrize(("callers", "together"), [(64, 32), (15, 15)])
async def test_of_many_one_half_goes_on_while_the_other_is_flushed(
    path: Path, written: list[int], callers: int, together: int
) -> None:
    store = await open_sqlite(path)
    await asyncio.gather(*(_come_back(store, caller, 4) for caller in range(callers)))
    assert written[0] == max(written) == together
    assert sum(written) == 4 * callers
    await store.close()


async def test_where_few_wait_those_who_were_just_told_go_along(
    path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(path)
    session, goes_on = _writer_of(store)._session, threading.Event()
    flush = session.flush

    def flush_later() -> None:
        assert goes_on.wait(10)
        flush()

    monkeypatch.setattr(session, "flush", flush_later)
    first = [asyncio.ensure_future(_come_back(store, caller, 2)) for caller in range(9)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = [asyncio.ensure_future(_come_back(store, caller, 1)) for caller in range(9, 11)]
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(*first, *late)
    assert written == [9, 11]
    await store.close()


async def test_a_batch_that_cannot_be_written_costs_nobody_the_answer_to_the_one_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(path)
    session = _writer_of(store)._session
    write, batches = session.write, count(0)

    def fail_once(batch: Sequence[Prepared], patience_ms: int) -> list[Verdict]:
        if next(batches) == 1:
            raise MemoryError
        return write(batch, patience_ms)

    monkeypatch.setattr(session, "write", fail_once)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    calls = [store.commit(_insert(number)) for number in range(64)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, Accepted) for answer in answers[:32])
    assert {getattr(answer, "code", None) for answer in answers[32:]} == {"store.commit_unknown"}
    assert _count(path) == 32
    await commit(store, Insert(a_transaction("later")))
    await store.close()


async def test_a_batch_is_bounded_and_the_rest_follows(path: Path) -> None:
    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name)
        before = files.counts["sync"]
        await asyncio.gather(*(store.commit(_insert(n)) for n in range(2 * BATCH + 1)))
        assert files.counts["sync"] - before == 3
        assert _count(path) == 2 * BATCH + 1
        await store.close()


async def test_a_batch_in_which_all_lose_is_not_flushed(path: Path) -> None:
    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name)
        await commit(store, Insert(a_transaction()))
        before = files.counts["sync"]
        answers = await asyncio.gather(*(store.commit(_insert(1)) for _ in range(8)))
        assert set(answers) == {Lost(0, Loss.EXISTS)}
        assert files.counts["sync"] == before
        await store.close()


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("count", [1, 5])
async def test_a_store_that_another_holds_is_busy_and_nothing_is_changed(
    path: Path, threads: bool, count: int
) -> None:
    store = await open_sqlite(path, threads=threads, busy_ms=60)
    with _held(path):
        calls = [error_of(store.commit(_insert(number))) for number in range(count)]
        for error in await asyncio.gather(*calls):
            assert isinstance(error, Unavailable)
            assert error.code == "store.busy"
    assert _count(path) == 0
    await asyncio.gather(*(store.commit(_insert(number)) for number in range(count)))
    assert _count(path) == count
    await store.close()


async def test_waiting_for_another_process_does_not_hold_up_the_loop(path: Path) -> None:
    store = await open_sqlite(path)
    with _held(path):
        waiting = asyncio.ensure_future(store.commit(_insert(1)))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert await store.get(TransactionRecord, TENANT, "txn_1") is None
        assert not waiting.done()
    assert isinstance(await waiting, Accepted)
    await store.close()


@pytest.mark.case("DBC-05")
@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_caller_leaves_no_open_transaction_behind(path: Path, turns: int) -> None:
    """Cancel after any number of turns: in the queue, during the flush, after it."""
    store = await open_sqlite(path)
    tasks = [asyncio.ensure_future(store.commit(_insert(f"cancelled{n}"))) for n in range(4)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    claims = [asyncio.ensure_future(store.commit(_insert(number))) for number in range(100)]
    assert all(isinstance(answer, Accepted) for answer in await asyncio.gather(*claims))
    started = 4 if turns else 0
    assert _count(path) == 100 + started
    await store.close()


async def test_callers_in_two_event_loops_share_one_file(path: Path) -> None:
    """Both stores stand on the same connections, each loop is told in its own thread."""
    mine = await open_sqlite(path)
    won: list[int] = []

    async def race(store: Store, who: str) -> None:
        record = a_transaction("shared")
        for _ in range(150):
            found = await store.get(TransactionRecord, TENANT, "txn_shared")
            record = record if found is None else found.document
            answers = await asyncio.gather(
                store.commit(ChangeSet(changes=(Replace(changed(record)),))),
                store.commit(_insert(f"{who}{record.revision}")),
            )
            won.append(isinstance(answers[0], Accepted))

    async def elsewhere() -> None:
        theirs = await open_sqlite(path)
        assert theirs._file is mine._file
        await race(theirs, "theirs")
        await theirs.close()

    await commit(mine, Insert(a_transaction("shared")))
    await asyncio.gather(race(mine, "mine"), asyncio.to_thread(lambda: asyncio.run(elsewhere())))
    found = await mine.get(TransactionRecord, TENANT, "txn_shared")
    assert found is not None
    assert found.document.revision == 1 + sum(won)
    await mine.close()


async def test_a_loop_that_was_closed_while_it_waited_holds_nobody_up(path: Path) -> None:
    store = await open_sqlite(path)
    for closes_after in range(1, 5):
        _run_and_abandon(store, closes_after)
        await commit(store, Insert(a_transaction(f"after{closes_after}")))
    await store.close()


def _run_and_abandon(store: SqliteStore, turns: int) -> None:
    """A loop that begins commits, takes a few turns and is closed without an end."""

    def run() -> None:
        loop = asyncio.new_event_loop()
        _held = [loop.create_task(store.commit(_insert(f"{turns}.{n}"))) for n in range(3)]
        for _ in range(turns):
            loop.call_soon(loop.stop)
            loop.run_forever()
        loop.set_exception_handler(lambda _loop, _context: None)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


async def test_a_loop_that_stands_still_holds_nobody_up(path: Path) -> None:
    """It has asked, and whoever comes next begins the batch for both."""
    store = await open_sqlite(path)
    asleep = asyncio.new_event_loop()
    waiting = asleep.create_task(store.commit(_insert("asleep")))

    def take_a_turn() -> None:
        asleep.call_soon(asleep.stop)
        asleep.run_forever()

    await asyncio.to_thread(take_a_turn)
    assert not waiting.done()
    await commit(store, Insert(a_transaction("awake")))
    assert _count(path) == 2
    answer = await asyncio.to_thread(asleep.run_until_complete, waiting)
    assert isinstance(answer, Accepted)
    asleep.close()
    await store.close()


async def test_what_waits_behind_a_failing_flush_is_refused_and_not_kept(path: Path) -> None:
    with FaultyFiles() as files:
        store = await open_sqlite(path, vfs=files.name)
        files.fail("sync", code=apsw.SQLITE_IOERR_FSYNC, suffix=WAL)
        first = [asyncio.ensure_future(error_of(store.commit(_insert(n)))) for n in range(4)]
        await asyncio.sleep(0)
        second = [asyncio.ensure_future(error_of(store.commit(_insert(-n)))) for n in range(1, 4)]
        assert {error.code for error in await asyncio.gather(*first)} == {"store.commit_unknown"}
        assert {error.code for error in await asyncio.gather(*second)} == {"store.poisoned"}
        await store.close()


async def test_a_file_that_is_closed_under_waiting_callers_tells_them(path: Path) -> None:
    """Closing a store waits for its callers; this is the end of the file itself."""
    store = await open_sqlite(path)
    calls = [asyncio.ensure_future(error_of(store.commit(_insert(n)))) for n in range(3)]
    await asyncio.sleep(0)
    store._file.writer.shut_down()
    assert {error.code for error in await asyncio.gather(*calls)} == {"store.closed"}
    assert _count(path) == 0
    await store.close()


async def test_a_batch_whose_flush_finds_no_thread_is_undone_and_told_as_unknown(
    path: Path,
) -> None:
    """As at the end of the interpreter, when threads are no longer to be had."""
    store = await open_sqlite(path)
    executor = _writer_of(store)._executor
    assert executor is not None
    executor.shutdown()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    calls = [error_of(store.commit(_insert(number))) for number in range(3)]
    assert {error.code for error in await asyncio.gather(*calls)} == {"store.commit_unknown"}
    assert _count(path) == 0
    await commit(store, Insert(a_transaction()))
    assert _count(path) == 1
    await store.close()


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
async def test_a_write_that_runs_out_of_memory_is_undone_and_told_as_unknown(
    path: Path, statement: str
) -> None:
    store = await open_sqlite(path)

    def run_out_of_memory(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        if sql.startswith(statement):
            raise MemoryError
        return True

    connection = _writer_of(store)._session._connection
    connection.set_exec_trace(run_out_of_memory)
    told: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(context))
    error = await error_of(store.commit(_insert(1)))
    assert error.code == "store.commit_unknown"
    assert isinstance(told[0]["exception"], MemoryError)
    connection.set_exec_trace(None)
    assert _count(path) == 0
    await commit(store, Insert(a_transaction()))
    await store.close()
