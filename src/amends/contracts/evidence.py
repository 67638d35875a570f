"""Receipts: the chained evidence of every step. They hold hashes, ids, actors, times and codes;
never raw input, output or secrets. Building, chaining and checking them lives in `receipts`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from amends.contracts.admission import MAX_SAFE_INTEGER
from amends.contracts.enums import Status, Verdict
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    Fence,
    PlanId,
    TenantId,
    TransactionId,
)
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""A whole number that every reader of JSON reads alike, since hashes are over its text."""


class ReceiptType(StrEnum):
    """Which step a receipt is evidence of."""

    DRY_RUN_COMPLETED = "dry_run_completed"
    PREVIEW_EFFECT = "preview_effect"
    PLANNED = "planned"
    PLAN_EXPIRED = "plan_expired"
    PLAN_WITHDRAWN = "plan_withdrawn"
    ROLLBACK_NOT_SUPPORTED = "rollback_not_supported"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_GRANTED = "approval_granted"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_REVOKED = "approval_revoked"
    EXECUTION_STARTED = "execution_started"
    COMMIT_STARTED = "commit_started"
    COMPENSATION_STARTED = "compensation_started"
    RECONCILIATION_STARTED = "reconciliation_started"
    DISPATCHED = "dispatched"
    PROVIDER_ACCEPTED = "provider_accepted"
    COMMITTED = "committed"
    COMPENSATED = "compensated"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILED = "reconciled"
    EVIDENCE_KEPT = "evidence_kept"
    ESCALATED = "escalated"
    CANCELLATION_REQUESTED = "cancellation_requested"
    CANCELLED = "cancelled"
    OPERATOR_RESOLVED = "operator_resolved"
    CORRECTION = "correction"
    FROZEN = "frozen"
    RELEASED = "released"
    HOLD_PLACED = "hold_placed"
    HOLD_LIFTED = "hold_lifted"
    FORGOTTEN = "forgotten"


class Step(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One step before it is chained: everything a receipt says except its place in the chain."""

    type: ReceiptType
    tenant: TenantId
    transaction_id: TransactionId
    at: datetime
    actor: PrincipalRef
    action_id: ActionId | None = None
    capability_id: CapabilityId | None = None
    plan_id: PlanId | None = None
    approval_id: ApprovalId | None = None
    status: Status | None = None
    verdict: Verdict | None = None
    revision: Count | None = None
    attempt: Count | None = None
    fence: Fence | None = None
    code: str | None = None
    hashes: dict[str, str] = {}
    operation: ProviderOperation | None = None


class Receipt(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One link of a chain. `previous` is 64 zeros for the first; `signature` (hex, Ed25519 over
    the hash) is set on the last receipt of a change set, the chain's head at that moment.
    """

    chain: str
    number: Count
    previous: str
    hash: str
    step: Step
    key_id: str | None = None
    signature: str | None = None


class Tail(msgspec.Struct, frozen=True, gc=False):
    """The end of a chain as somebody knows it: how many receipts, and the last one's hash."""

    number: int
    hash: str
