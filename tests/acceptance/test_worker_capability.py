"""A capability that a worker serves, with real processes: the host killed around its worker."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from amends import Amends, Principal, Settings
from amends.cli.demo.releases import ADAPTERS, SHELF, Release, Shelf, Withdrawal, served_by
from amends.containment.provisions import FileRoot
from amends.contracts.enums import Verdict, WireStatus
from amends.contracts.ids import TenantId
from amends.contracts.principals import DEFAULT_TENANT
from amends.contracts.worker_payload import Terminal
from amends.host.keeping import LedgerKeeper
from amends.host.link import EntryRuling
from amends.ledger.records import Ledger
from amends.recovery.sweeper import Sweeper
from amends.wiring.worker_processes import WorkerProcess
from tests.acceptance.command_line import amends as amends_command

ROOT: Final = Path(__file__).parents[2]
WAIT_S: Final = 60.0
TIMEOUT: Final = timedelta(seconds=12)
OLGA: Final = Principal.named("olga", kind="operator")
SETTINGS: Final = Settings(recover=False, grace_ms=0)
RULING_HOST: Final = """
import asyncio, sys
from pathlib import Path
from tests.acceptance.test_worker_capability import rule_and_die
asyncio.run(rule_and_die(Path(sys.argv[1]), sys.argv[2]))
"""
HOST: Final = """
import asyncio, sys
from pathlib import Path
from tests.acceptance.test_worker_capability import withdraw
asyncio.run(withdraw(Path(sys.argv[1]), sys.argv[2]))
"""


def worker_of(folder: Path, kind: type[WorkerProcess] = WorkerProcess) -> WorkerProcess:
    shelf = folder / "shelf"
    return kind(
        ADAPTERS,
        folder / "state",
        provisions={SHELF: FileRoot(str(shelf), writable=True)},
        environment={"AMENDS_DEMO_SHELF": str(shelf)},
        code=(),
    )


class Dying(WorkerProcess):
    """The host of a ruling that ends at one step of it."""

    dies = ""

    async def rule(self, tenant: TenantId, ruling: EntryRuling) -> Terminal:
        self.die_at("before journal")
        standing = await super().rule(tenant, ruling)
        self.die_at("after journal")
        return standing

    def die_at(self, step: str) -> None:
        if self.dies == step:
            os.kill(os.getpid(), signal.SIGKILL)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'amends.db'}"


async def withdraw(folder: Path, action_id: str) -> None:
    """What the host does that is killed."""
    release = served_by(worker_of(folder), TIMEOUT)
    async with Amends.open(url_of(folder), [release], settings=SETTINGS) as amends:
        await amends.compensate(action_id, Withdrawal(reason="late"), transaction_id="txn_undo")


async def rule_and_die(folder: Path, step: str) -> None:
    """A hand settlement whose host is killed at one step."""
    worker = worker_of(folder, Dying)
    assert isinstance(worker, Dying)
    worker.dies = step
    persist = LedgerKeeper.persist

    async def dying(self: LedgerKeeper, ledger: Ledger) -> None:
        await persist(self, ledger)
        worker.die_at("after ledger")

    LedgerKeeper.persist = dying  # type: ignore[method-assign]  # this process dies anyway
    release = served_by(worker, TIMEOUT)
    async with Amends.open(url_of(folder), [release], principal=OLGA, settings=SETTINGS) as amends:
        await amends.settle(
            "txn_undo", Verdict.COMMITTED, reference="ticket 7", note="it is off the shelf"
        )


def settle_by_command(folder: Path) -> tuple[int, Any]:
    """An operator at a terminal; the exit code and the one document."""
    principals = folder / "principals.toml"
    principals.write_text('[[principals]]\nid = "olga"\nkind = "operator"\nos_users = ["*"]\n')
    principals.chmod(0o600)
    return amends_command(
        *("settle", "txn_undo", "committed", "--yes"),
        *("--reference", "ticket 7", "--note", "it is off the shelf"),
        *("--store", url_of(folder), "--app", "tests.acceptance.ruling_app:capabilities"),
        *("--principals", str(principals), "--as", "olga"),
        AMENDS_TEST_FOLDER=str(folder),
    )


def kill_at(folder: Path, step: str) -> int:
    """A host of its own that is killed at this step; how it ended."""
    command = [sys.executable, "-c", RULING_HOST, str(folder), step]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return subprocess.run(command, env=environment, timeout=WAIT_S, check=False).returncode


def kill_in_withdrawal(folder: Path, shelf: Shelf, action_id: str) -> int:
    """A host of its own that is killed once the inverse effect is there; how it ended."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(folder), action_id],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    ) as host:
        deadline = time.monotonic() + WAIT_S
        while not shelf.count("withdrawn"):
            assert time.monotonic() < deadline, "it is not withdrawn"
            time.sleep(0.02)
        host.send_signal(signal.SIGKILL)
        return host.wait(WAIT_S)


@pytest.mark.rule("INT-1", "INT-3", "INT-5")
async def test_a_host_that_is_killed_behind_an_inverse_finds_it_and_never_runs_it_again(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path / "shelf")
    worker = worker_of(tmp_path)
    worker.initialise(DEFAULT_TENANT)
    release = served_by(worker, TIMEOUT)
    async with Amends.open(url_of(tmp_path), [release], settings=SETTINGS) as amends:
        published = await amends.execute(release, Release(version="1"))
    assert published.status is WireStatus.COMMITTED

    shelf.hold(on=True)
    killed = await asyncio.to_thread(kill_in_withdrawal, tmp_path, shelf, published.action_id)
    assert killed == -signal.SIGKILL
    shelf.hold(on=False)

    async with Amends.open(url_of(tmp_path), [release], settings=SETTINGS) as amends:
        engine = amends._runtime.engine  # the sweeper of a runtime that does not sweep by itself
        found = await amends.get("txn_undo")
        deadline = time.monotonic() + WAIT_S
        while found.result.status is not WireStatus.RECONCILED:
            assert time.monotonic() < deadline, found.result.status
            await Sweeper(engine).sweep()
            await asyncio.sleep(0.2)
            found = await amends.get("txn_undo")
    assert found.result.verdict is Verdict.COMMITTED
    assert (shelf.count("published"), shelf.count("withdrawn")) == (1, 1)


@pytest.mark.rule("INT-3", "INT-5")
async def test_a_hand_settlement_whose_host_is_killed_at_each_step_is_made_again(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path / "shelf")
    worker = worker_of(tmp_path)
    worker.initialise(DEFAULT_TENANT)
    release = served_by(worker, TIMEOUT)
    async with Amends.open(url_of(tmp_path), [release], settings=SETTINGS) as amends:
        published = await amends.execute(release, Release(version="1"))
        shelf.hold(on=True)
        withdrawing = asyncio.ensure_future(
            amends.compensate(published, Withdrawal(reason="late"), transaction_id="txn_undo")
        )
        deadline = time.monotonic() + WAIT_S
        while not shelf.count("withdrawn"):
            assert time.monotonic() < deadline, "it is not withdrawn"
            await asyncio.sleep(0.02)
        assert worker.kill() is not None
        assert (await withdrawing).status is WireStatus.OUTCOME_UNKNOWN

    for step in ("before journal", "after journal", "after ledger"):
        assert await asyncio.to_thread(kill_at, tmp_path, step) == -signal.SIGKILL
        async with Amends.open(url_of(tmp_path), [release], settings=SETTINGS) as amends:
            found = await amends.get("txn_undo")
            assert found.result.status is WireStatus.OUTCOME_UNKNOWN
    code, told = await asyncio.to_thread(settle_by_command, tmp_path)
    assert (code, told["data"]["status"]) == (0, WireStatus.RECONCILED.value)
    async with Amends.open(url_of(tmp_path), [release], settings=SETTINGS) as amends:
        ruled = (await amends.get("txn_undo")).result
    assert (ruled.status, ruled.verdict) == (WireStatus.RECONCILED, Verdict.COMMITTED)
    assert (shelf.count("published"), shelf.count("withdrawn")) == (1, 1)
