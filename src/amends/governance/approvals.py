"""Approval requests: deciding, expiring, revoking, and the one use (AP-1 to AP-5).

A request is bound to the hash of exactly what will run. Denied beats approved. One person counts
once, however the principal is named and whoever lends the word, and not at all for the own request
unless separation of duties was turned off. A lent word never counts for its lender's own request.

Deliberately not here: what the rules of a policy mean (`approval_rules`), and what a delegation
lends (`delegations`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import (
    Answer,
    ApprovalRequest,
    ApprovalStatus,
    Decision,
    UnderDelegation,
)
from amends.contracts.canonical import domain_digest
from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.errors import AmendsError
from amends.contracts.ids import DecisionId
from amends.contracts.json_types import Json
from amends.contracts.persons import names_in, names_of, same_person
from amends.contracts.principals import Identity, Principal
from amends.governance.approval_rules import is_granted, names_behind, names_lending, touches
from amends.governance.delegations import check_lends, may_approve

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
    """What an authenticated principal says about a request it has seen at a revision.

    `delegation` lends another's word, with what the delegator holds now.
    """

    decision_id: DecisionId
    answer: Answer
    principal: Principal
    reason: str
    evidence: dict[str, str]
    seen_revision: int
    now: datetime
    identity: Identity | None = None
    delegation: Delegation | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody whose word this is, by folded names."""
        lent = () if self.delegation is None else self.delegation.delegator_names
        return tuple(sorted({*names_of(self.principal, self.identity), *lent}))


def decide(request: ApprovalRequest, word: Word) -> ApprovalRequest:
    """The request with one more decision (AP-3).

    Raises `approval.stale`, `approval.frozen`, `approval.closed`, `approval.expired`,
    `approval.separation_of_duties`, `approval.not_allowed`, `approval.already_decided`,
    `approval.evidence_required`, or the codes of a delegation that does not lend this word; to
    another tenant's principal the request does not exist (`approval.not_found`).
    """
    if word.principal.tenant != request.tenant:
        raise coded("approval.not_found")
    if word.seen_revision != request.revision:
        raise coded("approval.stale", {**_named(request), "current": _current(request)})
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
    principal, lent = word.principal, word.delegation
    under = None
    if lent is not None:
        under = UnderDelegation(
            delegation_id=lent.delegation_id,
            delegator=lent.delegator,
            names=lent.delegator_names,
        )
    return Decision(
        decision_id=word.decision_id,
        answer=word.answer,
        approver=principal.ref,
        roles=principal.roles if lent is None else lent.roles,
        groups=principal.groups if lent is None else lent.groups,
        may_approve=may_approve(principal) if lent is None else lent.may_approve,
        reason=word.reason,
        evidence=word.evidence,
        seen_revision=word.seen_revision,
        at=word.now,
        names=word.names,
        under=under,
    )


def requester_names(request: ApprovalRequest) -> tuple[str, ...]:
    """Everybody who asks, by folded names: the requester, its person, the subject it acts for."""
    told = names_in(request.requester, request.identity)
    return tuple(sorted({*request.requester_names, *told}))


def _is_own(request: ApprovalRequest, decision: Decision) -> bool:
    """Whether separation of duties forbids this word."""
    asking = requester_names(request)
    if request.policy.separation_of_duties and same_person(names_behind(decision), asking):
        return True
    return same_person(names_lending(decision), asking)


def _check_may_decide(request: ApprovalRequest, decision: Decision, word: Word) -> None:
    policy, lent = request.policy, word.delegation
    if lent is not None:
        check_lends(lent, word.principal, request.capability_id, request.risk, word.now)
    if _is_own(request, decision):
        raise _about("approval.separation_of_duties", request)
    if not touches(policy.rule, decision):
        raise _about("approval.not_allowed", request)
    if any(same_person(names_behind(made), decision.names) for made in request.decisions):
        raise _about("approval.already_decided", request)
    lacking = [name for name in policy.evidence if not word.evidence.get(name, "").strip()]
    if word.answer is Answer.APPROVED and lacking:
        raise coded("approval.evidence_required", {"evidence": list(lacking)})


def may_decide(
    request: ApprovalRequest,
    principal: Principal,
    now: datetime,
    *,
    identity: Identity | None = None,
    delegation: Delegation | None = None,
) -> bool:
    """Whether this principal's word on the request, or the lent one, would count now."""
    word = Word(
        decision_id=DecisionId(""),
        answer=Answer.DENIED,  # needs no evidence
        principal=principal,
        reason="",
        evidence={},
        seen_revision=request.revision,
        now=now,
        identity=identity,
        delegation=delegation,
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


def _revoke(request: ApprovalRequest, word: Word) -> ApprovalRequest:
    """An approver takes the own approval back, or an operator does, until it is consumed (AP-4)."""
    if request.status not in OPEN:
        raise _about("approval.closed", request)
    gave = any(
        same_person(names_behind(made), word.names) and made.answer is Answer.APPROVED
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


def check_still_granted(
    request: ApprovalRequest, standing: Iterable[Decision], asking: Iterable[str]
) -> None:
    """Hold an approved request to what its approvers hold now (AP-4, AP-5).

    `standing` are its approvals as they would be made now, without those that could not be.
    `asking` are names of the requester that are known now. Raises `approval.no_longer_granted`.
    """
    known = tuple(sorted({*requester_names(request), *asking}))
    now_asking = msgspec.structs.replace(request, requester_names=known)
    if not is_granted(request.policy, [one for one in standing if not _is_own(now_asking, one)]):
        raise _about("approval.no_longer_granted", request)


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
    return coded(code, _named(request))


def _named(request: ApprovalRequest) -> dict[str, Json]:
    return {
        "approval_id": request.approval_id,
        "status": request.status.value,
        "revision": request.revision,
    }


def _current(request: ApprovalRequest) -> dict[str, Json]:
    """The request as it stands, for whoever decided on an older one; without what people wrote."""
    return {
        **_named(request),
        "action_hash": request.action_hash,
        "expires_at": request.expires_at.isoformat(),
        "decisions": [
            {"answer": one.answer.value, "approver": one.approver.id, "at": one.at.isoformat()}
            for one in request.decisions
        ],
    }
