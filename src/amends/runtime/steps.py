"""Receipt steps from documents: who did what to which record, with hashes instead of values."""

from datetime import datetime

from amends.contracts.actions import ActionResult
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.evidence import ReceiptType, Step
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef


def record_step(
    type_: ReceiptType,
    record: TransactionRecord,
    actor: PrincipalRef,
    now: datetime,
    *,
    code: str | None = None,
    operation: ProviderOperation | None = None,
) -> Step:
    """A step of a transaction's record, as the record stands after it."""
    attempt = record.attempt
    return Step(
        type=type_,
        tenant=record.tenant,
        transaction_id=record.transaction_id,
        at=now,
        actor=actor,
        action_id=record.action_id,
        capability_id=record.capability_id,
        plan_id=record.plan.plan_id if record.plan else None,
        status=record.status,
        verdict=record.verdict,
        revision=record.revision,
        attempt=attempt.number if attempt else None,
        fence=attempt.fence if attempt else None,
        code=code or (record.error.code if record.error else None),
        hashes=_hashes(record, record.result),
        operation=operation or record.provider_operation,
    )


def _hashes(record: TransactionRecord, result: ActionResult | None) -> dict[str, str]:
    hashes = {"input": record.input_hash}
    if result is not None and result.output_hash is not None:
        hashes["output"] = result.output_hash
    if record.plan is not None:
        hashes["plan"] = record.plan.digest
    return hashes


def approval_step(
    type_: ReceiptType,
    request: ApprovalRequest,
    actor: PrincipalRef,
    now: datetime,
    *,
    delegation: str | None = None,
) -> Step:
    """A step of an approval request, on the chain of the transaction it is for.

    `delegation` is the hash of the delegation that lent the word.
    """
    return Step(
        type=type_,
        tenant=request.tenant,
        transaction_id=request.transaction_id,
        at=now,
        actor=actor,
        action_id=request.action_id,
        capability_id=request.capability_id,
        plan_id=request.plan_id,
        approval_id=request.approval_id,
        revision=request.revision,
        hashes={
            "action": request.action_hash,
            "input": request.input_hash,
            "policy": request.policy_hash,
        }
        | ({} if delegation is None else {"delegation": delegation}),
    )


def action_step(
    type_: ReceiptType, action: ActionDocument, actor: PrincipalRef, now: datetime
) -> Step:
    """A step of an action that has no record yet."""
    return Step(
        type=type_,
        tenant=action.tenant,
        transaction_id=action.transaction_id,
        at=now,
        actor=actor,
        action_id=action.action_id,
        capability_id=action.capability_id,
        plan_id=action.context.plan_id,
        revision=action.revision,
        hashes={"input": action.input_hash},
    )
