"""What happens when something that was asked before is asked again.

Two gates: a known *action* id (TX-ACT-1) and, for `execute`, a known *transaction* id (TX-EXEC-1).
Neither ever lets a caller's retry reach the provider while the outcome is open (TX-EXEC-2).
"""

from enum import Enum

import msgspec

from amends.contracts.actions import TransactionContext
from amends.contracts.codes import coded
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Mode, ResultStatus, RetrySafety, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import ActionId, CapabilityId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.principals import Identity, PrincipalRef
from amends.contracts.times import format_instant

TERMINAL = frozenset(
    {
        Status.COMMITTED,
        Status.COMPENSATED,
        Status.RECONCILED,
        Status.FAILED,
        Status.DRY_RUN_COMPLETED,
        Status.ROLLBACK_NOT_SUPPORTED,
    }
)
_SAFE = frozenset({RetrySafety.SAFE, RetrySafety.SAFE_WITH_IDEMPOTENCY_KEY})


class Answer(Enum):
    """How the pipeline goes on."""

    GO_ON = "go_on"
    REOPEN = "reopen"
    RETURN_STORED = "return_stored"
    LAPSED = "lapsed"


class AskedAgain(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The request as it came, to be compared with what is stored."""

    action_id: ActionId
    capability_id: CapabilityId
    context: TransactionContext
    principal: PrincipalRef
    identity: Identity | None
    input_hash: str
    idempotency_key: str | None


def check_same_action(asked: AskedAgain, known: ActionDocument) -> None:
    """Raise `action.id_conflict` unless the request is the one this action id stands for.

    A transaction or plan id that the first request left to Amends may be left out again. Only a
    reconciliation may come under its target's action id.
    """
    same = (
        asked.capability_id == known.capability_id
        and asked.principal == known.principal
        and asked.identity == known.identity
        and asked.input_hash == known.input_hash
        and _same_context(asked.context, known.context)
    )
    if not same:
        raise coded("action.id_conflict", {"action_id": known.action_id})


def _same_context(asked: TransactionContext, stored: TransactionContext) -> bool:
    return (
        asked.mode is stored.mode
        and asked.transaction_id in (None, stored.transaction_id)
        and asked.compensation_for == stored.compensation_for
        and (asked.plan_id == stored.plan_id or (asked.plan_id is None and asked.mode is Mode.PLAN))
    )


def belongs_to(action: ActionDocument, record: TransactionRecord) -> bool:
    """Whether this action made the record, planned it, or claimed it; naming it is not enough."""
    planned_by = record.plan.action_id if record.plan else None
    return action.action_id in (record.action_id, planned_by)


def reenter_claimed(record: TransactionRecord, *, lapsed: bool) -> Answer:
    """A commit or compensation that already made its claim comes again (TX-ACT-1).

    Raises `transaction.in_progress` or `transaction.reconciliation_required`.
    """
    if record.status in TERMINAL:
        return Answer.RETURN_STORED
    if record.status in (Status.OUTCOME_UNKNOWN, Status.RECONCILING):
        raise reconciliation_required(record)
    _check_not_frozen(record)
    if lapsed:
        return Answer.LAPSED
    raise coded("transaction.in_progress", _where(record))


def replay_execution(
    asked: AskedAgain, record: TransactionRecord, *, lapsed: bool, safety: RetrySafety
) -> Answer:
    """Execute's own replay gate over an existing record (TX-EXEC-1, TX-EXEC-2).

    `lapsed` says whether the record's attempt has outlived its lease, by the store's clock.
    """
    _check_contract(asked, record)
    match record.status:
        case Status.PREPARED:
            return _prepared(record, lapsed=lapsed)
        case Status.COMMITTED:
            return Answer.RETURN_STORED
        case Status.FAILED:
            return _failed(asked, record, safety)
        case Status.COMMITTING | Status.OUTCOME_UNKNOWN | Status.RECONCILING:
            raise reconciliation_required(record)
        case _:
            raise coded("transaction.execute_state_invalid", _where(record))


def _check_contract(asked: AskedAgain, record: TransactionRecord) -> None:
    same = (
        asked.action_id == record.action_id
        and asked.capability_id == record.capability_id
        and asked.principal == record.principal
        and asked.identity == record.identity
        and asked.input_hash == record.input_hash
        and _same_context(asked.context, record.context)
    )
    if not same:
        raise coded("transaction.execution_contract_mismatch", _where(record))


def _check_not_frozen(record: TransactionRecord) -> None:
    if record.frozen is not None:
        raise coded("transaction.frozen", _where(record) | {"frozen": record.frozen})


def _prepared(record: TransactionRecord, *, lapsed: bool) -> Answer:
    _check_not_frozen(record)
    if record.attempt is None:
        return Answer.GO_ON
    if lapsed:
        return Answer.LAPSED
    raise coded("transaction.in_progress", _where(record))


def _failed(asked: AskedAgain, record: TransactionRecord, safety: RetrySafety) -> Answer:
    _check_not_frozen(record)
    if safely_retryable(record, asked.idempotency_key, safety):
        return Answer.REOPEN
    if record.error is not None and record.error.retryable and not _was_stopped(record):
        raise coded("transaction.retry_denied", _where(record))
    return Answer.RETURN_STORED


def safely_retryable(
    record: TransactionRecord, idempotency_key: str | None, safety: RetrySafety
) -> bool:
    """Whether a failed execution may be reopened: certain, retryable, and under the same key."""
    return (
        reopenable(record)
        and idempotency_key == record.idempotency_key
        and (record.declared_not_applied or safety in _SAFE)
    )


def reopenable(record: TransactionRecord) -> bool:
    """Whether this is a failure that the right retry could reopen; any other one is terminal.

    Commits and compensations never are, nor is what somebody cancelled.
    """
    return (
        record.status is Status.FAILED
        and record.mode is Mode.EXECUTE
        and record.idempotency_key is not None
        and record.error is not None
        and record.error.retryable
        and record.provider_operation is None
        and record.cursor is None
        and record.reconcile_after is None
        and record.verdict is Verdict.NOT_COMMITTED
        and not _was_stopped(record)
    )


def _was_stopped(record: TransactionRecord) -> bool:
    return record.result is not None and record.result.status is ResultStatus.CANCELLED


def reconciliation_required(record: TransactionRecord) -> AmendsError:
    """The refusal that names everything a caller needs to find out what happened."""
    details = _where(record)
    details["provider_operation_id"] = (
        record.provider_operation.operation_id if record.provider_operation else None
    )
    details["cursor"] = record.cursor
    details["reconcile_after"] = (
        format_instant(record.reconcile_after) if record.reconcile_after else None
    )
    return coded("transaction.reconciliation_required", details)


def _where(record: TransactionRecord) -> dict[str, Json]:
    transaction_id: TransactionId = record.transaction_id
    return {
        "transaction_id": transaction_id,
        "action_id": record.action_id,
        "status": record.status.value,
        "revision": record.revision,
    }
