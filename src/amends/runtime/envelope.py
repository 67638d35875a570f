"""Pipeline step 1: the envelope, checked and turned into what everything else derives from.

The input is normalised to RFC 8785 here, once: what runs, what is hashed, shown and stored are the
same bytes, and nothing that the caller changes later reaches them (TX-PLAN-3). Ids that were left
to Amends are made here.
"""

import msgspec
from msgspec.structs import replace

from amends.connectors.port import checked_operation
from amends.contracts import limits
from amends.contracts.actions import TransactionContext
from amends.contracts.canonical import normalise
from amends.contracts.codes import coded
from amends.contracts.documents import RequestInfo
from amends.contracts.enums import Mode
from amends.contracts.ids import (
    ACTION_PREFIX,
    TRANSACTION_PREFIX,
    ActionId,
    TransactionId,
    check_identifier,
    check_opaque,
    check_plan_id,
    default_plan_id,
)
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.redaction import kept_text
from amends.runtime.environment import Ids
from amends.runtime.requests import Request
from amends.runtime.texts import check_metadata, check_text


class Envelope(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A well-formed request. `canonical` are the input's bytes, `input` is read back from them."""

    action_id: ActionId
    context: TransactionContext
    input: Json
    canonical: bytes
    metadata: dict[str, Json]
    info: RequestInfo | None


def open_envelope(request: Request, ids: Ids) -> Envelope:
    """Check a request's form and complete it.

    Raises `Refused` with an `input.*` code, or the code of a field that its mode needs.
    """
    action = request.action
    _check_ids(request)
    _check_mode_fields(request)
    if request.provider_operation is not None:
        _check_operation(request.provider_operation)
    if request.cursor is not None:
        check_opaque(request.cursor, "cursor", length=limits.CURSOR_LENGTH)
    canonical = normalise(action.input)
    return Envelope(
        action_id=action.action_id or ActionId(ids(ACTION_PREFIX)),
        context=_complete(action.transaction, ids),
        input=msgspec.json.decode(canonical),
        canonical=canonical,
        metadata=check_metadata(action.metadata),
        info=_check_info(request.info),
    )


def _check_ids(request: Request) -> None:
    action, context = request.action, request.action.transaction
    check_identifier(action.capability_id, "capability_id")
    if action.action_id is not None:
        check_identifier(action.action_id, "action_id")
    if context.transaction_id is not None:
        length = limits.TRANSACTION_ID_LENGTH
        check_identifier(context.transaction_id, "transaction_id", length=length)
    if context.compensation_for is not None:
        check_identifier(context.compensation_for, "compensation_for")
    if context.plan_id is not None:
        check_identifier(context.plan_id, "plan_id")


def _check_mode_fields(request: Request) -> None:
    context = request.action.transaction
    match context.mode:
        case Mode.COMMIT if context.plan_id is None and not request.caller.trusted:
            raise coded("transaction.plan_required")
        case Mode.COMPENSATE if context.compensation_for is None:
            raise coded("transaction.compensation_for_required")
        case Mode.RECONCILE if context.transaction_id is None:
            raise coded("transaction.id_required")
        case _:
            return


def _check_operation(named: ProviderOperation) -> None:
    checked_operation(named.provider, named.operation_id, named.request_id)
    if named.request_id is not None:
        check_opaque(named.request_id, "request_id", length=limits.PROVIDER_OPERATION_LENGTH)


def _check_info(info: RequestInfo | None) -> RequestInfo | None:
    if info is None:
        return None
    if info.reason is None:
        return RequestInfo(metadata=check_metadata(info.metadata))
    reason = kept_text(check_text(info.reason, "reason"), hidden=False)
    return RequestInfo(reason=reason, metadata=check_metadata(info.metadata))


def _complete(context: TransactionContext, ids: Ids) -> TransactionContext:
    """Fill in the ids that the caller left to Amends; a commit's comes from its plan later."""
    transaction_id = context.transaction_id or TransactionId(ids(TRANSACTION_PREFIX))
    plan_id = context.plan_id
    if context.mode is Mode.PLAN:
        plan_id = (
            default_plan_id(transaction_id)
            if plan_id is None
            else check_plan_id(plan_id, transaction_id)
        )
    return replace(context, transaction_id=transaction_id, plan_id=plan_id)
