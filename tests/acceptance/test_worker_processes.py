"""A worker as a process of its own: `amends worker`, private pipes, `kill -9`, and its lock."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import AmendsError, OutcomeUnknown, Refused
from amends.contracts.worker_grant import grant_fingerprint
from amends.contracts.worker_messages import Indeterminate
from amends.contracts.worker_payload import Failed, Succeeded
from amends.host.channel import WorkerChannel
from amends.ledger.records import LedgerState
from amends.ledger.recovery import Recovery
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.transports.children import ChildWorker, start_child
from tests.unit.worker.stage import GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, WIDE, Both

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = "tests.acceptance.worker_adapters:release"
WAIT_S: Final = 30.0


class Place:
    """A worker's folder and the file of its effects."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.effects = folder / "effects"
        self.sessions = 0

    def amends(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "amends", "worker", *arguments, *self.options()],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    def options(self) -> tuple[str, ...]:
        return "--state", str(self.state), "--scope", SCOPE

    def environment(self, hang: str = "") -> dict[str, str]:
        paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
        ours = {"AMENDS_TEST_EFFECTS": str(self.effects), "AMENDS_TEST_HANG": hang}
        return {**os.environ, "PYTHONPATH": paths, **ours}

    def lines(self) -> list[str]:
        return self.effects.read_text().split() if self.effects.exists() else []

    @asynccontextmanager
    async def worker(self, hang: str = "") -> AsyncIterator[tuple[WorkerChannel, ChildWorker]]:
        """A child that serves, and the channel to it."""
        self.sessions += 1
        bootstrap = Bootstrap(f"session-{self.sessions}", SessionKey(os.urandom(32)))
        command = [sys.executable, "-m", "amends", "worker", "run", PLACE, *self.options()]
        child = await start_child(command, bootstrap, environment=self.environment(hang))
        channel = WorkerChannel(
            child.transport,
            bootstrap,
            [WIDE if hang == "op-" else GRANT],
            tenant_scope=SCOPE,
            nonce=os.urandom(32),
            open_limit_s=WAIT_S,
        )
        try:
            async with channel:
                yield channel, child
        finally:
            await child.stop(WAIT_S)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    assert made.amends("init").returncode == 0
    return made


async def until(effects: int, place: Place) -> None:
    for _ in range(1000):
        if len(place.lines()) >= effects:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the worker does nothing")


@pytest.mark.rule("FR-3", "WS-1")
async def test_a_worker_process_publishes_and_withdraws_once(place: Place) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with place.worker() as (channel, child):
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
        target = workflow.target(key, SCOPE, GRANT, INVERSE)
        inverse = await workflow.record_compensation(target, NONCE)
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert child.process.returncode == 0
    assert place.lines() == [key, inverse]


@pytest.mark.rule("WS-1", "WS-3")
@pytest.mark.fault(29, 51, 59)
async def test_a_worker_that_is_killed_behind_its_inverse_is_found_existing(place: Place) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with place.worker("cmp") as (channel, child):
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
        target = workflow.target(key, SCOPE, GRANT, INVERSE)
        inverse = await workflow.record_compensation(target, NONCE)
        compensating = asyncio.ensure_future(workflow.compensate(channel, target))
        await until(2, place)
        child.kill()
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await compensating
    assert child.process.returncode == -signal.SIGKILL
    assert workflow.recovery(key) is Recovery.OFFER_AGAIN
    async with place.worker() as (channel, _):
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert workflow.recovery(key) is Recovery.REPORT
    assert place.lines() == [key, inverse]


@pytest.mark.rule("WS-1")
@pytest.mark.fault(45)
@pytest.mark.case("STK-07")
async def test_a_worker_that_is_asked_to_end_writes_down_what_it_began(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMENDS_TEST_HANG_S", "0.5")
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with place.worker("op-") as (channel, child):
        dispatching = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await until(1, place)
        child.process.send_signal(signal.SIGTERM)
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await dispatching
        assert await child.process.wait() == 0
    async with place.worker() as (channel, _):
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
    assert place.lines() == [key]


@pytest.mark.case("STK-08")
@pytest.mark.fault(45)
@pytest.mark.parametrize("sends", [signal.SIGTERM, signal.SIGKILL])
async def test_a_worker_that_is_asked_to_end_in_vain_leaves_what_a_killed_one_leaves(
    place: Place, monkeypatch: pytest.MonkeyPatch, sends: signal.Signals
) -> None:
    monkeypatch.setenv("AMENDS_TEST_HANG_S", "3")
    monkeypatch.setenv("AMENDS_TEST_LIMIT_S", "0.3")
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with place.worker("op-") as (channel, child):
        dispatching = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await until(1, place)
        child.process.send_signal(sends)
        assert await child.process.wait() != 0
        [answer] = await asyncio.gather(dispatching, return_exceptions=True)
        assert isinstance(answer, OutcomeUnknown | Indeterminate)
    assert workflow.ledger.operations[0].state is LedgerState.PENDING
    assert workflow.recovery(key) is Recovery.LOOK_UP_ORIGINAL
    async with place.worker() as (channel, _):
        assert isinstance(await workflow.reconcile(channel, key), Succeeded)
    assert place.lines() == [key]


@pytest.mark.fault(40)
async def test_a_second_worker_process_waits_for_the_first_and_then_gives_up(place: Place) -> None:
    async with place.worker():
        with pytest.raises(AmendsError, match=r"channel\.lost"):
            async with place.worker() as (_, second):
                await second.process.wait()


async def test_an_operator_ends_an_open_inverse_while_no_worker_runs(place: Place) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with place.worker("cmp") as (channel, child):
        await workflow.dispatch(channel, key, INPUT)
        target = workflow.target(key, SCOPE, GRANT, INVERSE)
        inverse = await workflow.record_compensation(target, NONCE)
        compensating = asyncio.ensure_future(workflow.compensate(channel, target))
        await until(2, place)
        child.kill()
        await asyncio.gather(compensating, return_exceptions=True)
    words = ("--who", "olga", "--why", "it is withdrawn", "--evidence", "ticket 7")
    same = await asyncio.to_thread(
        place.amends, "supersede", key, inverse, grant_fingerprint(GRANT), *words
    )
    assert same.returncode == 3
    assert "journal.supersede_refused" in same.stderr
    moved = await asyncio.to_thread(
        place.amends, "supersede", key, inverse, grant_fingerprint(WIDE), *words
    )
    assert moved.returncode == 0, moved.stderr
    back = await asyncio.to_thread(
        place.amends, "supersede", key, inverse, grant_fingerprint(GRANT), *words
    )
    assert back.returncode == 0, back.stderr
    said = await asyncio.to_thread(
        place.amends, "resolve", key, "succeeded", "--compensation", inverse, *words
    )
    assert said.returncode == 0, said.stderr
    again = await asyncio.to_thread(
        place.amends, "resolve", key, "failed", "--compensation", inverse, *words
    )
    assert again.returncode == 3
    assert "journal.entry_closed" in again.stderr
    async with place.worker() as (channel, _):
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert place.lines() == [key, inverse]


@pytest.mark.rule("INT-3")
async def test_an_original_that_never_came_is_closed_by_hand_and_refused_from_then_on(
    place: Place,
) -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    words = ("--who", "olga", "--why", "nobody wants it", "--evidence", "ticket 7")
    unknown = await asyncio.to_thread(place.amends, "resolve", key, "failed", *words)
    assert "journal.operation_unknown" in unknown.stderr
    tool = ("--tool", GRANT.tool)
    for _ in range(2):
        closed = await asyncio.to_thread(place.amends, "resolve", key, "failed", *words, *tool)
        assert closed.returncode == 0, closed.stderr
    async with place.worker() as (channel, _):
        with pytest.raises(Refused) as late:
            await workflow.dispatch(channel, key, INPUT)
        assert late.value.details["code"] == "journal.operation_differs"
        assert isinstance(await workflow.reconcile(channel, key), Failed)
    assert place.lines() == []


def test_a_folder_is_initialised_once_and_a_journal_that_is_not_frozen_is_not_released(
    place: Place,
) -> None:
    assert place.amends("init").returncode == 4
    words = ("--who", "olga", "--why", "compared", "--evidence", "ticket 7")
    said = place.amends("release", *words)
    assert (said.returncode, "journal.not_frozen" in said.stderr) == (4, True)


@pytest.mark.parametrize("named", ["tests.acceptance.worker_adapters:DONE", "os:path", "none"])
def test_a_place_without_adapters_is_refused(place: Place, named: str) -> None:
    options = ("--bootstrap-fd", "90", "--read-fd", "91", "--write-fd", "92")
    assert place.amends("run", named, *options).returncode == 2
