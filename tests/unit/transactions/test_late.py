"""Late answers: what they do to a record in every status, and to one that is settled."""

from datetime import timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.ids import Fence
from amends.contracts.json_types import json_text
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.testing.builders import DECLINED, NOW, OPERATION, OTHER_OPERATION, record_in, result
from amends.transactions.contradictions import (
    LATE_APPLIED,
    LATE_NOT_APPLIED,
    LATE_PARTIAL,
    LATE_UNCERTAIN,
    TWO_EFFECTS,
)
from amends.transactions.late import Late, take_late
from amends.transactions.replay import reopenable
from amends.transactions.settlement import NO_OUTPUT, Certainty, Reading, StoredOutput
from amends.transactions.table import Event

LATER = NOW + timedelta(seconds=40)
OLD = Fence("fen_0")
OUTPUT = StoredOutput(output=json_text(b'{"id":"ch_1"}'), output_hash="hash")
IN_ATTEMPT = {Status.PREPARED, Status.COMMITTING, Status.COMPENSATING, Status.RECONCILING}
KIND = {
    Certainty.APPLIED: LATE_APPLIED,
    Certainty.PARTIAL: LATE_PARTIAL,
    Certainty.NOT_APPLIED: LATE_NOT_APPLIED,
    Certainty.UNCERTAIN: LATE_UNCERTAIN,
}
VERDICT = {
    Certainty.APPLIED: Verdict.COMMITTED,
    Certainty.PARTIAL: Verdict.PARTIAL,
    Certainty.NOT_APPLIED: Verdict.NOT_COMMITTED,
}


def reading(certainty: Certainty, **changes: object) -> Reading:
    error = None if certainty is Certainty.APPLIED else DECLINED
    return replace(Reading(certainty=certainty, error=error), **changes)


def take(before: TransactionRecord, answer: Reading, output: StoredOutput = NO_OUTPUT) -> Late:
    return take_late(before, answer, output, OLD, LATER)


def contradicts(before: TransactionRecord, certainty: Certainty) -> bool:
    told = VERDICT.get(certainty)
    return before.verdict is not None and told is not None and told is not before.verdict


@pytest.mark.rule("TX-SETTLE-6", "TX-REV-3")
@pytest.mark.parametrize(("status", "certainty"), list(product(Status, Certainty)))
def test_every_late_answer_in_every_status(status: Status, certainty: Certainty) -> None:
    before = record_in(status)
    answer = take(before, reading(certainty))
    if status is Status.OUTCOME_UNKNOWN and certainty is not Certainty.UNCERTAIN:
        assert answer.event is Event.LATE_ANSWER
        assert answer.record is not None
        assert answer.record.status is Status.RECONCILED
        assert answer.record.verdict is VERDICT[certainty]
        assert answer.correction is None
    elif status in IN_ATTEMPT | {Status.OUTCOME_UNKNOWN}:
        assert (answer.event, answer.correction) == (Event.EVIDENCE_KEPT, None)
        assert answer.record is not None
        assert answer.record.status is status
        assert [kept.kind for kept in answer.record.evidence] == [KIND[certainty]]
        assert answer.record.verdict is None
    elif contradicts(before, certainty):
        assert (answer.event, answer.record) == (None, None)
        assert answer.correction is not None
        assert answer.correction.kind == KIND[certainty]
    else:
        assert answer == Late()


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_late_effect_moves_an_unknown_record_whatever_its_fence(attempts: int) -> None:
    before = record_in(Status.OUTCOME_UNKNOWN, effect_attempts=attempts)
    answer = take(before, reading(Certainty.APPLIED, operation=OPERATION), OUTPUT)
    assert answer.record is not None
    after = answer.record
    assert (after.status, after.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert after.result is not None
    assert (after.result.status, after.result.output) == (ResultStatus.COMPLETED, OUTPUT.output)
    assert (after.provider_operation, after.settled_at) == (OPERATION, LATER)
    assert (after.error, after.reconcile_after, after.attention) == (None, None, None)
    (kept,) = after.evidence
    assert (kept.kind, kept.fence, kept.at) == (LATE_APPLIED, OLD, LATER)


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize("attempts", [0, 2, 3])
def test_a_late_absence_is_only_evidence_unless_there_was_one_sole_attempt(attempts: int) -> None:
    before = record_in(Status.OUTCOME_UNKNOWN, effect_attempts=attempts)
    answer = take(before, reading(Certainty.NOT_APPLIED))
    assert answer.event is Event.EVIDENCE_KEPT
    assert answer.record is not None
    assert answer.record.status is Status.OUTCOME_UNKNOWN


@pytest.mark.rule("TX-SETTLE-6")
def test_the_sole_attempts_late_absence_settles_with_its_own_error() -> None:
    answer = take(record_in(Status.OUTCOME_UNKNOWN), reading(Certainty.NOT_APPLIED))
    assert answer.record is not None
    assert answer.record.verdict is Verdict.NOT_COMMITTED
    assert answer.record.error == DECLINED
    assert answer.record.result is not None
    assert (answer.record.result.status, answer.record.result.error) == (
        ResultStatus.FAILED,
        DECLINED,
    )


@pytest.mark.parametrize(
    "doubt",
    [
        {"attention": TWO_EFFECTS},
        {"evidence": (Evidence(kind=LATE_APPLIED, at=NOW),)},
        {"evidence": (Evidence(kind=LATE_PARTIAL, at=NOW),)},
    ],
)
def test_a_late_absence_does_not_outweigh_signs_of_an_effect(doubt: dict[str, object]) -> None:
    answer = take(record_in(Status.OUTCOME_UNKNOWN, **doubt), reading(Certainty.NOT_APPLIED))
    assert answer.event is Event.EVIDENCE_KEPT


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("certainty", Certainty)
def test_a_frozen_record_only_remembers_late_answers(certainty: Certainty) -> None:
    answer = take(record_in(Status.OUTCOME_UNKNOWN, frozen="restored"), reading(certainty))
    assert answer.event is Event.EVIDENCE_KEPT
    assert answer.record is not None
    assert (answer.record.frozen, answer.record.status) == ("restored", Status.OUTCOME_UNKNOWN)


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize(
    ("status", "certainty"),
    list(product(sorted(IN_ATTEMPT | {Status.OUTCOME_UNKNOWN}), Certainty)),
)
def test_a_late_answer_about_another_operation_moves_nothing_and_calls_a_person(
    status: Status, certainty: Certainty
) -> None:
    before = record_in(status, provider_operation=OPERATION)
    answer = take(before, reading(certainty, operation=OTHER_OPERATION))
    assert answer.event is Event.EVIDENCE_KEPT
    assert answer.record is not None
    after = answer.record
    assert (after.status, after.verdict, after.attention) == (status, None, TWO_EFFECTS)
    assert after.provider_operation == OPERATION
    (kept,) = after.evidence
    assert (kept.kind, kept.operation) == (TWO_EFFECTS, OTHER_OPERATION)


@pytest.mark.rule("TX-REV-3")
@pytest.mark.parametrize(
    ("status", "certainty"),
    list(
        product(
            (Status.COMMITTED, Status.COMPENSATED, Status.RECONCILED),
            (Certainty.PARTIAL, Certainty.NOT_APPLIED),
        )
    ),
)
def test_contradicting_evidence_about_a_terminal_record_becomes_a_correction(
    status: Status, certainty: Certainty
) -> None:
    answer = take(record_in(status), reading(certainty))
    assert (answer.event, answer.record) == (None, None)
    assert answer.correction == Evidence(
        kind=KIND[certainty], at=LATER, fence=OLD, code=DECLINED.code
    )


def test_the_same_effect_reported_again_is_nothing_new_and_another_one_is_a_correction() -> None:
    for status in (Status.COMMITTED, Status.COMPENSATED, Status.RECONCILED):
        before = record_in(status)
        assert take(before, reading(Certainty.APPLIED, operation=OPERATION)) == Late()
        assert take(before, reading(Certainty.APPLIED)) == Late()
        second = take(before, reading(Certainty.APPLIED, operation=OTHER_OPERATION))
        assert second.correction is not None
        assert (second.correction.kind, second.record) == (TWO_EFFECTS, None)


def test_a_failure_that_could_be_tried_again_is_frozen_by_the_effect_that_came_late() -> None:
    busy = ErrorInfo(code="provider_busy", retryable=True)
    before = record_in(
        Status.FAILED,
        error=busy,
        result=result(ResultStatus.FAILED, error=busy),
        declared_not_applied=True,
    )
    assert reopenable(before)
    for certainty in (Certainty.APPLIED, Certainty.PARTIAL):
        answer = take(before, reading(certainty))
        assert answer.event is Event.FROZEN
        assert answer.record is not None
        assert answer.correction is not None
        assert (answer.record.frozen, answer.record.status) == (KIND[certainty], Status.FAILED)
        assert answer.record.evidence == (answer.correction,)
    for certainty in (Certainty.NOT_APPLIED, Certainty.UNCERTAIN):
        assert take(before, reading(certainty)) == Late()


@pytest.mark.rule("TX-SETTLE-5")
def test_a_late_effect_with_a_bad_output_is_there_all_the_same() -> None:
    bad = StoredOutput(output_hash="hash", invalid="output.not_storable")
    answer = take(record_in(Status.OUTCOME_UNKNOWN), reading(Certainty.APPLIED), bad)
    assert answer.record is not None
    assert answer.record.verdict is Verdict.COMMITTED
    assert answer.record.attention == "output_invalid"


def test_a_late_effect_does_not_silence_a_call_for_a_person() -> None:
    before = record_in(Status.OUTCOME_UNKNOWN, attention=TWO_EFFECTS)
    answer = take(before, reading(Certainty.APPLIED))
    assert answer.record is not None
    assert (answer.record.status, answer.record.attention) == (Status.RECONCILED, TWO_EFFECTS)


def test_a_late_failure_of_an_earlier_attempt_leaves_the_running_one_alone() -> None:
    before = record_in(Status.COMMITTING, attempts=2, effect_attempts=2)
    answer = take(before, reading(Certainty.NOT_APPLIED))
    assert answer.record is not None
    after = replace(answer.record, evidence=(), revision=before.revision, updated_at=NOW)
    assert after == before


# ── events that the provider sends by itself ─────────────────────────────────────────────────────


def tell(before: TransactionRecord, certainty: Certainty, event: str = "evt_1") -> Late:
    return take_late(before, reading(certainty), NO_OUTPUT, None, LATER, event=event)


@pytest.mark.parametrize(("status", "certainty"), list(product(Status, Certainty)))
def test_a_providers_event_does_what_a_late_answer_does(
    status: Status, certainty: Certainty
) -> None:
    told, answered = tell(record_in(status), certainty), take(record_in(status), reading(certainty))
    assert told.event is answered.event
    for one, other in ((told.record, answered.record), (told.correction, answered.correction)):
        assert (one is None) == (other is None)
    if told.record is not None:
        (kept,) = told.record.evidence
        assert (kept.event, kept.fence, kept.kind) == ("evt_1", None, KIND[certainty])


@pytest.mark.parametrize("certainty", Certainty)
def test_the_same_event_again_changes_nothing_whatever_it_says(certainty: Certainty) -> None:
    remembered = tell(record_in(Status.RECONCILING), Certainty.APPLIED).record
    assert remembered is not None
    for status in Status:
        assert tell(replace(remembered, status=status), certainty) == Late()
    other = tell(remembered, certainty, "evt_2")
    assert other.event is Event.EVIDENCE_KEPT


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize("status", sorted(IN_ATTEMPT | {Status.OUTCOME_UNKNOWN}))
@pytest.mark.parametrize("known", [None, OPERATION])
def test_a_late_uncertain_answer_fills_the_empty_reference_of_an_unknown_record_only(
    status: Status, known: ProviderOperation | None
) -> None:
    """An attempt's own word does; a provider's event does not."""
    before = record_in(status, provider_operation=known)
    named = reading(Certainty.UNCERTAIN, operation=OPERATION)
    answered = take(before, named).record
    assert answered is not None
    fills = status is Status.OUTCOME_UNKNOWN
    assert answered.provider_operation == (OPERATION if fills else known)
    told = take_late(before, named, NO_OUTPUT, None, LATER, event="evt_1").record
    assert told is not None
    assert told.provider_operation == known
