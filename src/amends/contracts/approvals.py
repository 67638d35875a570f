"""The durable approval request and the decisions on it."""

from datetime import datetime
from enum import StrEnum

import msgspec

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.documents import Document
from amends.contracts.enums import Mode, Risk
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    DecisionId,
    DelegationId,
    PlanId,
    TransactionId,
)
from amends.contracts.json_types import JsonText
from amends.contracts.principals import Identity, PrincipalRef


class ApprovalStatus(StrEnum):
    """Where an approval request stands. All but the first two are terminal."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    REVOKED = "revoked"
    WITHDRAWN = "withdrawn"
    CONSUMED = "consumed"


class Answer(StrEnum):
    """What one approver said."""

    APPROVED = "approved"
    DENIED = "denied"
    REVOKED = "revoked"


class UnderDelegation(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a decision was made, by which delegation; `names` are the delegator's, folded."""

    delegation_id: DelegationId
    delegator: PrincipalRef
    names: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One approver's word, under the identity that authentication gave.

    `seen_revision` is the revision of the request that the approver had before the eyes. Roles and
    groups are those held when deciding; of a decision under a delegation they are the delegator's.
    `names` are the folded names of everybody whose word this is.
    """

    decision_id: DecisionId
    answer: Answer
    approver: PrincipalRef
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    may_approve: bool = False
    reason: str = ""
    evidence: dict[str, str] = {}
    seen_revision: int
    at: datetime
    names: tuple[str, ...] = ()
    under: UnderDelegation | None = None

    @property
    def speaks_for(self) -> PrincipalRef:
        """Whose word it is to the rules: the delegator's, or the approver's own."""
        return self.approver if self.under is None else self.under.delegator


class ApprovalRequest(Document, frozen=True, kw_only=True):
    """A question to people, bound to exactly what will run.

    `action_hash` covers action id, capability, mode, plan, target, tenant, requester and the
    admitted input. `input` holds the bytes that were hashed, so that the approver sees just those;
    it is absent when the capability requires redaction. `requester_names` are the folded names of
    everybody who asks. `frozen` says why it can be neither decided nor used until an operator
    releases it.
    """

    approval_id: ApprovalId
    action_id: ActionId
    transaction_id: TransactionId
    capability_id: CapabilityId
    mode: Mode
    risk: Risk
    plan_id: PlanId | None
    plan_digest: str | None
    compensation_for: ActionId | None
    action_hash: str
    input_hash: str
    input: JsonText | None
    requester: PrincipalRef
    requester_names: tuple[str, ...] = ()
    identity: Identity | None
    policy: ApprovalPolicy
    policy_hash: str
    status: ApprovalStatus
    expires_at: datetime
    decisions: tuple[Decision, ...] = ()
    decided_at: datetime | None = None
    frozen: str | None = None
