"""Which rule decided, and why the others did not: for a stored request or a what-if (PO-3).

Every rule is looked at, in the order of the ids. What is said of one is the first thing that does
not fit, or that its condition does not hold, or that it fits. The decision is the policy's own.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from amends.contracts.declarations import Capability
from amends.contracts.principals import Principal
from amends.governance.policy import Policy, PolicyDecision, PolicyQuestion, ask
from amends.governance.rule_policy import AMOUNT_INVALID, CONDITION_FAILED, RulePolicy
from amends.governance.rules import Match, Rule, glob_of

FITS: Final = "fits"
DOES_NOT_HOLD: Final = "its condition does not hold"


class ExplainedRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, whether it fits, and why not. `decides` says that it is behind the verdict."""

    id: str
    line: int
    effect: str
    fits: bool
    decides: bool
    says: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with every rule that there is."""

    decision: PolicyDecision
    rules: tuple[ExplainedRule, ...]


def explain(policy: Policy, question: PolicyQuestion) -> Explanation:
    """What the policy decides, and each of its rules if it is made of rules."""
    decision = ask(policy, question)
    rules = tuple(_rules(policy, question, decision)) if isinstance(policy, RulePolicy) else ()
    return Explanation(decision=decision, rules=rules)


def _rules(
    policy: RulePolicy, question: PolicyQuestion, decision: PolicyDecision
) -> Iterator[ExplainedRule]:
    heard = policy.hear(question)
    fitting = {rule.id for rule in heard.fitting}
    failed = {told.partition(":")[2]: told.partition(":")[0] for told in heard.failed}
    for rule in policy.rules:
        yield ExplainedRule(
            id=rule.id,
            line=rule.line,
            effect=rule.effect.value if rule.effect is not None else "restrict",
            fits=rule.id in fitting,
            decides=any(rule.id in (one, one.partition(":")[2]) for one in decision.rules),
            says=_says(rule, question, fits=rule.id in fitting, failed=failed.get(rule.id)),
        )


_FAILED: Final = {
    CONDITION_FAILED: "its condition cannot be evaluated, which denies",
    AMOUNT_INVALID: "the amount that it limits is none, which denies",
}


def _says(rule: Rule, question: PolicyQuestion, *, fits: bool, failed: str | None) -> str:
    if failed is not None:
        return _FAILED[failed]
    if fits:
        return FITS
    for field, same in _fields(rule, question):
        if not same:
            return f"another {field}"
    return DOES_NOT_HOLD


def _fields(rule: Rule, question: PolicyQuestion) -> Iterator[tuple[str, bool]]:
    """Each field of the match, and whether the question fits it."""
    yield "mode", question.mode in rule.modes
    yield from _of_capability(rule.match, question.capability)
    yield from _of_principal(rule.match, question.principal)


def _of_capability(match: Match, capability: Capability) -> Iterator[tuple[str, bool]]:
    named = glob_of(match.capability).fullmatch(capability.id) is not None
    yield "capability", not match.capability or named
    yield "risk", not match.risk or capability.risk in match.risk
    yield "side effect", _shared(match.side_effect, capability.side_effects)
    yield "sensitivity", not match.sensitivity or capability.data.sensitivity in match.sensitivity


def _of_principal(match: Match, principal: Principal) -> Iterator[tuple[str, bool]]:
    yield "kind of principal", not match.kind or principal.kind in match.kind
    yield "principal", not match.principal or principal.id in match.principal
    yield "tenant", not match.tenant or principal.tenant in match.tenant
    yield "role", _shared(match.role, principal.roles)
    yield "group", _shared(match.group, principal.groups)


def _shared(asked: tuple[str, ...], held: tuple[str, ...]) -> bool:
    return not asked or not set(asked).isdisjoint(held)
