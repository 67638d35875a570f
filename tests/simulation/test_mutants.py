"""The small world finds bugs: each of these breaks one rule of the product, and is caught.

A world that finds nothing in a sound product proves nothing unless it finds something in a broken
one. Every mutant is the smallest change that breaks one promise; the fault it is caught by has to
be the one that it makes.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import Capability
from amends.contracts.documents import CompensationSlots, TransactionRecord
from amends.contracts.enums import Mode, RetrySafety
from amends.contracts.outcomes import Outcome
from amends.governance import idempotency
from amends.runtime import claim, engine, grounds, settle
from amends.runtime.running import Running
from amends.runtime.upkeep import Upkeep
from amends.simulation.scenarios import Playhouse, Violation
from amends.stores.memory_tables import Memory
from amends.stores.port import AnyDocument, Due, Loss
from amends.stores.shapes import shape_of
from amends.transactions import compensation, reconciliation
from amends.transactions.readings import Certainty, Reading, read_outcome
from amends.transactions.replay import Answer, AskedAgain, replay_execution

FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)
SEEDS: Final = 3_000
"""How many scenarios a mutant may survive."""


def _always(*_args: object, **_kwargs: object) -> bool:
    return True


def _nothing(*_args: object) -> None:
    return None


async def _never_lapses(*_args: object) -> None:
    return None


def _without_comparing(
    memory: Memory, document: AnyDocument, due: Due | None, now_us: int
) -> Loss | None:
    shape = shape_of(type(document))
    row = memory.tables[type(document)].get((document.tenant, shape.id_of(document)))
    return Loss.ABSENT if row is None else memory._write(document, due, now_us, seq=row.seq)


def _reads_doubt_as_failure(outcome: Outcome) -> Reading:
    reading = read_outcome(outcome)
    if reading.certainty is not Certainty.UNCERTAIN:
        return reading
    return replace(reading, certainty=Certainty.NOT_APPLIED)


def _never_ends(record: TransactionRecord, capability: Capability) -> datetime | None:
    declared = capability.execution.provider_dedup_window_ms is not None
    return FAR if declared and record.mode is not Mode.COMPENSATE else None


def _keeps_the_approval(
    request: ApprovalRequest, _hash: str, _policy: ApprovalPolicy, _now: datetime
) -> ApprovalRequest:
    return replace(request, revision=request.revision + 1)


def _tries_again_after_a_lapse(
    asked: AskedAgain, record: TransactionRecord, *, lapsed: bool, safety: RetrySafety
) -> Answer:
    answer = replay_execution(asked, record, lapsed=lapsed, safety=safety)
    return Answer.GO_ON if answer is Answer.LAPSED else answer


def _sends_whenever(running: Running, _now: datetime) -> timedelta:
    return timedelta(milliseconds=running.call.deadline_in_ms)


def _always_gives_back(
    slots: CompensationSlots, record: TransactionRecord, _now: datetime, *, for_good: bool = False
) -> CompensationSlots | None:
    left = tuple(h for h in slots.holders if h.transaction_id != record.transaction_id)
    if left == slots.holders:
        return None
    return replace(slots, revision=slots.revision + 1, holders=left)


Mutant = tuple[tuple[object, ...], str, Callable[..., object], str]
MUTANTS: Final[dict[str, Mutant]] = {
    "absence is always proven": (
        (reconciliation,),
        "absence_is_proven",
        _always,
        "not_committed, and the effect is there",
    ),
    "change sets do not compare": ((Memory,), "_replace", _without_comparing, "went to revision"),
    "a timeout is a failure": (
        (settle,),
        "read_outcome",
        _reads_doubt_as_failure,
        "failed/not_committed, and the effect is there",
    ),
    "slots are not counted": ((compensation,), "check_slots", _nothing, "holders"),
    "slots are given back unasked": ((settle,), "release_slot", _always_gives_back, "let go of"),
    "the dedup window never ends": (
        (reconciliation, grounds),
        "redrive_until",
        _never_ends,
        "re-driven outside of the window",
    ),
    "approvals are used again": (
        (claim,),
        "consume",
        _keeps_the_approval,
        "without using an approval up",
    ),
    "a lapsed attempt is repeated": (
        (grounds,),
        "replay_execution",
        _tries_again_after_a_lapse,
        "sent again without being a re-drive",
    ),
    "a licence lasts for ever": (
        (engine,),
        "_time_left",
        _sends_whenever,
        "after its lease had ended",
    ),
    "keys are free for all": ((idempotency,), "is_free", _always, "idempotency key"),
    "leases do not lapse": ((Upkeep,), "lapse", _never_lapses, "it never became quiet"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places, what, broken, text = MUTANTS[name]
    for place in places:
        monkeypatch.setattr(place, what, broken)
    house = Playhouse()
    with pytest.raises(Violation) as caught:
        house.play_all(range(SEEDS))
    assert any(text in fault for fault in caught.value.faults), caught.value.faults


def test_a_violation_tells_its_seed_its_faults_and_its_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Memory, "_replace", _without_comparing)
    with pytest.raises(Violation) as first:
        Playhouse().play_all(range(SEEDS))
    with pytest.raises(Violation) as again:
        Playhouse().play(first.value.seed)
    assert f"seed {first.value.seed}" in str(again.value)
    assert (again.value.faults, again.value.story) == (first.value.faults, first.value.story)
    assert first.value.story != ()
