"""Leases of attempts, due times, and the freeze after a restore or failover (TX-LEASE-*).

A lapsed lease frees the *recovery* of a record, never a new attempt: a written attempt may have
been sent, so its outcome is unknown.
"""

from datetime import datetime
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.declarations import RecoveryContract
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.limits import LEASE_GRACE_MS
from amends.contracts.times import after_ms
from amends.transactions.readings import Certainty, Reading, not_known
from amends.transactions.reconciliation import (
    escalate_exhausted,
    next_delay_ms,
    reopen_unknown,
)
from amends.transactions.replay import reopenable
from amends.transactions.settlement import lose_outcome
from amends.transactions.table import Event, admits, move

ABANDONED: Final = "transaction.attempt_abandoned"


def lease_ms(timeout_ms: int, grace_ms: int = LEASE_GRACE_MS) -> int:
    """How long an attempt owns its record: its time limit and a grace to settle (TX-LEASE-1)."""
    return timeout_ms + grace_ms


def lapse(
    record: TransactionRecord,
    now: datetime,
    lease_ended_at: datetime,
    recovery: RecoveryContract = RecoveryContract(),
) -> TransactionRecord:
    """The record of an attempt that outlived its lease: unknown, to be looked up (TX-LEASE-2).

    A look-up that lapses counts like one that found nothing: the next waits, and the last calls a
    person, so that a handler that brings its process down is not entered for ever.
    """
    reading = Reading(certainty=Certainty.UNCERTAIN, error=not_known(ABANDONED))
    if record.status is Status.RECONCILING:
        due = after_ms(now, next_delay_ms(record, recovery, reading, jitter=1.0))
        open_again = reopen_unknown(Event.LEASE_LAPSED, record, reading, now, due, lease_ended_at)
        return escalate_exhausted(open_again, recovery)
    return lose_outcome(Event.LEASE_LAPSED, record, reading, now, lease_ended_at)


def holds_lease(record: TransactionRecord) -> bool:
    """Whether an attempt of this record may be running."""
    return (
        admits(Event.LEASE_LAPSED, record.status)
        and record.attempt is not None
        and record.frozen is None
    )


def due_at(record: TransactionRecord) -> datetime | None:
    """When recovery has to look at a record that holds no lease; none: never by itself."""
    if record.frozen is not None:
        return None
    if record.status is Status.PLANNED and record.plan is not None:
        return record.plan.expires_at
    if record.status is Status.OUTCOME_UNKNOWN and record.attention is None:
        return record.reconcile_after
    return None


def freeze(record: TransactionRecord, now: datetime, reason: str) -> TransactionRecord | None:
    """The record frozen, or none where it can never move again (TX-LEASE-3)."""
    settled_failure = record.status is Status.FAILED and not reopenable(record)
    if record.frozen is not None or settled_failure or not admits(Event.FROZEN, record.status):
        return None
    return move(Event.FROZEN, record, now, frozen=reason)


def release(record: TransactionRecord, now: datetime) -> TransactionRecord:
    """The record released by an operator; an attempt it still carries is due to lapse at once.

    Raises `Conflict` (`transaction.not_frozen`).
    """
    if record.frozen is None:
        raise coded("transaction.not_frozen", {"transaction_id": record.transaction_id})
    return move(Event.RELEASED, record, now, frozen=None)
