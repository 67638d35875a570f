"""Approval requests: deciding, expiring, revoking, and the one use (AP-1 to AP-5).

A request is bound to the hash of exactly what will run. Denied beats approved. One person counts
once, however the principal is named, and not at all for the own request unless separation of
duties was turned off.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, assert_never

import msgspec

from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ApprovalPolicy,
    ApprovalRule,
    ByGroup,
    ByPrincipal,
    ByRole,
    ByTenantPolicy,
    Quorum,
)
from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus, Decision
from amends.contracts.canonical import domain_digest
from amends.contracts.codes import coded
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import AmendsError
from amends.contracts.ids import DecisionId
from amends.contracts.principals import APPROVE_SCOPE, Principal

OPEN: Final = frozenset({ApprovalStatus.PENDING, ApprovalStatus.APPROVED})
_CLOSED_CODES: Final = {
    ApprovalStatus.DENIED: "approval.denied",
    ApprovalStatus.EXPIRED: "approval.expired",
    ApprovalStatus.REVOKED: "approval.revoked",
    ApprovalStatus.WITHDRAWN: "approval.withdrawn",
    ApprovalStatus.CONSUMED: "approval.consumed",
    ApprovalStatus.PENDING: "approval.required",
}


def policy_hash(policy: ApprovalPolicy) -> str:
    """Digest of an approval policy, compared again when the approval is used."""
    return domain_digest("amends-approval-policy-v1", msgspec.to_builtins(policy))


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What an authenticated principal says about a request it has seen at a revision."""

    decision_id: DecisionId
    answer: Answer
    principal: Principal
    reason: str
    evidence: dict[str, str]
    seen_revision: int
    now: datetime


def decide(request: ApprovalRequest, word: Word) -> ApprovalRequest:
    """The request with one more decision (AP-3).

    Raises `approval.stale`, `approval.frozen`, `approval.closed`, `approval.expired`,
    `approval.separation_of_duties`, `approval.not_allowed`, `approval.already_decided` or
    `approval.evidence_required`; to another tenant's principal the request does not exist
    (`approval.not_found`).
    """
    if word.principal.tenant != request.tenant:
        raise coded("approval.not_found")
    if word.seen_revision != request.revision:
        raise _about("approval.stale", request)
    _check_not_frozen(request)
    if word.now >= request.expires_at:
        raise _about("approval.expired", request)
    if word.answer is Answer.REVOKED:
        return _revoke(request, word)
    if request.status is not ApprovalStatus.PENDING:
        raise _about("approval.closed", request)
    decision = _decision(word)
    _check_may_decide(request, decision, word)
    return _with(request, decision, _status_after(request, decision), word.now)


def _decision(word: Word) -> Decision:
    principal = word.principal
    return Decision(
        decision_id=word.decision_id,
        answer=word.answer,
        approver=principal.ref,
        roles=principal.roles,
        groups=principal.groups,
        may_approve=may_approve(principal),
        reason=word.reason,
        evidence=word.evidence,
        seen_revision=word.seen_revision,
        at=word.now,
    )


def may_approve(principal: Principal) -> bool:
    """Whether the tenant lets it approve: by a scope granted by name, or as operator."""
    return APPROVE_SCOPE in principal.scopes or principal.kind is PrincipalKind.OPERATOR


def _check_may_decide(request: ApprovalRequest, decision: Decision, word: Word) -> None:
    policy = request.policy
    own = decision.approver.id == request.requester.id
    if own and policy.separation_of_duties:
        raise _about("approval.separation_of_duties", request)
    if not touches(policy.rule, decision):
        raise _about("approval.not_allowed", request)
    if any(made.approver.id == decision.approver.id for made in request.decisions):
        raise _about("approval.already_decided", request)
    lacking = [name for name in policy.evidence if not word.evidence.get(name, "").strip()]
    if word.answer is Answer.APPROVED and lacking:
        raise coded("approval.evidence_required", {"evidence": list(lacking)})


def may_decide(request: ApprovalRequest, principal: Principal, now: datetime) -> bool:
    """Whether this principal's word on the request would count now."""
    word = Word(
        decision_id=DecisionId(""),
        answer=Answer.DENIED,  # needs no evidence
        principal=principal,
        reason="",
        evidence={},
        seen_revision=request.revision,
        now=now,
    )
    try:
        decide(request, word)
    except AmendsError:
        return False
    return True


def _status_after(request: ApprovalRequest, decision: Decision) -> ApprovalStatus:
    if decision.answer is Answer.DENIED:
        return ApprovalStatus.DENIED
    given = [*request.decisions, decision]
    granted = is_granted(request.policy, given)
    return ApprovalStatus.APPROVED if granted else ApprovalStatus.PENDING


def _with(
    request: ApprovalRequest, decision: Decision, status: ApprovalStatus, now: datetime
) -> ApprovalRequest:
    moved = _moved(request, status, now)
    return msgspec.structs.replace(moved, decisions=(*request.decisions, decision))


def _moved(request: ApprovalRequest, status: ApprovalStatus, now: datetime) -> ApprovalRequest:
    decided = request.decided_at
    if status is not ApprovalStatus.PENDING and decided is None:
        decided = now
    return msgspec.structs.replace(
        request,
        status=status,
        revision=request.revision + 1,
        updated_at=max(now, request.updated_at),
        decided_at=decided,
    )


def is_granted(policy: ApprovalPolicy, decisions: Iterable[Decision]) -> bool:
    """Whether these decisions meet the policy: its rule, and its number of distinct principals."""
    given = {made.approver.id: made for made in decisions if made.answer is Answer.APPROVED}
    approvals = tuple(given.values())
    return len(approvals) >= policy.minimum_distinct and is_met(policy.rule, approvals)


def is_met(rule: ApprovalRule, approvals: tuple[Decision, ...]) -> bool:
    """Whether approvals by distinct principals meet a rule."""
    match rule:
        case AllOf(rules):
            return bool(rules) and all(is_met(part, approvals) for part in rules)
        case AnyOf(rules):
            return any(is_met(part, approvals) for part in rules)
        case Quorum(n, of):
            return n > 0 and sum(is_met(of, (made,)) for made in approvals) >= n
        case ByPrincipal() | ByRole() | ByGroup() | ByTenantPolicy():
            return any(_fits(rule, made) for made in approvals)
        case _:
            assert_never(rule)


def _fits(rule: ByPrincipal | ByRole | ByGroup | ByTenantPolicy, made: Decision) -> bool:
    match rule:
        case ByPrincipal(ids):
            return made.approver.id in ids
        case ByRole(role):
            return role in made.roles
        case ByGroup(group):
            return group in made.groups
        case ByTenantPolicy():
            return made.may_approve
        case _:
            assert_never(rule)


def touches(rule: ApprovalRule, made: Decision) -> bool:
    """Whether this principal's word counts for any part of the rule."""
    match rule:
        case AllOf(rules) | AnyOf(rules):
            return any(touches(part, made) for part in rules)
        case Quorum(_, of):
            return touches(of, made)
        case ByPrincipal() | ByRole() | ByGroup() | ByTenantPolicy():
            return _fits(rule, made)
        case _:
            assert_never(rule)


def _revoke(request: ApprovalRequest, word: Word) -> ApprovalRequest:
    """An approver takes the own approval back, or an operator does, until it is consumed (AP-4)."""
    if request.status not in OPEN:
        raise _about("approval.closed", request)
    gave = any(
        made.approver.id == word.principal.id and made.answer is Answer.APPROVED
        for made in request.decisions
    )
    if not gave and not word.principal.is_operator:
        raise _about("approval.not_allowed", request)
    return _with(request, _decision(word), ApprovalStatus.REVOKED, word.now)


def expire(request: ApprovalRequest, now: datetime) -> ApprovalRequest | None:
    """The request expired, or none where it is not due or takes no more change.

    A frozen one waits: it may have been used in the store that was lost.
    """
    if request.status not in OPEN or now < request.expires_at or request.frozen is not None:
        return None
    return _moved(request, ApprovalStatus.EXPIRED, now)


def withdraw(request: ApprovalRequest, now: datetime) -> ApprovalRequest | None:
    """The request taken back by its requester's cancellation, or none where it is closed.

    Raises `approval.frozen`: nobody can say of a frozen one that it was never used.
    """
    if request.status not in OPEN:
        return None
    _check_not_frozen(request)
    return _moved(request, ApprovalStatus.WITHDRAWN, now)


def consume(
    request: ApprovalRequest, action_hash: str, policy: ApprovalPolicy, now: datetime
) -> ApprovalRequest:
    """The approval used up by exactly one execution of exactly what was approved (AP-4).

    Raises `approval.frozen`, `approval.mismatch` where action, hash or policy changed, else the
    code of its status.
    """
    _check_not_frozen(request)
    if request.action_hash != action_hash or request.policy_hash != policy_hash(policy):
        raise _about("approval.mismatch", request)
    if request.status in OPEN and now >= request.expires_at:
        raise _about("approval.expired", request)
    if request.status is not ApprovalStatus.APPROVED:
        raise _about(_CLOSED_CODES[request.status], request)
    return _moved(request, ApprovalStatus.CONSUMED, now)


def check_consumed(
    request: ApprovalRequest, action_hash: str, policy: ApprovalPolicy, now: datetime
) -> None:
    """Let a reopened attempt rely on the consumption while hash, policy and expiry hold (AP-4).

    Raises `approval.mismatch`, `approval.expired`, or the code of a request that is not consumed.
    """
    if request.action_hash != action_hash or request.policy_hash != policy_hash(policy):
        raise _about("approval.mismatch", request)
    if request.status is not ApprovalStatus.CONSUMED:
        raise _about(_CLOSED_CODES.get(request.status, "approval.required"), request)
    if now >= request.expires_at:
        raise _about("approval.expired", request)


def freeze(request: ApprovalRequest, reason: str, now: datetime) -> ApprovalRequest | None:
    """The request frozen with its restored store, or none where it is closed (TX-LEASE-3).

    Of a consumed one the record that it serves is frozen.
    """
    if request.status not in OPEN or request.frozen is not None:
        return None
    return msgspec.structs.replace(_moved(request, request.status, now), frozen=reason)


def release(request: ApprovalRequest, now: datetime) -> ApprovalRequest | None:
    """The request released by an operator, or none where it is not frozen."""
    if request.frozen is None:
        return None
    return msgspec.structs.replace(_moved(request, request.status, now), frozen=None)


def _check_not_frozen(request: ApprovalRequest) -> None:
    if request.frozen is not None:
        raise _about("approval.frozen", request)


def _about(code: str, request: ApprovalRequest) -> AmendsError:
    return coded(
        code,
        {
            "approval_id": request.approval_id,
            "status": request.status.value,
            "revision": request.revision,
        },
    )
