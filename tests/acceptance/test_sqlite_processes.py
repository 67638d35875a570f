"""One SQLite file and several real processes: races, a cold start by many, and `kill -9`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.evidence import Receipt, Tail
from amends.receipts.signing import KeyRing
from amends.receipts.verify import verify_chain
from amends.stores.port import Insert, Stored
from amends.stores.sqlite import open_sqlite
from amends.stores.sqlite.migrations import MIGRATIONS
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import TENANT, a_transaction, chain_named

Process: TypeAlias = subprocess.Popen[str]

PROGRAM: Final = Path(__file__).with_name("sqlite_children.py")
PATIENCE_S: Final = 60
ROUNDS: Final = 200
CHAIN: Final = chain_named("1")


@contextmanager
def _running(part: str, path: Path, names: Sequence[str]) -> Iterator[list[Process]]:
    """Processes that have imported everything and begin at the same moment."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), part, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name in names
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == '"ready"\n'
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _answers(part: str, path: Path, count: int) -> list[list[Any]]:
    """Run so many processes at once to their end; what each of them said."""
    said: list[list[Any]] = []
    with _running(part, path, [f"p{number}" for number in range(count)]) as processes:
        for process in processes:
            output, _ = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0
            said.append([json.loads(line) for line in output.splitlines()])
    return said


def _ask(path: Path, sql: str) -> Any:
    """What an independent connection sees, on a file that must be sound."""
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    answer = connection.execute(sql).get
    connection.close()
    return answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


async def _prepare(path: Path) -> None:
    store = await open_sqlite(path)
    await commit(store, Insert(a_transaction()))
    await store.close()


@pytest.mark.case("SQL-02")
def test_twenty_processes_that_start_on_a_file_that_does_not_exist_make_one_store(
    path: Path,
) -> None:
    said = _answers("open_and_insert", path, 20)
    assert len({json.dumps(one) for one in said}) == 1
    assert _ask(path, "SELECT count(*) FROM transactions") == 20
    assert _ask(path, "SELECT count(*) FROM migrations") == len(MIGRATIONS)
    assert _ask(path, "SELECT count(*) FROM store") == 1


@pytest.mark.rule("TX-REV-1")
def test_of_four_processes_with_sixteen_tasks_each_exactly_one_wins_each_revision(
    path: Path,
) -> None:
    asyncio.run(_prepare(path))
    said = _answers("replace_in_rounds", path, 4)
    won = [revision for (answer,) in said for revision in answer["won"]]
    assert sorted(won) == list(range(2, ROUNDS + 2))
    assert _ask(path, "SELECT revision FROM transactions") == ROUNDS + 1
    assert _ask(path, "SELECT count(*) FROM reservations") == ROUNDS


@pytest.mark.case("JRN-07")
def test_four_processes_that_append_fifty_receipts_each_make_one_line(path: Path) -> None:
    """The first part of the case: benign races never look like tampering."""
    _answers("append_links", path, 4)
    receipts, tail = asyncio.run(_chain(path))
    assert len(receipts) == 200
    assert len({receipt.step.code for receipt in receipts}) == 200
    assert len({receipt.previous for receipt in receipts}) == 200
    assert verify_chain(receipts, KeyRing(), expected_head=tail).ok


async def _chain(path: Path) -> tuple[list[Receipt], Tail | None]:
    store = await open_sqlite(path)
    receipts = list(await store.receipts(TENANT, CHAIN, limit=1000))
    tail = await store.tail(TENANT, CHAIN)
    await store.close()
    return receipts, tail


@pytest.mark.case("IDR-01")
def test_of_two_processes_that_admit_the_same_action_one_task_wins_and_losers_leave_nothing(
    path: Path,
) -> None:
    """The store's part of the case: one winner, typed losers, no partial rows."""
    first, second = _answers("admit_the_same", path, 2)
    for answers in zip(first, second, strict=True):
        verdicts = [verdict for one in answers for verdict in one]
        assert sum(verdict is None for verdict in verdicts) == 1
        losers = {tuple(verdict) for verdict in verdicts if verdict is not None}
        assert losers <= {(0, "exists"), (1, "exists")}
    for table in ("actions", "reservations", "transactions", "receipts"):
        assert _ask(path, _COUNT[table]) == ROUNDS


_COUNT: Final = {
    "actions": "SELECT count(*) FROM actions",
    "reservations": "SELECT count(*) FROM reservations",
    "transactions": "SELECT count(*) FROM transactions",
    "receipts": "SELECT count(*) FROM receipts",
}


@pytest.mark.parametrize("after", [1, 5, 17, 60, 150])
def test_what_was_accepted_survives_kill_9_and_nothing_is_there_by_halves(
    path: Path, after: int
) -> None:
    """Killed after so many answers, in the middle of whatever it was doing then."""
    accepted: list[str] = []
    for life in "ab":
        with _running("insert_until_killed", path, [f"{life}1", f"{life}2"]) as processes:
            for process in processes:
                assert process.stdout is not None
                accepted += [json.loads(process.stdout.readline()) for _ in range(after)]
            for process in processes:
                process.send_signal(signal.SIGKILL)
            for process in processes:
                assert process.stdout is not None
                # What follows the last line feed was cut off by the kill.
                accepted += [json.loads(line) for line in process.stdout.read().split("\n")[:-1]]
    present = asyncio.run(_present(path))
    assert len(accepted) >= 4 * after
    assert set(accepted) <= present
    assert _ask(path, _COUNT["receipts"]) == 2 * len(present)


async def _present(path: Path) -> set[str]:
    store = await open_sqlite(path)
    present: set[str] = set()
    cursor = None
    while True:
        page = await store.list(TransactionRecord, TENANT, after=cursor)
        records = [item.document for item in page.items if isinstance(item, Stored)]
        present |= {record.transaction_id.removeprefix("txn_") for record in records}
        cursor = page.next
        if cursor is None:
            break
    await store.close()
    return present


def test_a_store_is_refused_in_a_forked_child_and_goes_on_in_the_parent(path: Path) -> None:
    assert _answers("fork", path, 1) == [[0]]
    assert _ask(path, _COUNT["transactions"]) == 2
