"""Settling an attempt: every kind of outcome in every status, and what the record keeps of it."""

from datetime import datetime, timedelta
from itertools import product

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.ids import Fence
from amends.contracts.json_types import json_text
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    ProviderOperation,
    Uncertain,
)
from amends.contracts.times import after_ms
from amends.testing.builders import (
    DECLINED,
    FENCE,
    NOW,
    OPERATION,
    OTHER_OPERATION,
    record,
    record_in,
)
from amends.testing.refusals import refused_with
from amends.transactions.contradictions import LATE_APPLIED, LATE_PARTIAL
from amends.transactions.settlement import (
    NO_OUTPUT,
    OUTPUT_ATTENTION,
    TWO_EFFECTS,
    Certainty,
    Reading,
    Settled,
    StoredOutput,
    latest_lease_end,
    read_outcome,
    settle_attempt,
)
from amends.transactions.table import Event

LATER = NOW + timedelta(seconds=2)
LEASE_END = NOW + timedelta(seconds=35)
EFFECT = (Status.PREPARED, Status.COMMITTING, Status.COMPENSATING)
OUTPUT = StoredOutput(output=json_text(b'{"id":"ch_1"}'), output_hash="hash")


def settle(
    before: TransactionRecord,
    outcome: Outcome,
    output: StoredOutput = NO_OUTPUT,
    *,
    cancelled: bool = False,
) -> Settled:
    reading = read_outcome(outcome)
    return settle_attempt(
        before, reading, output, LATER, lease_ended_at=LEASE_END, cancelled=cancelled
    )


def late(kind: str, operation: ProviderOperation | None = None) -> Evidence:
    return Evidence(kind=kind, at=NOW, fence=Fence("fen_0"), operation=operation)


TIMED_OUT = ErrorInfo(code="sla.timeout_exceeded", details={"retry_after_ms": 1500})
FLAGGED = ErrorInfo(code="broken_pipe", details={"uncertain_outcome": True})
HALF_DONE = ErrorInfo(code="half_done", details={"side_effects_committed": True})

KINDS: list[tuple[str, Outcome, Verdict | None]] = [
    ("applied", Applied(), Verdict.COMMITTED),
    ("declared not applied", NotApplied(error=DECLINED), Verdict.NOT_COMMITTED),
    ("declared partial", Partial(error=DECLINED), Verdict.PARTIAL),
    ("returned failure", Failure(error=DECLINED), Verdict.NOT_COMMITTED),
    ("failure with effects", Failure(error=HALF_DONE), Verdict.PARTIAL),
    ("timeout", Failure(error=TIMED_OUT), None),
    ("flagged uncertain", Failure(error=FLAGGED), None),
    ("uncertain", Uncertain(error=DECLINED), None),
    ("pending", Pending(), None),
    ("not found", NotFound(), None),
    ("voided", NotFound(voided=True), None),
]
TABLE = [(outcome, verdict, status) for (_, outcome, verdict), status in product(KINDS, Status)]


def expected_status(verdict: Verdict | None, before: Status) -> Status:
    if verdict is None:
        return Status.OUTCOME_UNKNOWN
    if verdict is not Verdict.COMMITTED:
        return Status.FAILED
    return Status.COMPENSATED if before is Status.COMPENSATING else Status.COMMITTED


@pytest.mark.rule("TX-SETTLE-1", "TX-SETTLE-2", "TX-SETTLE-3", "TX-COMP-5")
@pytest.mark.parametrize(("outcome", "verdict", "status"), TABLE)
def test_every_kind_of_outcome_in_every_status(
    outcome: Outcome, verdict: Verdict | None, status: Status
) -> None:
    before = record_in(status)
    if status not in EFFECT:
        with refused_with("transaction.transition_refused", before):
            settle(before, outcome)
        return
    settled = settle(before, outcome)
    after = settled.record
    assert after.status is expected_status(verdict, status)
    assert (after.verdict, after.revision) == (verdict, before.revision + 1)
    assert (after.settled_at is None) == (verdict is None)
    assert settled.result == after.result
    assert (after.result is None) == (verdict is None)
    assert after.attempt is not None
    assert after.attempt.lease_ended_at == after.last_effect_lease_end == LEASE_END


@pytest.mark.rule("TX-SETTLE-1")
def test_a_completed_attempt_keeps_output_operation_and_time() -> None:
    settled = settle(record(cursor="page-1"), Applied(operation=OPERATION), OUTPUT)
    after = settled.record
    assert settled.event is Event.COMPLETED
    assert after.result is not None
    assert after.result.status is ResultStatus.COMPLETED
    assert (after.result.output, after.result.output_hash) == (OUTPUT.output, "hash")
    assert after.provider_operation == OPERATION
    assert (after.cursor, after.settled_at, after.error) == ("page-1", LATER, None)
    assert after.attention is None


@pytest.mark.rule("TX-COMP-5")
def test_a_completed_compensation_is_compensated() -> None:
    settled = settle(record_in(Status.COMPENSATING), Applied(), OUTPUT)
    assert settled.event is Event.COMPENSATION_COMPLETED
    assert settled.record.status is Status.COMPENSATED


@pytest.mark.rule("TX-SETTLE-2")
def test_an_unknown_outcome_keeps_all_that_helps_to_find_out() -> None:
    doubt = ErrorInfo(
        code="sla.timeout_exceeded",
        details={
            "retry_after_ms": 1500,
            "provider_operation": {"provider": "stripe", "operation_id": "ch_1"},
        },
    )
    settled = settle(record(), Failure(error=doubt, cursor="page-2"))
    after = settled.record
    assert (settled.event, settled.result) == (Event.OUTCOME_LOST, None)
    assert (after.provider_operation, after.cursor, after.error) == (OPERATION, "page-2", doubt)
    assert after.reconcile_after == LATER + timedelta(milliseconds=1500)
    assert after.attention is None


@pytest.mark.rule("TX-SETTLE-2")
def test_without_a_time_of_its_own_the_first_look_up_is_in_five_seconds() -> None:
    after = settle(record(), Uncertain(error=FLAGGED)).record
    assert after.reconcile_after == LATER + timedelta(seconds=5)


@pytest.mark.rule("TX-SETTLE-3")
def test_a_definite_failure_remembers_whether_it_was_declared() -> None:
    declared = settle(record(), NotApplied(error=DECLINED))
    returned = settle(record(), Failure(error=DECLINED))
    assert (declared.record.declared_not_applied, returned.record.declared_not_applied) == (
        True,
        False,
    )
    for settled in (declared, returned):
        assert settled.event is Event.FAILED
        assert settled.result is not None
        assert settled.result.status is ResultStatus.FAILED
        assert settled.result.error == settled.record.error == DECLINED


def test_a_partial_effect_keeps_its_output_and_its_reference() -> None:
    after = settle(record(), Partial(error=DECLINED, operation=OPERATION), OUTPUT).record
    assert after.result is not None
    assert (after.result.status, after.result.output) == (ResultStatus.FAILED, OUTPUT.output)
    assert (after.provider_operation, after.verdict) == (OPERATION, Verdict.PARTIAL)


# ── outputs that are no good ─────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-SETTLE-5")
@pytest.mark.parametrize("code", ["output.schema_mismatch", "output.not_storable"])
def test_an_output_that_is_no_good_does_not_undo_the_effect(code: str) -> None:
    after = settle(record(), Applied(), StoredOutput(output_hash="hash", invalid=code)).record
    assert (after.status, after.verdict) == (Status.COMMITTED, Verdict.COMMITTED)
    assert after.result is not None
    assert after.result.output_invalid == code
    assert after.attention == OUTPUT_ATTENTION


def test_the_output_of_a_partial_effect_is_marked_too() -> None:
    bad = StoredOutput(invalid="output.not_storable")
    after = settle(record(), Partial(error=DECLINED), bad).record
    assert after.result is not None
    assert after.result.output_invalid == "output.not_storable"
    assert (after.verdict, after.attention) == (Verdict.PARTIAL, OUTPUT_ATTENTION)


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────

CANCELLED_ENDINGS = [
    (Applied(), Status.COMMITTED, ResultStatus.COMPLETED),
    (NotApplied(error=DECLINED), Status.FAILED, ResultStatus.CANCELLED),
    (Failure(error=DECLINED), Status.FAILED, ResultStatus.CANCELLED),
    (Partial(error=DECLINED), Status.FAILED, ResultStatus.FAILED),
    (Uncertain(error=DECLINED), Status.OUTCOME_UNKNOWN, None),
    (Pending(), Status.OUTCOME_UNKNOWN, None),
]


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize(("outcome", "status", "result_status"), CANCELLED_ENDINGS)
def test_a_cancelled_attempt_shows_as_cancelled_only_where_nothing_was_applied(
    outcome: Outcome, status: Status, result_status: ResultStatus | None
) -> None:
    after = settle(record(), outcome, cancelled=True).record
    assert after.status is status
    assert (after.result.status if after.result else None) is result_status


# ── evidence of two effects ──────────────────────────────────────────────────────────────────────

NAMING_ANOTHER: list[Outcome] = [
    Applied(operation=OTHER_OPERATION),
    NotApplied(error=DECLINED, operation=OTHER_OPERATION),
    Partial(error=DECLINED, operation=OTHER_OPERATION),
    Failure(error=DECLINED, operation=OTHER_OPERATION),
    Uncertain(error=FLAGGED, operation=OTHER_OPERATION),
    Pending(operation=OTHER_OPERATION),
]


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize(("outcome", "status"), list(product(NAMING_ANOTHER, EFFECT)))
def test_an_answer_that_names_another_operation_settles_unknown_and_calls_a_person(
    outcome: Outcome, status: Status
) -> None:
    after = settle(record_in(status, provider_operation=OPERATION), outcome).record
    assert (after.status, after.verdict) == (Status.OUTCOME_UNKNOWN, None)
    assert after.provider_operation == OPERATION
    assert after.attention == TWO_EFFECTS
    (kept,) = after.evidence
    assert (kept.kind, kept.operation, kept.fence) == (TWO_EFFECTS, OTHER_OPERATION, FENCE)
    assert after.error is not None
    assert after.error.code == "transaction.provider_operation_conflict"


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize(("_name", "outcome", "_verdict"), KINDS)
def test_an_attempt_whose_checkpoint_was_in_conflict_settles_unknown_whatever_it_says(
    _name: str, outcome: Outcome, _verdict: Verdict | None
) -> None:
    """Even a handler that swallows the conflict and reports the recorded operation."""
    conflict = Evidence(kind=TWO_EFFECTS, at=NOW, fence=FENCE, operation=OTHER_OPERATION)
    before = record(provider_operation=OPERATION, evidence=(conflict,), attention=TWO_EFFECTS)
    after = settle(before, outcome).record
    assert after.status is Status.OUTCOME_UNKNOWN
    assert (after.attention, after.evidence) == (TWO_EFFECTS, (conflict,))


def test_the_same_operation_under_another_request_id_is_no_second_effect() -> None:
    again = replace(OPERATION, request_id="req_2")
    after = settle(record(provider_operation=OPERATION), Applied(operation=again)).record
    assert (after.status, after.provider_operation) == (Status.COMMITTED, OPERATION)


def test_an_effect_that_came_late_keeps_a_later_attempt_from_failing_without_effect() -> None:
    failures: tuple[Outcome, ...] = (NotApplied(error=DECLINED), Failure(error=DECLINED))
    for kind, outcome in product((LATE_APPLIED, LATE_PARTIAL), failures):
        after = settle(record(evidence=(late(kind),), attempts=2), outcome).record
        assert (after.status, after.verdict) == (Status.OUTCOME_UNKNOWN, None)
        assert not after.declared_not_applied
        assert after.error is not None
        assert after.error.code == "transaction.outcome_unknown"


def test_an_effect_that_came_late_beside_a_completed_attempt_calls_a_person() -> None:
    twice = settle(record(evidence=(late(LATE_APPLIED),)), Applied(operation=OPERATION)).record
    assert (twice.status, twice.attention) == (Status.COMMITTED, TWO_EFFECTS)
    once = settle(
        record(evidence=(late(LATE_APPLIED, OPERATION),)), Applied(operation=OPERATION)
    ).record
    assert (once.status, once.attention) == (Status.COMMITTED, None)


def test_a_call_for_a_person_because_of_two_effects_outlives_every_ending() -> None:
    bad = StoredOutput(invalid="output.not_storable")
    for _, outcome, _ in KINDS:
        assert settle(record(attention=TWO_EFFECTS), outcome, bad).record.attention == TWO_EFFECTS


# ── lease ends ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "ended", "latest"),
    [
        (None, None, None),
        (None, NOW, NOW),
        (NOW, None, None),
        (NOW, LATER, LATER),
        (LATER, NOW, LATER),
    ],
)
def test_the_last_lease_end_never_goes_back_and_is_unknown_when_one_is(
    before: datetime | None, ended: datetime | None, latest: datetime | None
) -> None:
    assert latest_lease_end(record(last_effect_lease_end=before), ended) == latest


def test_a_record_without_an_attempt_can_lose_its_outcome_too() -> None:
    reading = Reading(certainty=Certainty.UNCERTAIN)
    settled = settle_attempt(record(attempt=None), reading, NO_OUTPUT, LATER, lease_ended_at=None)
    assert settled.record.attempt is None
    assert settled.record.status is Status.OUTCOME_UNKNOWN


def test_a_settled_record_reads_back_as_it_was_written() -> None:
    for status, (_, outcome, _) in product(EFFECT, KINDS):
        after = settle(record_in(status), outcome, OUTPUT).record
        text = msgspec.json.encode(after)
        assert msgspec.json.decode(text, type=TransactionRecord) == after
        assert after_ms(after.updated_at, 0) == LATER
