"""The policy of a file of rules: which rules fit an action, and what they come to (PO-1, PO-2).

Every rule that fits is heard; their order does not matter. Deny beats require approval, which beats
allow. Several approvals are all needed. Where no rule allows or requires an approval, it is denied.
Restrictions of every rule that fits hold together. Below all of them lies the built-in policy,
which rules can make stricter and never weaker. A condition that fails, or is neither true nor
false, denies; so does an amount that is none.

Deliberately not here: reading files, and noticing that one has changed (`wiring.policies`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

import msgspec

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import Capability
from amends.contracts.enums import Mode, PrincipalKind
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.persons import names_of
from amends.governance.amounts import amount_of, pointed_at
from amends.governance.conditions import WHOLE, Conditions, Expression, Use
from amends.governance.limits import Charge
from amends.governance.policy import (
    CapabilityPolicy,
    PolicyDecision,
    PolicyQuestion,
    PolicyVerdict,
    both_approvals,
)
from amends.governance.rules import (
    RULED_MODES,
    Effect,
    Limit,
    Per,
    Rule,
    fits_capability,
    fits_principal,
)

NO_RULE: Final = "policy.no_rule_allows"
CONDITION_FAILED: Final = "policy.condition_failed"
AMOUNT_INVALID: Final = "policy.amount_invalid"
_REMEMBERED: Final = 4_096
"""For how many capabilities the rules that can fit them are kept ready."""


class Ready(NamedTuple):
    """A rule with its expressions. `anybody`: of who asks, no more than the kind is asked."""

    rule: Rule
    condition: Expression | None
    amounts: tuple[Expression | None, ...]
    anybody: bool


class Candidates(NamedTuple):
    """The rules that can fit a capability in a mode for a kind of principal, and what they read."""

    capability: Capability
    rules: tuple[Ready, ...]
    uses: frozenset[Use]


class Heard(NamedTuple):
    """The rules that fit an action, and the codes of what went wrong, with the rules' ids."""

    fitting: tuple[Rule, ...]
    failed: tuple[str, ...]
    charges: tuple[Charge, ...]


class RulePolicy:
    """Rules of one revision over the built-in policy. It never changes.

    Raises `ConditionRefused` for an expression that the engine does not take.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        conditions: Conditions,
        revision: str,
    ) -> None:
        self.revision = revision
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        self._below = CapabilityPolicy()
        self._conditions = conditions
        self._ready = tuple(ready(rule, conditions) for rule in self.rules)
        self._known: dict[tuple[CapabilityId, Mode, PrincipalKind], Candidates] = {}

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        """What the fitting rules and the built-in policy come to together."""
        below = self._below.decide(question)
        heard = self.hear(question)
        return combined(question, below, heard, self.revision)

    def hear(self, question: PolicyQuestion) -> Heard:
        """Ask every rule that can fit."""
        facts: object = None
        fitting: list[Rule] = []
        failed: list[str] = []
        charges: list[Charge] = []
        principal = question.principal
        candidates = self._candidates(question)
        if candidates.uses:
            facts = self._conditions.facts(variables(question, candidates.uses))
        for one in candidates.rules:
            rule, condition, _, anybody = one
            if not (anybody or fits_principal(rule.match, principal)):
                continue
            if condition is not None:
                holds = _value(condition, facts)
                if holds is False:
                    continue
                if holds is not True:
                    failed.append(f"{CONDITION_FAILED}:{rule.id}")
                    continue
            fitting.append(rule)
            if rule.limits:
                _charge(one, question, facts, charges, failed)
        return Heard(tuple(fitting), tuple(failed), tuple(charges))

    def _candidates(self, question: PolicyQuestion) -> Candidates:
        capability, mode, kind = question.capability, question.mode, question.principal.kind
        key = (capability.id, mode, kind)
        known = self._known.get(key)
        if known is not None and known.capability is capability:
            return known
        rules = tuple(one for one in self._ready if _can_fit(one.rule, capability, mode, kind))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = Candidates(capability, rules, _uses(rules))
        return self._known[key]


def _can_fit(rule: Rule, capability: Capability, mode: Mode, kind: PrincipalKind) -> bool:
    return (
        mode in rule.modes
        and (not rule.match.kind or kind in rule.match.kind)
        and fits_capability(rule.match, capability)
    )


def _uses(rules: Sequence[Ready]) -> frozenset[Use]:
    expressions = [one for each in rules for one in (each.condition, *each.amounts)]
    return frozenset(use for one in expressions if one is not None for use in one.uses)


def ready(rule: Rule, conditions: Conditions) -> Ready:
    """The rule with its expressions compiled. Raises `ConditionRefused`."""
    match = rule.match
    return Ready(
        rule=rule,
        condition=None if rule.when is None else conditions.compile(rule.when),
        amounts=tuple(_amount(limit, conditions) for limit in rule.limits),
        anybody=not (match.principal or match.tenant or match.role or match.group),
    )


def variables(question: PolicyQuestion, uses: frozenset[Use]) -> dict[str, Json]:
    """What expressions that use no more than this can speak of."""
    value = question.input
    if isinstance(value, dict) and ("input", WHOLE) not in uses:
        value = {name: value[name] for variable, name in uses if _reads(variable, name, value)}
    return {
        "action": _fields("action", _ACTION, question, uses),
        "principal": _fields("principal", _PRINCIPAL, question, uses),
        "input": value,
    }


def _reads(variable: str, name: str, value: dict[str, Json]) -> bool:
    return variable == "input" and name in value


def _fields(
    variable: str,
    known: Mapping[str, Callable[[PolicyQuestion], Json]],
    question: PolicyQuestion,
    uses: frozenset[Use],
) -> Json:
    if (variable, WHOLE) in uses:
        return {name: read(question) for name, read in known.items()}
    return {
        name: known[name](question) for named, name in uses if named == variable and name in known
    }


_ACTION: Final[Mapping[str, Callable[[PolicyQuestion], Json]]] = MappingProxyType(
    {
        "capability": lambda asked: asked.capability.id,
        "mode": lambda asked: asked.mode.value,
        "risk": lambda asked: asked.capability.risk.value,
        "side_effects": lambda asked: [one.value for one in asked.capability.side_effects],
        "sensitivity": lambda asked: asked.capability.data.sensitivity.value,
        "approval_requested": lambda asked: asked.approval_requested,
    }
)
_PRINCIPAL: Final[Mapping[str, Callable[[PolicyQuestion], Json]]] = MappingProxyType(
    {
        "id": lambda asked: asked.principal.id,
        "kind": lambda asked: asked.principal.kind.value,
        "tenant": lambda asked: asked.principal.tenant,
        "roles": lambda asked: list(asked.principal.roles),
        "groups": lambda asked: list(asked.principal.groups),
        "scopes": lambda asked: list(asked.principal.scopes),
        "external_account": lambda asked: (
            asked.identity.external_account if asked.identity else None
        ),
    }
)
"""The fields that expressions can read, each as plain JSON."""


def combined(
    question: PolicyQuestion, below: PolicyDecision, heard: Heard, revision: str
) -> PolicyDecision:
    """What the rules that were heard come to, over the built-in answer."""
    if below.verdict is PolicyVerdict.DENY:
        return msgspec.structs.replace(below, revision=revision)
    denying = [rule for rule in heard.fitting if rule.effect is Effect.DENY]
    if denying or heard.failed:
        return _denied(denying, heard.failed, revision)
    approving = [rule for rule in heard.fitting if rule.effect is Effect.REQUIRE_APPROVAL]
    allowing = [rule for rule in heard.fitting if rule.effect is Effect.ALLOW]
    if question.mode in RULED_MODES and not approving and not allowing:
        return _denied((), (NO_RULE,), revision)
    answer = (
        _approved(approving, below) if approving or below.approval else _allowed(allowing, below)
    )
    ttls = [rule.plan_ttl_ms for rule in heard.fitting if rule.plan_ttl_ms is not None]
    return msgspec.structs.replace(
        answer,
        revision=revision,
        freeze=below.freeze or any(rule.freeze for rule in heard.fitting),
        plan_ttl_ms=min(ttls, default=None),
        charges=heard.charges,
    )


def _denied(denying: Sequence[Rule], failed: tuple[str, ...], revision: str) -> PolicyDecision:
    reasons = [rule.reason for rule in denying if rule.reason]
    return PolicyDecision(
        verdict=PolicyVerdict.DENY,
        rules=(*(rule.id for rule in denying), *failed),
        reason=" ".join(reasons) or _WHY_DENIED[failed[0].partition(":")[0] if failed else ""],
        revision=revision,
    )


_WHY_DENIED: Final = {
    "": "a rule denies it",
    NO_RULE: "no rule allows it",
    CONDITION_FAILED: "a rule's condition could not be evaluated",
    AMOUNT_INVALID: "the amount that a rule limits is none",
}


def _approved(approving: Sequence[Rule], below: PolicyDecision) -> PolicyDecision:
    asked = [rule.approval for rule in approving if rule.approval is not None]
    rules = tuple(rule.id for rule in approving)
    if below.approval is not None:
        asked.append(below.approval)
        rules = (*rules, *below.rules)
    approval: ApprovalPolicy = reduce(both_approvals, asked)
    return PolicyDecision(
        verdict=PolicyVerdict.REQUIRE_APPROVAL,
        rules=rules,
        reason=approval.reason,
        revision=below.revision,
        approval=approval,
    )


def _allowed(allowing: Sequence[Rule], below: PolicyDecision) -> PolicyDecision:
    if not allowing:
        return below
    reason = " ".join(rule.reason for rule in allowing if rule.reason) or "allowed by rule"
    rules = tuple(rule.id for rule in allowing)
    return msgspec.structs.replace(below, rules=rules, reason=reason)


def _value(expression: Expression, facts: object) -> object:
    """The expression's value; none, which nothing takes for an answer, where it fails."""
    try:
        return expression.evaluate(facts)
    except Exception:  # PO-1: whatever goes wrong in a condition denies
        return None


def _amount(limit: Limit, conditions: Conditions) -> Expression | None:
    if limit.of is None or limit.of.startswith("/"):
        return None
    return conditions.compile(limit.of)


def _charge(
    one: Ready,
    question: PolicyQuestion,
    facts: object,
    charges: list[Charge],
    failed: list[str],
) -> None:
    for limit, expression in zip(one.rule.limits, one.amounts, strict=True):
        amount = amount_of(_counted(limit, expression, question, facts))
        if amount is None:
            failed.append(f"{AMOUNT_INVALID}:{one.rule.id}")
            continue
        charges += [
            Charge(
                rule=one.rule.id,
                subject=subject,
                of=limit.of or "count",
                within_ms=limit.within_ms,
                maximum=limit.maximum,
                amount=amount,
            )
            for subject in _subjects(limit.per, question)
        ]


def _counted(
    limit: Limit, expression: Expression | None, question: PolicyQuestion, facts: object
) -> object:
    if expression is not None:
        return _value(expression, facts)
    if limit.of is None:
        return 1
    try:
        return pointed_at(limit.of, question.input)
    except LookupError:
        return None


def _subjects(per: Per, question: PolicyQuestion) -> tuple[str, ...]:
    """Who shares the limit. A person with several names takes of the limit of each of them, so that
    two names are not twice as much.
    """
    match per:
        case Per.PRINCIPAL:
            names = names_of(question.principal, question.identity)
            return tuple(f"principal:{name}" for name in names)
        case Per.CAPABILITY:
            return (f"capability:{question.capability.id}",)
        case Per.TENANT:
            return ("tenant",)
        case _:
            assert_never(per)
