"""Policy: one answer type, and the built-in policy that capabilities carry with them (PO-1).

Whatever is not a clear allow is a deny. The built-in policy allows by principal kind and scope, and
asks for approval by contract, by the caller's flag, or for a risk above medium.

Deliberately not here: rules in files (`rule_policy`), and how engines for them are found.
"""

from enum import StrEnum
from typing import Final, Protocol, assert_never

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
from amends.contracts.declarations import Capability
from amends.contracts.enums import MUTATING_MODES, PREVIEW_MODES, Mode, PrincipalKind, Risk
from amends.contracts.json_types import Json
from amends.contracts.principals import Identity, Principal
from amends.governance.limits import Charge

DEFAULT_APPROVAL: Final = ApprovalPolicy(reason="The tenant's policy asks for an approval.")
_HIGH: Final = frozenset({Risk.HIGH, Risk.CRITICAL})
_APPROVABLE: Final = MUTATING_MODES | PREVIEW_MODES


class PolicyVerdict(StrEnum):
    """What a policy says."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


_ORDER: Final = (PolicyVerdict.DENY, PolicyVerdict.REQUIRE_APPROVAL, PolicyVerdict.ALLOW)


class PolicyDecision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One answer with its grounds. `approval` is set exactly when approval is required.

    `rules` names the rules that decided. The rest restricts what was allowed: `freeze` binds a plan
    to all that governs it now, `plan_ttl_ms` shortens its life, and each of `charges` has to fit
    into its limit when the action is claimed.
    """

    verdict: PolicyVerdict
    rules: tuple[str, ...]
    reason: str
    revision: str
    approval: ApprovalPolicy | None = None
    freeze: bool = False
    plan_ttl_ms: int | None = None
    charges: tuple[Charge, ...] = ()


class PolicyQuestion(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a policy is asked: may this principal do this, in this mode, with this input?"""

    capability: Capability
    principal: Principal
    identity: Identity | None
    mode: Mode
    input: Json
    approval_requested: bool


class Policy(Protocol):
    """A policy engine. `revision` names the rules in force and is bound into plans."""

    @property
    def revision(self) -> str:
        """Changes whenever an answer could change."""
        ...

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        """Answer at once and without side effects; an exception counts as a deny."""
        ...


class CapabilityPolicy:
    """The built-in policy: what capabilities themselves declare."""

    revision = "capability-policy-1"

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        """Allow by kind and scope; ask for approval by contract, flag or risk."""
        capability, principal = question.capability, question.principal
        if not _kind_admitted(question):
            return self._answer(PolicyVerdict.DENY, "builtin.principal_kind", "kind of principal")
        if not _scopes_held(capability, principal):
            return self._answer(PolicyVerdict.DENY, "builtin.scope", "a required scope is missing")
        approval = _approval_asked(question)
        if approval is None:
            return self._answer(PolicyVerdict.ALLOW, "builtin.allow", "allowed by declaration")
        rule, policy = approval
        answer = self._answer(PolicyVerdict.REQUIRE_APPROVAL, rule, policy.reason)
        return msgspec.structs.replace(answer, approval=policy)

    def _answer(self, verdict: PolicyVerdict, rule: str, reason: str) -> PolicyDecision:
        return PolicyDecision(verdict=verdict, rules=(rule,), reason=reason, revision=self.revision)


def _kind_admitted(question: PolicyQuestion) -> bool:
    kind = question.principal.kind
    if kind is PrincipalKind.RECOVERY:
        return question.mode is Mode.RECONCILE
    return kind in question.capability.principal_kinds


def _scopes_held(capability: Capability, principal: Principal) -> bool:
    """The recovery principal holds none: it only finds out what became of an effect that somebody
    who held them began.
    """
    if principal.kind is PrincipalKind.RECOVERY:
        return True
    return all(principal.holds(scope) for scope in capability.required_scopes)


def _approval_asked(question: PolicyQuestion) -> tuple[str, ApprovalPolicy] | None:
    """Look-ups need no approval; previews say what a later execution will need."""
    if question.mode not in _APPROVABLE:
        return None
    declared = question.capability.approval
    if declared is not None and declared.required:
        return "builtin.approval_contract", declared
    asked = msgspec.structs.replace(declared, required=True) if declared else DEFAULT_APPROVAL
    if question.approval_requested:
        return "builtin.approval_flag", asked
    if question.capability.risk in _HIGH:
        return "builtin.approval_risk", asked
    return None


def ask(policy: Policy, question: PolicyQuestion) -> PolicyDecision:
    """The policy's answer, where an engine that fails has denied (PO-1)."""
    try:
        answer: object = policy.decide(question)
    except Exception:  # a policy that cannot answer has not allowed
        return _deny("policy.engine_failed", "the policy engine failed")
    if not isinstance(answer, PolicyDecision) or not isinstance(answer.verdict, PolicyVerdict):
        return _deny("policy.answer_invalid", "the policy's answer is none")
    if not _restricts_well(answer):
        return _deny("policy.answer_invalid", "the policy's answer is none")
    named = isinstance(answer.approval, ApprovalPolicy)
    if named != (answer.verdict is PolicyVerdict.REQUIRE_APPROVAL):
        return _deny("policy.answer_incomplete", "verdict and approval of the answer disagree")
    return answer


def _restricts_well(answer: PolicyDecision) -> bool:
    """Whether the restrictions of an answer are of their types; engines are not type-checked."""
    freeze: object = answer.freeze
    ttl_ms: object = answer.plan_ttl_ms
    charges: object = answer.charges
    return (
        isinstance(freeze, bool)
        and (ttl_ms is None or (isinstance(ttl_ms, int) and ttl_ms > 0))
        and isinstance(charges, tuple)
        and all(isinstance(charge, Charge) for charge in charges)
    )


def _deny(rule: str, reason: str) -> PolicyDecision:
    return PolicyDecision(
        verdict=PolicyVerdict.DENY, rules=(rule,), reason=reason, revision="unknown"
    )


def stricter(one: PolicyDecision, other: PolicyDecision) -> PolicyDecision:
    """What two decisions that must both hold come to: the one that asks for more, or both."""
    stricter_one = min(one, other, key=lambda decision: _ORDER.index(decision.verdict))
    restricted = msgspec.structs.replace(
        stricter_one,
        freeze=one.freeze or other.freeze,
        plan_ttl_ms=_shorter(one.plan_ttl_ms, other.plan_ttl_ms),
        charges=tuple(dict.fromkeys((*one.charges, *other.charges))),
    )
    if one.approval is None or other.approval is None:
        return restricted
    return msgspec.structs.replace(
        restricted,
        rules=tuple(dict.fromkeys((*one.rules, *other.rules))),
        approval=both_approvals(one.approval, other.approval),
    )


def _shorter(one: int | None, other: int | None) -> int | None:
    given = [ttl for ttl in (one, other) if ttl is not None]
    return min(given) if given else None


def both_approvals(one: ApprovalPolicy, other: ApprovalPolicy) -> ApprovalPolicy:
    """One approval policy that is met only where both are."""
    if one == other:
        return one
    return ApprovalPolicy(
        reason=" ".join(dict.fromkeys(filter(None, (one.reason, other.reason)))),
        ttl_ms=min(one.ttl_ms, other.ttl_ms),
        rule=AllOf((_whole_rule(one), _whole_rule(other))),
        minimum_distinct=max(one.minimum_distinct, other.minimum_distinct),
        separation_of_duties=one.separation_of_duties or other.separation_of_duties,
        evidence=tuple(dict.fromkeys((*one.evidence, *other.evidence))),
        version=f"{one.version}+{other.version}",
    )


def _whole_rule(policy: ApprovalPolicy) -> ApprovalRule:
    """The policy's rule with its number of principals, each of whom has to count for this rule."""
    if policy.minimum_distinct <= 1:
        return policy.rule
    return AllOf((policy.rule, Quorum(policy.minimum_distinct, AnyOf(_selectors(policy.rule)))))


def _selectors(rule: ApprovalRule) -> tuple[ApprovalRule, ...]:
    match rule:
        case AllOf(rules) | AnyOf(rules):
            return tuple(selector for part in rules for selector in _selectors(part))
        case Quorum(_, of):
            return _selectors(of)
        case ByPrincipal() | ByRole() | ByGroup() | ByTenantPolicy():
            return (rule,)
        case _:
            assert_never(rule)


def force_approval(decision: PolicyDecision, *, required: bool) -> PolicyDecision:
    """The decision after the compensation contract had its say (TX-PIPE-3)."""
    if not required or decision.verdict is not PolicyVerdict.ALLOW:
        return decision
    return msgspec.structs.replace(
        decision,
        verdict=PolicyVerdict.REQUIRE_APPROVAL,
        rules=(*decision.rules, "builtin.compensation_contract"),
        reason=DEFAULT_APPROVAL.reason,
        approval=DEFAULT_APPROVAL,
    )
