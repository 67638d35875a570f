"""The transition table: every event, from which statuses, to which status, by which rule.

The table is the whole truth about statuses (TX-REV-1): whatever it has no row for is refused, and
a refused change leaves the record as it was. `docs/spec` prints it and draws it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Status
from amends.contracts.errors import AmendsError
from amends.transactions.coherence import check_coherent


class Event(StrEnum):
    """What happens to a record."""

    DRY_RUN_STORED = "dry_run_stored"
    ROLLBACK_ANSWERED = "rollback_answered"
    PLAN_STORED = "plan_stored"
    PLAN_REJECTED = "plan_rejected"
    PLAN_EXPIRED = "plan_expired"
    PLAN_WITHDRAWN = "plan_withdrawn"
    EXECUTION_PREPARED = "execution_prepared"
    EXECUTION_RESUMED = "execution_resumed"
    EXECUTION_REOPENED = "execution_reopened"
    DIRECT_COMMIT_CLAIMED = "direct_commit_claimed"
    PLAN_CLAIMED = "plan_claimed"
    COMPENSATION_CLAIMED = "compensation_claimed"
    CHECKPOINTED = "checkpointed"
    REFERENCE_FILLED = "reference_filled"
    COMPLETED = "completed"
    COMPENSATION_COMPLETED = "compensation_completed"
    FAILED = "failed"
    OUTCOME_LOST = "outcome_lost"
    LEASE_LAPSED = "lease_lapsed"
    RECONCILIATION_STARTED = "reconciliation_started"
    RECONCILED = "reconciled"
    RECONCILIATION_OPEN = "reconciliation_open"
    LATE_ANSWER = "late_answer"
    EVIDENCE_KEPT = "evidence_kept"
    REFERENCE_SUPPLIED = "reference_supplied"
    ESCALATED = "escalated"
    SETTLED_BY_HAND = "settled_by_hand"
    FROZEN = "frozen"
    RELEASED = "released"


class Row(NamedTuple):
    """One row. `before` None: the record must not exist. `after` None: the status stays."""

    event: Event
    before: frozenset[Status] | None
    after: Status | None
    rule: str


def _on(*statuses: Status) -> frozenset[Status]:
    return frozenset(statuses)


_EFFECT: Final = _on(Status.PREPARED, Status.COMMITTING, Status.COMPENSATING)
_ATTEMPT: Final = _EFFECT | {Status.RECONCILING}
_OPEN: Final = _ATTEMPT | {Status.PLANNED, Status.OUTCOME_UNKNOWN}

TABLE: Final[tuple[Row, ...]] = (
    Row(Event.DRY_RUN_STORED, None, Status.DRY_RUN_COMPLETED, "TX-DRY-1"),
    Row(Event.ROLLBACK_ANSWERED, None, Status.ROLLBACK_NOT_SUPPORTED, "TX-ROLLBACK-1"),
    Row(Event.PLAN_STORED, None, Status.PLANNED, "TX-PLAN-1"),
    Row(Event.PLAN_REJECTED, None, Status.FAILED, "TX-PLAN-4"),
    Row(Event.PLAN_EXPIRED, _on(Status.PLANNED), Status.FAILED, "TX-PLAN-6"),
    Row(Event.PLAN_WITHDRAWN, _on(Status.PLANNED), Status.FAILED, "TX-CANCEL-2"),
    Row(Event.EXECUTION_PREPARED, None, Status.PREPARED, "TX-EXEC-1"),
    Row(Event.EXECUTION_RESUMED, _on(Status.PREPARED), Status.PREPARED, "TX-EXEC-1"),
    Row(Event.EXECUTION_REOPENED, _on(Status.FAILED), Status.PREPARED, "TX-EXEC-1"),
    Row(Event.DIRECT_COMMIT_CLAIMED, None, Status.COMMITTING, "TX-PIPE-1"),
    Row(Event.PLAN_CLAIMED, _on(Status.PLANNED), Status.COMMITTING, "TX-CLAIM-1"),
    Row(Event.COMPENSATION_CLAIMED, None, Status.COMPENSATING, "TX-COMP-3"),
    Row(Event.CHECKPOINTED, _ATTEMPT, None, "TX-CHECKPOINT-1"),
    Row(Event.REFERENCE_FILLED, _on(Status.OUTCOME_UNKNOWN), None, "TX-CHECKPOINT-2"),
    Row(Event.COMPLETED, _on(Status.PREPARED, Status.COMMITTING), Status.COMMITTED, "TX-SETTLE-1"),
    Row(Event.COMPENSATION_COMPLETED, _on(Status.COMPENSATING), Status.COMPENSATED, "TX-COMP-5"),
    Row(Event.FAILED, _EFFECT, Status.FAILED, "TX-SETTLE-3"),
    Row(Event.OUTCOME_LOST, _EFFECT, Status.OUTCOME_UNKNOWN, "TX-SETTLE-2"),
    Row(Event.LEASE_LAPSED, _ATTEMPT, Status.OUTCOME_UNKNOWN, "TX-LEASE-2"),
    Row(
        Event.RECONCILIATION_STARTED,
        _on(Status.OUTCOME_UNKNOWN),
        Status.RECONCILING,
        "TX-RECON-2",
    ),
    Row(Event.RECONCILED, _on(Status.RECONCILING), Status.RECONCILED, "TX-RECON-2"),
    Row(
        Event.RECONCILIATION_OPEN,
        _on(Status.RECONCILING),
        Status.OUTCOME_UNKNOWN,
        "TX-RECON-2",
    ),
    Row(Event.LATE_ANSWER, _on(Status.OUTCOME_UNKNOWN), Status.RECONCILED, "TX-SETTLE-6"),
    Row(Event.EVIDENCE_KEPT, _ATTEMPT | {Status.OUTCOME_UNKNOWN}, None, "TX-SETTLE-6"),
    Row(Event.REFERENCE_SUPPLIED, _on(Status.OUTCOME_UNKNOWN), None, "TX-RECON-1"),
    Row(Event.ESCALATED, _on(Status.OUTCOME_UNKNOWN), None, "TX-RECON-4"),
    Row(Event.SETTLED_BY_HAND, _on(Status.OUTCOME_UNKNOWN), Status.RECONCILED, "TX-RECON-5"),
    Row(Event.FROZEN, _OPEN | {Status.FAILED}, None, "TX-LEASE-3"),
    Row(Event.RELEASED, _OPEN | {Status.FAILED}, None, "TX-LEASE-3"),
)

_BY_EVENT: Final = {row.event: row for row in TABLE}
_UNSETTLED: Final = IN_FLIGHT | {Status.OUTCOME_UNKNOWN}


def row_of(event: Event) -> Row:
    """The one row of an event."""
    return _BY_EVENT[event]


def admits(event: Event, status: Status | None) -> bool:
    """Whether the table has a row for this event in this status (None: no record yet)."""
    before = _BY_EVENT[event].before
    return status is None if before is None else status in before


def begin(event: Event, record: TransactionRecord, **changes: object) -> TransactionRecord:
    """A new record in the status that its creating event leads to, with what else it brings.

    Raises `Conflict` (`transaction.transition_refused`) for an event that does not create.
    """
    row = _BY_EVENT[event]
    if row.before is not None or row.after is None:
        raise _refused(event, None)
    return replace(record, status=row.after, revision=1, **changes)


def move(
    event: Event, record: TransactionRecord, now: datetime, **changes: object
) -> TransactionRecord:
    """The record after an event, one revision later, with the changes that come with it.

    A record that enters a status in which the outcome is open loses what an earlier settlement (or
    its plan) left: result, verdict and `settled_at` speak of a known ending only. A clock that went
    back neither updates nor settles a record before what it went through already.

    Raises `Conflict` (`transaction.transition_refused`) where the table has no row, and `Corrupt`
    (`transaction.record_contradictory`) for a record that contradicts itself.
    """
    row = _BY_EVENT[event]
    if row.before is None or record.status not in row.before:
        raise _refused(event, record.status)
    check_coherent(record)
    if row.after in _UNSETTLED:
        changes = {"result": None, "verdict": None, "settled_at": None, **changes}
    updated_at = max(now, record.updated_at)
    if changes.get("settled_at") is not None:
        changes["settled_at"] = updated_at
    return replace(
        record,
        status=row.after or record.status,
        revision=record.revision + 1,
        updated_at=updated_at,
        **changes,
    )


def _refused(event: Event, status: Status | None) -> AmendsError:
    return coded("transaction.transition_refused", {"event": event, "status": status})
