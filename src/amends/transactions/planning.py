"""Making a plan: everything a later commit is compared with, frozen at one moment (TX-PLAN-*)."""

from datetime import datetime

import msgspec

from amends.contracts.actions import ActionResult
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import Capability
from amends.contracts.documents import InputSnapshot, TransactionPlan
from amends.contracts.enums import Freeze
from amends.contracts.ids import ActionId, PlanId, TransactionId
from amends.contracts.json_types import json_text
from amends.contracts.principals import Identity, PrincipalRef
from amends.contracts.times import after_ms
from amends.transactions.hashing import plan_digest


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made of, beside the capability's own declarations."""

    plan_id: PlanId
    transaction_id: TransactionId
    action_id: ActionId
    requester: PrincipalRef
    identity: Identity | None
    input_hash: str
    input: bytes
    approval: ApprovalPolicy | None
    governance_digest: str
    validation: ActionResult | None
    now: datetime
    freeze: Freeze = Freeze.NOTHING
    ttl_ms: int | None = None


def build_plan(capability: Capability, facts: PlanFacts) -> TransactionPlan:
    """The plan with its digest. It expires at exactly `now` + the capability's plan life, or after
    the shorter one that a rule gave it (PO-2).
    """
    ttl_ms = min(capability.plan_ttl_ms, facts.ttl_ms or capability.plan_ttl_ms)
    contract = capability.transaction
    assert contract is not None, "plan mode is admitted by a transaction contract only"
    plan = TransactionPlan(
        plan_id=facts.plan_id,
        transaction_id=facts.transaction_id,
        action_id=facts.action_id,
        capability_id=capability.id,
        requester=facts.requester,
        input_hash=facts.input_hash,
        snapshot=snapshot(capability, facts.input_hash, facts.input),
        side_effects=capability.side_effects,
        approval_required=facts.approval is not None,
        approval_policy=facts.approval,
        compensation=capability.compensation,
        fidelity=contract.dry_run_fidelity,
        identity=facts.identity,
        created_at=facts.now,
        expires_at=after_ms(facts.now, ttl_ms),
        requires_plan_before_commit=contract.requires_plan_before_commit,
        data=capability.data,
        idempotency=capability.idempotency,
        service_level=capability.service_level,
        validation=facts.validation,
        governance_digest=facts.governance_digest,
        digest="",
        warnings=_warnings(ttl_ms, facts.approval),
        freeze=facts.freeze,
    )
    return msgspec.structs.replace(plan, digest=plan_digest(plan))


def snapshot(capability: Capability, input_hash: str, canonical_input: bytes) -> InputSnapshot:
    """The input as a plan keeps it: with redaction required, only its hash (TX-PLAN-3)."""
    if capability.data.redaction_required:
        return InputSnapshot(redacted=True, input_hash=input_hash)
    return InputSnapshot(redacted=False, input_hash=input_hash, input=json_text(canonical_input))


def _warnings(ttl_ms: int, approval: ApprovalPolicy | None) -> tuple[str, ...]:
    """A plan may expire while people are still deciding (TX-PLAN-2)."""
    if approval is not None and ttl_ms < approval.ttl_ms:
        return ("plan.expires_before_approval",)
    return ()
