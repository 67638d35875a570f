"""The public request documents: an action, its transaction context, the first-class wrapper."""

from datetime import datetime

import msgspec

from amends.contracts.enums import Mode, ResultStatus
from amends.contracts.ids import ActionId, CapabilityId, PlanId, TransactionId
from amends.contracts.json_types import Json, JsonText
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.principals import PrincipalRef


class TransactionContext(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The transaction intent of one action."""

    mode: Mode = Mode.EXECUTE
    transaction_id: TransactionId | None = None
    plan_id: PlanId | None = None
    compensation_for: ActionId | None = None


class Action(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One invocation of a capability, as a caller sends it.

    `input` is any JSON value; `approval_required` lets a caller ask for a second pair of eyes;
    `metadata` is for observability and governs nothing but the fall-back of TX-COMP-2.
    """

    capability_id: CapabilityId
    input: Json = None
    transaction: TransactionContext = TransactionContext()
    action_id: ActionId | None = None
    idempotency_key: str | None = None
    approval_required: bool = False
    metadata: dict[str, Json] = {}


class TransactionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The first-class wrapper around the same action: not a second engine (TX-REQ-1)."""

    transaction_id: TransactionId
    action: Action
    requested_by: PrincipalRef
    reason: str | None = None
    metadata: dict[str, Json] = {}
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None


class ActionResult(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """How an action ended, as stored with it.

    `output` is the stored JSON text (absent when redacted or not storable); `output_hash` is the
    SHA-256 of exactly those bytes, or of what they would have been. `output_invalid` says in a code
    why an output needs attention although the effect is there.
    """

    status: ResultStatus
    output: JsonText | None = None
    output_hash: str | None = None
    output_redacted: bool = False
    output_invalid: str | None = None
    error: ErrorInfo | None = None
    completed_at: datetime | None = None
