"""How one attempt ended becomes how the record stands (TX-SETTLE-*).

An outcome is first *read* into one of four certainties; the table then says which event that is.
Everything not declared definite is uncertain, and an uncertain ending never becomes a failure.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from amends.contracts import limits
from amends.contracts.actions import ActionResult
from amends.contracts.documents import Attempt, Evidence, TransactionRecord
from amends.contracts.enums import ErrorCategory, ResultStatus, Status, Verdict
from amends.contracts.ids import Fence, ProviderOperationId
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
from amends.transactions.table import Event, move

TIMEOUT_CODE: Final = "sla.timeout_exceeded"
TWO_EFFECTS: Final = "two_provider_operations"
OUTPUT_ATTENTION: Final = "output_invalid"


class Certainty(StrEnum):
    """What an outcome says of the effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    PARTIAL = "partial"
    UNCERTAIN = "uncertain"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome in the four terms that rules know.

    `declared` is true where a connector said in so many words that nothing was applied, rather than
    returning a failure that merely does not say otherwise.
    """

    certainty: Certainty
    error: ErrorInfo | None = None
    operation: ProviderOperation | None = None
    cursor: str | None = None
    retry_after_ms: int | None = None
    declared: bool = False


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output as it will be stored: bytes or none, hash, and what is wrong with it."""

    output: msgspec.Raw | None = None
    output_hash: str | None = None
    redacted: bool = False
    invalid: str | None = None


NO_OUTPUT: Final = StoredOutput()


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The record after the settlement, and the action's result where there is one now."""

    event: Event
    record: TransactionRecord
    result: ActionResult | None


def read_outcome(outcome: Outcome) -> Reading:
    """Read what a connector reported about an attempt that may have an effect."""
    match outcome:
        case Applied():
            return Reading(certainty=Certainty.APPLIED, operation=outcome.operation)
        case NotApplied():
            return Reading(
                certainty=Certainty.NOT_APPLIED,
                error=outcome.error,
                operation=outcome.operation,
                declared=True,
            )
        case Partial():
            return Reading(
                certainty=Certainty.PARTIAL, error=outcome.error, operation=outcome.operation
            )
        case Failure():
            return _read_failure(outcome)
        case Uncertain():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=outcome.error,
                operation=outcome.operation or named_operation(outcome.error),
                cursor=outcome.cursor,
                retry_after_ms=outcome.retry_after_ms,
            )
        case Pending():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=_unknown("transaction.outcome_unknown"),
                operation=outcome.operation,
                cursor=outcome.cursor,
                retry_after_ms=outcome.retry_after_ms,
            )
        case NotFound():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=_unknown("transaction.provider_answer_invalid"),
                cursor=outcome.cursor,
            )
        case _:
            assert_never(outcome)


def _read_failure(failure: Failure) -> Reading:
    error = failure.error
    certainty = Certainty.NOT_APPLIED
    if error.code == TIMEOUT_CODE or error.details.get("uncertain_outcome") is True:
        certainty = Certainty.UNCERTAIN
    elif error.details.get("side_effects_committed") is True:
        certainty = Certainty.PARTIAL
    return Reading(
        certainty=certainty,
        error=error,
        operation=failure.operation or named_operation(error),
        cursor=failure.cursor,
        retry_after_ms=_retry_after(error),
    )


def _retry_after(error: ErrorInfo) -> int | None:
    value = error.details.get("retry_after_ms")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def named_operation(error: ErrorInfo) -> ProviderOperation | None:
    """A provider operation that a connector named only in its error details."""
    named = error.details.get("provider_operation")
    if not isinstance(named, dict):
        return None
    provider, operation_id = named.get("provider"), named.get("operation_id")
    if not (isinstance(provider, str) and isinstance(operation_id, str)):
        return None
    if not provider or not operation_id or len(operation_id) > limits.PROVIDER_OPERATION_LENGTH:
        return None
    return ProviderOperation(provider, ProviderOperationId(operation_id))


def _unknown(code: str) -> ErrorInfo:
    return ErrorInfo(code=code, category=ErrorCategory.CONNECTOR)


def settle_attempt(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    now: datetime,
    *,
    lease_ended_at: datetime | None,
    cancelled: bool = False,
) -> Settled:
    """Settle the effect attempt that this record is in (prepared, committing, compensating).

    `lease_ended_at` is the end of the attempt's lease by the store's clock; `cancelled` says that
    cancelling was asked for, so that a certain absence shows as cancelled.
    """
    reading = refuse_second_operation(record, reading)
    match reading.certainty:
        case Certainty.APPLIED:
            return _completed(record, reading, output, now, lease_ended_at)
        case Certainty.NOT_APPLIED | Certainty.PARTIAL:
            return _failed(record, reading, output, now, lease_ended_at, cancelled=cancelled)
        case Certainty.UNCERTAIN:
            return _lost(record, reading, now, lease_ended_at)
        case _:
            assert_never(reading.certainty)


def refuse_second_operation(record: TransactionRecord, reading: Reading) -> Reading:
    """Turn an answer that names another operation than the recorded one into an uncertain one.

    Two different ids are evidence of two effects (TX-CHECKPOINT-2); the stored one stays.
    """
    known = record.provider_operation
    if known is None or reading.operation is None or same_operation(known, reading.operation):
        return reading
    error = _unknown("transaction.provider_operation_conflict")
    return Reading(certainty=Certainty.UNCERTAIN, error=error, operation=reading.operation)


def same_operation(one: ProviderOperation, other: ProviderOperation) -> bool:
    """Whether two references name the same thing; request ids may differ from call to call."""
    return (one.provider, one.operation_id) == (other.provider, other.operation_id)


def _completed(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    now: datetime,
    lease_ended_at: datetime | None,
) -> Settled:
    compensating = record.status is Status.COMPENSATING
    event = Event.COMPENSATION_COMPLETED if compensating else Event.COMPLETED
    result = completed_result(output, now)
    moved = move(
        event,
        record,
        now,
        result=result,
        verdict=Verdict.COMMITTED,
        error=None,
        provider_operation=record.provider_operation or reading.operation,
        cursor=reading.cursor or record.cursor,
        attempt=_ended(record.attempt, lease_ended_at),
        last_effect_lease_end=lease_ended_at,
        settled_at=now,
        attention=OUTPUT_ATTENTION if output.invalid else record.attention,
    )
    return Settled(event=event, record=moved, result=result)


def completed_result(output: StoredOutput, now: datetime) -> ActionResult:
    """The result of an effect that is there, with an output that may not be (TX-SETTLE-5)."""
    return ActionResult(
        status=ResultStatus.COMPLETED,
        output=output.output,
        output_hash=output.output_hash,
        output_redacted=output.redacted,
        output_invalid=output.invalid,
        completed_at=now,
    )


def _failed(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    now: datetime,
    lease_ended_at: datetime | None,
    *,
    cancelled: bool,
) -> Settled:
    partial = reading.certainty is Certainty.PARTIAL
    stopped = cancelled and not partial
    result = ActionResult(
        status=ResultStatus.CANCELLED if stopped else ResultStatus.FAILED,
        output=output.output,
        output_hash=output.output_hash,
        output_redacted=output.redacted,
        error=reading.error,
        completed_at=now,
    )
    moved = move(
        Event.FAILED,
        record,
        now,
        result=result,
        verdict=Verdict.PARTIAL if partial else Verdict.NOT_COMMITTED,
        declared_not_applied=reading.declared,
        error=reading.error,
        provider_operation=record.provider_operation or reading.operation,
        cursor=reading.cursor or record.cursor,
        attempt=_ended(record.attempt, lease_ended_at),
        last_effect_lease_end=lease_ended_at,
        settled_at=now,
    )
    return Settled(event=Event.FAILED, record=moved, result=result)


def _lost(
    record: TransactionRecord,
    reading: Reading,
    now: datetime,
    lease_ended_at: datetime | None,
) -> Settled:
    moved = lose_outcome(Event.OUTCOME_LOST, record, reading, now, lease_ended_at)
    return Settled(event=Event.OUTCOME_LOST, record=moved, result=None)


def lose_outcome(
    event: Event,
    record: TransactionRecord,
    reading: Reading,
    now: datetime,
    lease_ended_at: datetime | None,
) -> TransactionRecord:
    """The record of an attempt whose outcome nobody knows, with all that helps to find out."""
    conflict = _conflicting(record, reading)
    evidence = _remember(record, now, conflict) if conflict else record.evidence
    return move(
        event,
        record,
        now,
        error=reading.error,
        provider_operation=record.provider_operation or reading.operation,
        cursor=reading.cursor or record.cursor,
        reconcile_after=after_ms(now, bounded_delay(reading.retry_after_ms)),
        attempt=_ended(record.attempt, lease_ended_at),
        last_effect_lease_end=lease_ended_at,
        evidence=evidence,
        attention=TWO_EFFECTS if conflict else record.attention,
    )


def _conflicting(record: TransactionRecord, reading: Reading) -> ProviderOperation | None:
    known, named = record.provider_operation, reading.operation
    if known is None or named is None or same_operation(known, named):
        return None
    return named


def _remember(
    record: TransactionRecord, now: datetime, operation: ProviderOperation
) -> tuple[Evidence, ...]:
    fence: Fence | None = record.attempt.fence if record.attempt else None
    seen = Evidence(kind=TWO_EFFECTS, at=now, fence=fence, operation=operation)
    return keep_evidence(record.evidence, seen)


def keep_evidence(kept: tuple[Evidence, ...], new: Evidence) -> tuple[Evidence, ...]:
    """Evidence with one more entry, bounded; the oldest stay, since they began the story."""
    return (*kept[: limits.EVIDENCE_ENTRIES - 1], new)


def bounded_delay(retry_after_ms: int | None) -> int:
    """A look-up delay in milliseconds: five seconds unless the provider says otherwise, bounded."""
    if retry_after_ms is None:
        return limits.RETRY_AFTER_MS
    return min(max(retry_after_ms, 0), limits.RETRY_AFTER_MAX_MS)


def _ended(attempt: Attempt | None, lease_ended_at: datetime | None) -> Attempt | None:
    if attempt is None:
        return None
    return msgspec.structs.replace(attempt, lease_ended_at=lease_ended_at)
