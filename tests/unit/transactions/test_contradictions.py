"""Evidence beside the record's own story: second operations, late effects, and their bound."""

import pytest

from amends.contracts import limits
from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import Verdict
from amends.contracts.ids import Fence
from amends.contracts.outcomes import ProviderOperation
from amends.testing.builders import FENCE, NOW, OPERATION, OTHER_OPERATION, record
from amends.transactions.contradictions import (
    LATE_APPLIED,
    LATE_NOT_APPLIED,
    LATE_PARTIAL,
    LATE_UNCERTAIN,
    TWO_EFFECTS,
    conflict_in_this_attempt,
    effect_beside,
    keep_evidence,
    late_verdict,
    other_operation,
    same_operation,
    sole_attempt_tells,
    two_effects,
)
from amends.transactions.readings import Certainty, Reading

OLD = Fence("fen_0")


def seen(
    kind: str, fence: Fence | None = OLD, operation: ProviderOperation | None = None
) -> Evidence:
    return Evidence(kind=kind, at=NOW, fence=fence, operation=operation)


def knowing(*evidence: Evidence, **changes: object) -> TransactionRecord:
    return record(evidence=evidence, **changes)


def test_request_ids_may_differ_where_provider_and_operation_are_the_same() -> None:
    again = ProviderOperation("stripe", OPERATION.operation_id, request_id="req_2")
    assert same_operation(OPERATION, again)
    assert not same_operation(OPERATION, OTHER_OPERATION)
    assert not same_operation(OPERATION, ProviderOperation("adyen", OPERATION.operation_id))


@pytest.mark.parametrize(
    ("known", "named", "other"),
    [
        (None, None, None),
        (None, OPERATION, None),
        (OPERATION, None, None),
        (OPERATION, OPERATION, None),
        (OPERATION, OTHER_OPERATION, OTHER_OPERATION),
    ],
)
def test_only_a_different_operation_is_another_one(
    known: ProviderOperation | None,
    named: ProviderOperation | None,
    other: ProviderOperation | None,
) -> None:
    reading = Reading(certainty=Certainty.APPLIED, operation=named)
    assert other_operation(record(provider_operation=known), reading) == other


def test_a_conflict_counts_against_the_attempt_that_had_it() -> None:
    assert conflict_in_this_attempt(knowing(seen(TWO_EFFECTS, FENCE)))
    assert not conflict_in_this_attempt(knowing(seen(TWO_EFFECTS, OLD)))
    assert not conflict_in_this_attempt(knowing(seen(LATE_APPLIED, FENCE)))
    assert not conflict_in_this_attempt(record(attempt=None))


def test_late_answers_say_all_a_part_or_nothing_of_the_effect() -> None:
    assert late_verdict(knowing(seen(LATE_PARTIAL), seen(LATE_APPLIED))) is Verdict.COMMITTED
    assert late_verdict(knowing(seen(LATE_NOT_APPLIED), seen(LATE_PARTIAL))) is Verdict.PARTIAL
    silent = (seen(LATE_NOT_APPLIED), seen(LATE_UNCERTAIN), seen(TWO_EFFECTS))
    assert late_verdict(knowing(*silent)) is None


def test_a_sole_attempt_tells_unless_anything_speaks_of_an_effect() -> None:
    assert sole_attempt_tells(record())
    assert not sole_attempt_tells(record(effect_attempts=2))
    assert not sole_attempt_tells(record(attention=TWO_EFFECTS))
    assert not sole_attempt_tells(knowing(seen(LATE_APPLIED)))


@pytest.mark.parametrize(
    ("kept", "beside"),
    [
        (seen(LATE_APPLIED), True),
        (seen(LATE_PARTIAL, operation=OTHER_OPERATION), True),
        (seen(LATE_APPLIED, operation=OPERATION), False),
        (seen(LATE_APPLIED, FENCE), False),
        (seen(LATE_NOT_APPLIED), False),
        (seen(LATE_UNCERTAIN, operation=OTHER_OPERATION), False),
    ],
)
def test_an_effect_beside_is_another_attempts_and_not_the_same_operation(
    kept: Evidence, beside: bool
) -> None:
    assert effect_beside(knowing(kept), OPERATION) is beside


def test_without_a_name_nobody_can_say_that_a_late_effect_is_the_same() -> None:
    assert effect_beside(knowing(seen(LATE_APPLIED, operation=OPERATION)), None)
    assert effect_beside(knowing(seen(LATE_APPLIED), attempt=None), OPERATION)
    assert not effect_beside(record(), None)


def test_a_second_operation_is_kept_under_the_attempt_that_named_it() -> None:
    assert two_effects(record(), OTHER_OPERATION, NOW) == (
        seen(TWO_EFFECTS, FENCE, OTHER_OPERATION),
    )
    (kept,) = two_effects(record(attempt=None), OTHER_OPERATION, NOW)
    assert kept.fence is None


def test_evidence_is_bounded_and_a_flood_of_one_kind_drowns_no_other() -> None:
    kept: tuple[Evidence, ...] = ()
    for number in range(3 * limits.EVIDENCE_ENTRIES):
        kept = keep_evidence(kept, seen(TWO_EFFECTS, Fence(f"fen_{number}")))
    assert [one.fence for one in kept] == [f"fen_{n}" for n in range(limits.EVIDENCE_ENTRIES)]
    for _ in range(3):
        kept = keep_evidence(kept, seen(LATE_APPLIED))
        kept = keep_evidence(kept, seen(LATE_UNCERTAIN))
    assert [one.kind for one in kept[-2:]] == [LATE_APPLIED, LATE_UNCERTAIN]
    assert len(kept) == limits.EVIDENCE_ENTRIES + 2
    assert late_verdict(knowing(*kept)) is Verdict.COMMITTED
