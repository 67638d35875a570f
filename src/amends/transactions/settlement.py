"""How one attempt ended becomes how the record stands (TX-SETTLE-*).

An outcome is first read into one of four certainties; the table then says which event that is. An
uncertain ending never becomes a failure, and no attempt fails without effect while an earlier one
is known to have had one.
"""

from datetime import datetime
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.documents import Attempt, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.json_types import JsonText
from amends.contracts.times import after_ms
from amends.transactions.contradictions import (
    TWO_EFFECTS,
    conflict_in_this_attempt,
    effect_beside,
    keep_evidence,
    late_verdict,
    other_operation,
    same_operation,
    two_effects,
)
from amends.transactions.readings import (
    Certainty,
    Reading,
    bounded_delay,
    not_known,
    read_outcome,
)
from amends.transactions.table import Event, move

__all__ = [
    "NO_OUTPUT",
    "OUTPUT_ATTENTION",
    "TWO_EFFECTS",
    "Certainty",
    "Reading",
    "Settled",
    "StoredOutput",
    "completed_result",
    "keep_evidence",
    "latest_lease_end",
    "lose_outcome",
    "read_outcome",
    "refuse_second_operation",
    "same_operation",
    "settle_attempt",
    "settled_attention",
    "what_was_learnt",
]

OUTPUT_ATTENTION: Final = "output_invalid"


class StoredOutput(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An output as it will be stored: bytes or none, hash, and what is wrong with it."""

    output: JsonText | None = None
    output_hash: str | None = None
    redacted: bool = False
    invalid: str | None = None


NO_OUTPUT: Final = StoredOutput()


class Settled(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The record after the settlement, and the action's result where there is one now."""

    event: Event
    record: TransactionRecord
    result: ActionResult | None


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
    reading = _doubt(record, refuse_second_operation(record, reading))
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
    """Turn the answer of an attempt that named a second operation into an uncertain one.

    It may have named it in the answer or in a checkpoint; the stored one stays (TX-CHECKPOINT-2).
    """
    if other_operation(record, reading) is None and not conflict_in_this_attempt(record):
        return reading
    error = not_known("transaction.provider_operation_conflict")
    return replace(reading, certainty=Certainty.UNCERTAIN, error=error, declared=False)


def _doubt(record: TransactionRecord, reading: Reading) -> Reading:
    """An earlier attempt's late effect stands against this one's "nothing happened"."""
    if reading.certainty is not Certainty.NOT_APPLIED or late_verdict(record) is None:
        return reading
    error = not_known("transaction.outcome_unknown")
    return replace(reading, certainty=Certainty.UNCERTAIN, error=error, declared=False)


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
    operation = record.provider_operation or reading.operation
    twice = effect_beside(record, operation)
    moved = move(
        event,
        record,
        now,
        result=result,
        verdict=Verdict.COMMITTED,
        error=None,
        provider_operation=operation,
        cursor=reading.cursor or record.cursor,
        attempt=_ended(record.attempt, lease_ended_at),
        last_effect_lease_end=latest_lease_end(record, lease_ended_at),
        settled_at=now,
        attention=TWO_EFFECTS if twice else settled_attention(record, output),
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


def settled_attention(record: TransactionRecord, output: StoredOutput) -> str | None:
    """Why a person is needed although the ending is known: a second effect before all else."""
    if record.attention == TWO_EFFECTS:
        return TWO_EFFECTS
    return OUTPUT_ATTENTION if output.invalid else None


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
    result = replace(
        completed_result(output, now),
        status=ResultStatus.CANCELLED if stopped else ResultStatus.FAILED,
        error=reading.error,
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
        last_effect_lease_end=latest_lease_end(record, lease_ended_at),
        settled_at=now,
        attention=settled_attention(record, output),
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
    return move(
        event,
        record,
        now,
        error=reading.error,
        reconcile_after=after_ms(now, bounded_delay(reading.retry_after_ms)),
        last_effect_lease_end=latest_lease_end(record, lease_ended_at),
        **what_was_learnt(record, reading, now, lease_ended_at),
    )


def what_was_learnt(
    record: TransactionRecord, reading: Reading, now: datetime, lease_ended_at: datetime | None
) -> dict[str, object]:
    """What an attempt without a certain answer leaves for the next one, and for a person."""
    learnt: dict[str, object] = {
        "provider_operation": record.provider_operation or reading.operation,
        "cursor": reading.cursor or record.cursor,
        "attempt": _ended(record.attempt, lease_ended_at),
        "attention": record.attention or reading.attention,
    }
    other = other_operation(record, reading)
    if other is not None:
        learnt |= {"evidence": two_effects(record, other, now), "attention": TWO_EFFECTS}
    return learnt


def latest_lease_end(record: TransactionRecord, ended_at: datetime | None) -> datetime | None:
    """When the last attempt that may have had an effect is over; none where nobody can say."""
    before = record.last_effect_lease_end
    return max(before, ended_at) if before and ended_at else ended_at


def _ended(attempt: Attempt | None, lease_ended_at: datetime | None) -> Attempt | None:
    if attempt is None:
        return None
    return replace(attempt, lease_ended_at=lease_ended_at)
