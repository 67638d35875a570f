"""Cancelling an action and withdrawing a plan (TX-CANCEL-*).

Before the claim, cancelling and claiming compare and set the same document, so exactly one wins.
After it, cancelling is a request that changes nothing about what may have happened.
"""

from datetime import datetime
from enum import Enum

import msgspec

from amends.contracts.actions import ActionResult
from amends.contracts.codes import coded
from amends.contracts.documents import ActionDocument, Cancellation, TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import Principal, PrincipalRef
from amends.transactions.table import Event, move


class Cancelling(Enum):
    """What asking for cancellation comes to."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    ALREADY_ENDED = "already_ended"


def cancel(
    action: ActionDocument, by: Principal, reason: str, now: datetime
) -> tuple[Cancelling, ActionDocument]:
    """The action's document after somebody asked to cancel it.

    Raises `Refused` (`action.cancel_not_allowed`) for anybody but its requester or an operator.
    """
    if by.ref != action.principal and not by.is_operator:
        raise coded("action.cancel_not_allowed", {"action_id": action.action_id})
    if action.result is not None:
        return Cancelling.ALREADY_ENDED, action
    if action.attempted:
        if action.cancellation is not None:
            return Cancelling.REQUESTED, action
        return Cancelling.REQUESTED, _marked(action, by.ref, reason, now)
    result = ActionResult(status=ResultStatus.CANCELLED, completed_at=now)
    marked = _marked(action, by.ref, reason, now)
    return Cancelling.CANCELLED, msgspec.structs.replace(marked, result=result, settled_at=now)


def _marked(action: ActionDocument, by: PrincipalRef, reason: str, now: datetime) -> ActionDocument:
    return msgspec.structs.replace(
        action,
        revision=action.revision + 1,
        updated_at=max(now, action.updated_at),
        cancellation=Cancellation(by=by, at=now, reason=reason),
    )


def check_not_cancelled(action: ActionDocument) -> None:
    """Raise `action.cancelled` for an action that was cancelled before its claim."""
    if action.cancellation is not None and not action.attempted:
        raise coded("action.cancelled", {"action_id": action.action_id})


def withdraw(record: TransactionRecord, by: Principal, now: datetime) -> TransactionRecord:
    """The record of a plan that its requester or an operator withdrew (TX-CANCEL-2).

    Raises `transaction.withdraw_not_allowed` or `transaction.withdraw_state_invalid`.
    """
    if by.ref != record.principal and not by.is_operator:
        raise coded("transaction.withdraw_not_allowed", {"transaction_id": record.transaction_id})
    if record.status is not Status.PLANNED:
        raise coded("transaction.withdraw_state_invalid", {"status": record.status.value})
    return end_plan(
        Event.PLAN_WITHDRAWN, record, now, "transaction.plan_withdrawn", ResultStatus.CANCELLED
    )


def expire_plan(record: TransactionRecord, now: datetime) -> TransactionRecord:
    """The record of a plan whose time has passed (TX-PLAN-6)."""
    return end_plan(
        Event.PLAN_EXPIRED, record, now, "transaction.plan_expired", ResultStatus.FAILED
    )


def end_plan(
    event: Event, record: TransactionRecord, now: datetime, code: str, status: ResultStatus
) -> TransactionRecord:
    """A plan that ends without a claim: failed, and certainly nothing happened.

    Of a frozen plan that is not certain: it may have been claimed in a store that was lost.
    """
    if record.frozen is not None:
        raise coded("transaction.frozen", {"transaction_id": record.transaction_id})
    error = ErrorInfo(code=code)
    return move(
        event,
        record,
        now,
        error=error,
        verdict=Verdict.NOT_COMMITTED,
        result=ActionResult(status=status, error=error, completed_at=now),
        settled_at=now,
    )
