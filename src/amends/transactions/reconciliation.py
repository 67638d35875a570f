"""Finding out what happened: admission, the way to ask, and what an answer proves (TX-RECON-*).

"Not found" is not proof of absence: it counts only when the provider voided our key, or when the
look-up began after everything that could still have been under way is provably dead.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability, RecoveryContract
from amends.contracts.documents import OperatorRuling, TransactionRecord
from amends.contracts.enums import Handler, Mode, ResultStatus, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import CapabilityId
from amends.contracts.outcomes import (
    ErrorInfo,
    NotFound,
    Outcome,
    Pending,
    ProviderOperation,
)
from amends.contracts.principals import SETTLE_SCOPE, Principal
from amends.contracts.times import after_ms, format_instant
from amends.transactions.contradictions import (
    LATE_NOT_APPLIED,
    TWO_EFFECTS,
    late_verdict,
    sole_attempt_tells,
)
from amends.transactions.readings import (
    Certainty,
    Reading,
    bounded_delay,
    not_known,
    read_outcome,
)
from amends.transactions.settlement import (
    Settled,
    StoredOutput,
    completed_result,
    latest_lease_end,
    refuse_second_operation,
    settled_attention,
    what_was_learnt,
)
from amends.transactions.table import Event, move

EXHAUSTED: Final = "reconcile_attempts_exhausted"
NO_REFERENCE: Final = "no_provider_reference"
STILL_UNKNOWN: Final = ErrorInfo(code="transaction.outcome_unknown")
_INSTANT: Final = timedelta(microseconds=1)
_ABSENT: Final = ErrorInfo(code="transaction.effect_absent")
_PARTLY_THERE: Final = ErrorInfo(code="transaction.effect_partial")


class Way(Enum):
    """How the provider is asked."""

    LOOK_UP = "look_up"
    REDRIVE = "redrive"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A reconciliation as requested. `insist` passes the earliest time; operators only."""

    capability_id: CapabilityId
    principal: Principal
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None
    insist: bool = False
    recovering: bool = False


def admit(
    ask: Ask, record: TransactionRecord, capability: Capability, now: datetime
) -> TransactionRecord:
    """The record to reconcile, with a supplied reference filled in where none is stored.

    Raises the code of the first condition of TX-RECON-1 that does not hold.
    """
    if record.status is not Status.OUTCOME_UNKNOWN:
        raise _refused("transaction.reconcile_state_invalid", record)
    if record.frozen is not None:
        raise _refused("transaction.frozen", record)
    if record.capability_id != ask.capability_id:
        raise _refused("transaction.execution_contract_mismatch", record)
    if not (ask.recovering or ask.principal.is_operator or ask.principal.ref == record.principal):
        raise _refused("transaction.reconcile_not_allowed", record)
    filled = _with_reference(ask, record)
    if way_to_ask(filled, capability, now) is None:
        raise _refused(_why_not(filled, capability), record)
    early = record.reconcile_after is not None and now < record.reconcile_after
    if early and not (ask.insist and ask.principal.is_operator):
        raise _refused("transaction.reconcile_not_due", record)
    return filled


def _with_reference(ask: Ask, record: TransactionRecord) -> TransactionRecord:
    """What is stored wins; what is not is taken from operators only: a wrong cursor may skip the
    very page on which the effect stands.
    """
    operation = record.provider_operation or ask.provider_operation
    cursor = record.cursor if record.cursor is not None else ask.cursor
    filled = replace(record, provider_operation=operation, cursor=cursor)
    if filled != record and not ask.principal.is_operator:
        raise _refused("transaction.provider_operation_not_accepted", record)
    return filled


def _refused(code: str, record: TransactionRecord) -> AmendsError:
    due = record.reconcile_after
    return coded(
        code,
        {
            "transaction_id": record.transaction_id,
            "status": record.status.value,
            "revision": record.revision,
            "reconcile_after": format_instant(due) if due else None,
            "search_from": format_instant(record.first_attempt_at or record.created_at),
            "search_until": format_instant(record.updated_at),
        },
    )


def _why_not(record: TransactionRecord, capability: Capability) -> str:
    known = record.provider_operation is not None or capability.execution.lookup_by_key
    if known and Handler.RECONCILE not in capability.handlers:
        return "transaction.reconcile_unsupported"
    return "transaction.provider_operation_required"


def way_to_ask(record: TransactionRecord, capability: Capability, now: datetime) -> Way | None:
    """How the provider can be asked now, or none where only a person can find out.

    A look-up comes first. A re-drive with the very same key is for records that cannot be looked
    up, or whose look-up found nothing, inside the provider's dedup window; never for compensations.
    """
    execution = capability.execution
    can_look = Handler.RECONCILE in capability.handlers and (
        record.provider_operation is not None or execution.lookup_by_key
    )
    can_redrive = redrive_is_safe(record, capability, now)
    if can_look and not (can_redrive and record.negative_lookup_at is not None):
        return Way.LOOK_UP
    if can_redrive:
        return Way.REDRIVE
    return Way.LOOK_UP if can_look else None


def redrive_is_safe(record: TransactionRecord, capability: Capability, now: datetime) -> bool:
    """Whether the whole re-drive, its time limit included, fits into the dedup window.

    A clock that went back does not open the window again.
    """
    until = redrive_until(record, capability)
    return until is not None and max(now, record.updated_at) < until


def redrive_until(record: TransactionRecord, capability: Capability) -> datetime | None:
    """The first instant at which a re-drive may not begin any more; none where it never may.

    Two operations under one key show that the provider does not deduplicate, whatever is declared.
    """
    window = capability.execution.provider_dedup_window_ms
    if window is None or record.mode is Mode.COMPENSATE or record.first_attempt_at is None:
        return None
    if record.attention == TWO_EFFECTS:
        return None
    last = after_ms(record.first_attempt_at, window - capability.service_level.timeout_ms)
    return last + _INSTANT


def absence_is_proven(
    record: TransactionRecord, capability: Capability, looked_from: datetime, *, voided: bool
) -> bool:
    """Whether a negative answer proves that nothing was applied (TX-RECON-3).

    Either the provider voided the key, or the look-up began after the last attempt's lease end +
    in-flight horizon + consistency delay. Without a declared horizon only voiding proves it.
    """
    if voided:
        return True
    return absence_horizon_passed(record, capability, looked_from)


def absence_horizon_passed(record: TransactionRecord, capability: Capability, at: datetime) -> bool:
    """Whether, at this time, no request of ours can still be under way or invisible."""
    horizon = capability.execution.in_flight_horizon_ms
    if horizon is None or record.last_effect_lease_end is None:
        return False
    wait = horizon + capability.execution.consistency_delay_ms
    return at > after_ms(record.last_effect_lease_end, wait)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the settlement of a reconciliation depends on beside the record.

    `looked_from` is when the look-up began; `jitter` is in [0, 1) and spreads the next one.
    """

    outcome: Outcome
    output: StoredOutput
    looked_from: datetime
    redrive: bool
    jitter: float
    now: datetime
    lease_ended_at: datetime | None


def settle_reconciliation(
    record: TransactionRecord, answered: Answered, capability: Capability
) -> Settled:
    """Settle a record in `reconciling`: a definite answer ends it, anything else keeps it open.

    Late answers that came during the look-up are examined here (TX-SETTLE-6).
    """
    reading = refuse_second_operation(record, read_outcome(answered.outcome))
    if isinstance(answered.outcome, NotFound) and not answered.redrive:
        reading = replace(reading, error=not_known("transaction.absence_not_proven"))
        record = replace(record, voided=True) if answered.outcome.voided else record
    verdict = _verdict(record, reading, answered, capability)
    if verdict is None:
        return _keep_open(record, reading, answered, capability.recovery)
    return _reconciled(record, verdict, reading, answered)


def _verdict(
    record: TransactionRecord, reading: Reading, answered: Answered, capability: Capability
) -> Verdict | None:
    if reading.certainty is Certainty.APPLIED:
        return Verdict.COMMITTED
    if reading.certainty is Certainty.PARTIAL:
        return Verdict.PARTIAL
    late = late_verdict(record)
    if late is not None:
        return late
    if record.attention == TWO_EFFECTS:
        return None
    if _late_absence(record, answered) or _found_not_applied(reading, answered):
        return Verdict.NOT_COMMITTED
    proven = _says_absent(reading, answered) and absence_is_proven(
        record, capability, answered.looked_from, voided=record.voided
    )
    return Verdict.NOT_COMMITTED if proven else None


def _late_absence(record: TransactionRecord, answered: Answered) -> bool:
    """The sole attempt said late that nothing happened, and the provider does not object."""
    told = any(kept.kind == LATE_NOT_APPLIED for kept in record.evidence)
    return told and sole_attempt_tells(record) and not isinstance(answered.outcome, Pending)


def _found_not_applied(reading: Reading, answered: Answered) -> bool:
    """A look-up found the very operation, and the provider had refused it."""
    return not answered.redrive and reading.declared and reading.operation is not None


def _says_absent(reading: Reading, answered: Answered) -> bool:
    """A look-up says so by name. A re-drive that failed speaks of its own call only, which may not
    even have reached the provider, unless it names the operation that was refused.
    """
    if answered.redrive:
        return reading.declared and reading.operation is not None
    return reading.declared or isinstance(answered.outcome, NotFound)


def _reconciled(
    record: TransactionRecord, verdict: Verdict, reading: Reading, answered: Answered
) -> Settled:
    result = reconciled_result(verdict, reading, answered.output, answered.now)
    moved = move(
        Event.RECONCILED,
        record,
        answered.now,
        result=result,
        verdict=verdict,
        error=result.error,
        provider_operation=record.provider_operation or reading.operation,
        cursor=reading.cursor or record.cursor,
        reconcile_after=None,
        settled_at=answered.now,
        attention=settled_attention(record, answered.output),
    )
    return Settled(event=Event.RECONCILED, record=moved, result=result)


def reconciled_result(
    verdict: Verdict, reading: Reading, output: StoredOutput, now: datetime
) -> ActionResult:
    """The result that finding out gives: the effect's own, or the failure that it turned out to be.

    An error that only said "unknown" is replaced, since the outcome is known now.
    """
    completed = completed_result(output, now)
    if verdict is Verdict.COMMITTED:
        return completed
    error = reading.error if reading.certainty is not Certainty.UNCERTAIN else _known_now(verdict)
    return replace(completed, status=ResultStatus.FAILED, error=error)


def _known_now(verdict: Verdict) -> ErrorInfo:
    return _ABSENT if verdict is Verdict.NOT_COMMITTED else _PARTLY_THERE


def _keep_open(
    record: TransactionRecord, reading: Reading, answered: Answered, recovery: RecoveryContract
) -> Settled:
    due = after_ms(answered.now, next_delay_ms(record, recovery, reading, answered.jitter))
    open_again = reopen_unknown(
        Event.RECONCILIATION_OPEN, record, reading, answered.now, due, answered.lease_ended_at
    )
    if _says_absent(reading, answered):
        open_again = replace(open_again, negative_lookup_at=answered.looked_from)
    result = ActionResult(
        status=ResultStatus.FAILED, error=reading.error or STILL_UNKNOWN, completed_at=answered.now
    )
    return Settled(
        event=Event.RECONCILIATION_OPEN,
        record=escalate_exhausted(open_again, recovery),
        result=result,
    )


def escalate_exhausted(record: TransactionRecord, recovery: RecoveryContract) -> TransactionRecord:
    """The unknown record with a call for a person, once it was looked up often enough."""
    if record.reconcile_attempts < recovery.max_attempts or record.attention is not None:
        return record
    return replace(record, attention=EXHAUSTED)


def reopen_unknown(
    event: Event,
    record: TransactionRecord,
    reading: Reading,
    now: datetime,
    due: datetime,
    lease_ended_at: datetime | None,
) -> TransactionRecord:
    """Back from `reconciling` to unknown, keeping what was learnt on the way.

    A re-drive may itself have reached the provider, so its lease end counts for the horizon.
    """
    redrive = record.attempt is not None and record.attempt.redrive
    before = record.last_effect_lease_end
    return move(
        event,
        record,
        now,
        error=reading.error or record.error,
        reconcile_after=due,
        last_effect_lease_end=latest_lease_end(record, lease_ended_at) if redrive else before,
        **what_was_learnt(record, reading, now, lease_ended_at),
    )


def next_delay_ms(
    record: TransactionRecord, recovery: RecoveryContract, reading: Reading, jitter: float
) -> int:
    """Exponential back-off with full jitter on its upper half, never before the provider's word."""
    doubled = recovery.initial_delay_ms * 2 ** min(record.reconcile_attempts, 30)
    backoff = min(doubled, recovery.max_delay_ms)
    spread = int(backoff * (0.5 + jitter / 2))
    if reading.retry_after_ms is None:
        return spread
    return max(spread, bounded_delay(reading.retry_after_ms))


def settle_by_hand(
    record: TransactionRecord,
    ruling: OperatorRuling,
    capability: Capability,
    operator: Principal,
    *,
    seen_revision: int,
) -> Settled:
    """An operator's word on an unknown outcome, by revision and with evidence (TX-RECON-5)."""
    _check_ruling(record, ruling, capability, operator, seen_revision)
    status = ResultStatus.COMPLETED if ruling.verdict is Verdict.COMMITTED else ResultStatus.FAILED
    error = None if ruling.verdict is Verdict.COMMITTED else _known_now(ruling.verdict)
    result = ActionResult(status=status, error=error, completed_at=ruling.at)
    moved = move(
        Event.SETTLED_BY_HAND,
        record,
        ruling.at,
        result=result,
        verdict=ruling.verdict,
        error=error,
        ruling=ruling,
        reconcile_after=None,
        settled_at=ruling.at,
        attention=None,
        frozen=None,
    )
    return Settled(event=Event.SETTLED_BY_HAND, record=moved, result=result)


def _check_ruling(
    record: TransactionRecord,
    ruling: OperatorRuling,
    capability: Capability,
    operator: Principal,
    seen_revision: int,
) -> None:
    if not operator.may(SETTLE_SCOPE):
        raise _refused("transaction.settle_not_allowed", record)
    if record.status is not Status.OUTCOME_UNKNOWN:
        raise _refused("transaction.settle_state_invalid", record)
    if record.revision != seen_revision:
        raise _refused("transaction.revision_conflict", record)
    if not ruling.reference.strip() or not ruling.note.strip():
        raise _refused("transaction.settle_evidence_required", record)
    early = ruling.verdict is Verdict.NOT_COMMITTED and not absence_is_proven(
        record, capability, ruling.at, voided=record.voided
    )
    if early and not ruling.risk_accepted:
        raise _refused("transaction.settle_risk_not_accepted", record)
