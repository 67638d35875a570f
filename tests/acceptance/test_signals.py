"""Being told to stop, gently or not, or to pause: what is left can be finished all the same.

A program that is interrupted lets running attempts end for a while and then leaves them unknown. It
is no cancellation by a user and no failure, and it loses nothing that a `kill -9` would not.
"""

import asyncio
import signal
import time
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from amends.contracts.enums import Mode
from amends.testing import faults
from amends.testing.crash_points import CrashPoint
from amends.testing.errands import Commit, Execute, Plan, run_errand
from amends.testing.till import Setup, open_till
from amends.testing.victim import Trap
from tests.acceptance.children import WAIT_S, Child, effects, next_due, recover, status, stored

DEED: Final = "txn_deed"
PLAN: Final = Plan(action_id="act_plan", transaction_id=DEED)
COMMIT: Final = Commit(action_id="act_deed", plan_id=f"plan:{DEED}")
HANGS: Final = (faults.never(),)
LATE: Final = (faults.late(0.3),)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(store=str(tmp_path / "amends.db"), ledger=str(tmp_path / "provider.jsonl"))


class Ending(NamedTuple):
    """A signal at a point of a commit, the exit code it brings, and the status it leaves."""

    sends: signal.Signals
    at: CrashPoint
    code: int
    leaves: str
    script: tuple[faults.Fault, ...] = ()


ENDINGS: Final = [
    Ending(signal.SIGINT, CrashPoint.BEFORE_CLAIM, 130, "committed"),
    Ending(signal.SIGINT, CrashPoint.AFTER_CLAIM, 130, "committed"),
    Ending(signal.SIGINT, CrashPoint.AFTER_EFFECT, 130, "committed", LATE),
    Ending(signal.SIGINT, CrashPoint.AFTER_EFFECT, 130, "outcome_unknown", HANGS),
    Ending(signal.SIGINT, CrashPoint.BEFORE_SETTLE, 130, "committed"),
    Ending(signal.SIGTERM, CrashPoint.BEFORE_CLAIM, 143, "committed"),
    Ending(signal.SIGTERM, CrashPoint.AFTER_CLAIM, 143, "committed"),
    Ending(signal.SIGTERM, CrashPoint.AFTER_EFFECT, 143, "committed", LATE),
    Ending(signal.SIGTERM, CrashPoint.AFTER_EFFECT, 143, "outcome_unknown", HANGS),
    Ending(signal.SIGTERM, CrashPoint.BEFORE_SETTLE, 143, "committed"),
    Ending(signal.SIGKILL, CrashPoint.BEFORE_CLAIM, -9, "planned"),
    Ending(signal.SIGKILL, CrashPoint.AFTER_CLAIM, -9, "committing"),
    Ending(signal.SIGKILL, CrashPoint.AFTER_EFFECT, -9, "committing", HANGS),
    Ending(signal.SIGKILL, CrashPoint.BEFORE_SETTLE, -9, "committing"),
]
ENDED: Final = {"planned": 0, "committed": 1}
"""What needs no recovery, and how often money has moved then."""


def name(ending: Ending) -> str:
    return f"{ending.sends.name}-{ending.at.value}-{ending.leaves}"


def interrupt(setup: Setup, ending: Ending) -> None:
    """Have a child sent the signal at the point of its commit, and wait for its end."""
    script = msgspec.structs.replace(setup, script=ending.script, drain_ms=1_000)
    with Child(script) as child:
        child.ask(PLAN)
        child.tell(Trap(at=ending.at, mode=Mode.COMMIT, sends=ending.sends), COMMIT)
        child.reaches(ending.at)
        assert child.death() == ending.code


@pytest.mark.case("STK-01", "STK-08")
@pytest.mark.rule("TX-SETTLE-4", "TX-LEASE-2")
@pytest.mark.parametrize("ending", ENDINGS, ids=name)
async def test_whatever_stops_a_program_leaves_a_status_that_says_what_to_do(
    setup: Setup, ending: Ending
) -> None:
    interrupt(setup, ending)
    async with open_till(setup) as till:
        assert await status(till, DEED) == ending.leaves
        if ending.leaves in ENDED:
            assert effects(setup) == ENDED[ending.leaves]
            assert (await run_errand(till, COMMIT)).heard == "committed"
        else:
            found = await recover(till, DEED)
            assert found[-2:] == ["outcome_unknown", "reconciled"]
            absent = ending.at is CrashPoint.AFTER_CLAIM
            result = (await till.amends.get(DEED)).result
            assert result.verdict == ("not_committed" if absent else "committed")
            assert effects(setup) == (0 if absent else 1)
        assert await till.check() == []


@pytest.mark.fault(45)
@pytest.mark.case("STK-08")
@pytest.mark.parametrize("sends", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_attempt_is_neither_failed_nor_cancelled(
    setup: Setup, sends: signal.Signals
) -> None:
    """The drain is over while the provider still has the request."""
    code = 128 + sends
    interrupt(setup, Ending(sends, CrashPoint.AFTER_EFFECT, code, "outcome_unknown", HANGS))
    async with open_till(setup) as till:
        found = await stored(till, DEED)
        assert found is not None
        record = found.document
        assert record.error is not None
        assert record.error.code == "transaction.attempt_interrupted"
        assert (record.result, record.verdict, record.attention) == (None, None, None)
        assert found.due_at == record.reconcile_after is not None
        heard = await run_errand(till, COMMIT)
        assert heard.code == "transaction.reconciliation_required"
        assert await next_due(till, DEED)
        assert (await run_errand(till, COMMIT)).heard == "reconciled"
    assert effects(setup) == 1


@pytest.mark.case("STK-01")
async def test_an_impatient_second_interrupt_is_as_recoverable_as_the_first(setup: Setup) -> None:
    """Ctrl-C twice: the second one ends the waiting, not the record."""
    with Child(msgspec.structs.replace(setup, script=HANGS, drain_ms=2_000)) as child:
        child.ask(PLAN)
        child.tell(Trap(at=CrashPoint.AFTER_EFFECT, mode=Mode.COMMIT, sends=signal.SIGINT), COMMIT)
        child.reaches(CrashPoint.AFTER_EFFECT)
        child.send(signal.SIGINT)
        assert child.death() == 130
    async with open_till(setup) as till:
        assert await status(till, DEED) in {"committing", "outcome_unknown"}
        assert (await recover(till, DEED))[-1] == "reconciled"
    assert effects(setup) == 1


# ── paused, not stopped ──────────────────────────────────────────────────────────────────────────


async def lapsed_meanwhile(setup: Setup) -> None:
    """Sweep in real time, as another process does, until the paused attempt has lapsed."""
    deadline = time.monotonic() + WAIT_S
    async with open_till(setup) as till:
        while not (await till.sweeper.sweep()).lapsed:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


class Pause(NamedTuple):
    """Where a commit is held up beyond its lease, and what becomes of it when it goes on."""

    at: CrashPoint
    verdict: str
    effects: int


PAUSES: Final = [
    Pause(CrashPoint.AFTER_CLAIM, "not_committed", 0),
    Pause(CrashPoint.BEFORE_EFFECT, "committed", 1),
    Pause(CrashPoint.AFTER_EFFECT, "committed", 1),
    Pause(CrashPoint.BEFORE_SETTLE, "committed", 1),
]


@pytest.mark.fault(20)
@pytest.mark.rule("TX-LEASE-1", "TX-SETTLE-6", "TX-EXEC-2")
@pytest.mark.parametrize("pause", PAUSES, ids=lambda pause: pause.at.value)
async def test_a_process_that_was_paused_beyond_its_lease_does_not_write_over_what_was_found(
    setup: Setup, pause: Pause
) -> None:
    """It was licensed once: what it has not sent by then it does not send, and what became of what
    it has sent it tells as a late answer.
    """
    setup = msgspec.structs.replace(setup, timeout_ms=300, grace_ms=100, drain_ms=9_000)
    with Child(setup) as child:
        child.ask(PLAN)
        child.tell(Trap(at=pause.at, mode=Mode.COMMIT, sends=signal.SIGSTOP), COMMIT)
        child.reaches(pause.at)
        await lapsed_meanwhile(setup)
        child.send(signal.SIGCONT)
        (answer,) = child.answers()
    assert answer.heard in {"outcome_unknown", "reconciled"}
    assert effects(setup) == pause.effects
    async with open_till(setup) as till:
        found = await stored(till, DEED)
        assert found is not None
        assert (found.document.status, found.document.verdict) == ("reconciled", pause.verdict)
        assert await till.check() == []


@pytest.mark.rule("TX-ACT-1", "TX-LEASE-2")
async def test_two_processes_work_in_one_file_and_see_one_another(setup: Setup) -> None:
    """One is held up in its call; the other sees that, leaves it alone, and works on."""
    with Child(setup) as child:
        child.ask(PLAN)
        child.tell(Trap(at=CrashPoint.AFTER_EFFECT, mode=Mode.COMMIT, sends=signal.SIGSTOP), COMMIT)
        child.reaches(CrashPoint.AFTER_EFFECT)
        async with open_till(setup) as till:
            assert await status(till, DEED) == "committing"
            assert (await run_errand(till, COMMIT)).code == "transaction.in_progress"
            assert (await till.sweeper.sweep()).total == 0
            other = Execute(action_id="act_other", transaction_id="txn_other")
            assert (await run_errand(till, other)).status == "committed"
            child.send(signal.SIGCONT)
            (answer,) = child.answers()
            assert (answer.status, answer.replayed) == ("committed", False)
            assert await status(till, DEED) == "committed"
            (seen,) = child.ask(other)
            assert (seen.status, seen.replayed) == ("committed", True)
            assert await till.check() == []
    assert effects(setup) == 2
