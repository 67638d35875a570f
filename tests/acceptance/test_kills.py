"""A real `kill -9` at each crash point of each mode, on SQLite; then another process goes on.

The victim kills itself with SIGKILL exactly at the point, and has answered whatever came before.
The survivor is this process, which had never opened the files: it moves its clock past leases and
due times instead of waiting for them. What really happened is counted at the provider.
"""

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from amends import Amends, Settings
from amends.contracts.enums import Mode
from amends.contracts.evidence import ReceiptType
from amends.testing import faults
from amends.testing.crash_points import CrashPoint
from amends.testing.effects import FileLedger, Kind
from amends.testing.errands import (
    Answer,
    AnyErrand,
    Commit,
    Compensate,
    Execute,
    Plan,
    Reconcile,
    Step,
    Sweep,
    run_errand,
)
from amends.testing.provider import ScriptedProvider
from amends.testing.till import Setup, Till, open_till, served
from amends.testing.victim import Trap
from tests.acceptance.children import (
    WAIT_S,
    Child,
    effects,
    next_due,
    recover,
    status,
    stored,
    url_of,
)

DEED: Final = "txn_deed"
KEY: Final = "order-7"
DUE_MS: Final = 6_000
"""Past the first look-up of an unknown outcome."""

LEASE_OVER_MS: Final = 60_000


class Scene(NamedTuple):
    """What a victim does before, and the deed in which it is killed."""

    before: tuple[AnyErrand, ...]
    deed: AnyErrand
    effect: Kind
    script: tuple[faults.Fault, ...] = ()


SCENES: Final = {
    Mode.EXECUTE: Scene(
        (), Execute(action_id="act_deed", transaction_id=DEED, key=KEY), effect="charge"
    ),
    Mode.COMMIT: Scene(
        (Plan(action_id="act_plan", transaction_id=DEED),),
        Commit(action_id="act_deed", plan_id=f"plan:{DEED}", key=KEY),
        effect="charge",
    ),
    Mode.COMPENSATE: Scene(
        (Execute(action_id="act_target", transaction_id="txn_target"),),
        Compensate(action_id="act_deed", transaction_id=DEED, target="act_target", key=KEY),
        effect="refund",
    ),
    Mode.RECONCILE: Scene(
        (Execute(action_id="act_lost", transaction_id=DEED), Step(milliseconds=DUE_MS)),
        Reconcile(action_id="act_deed", transaction_id=DEED),
        effect="charge",
        script=(faults.acknowledgement(),),
    ),
}
BLIND: Final = {
    Mode.EXECUTE: ("transaction.reconciliation_required", "transaction.execute_state_invalid"),
    Mode.COMMIT: ("transaction.reconciliation_required", "reconciled"),
    Mode.COMPENSATE: ("transaction.reconciliation_required", "reconciled"),
    Mode.RECONCILE: ("transaction.reconcile_not_due", "transaction.reconcile_state_invalid"),
}
"""What the same action hears while its outcome is unknown, and after that was reconciled."""


class Fate(NamedTuple):
    """One row: what the survivor finds, what the same action then hears, and how it ends.

    `verdict` is none where nothing was left in flight, so that the retry itself ended it. `effects`
    is how often the deed's money had moved by the end.
    """

    mode: Mode
    at: CrashPoint
    found: str | None
    hears: str
    verdict: str | None
    effects: int


RUNNING: Final = "transaction.in_progress"
NOT_UNKNOWN: Final = "transaction.reconcile_state_invalid"

# fmt: off
FATES: Final = [
    Fate(Mode.EXECUTE, CrashPoint.BEFORE_CLAIM, None, "committed", None, 1),
    Fate(Mode.EXECUTE, CrashPoint.AFTER_CLAIM, "prepared", RUNNING, "not_committed", 0),
    Fate(Mode.EXECUTE, CrashPoint.BEFORE_EFFECT, "prepared", RUNNING, "not_committed", 0),
    Fate(Mode.EXECUTE, CrashPoint.AFTER_EFFECT, "prepared", RUNNING, "committed", 1),
    Fate(Mode.EXECUTE, CrashPoint.BEFORE_SETTLE, "prepared", RUNNING, "committed", 1),
    Fate(Mode.EXECUTE, CrashPoint.AFTER_SETTLE, "committed", "committed", None, 1),

    Fate(Mode.COMMIT, CrashPoint.BEFORE_CLAIM, "planned", "committed", None, 1),
    Fate(Mode.COMMIT, CrashPoint.AFTER_CLAIM, "committing", RUNNING, "not_committed", 0),
    Fate(Mode.COMMIT, CrashPoint.BEFORE_EFFECT, "committing", RUNNING, "not_committed", 0),
    Fate(Mode.COMMIT, CrashPoint.AFTER_EFFECT, "committing", RUNNING, "committed", 1),
    Fate(Mode.COMMIT, CrashPoint.BEFORE_SETTLE, "committing", RUNNING, "committed", 1),
    Fate(Mode.COMMIT, CrashPoint.AFTER_SETTLE, "committed", "committed", None, 1),

    Fate(Mode.COMPENSATE, CrashPoint.BEFORE_CLAIM, None, "compensated", None, 1),
    Fate(Mode.COMPENSATE, CrashPoint.AFTER_CLAIM, "compensating", RUNNING, "not_committed", 0),
    Fate(Mode.COMPENSATE, CrashPoint.BEFORE_EFFECT, "compensating", RUNNING, "not_committed", 0),
    Fate(Mode.COMPENSATE, CrashPoint.AFTER_EFFECT, "compensating", RUNNING, "committed", 1),
    Fate(Mode.COMPENSATE, CrashPoint.BEFORE_SETTLE, "compensating", RUNNING, "committed", 1),
    Fate(Mode.COMPENSATE, CrashPoint.AFTER_SETTLE, "compensated", "compensated", None, 1),

    Fate(Mode.RECONCILE, CrashPoint.BEFORE_CLAIM, "outcome_unknown", "reconciled", None, 1),
    Fate(Mode.RECONCILE, CrashPoint.AFTER_CLAIM, "reconciling", NOT_UNKNOWN, "committed", 1),
    Fate(Mode.RECONCILE, CrashPoint.BEFORE_EFFECT, "reconciling", NOT_UNKNOWN, "committed", 1),
    Fate(Mode.RECONCILE, CrashPoint.AFTER_EFFECT, "reconciling", NOT_UNKNOWN, "committed", 1),
    Fate(Mode.RECONCILE, CrashPoint.BEFORE_SETTLE, "reconciling", NOT_UNKNOWN, "committed", 1),
    Fate(Mode.RECONCILE, CrashPoint.AFTER_SETTLE, "reconciled", "reconciled", None, 1),
]
# fmt: on


def kill_at(setup: Setup, scene: Scene, mode: Mode, at: CrashPoint) -> list[Answer]:
    """Have a child killed in the scene's deed; what it had answered before."""
    with Child(msgspec.structs.replace(setup, script=scene.script)) as child:
        heard = [child.ask(errand)[0] for errand in scene.before]
        child.tell(Trap(at=at, mode=mode), scene.deed)
        child.reaches(at)
        assert child.death() == -signal.SIGKILL
    return heard


def later(setup: Setup, mode: Mode) -> Setup:
    """The survivor's view: no faults, and a clock that is no earlier than the victim's was."""
    return msgspec.structs.replace(setup, ahead_ms=DUE_MS if mode is Mode.RECONCILE else 0)


async def hears(till: Till, errand: AnyErrand) -> str | None:
    return (await run_errand(till, errand)).heard


async def check_nothing_is_lost(till: Till, heard: Sequence[Answer]) -> None:
    """What was answered is there, at least as far on as it was, and every invariant holds."""
    for answer in heard:
        if answer.transaction_id is not None and answer.revision is not None:
            found = await stored(till, answer.transaction_id)
            assert found is not None
            assert found.document.revision >= answer.revision
            assert (await till.amends.verify(answer.transaction_id)).ok
    assert await till.check() == []


async def check_compensated_at_most_once(till: Till, setup: Setup, verdict: str | None) -> None:
    """The slot of a target is free again only where the first refund is known to be absent."""
    again = Compensate(action_id="act_again", transaction_id="txn_again", target="act_target")
    absent = verdict == "not_committed"
    assert await hears(till, again) == (
        "compensated" if absent else "transaction.compensation_exists"
    )
    assert effects(setup, "refund") == 1


@pytest.mark.fault(2, 3, 4, 5)
@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-ACT-1", "TX-PIPE-5", "TX-RECON-2", "TX-REV-4")
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: f"{fate.mode.value}-{fate.at.value}")
async def test_a_process_killed_at_a_crash_point_leaves_what_another_can_finish(
    setup: Setup, fate: Fate
) -> None:
    scene = SCENES[fate.mode]
    unknown, ended = BLIND[fate.mode]
    heard = kill_at(setup, scene, fate.mode, fate.at)
    async with open_till(later(setup, fate.mode)) as till:
        await check_nothing_is_lost(till, heard)
        assert await status(till, DEED) == fate.found
        assert await hears(till, scene.deed) == fate.hears
        if fate.verdict is not None:
            assert await status(till, DEED) == fate.found
            assert await next_due(till, DEED)
            assert await hears(till, scene.deed) == unknown
            assert await recover(till, DEED) == ["outcome_unknown", "reconciled"]
            assert await hears(till, scene.deed) == ended
        record = (await till.amends.get(DEED)).result
        assert record.verdict == (fate.verdict or "committed")
        assert effects(setup, scene.effect) == fate.effects
        await check_nothing_is_lost(till, heard)
        if fate.mode is Mode.COMPENSATE:
            await check_compensated_at_most_once(till, setup, fate.verdict)


def test_every_crash_point_of_every_mode_with_a_claim_has_its_row() -> None:
    assert [(fate.mode, fate.at) for fate in FATES] == [
        (mode, at) for mode in SCENES for at in CrashPoint
    ]


@pytest.mark.rule("TX-EXEC-2", "TX-LEASE-2")
@pytest.mark.parametrize("mode", [Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE], ids=str)
async def test_a_retry_that_sees_a_lapsed_lease_first_writes_the_unknown_outcome(
    setup: Setup, mode: Mode
) -> None:
    """No sweeper runs: the retry finds the dead attempt itself, and still sends nothing."""
    scene = SCENES[mode]
    kill_at(setup, scene, mode, CrashPoint.AFTER_CLAIM)
    async with open_till(msgspec.structs.replace(setup, ahead_ms=LEASE_OVER_MS)) as till:
        for _ in range(2):
            assert await hears(till, scene.deed) == "transaction.reconciliation_required"
            assert await status(till, DEED) == "outcome_unknown"
        assert [one.step.type for one in await till.amends.receipts(DEED)].count(
            ReceiptType.OUTCOME_UNKNOWN
        ) == 1
    assert effects(setup, scene.effect) == 0


LOOKING_UP: Final = [
    (CrashPoint.AFTER_CLAIM, "reconciling"),
    (CrashPoint.BEFORE_EFFECT, "reconciling"),
    (CrashPoint.AFTER_EFFECT, "reconciling"),
    (CrashPoint.BEFORE_SETTLE, "reconciling"),
    (CrashPoint.BEFORE_CLAIM, "outcome_unknown"),
]
"""Where one recovering process after another is killed, and what each leaves behind."""

HOUR_MS: Final = 3_600_000


def killed_in_recovery(setup: Setup, hours: int, at: CrashPoint) -> None:
    """Have a child sweep what lapsed, and be killed when it looks up what is due an hour later."""
    with Child(msgspec.structs.replace(setup, ahead_ms=hours * HOUR_MS)) as child:
        child.ask(Sweep())
        child.tell(Trap(at=at, mode=Mode.RECONCILE), Step(milliseconds=HOUR_MS), Sweep())
        child.reaches(at)
        assert child.death() == -signal.SIGKILL


@pytest.mark.fault(4, 5, 24)
@pytest.mark.rule("TX-RECON-2", "TX-RECON-4", "TX-LEASE-2")
@pytest.mark.parametrize(
    ("most", "ending"),
    [
        pytest.param(12, ["outcome_unknown", "reconciled"], id="found in the end"),
        pytest.param(4, ["reconciling", "outcome_unknown"], id="a person is called"),
    ],
)
async def test_recovery_that_is_killed_again_and_again_neither_repeats_nor_forgets(
    setup: Setup, most: int, ending: list[str]
) -> None:
    """Each look-up that died counts, so that what brings its process down is not tried for ever."""
    setup = msgspec.structs.replace(setup, most_look_ups=most)
    kill_at(setup, SCENES[Mode.COMMIT], Mode.COMMIT, CrashPoint.AFTER_EFFECT)
    for turn, (at, left) in enumerate(LOOKING_UP[:most]):
        killed_in_recovery(setup, 1 + 2 * turn, at)
        async with open_till(setup) as till:
            assert await status(till, DEED) == left
    hours = 1 + 2 * len(LOOKING_UP)
    async with open_till(msgspec.structs.replace(setup, ahead_ms=hours * HOUR_MS)) as till:
        assert await recover(till, DEED) == ending
        result = (await till.amends.get(DEED)).result
        assert result.attention == (None if most == 12 else "reconcile_attempts_exhausted")
        assert await till.check() == []
    assert effects(setup) == 1


@pytest.mark.fault(2, 4, 5)
@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-RECON-4")
async def test_a_library_that_is_opened_again_recovers_killed_attempts_by_itself(
    tmp_path: Path,
) -> None:
    """In real time, with a lease of 400 ms and the sweeper that every program has."""
    setups = {
        mode: Setup(
            store=str(tmp_path / f"{mode.value}.db"),
            ledger=str(tmp_path / f"{mode.value}.jsonl"),
            timeout_ms=300,
            grace_ms=100,
        )
        for mode in (Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE)
    }
    for mode, setup in setups.items():
        kill_at(setup, SCENES[mode], mode, CrashPoint.AFTER_EFFECT)
    await asyncio.gather(*(recovered_by_itself(setup) for setup in setups.values()))
    assert {mode: effects(setup) for mode, setup in setups.items()} == {
        Mode.EXECUTE: 1,
        Mode.COMMIT: 1,
        Mode.COMPENSATE: 2,
    }


async def recovered_by_itself(setup: Setup) -> None:
    """Open the store as a program does, and wait until recovery has found the effect."""
    charge = served(ScriptedProvider(ledger=FileLedger(setup.ledger)), setup)
    settings = Settings(grace_ms=setup.grace_ms, poll_s=0.05)
    deadline = time.monotonic() + WAIT_S
    async with Amends.open(url_of(setup), [charge], settings=settings) as amends:
        while (found := (await amends.get(DEED)).result).status.value != "reconciled":
            assert time.monotonic() < deadline, found.status
            await asyncio.sleep(0.05)
        assert found.verdict == "committed"
        assert (await amends.verify(DEED)).ok
