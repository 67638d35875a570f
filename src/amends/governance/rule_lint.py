"""What is odd about rules that can be read: some that never decide, some that fit nothing.

Nothing here makes a file unusable. A finding is a sign that its author meant something else.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import msgspec

from amends.contracts.declarations import Capability
from amends.contracts.enums import Mode, PrincipalKind
from amends.governance.rules import RULED_MODES, Effect, Match, Rule, fits_capability, glob_of

_SETS: Final = (
    "risk",
    "side_effect",
    "sensitivity",
    "tenant",
    "kind",
    "role",
    "group",
    "principal",
)


class LintFinding(msgspec.Struct, frozen=True):
    """One thing that is odd: a code, where, about which rule, and a sentence."""

    code: str
    line: int
    rule: str | None
    says: str


def lint(
    rules: Sequence[Rule], capabilities: Sequence[Capability] | None = None
) -> tuple[LintFinding, ...]:
    """Everything that is odd, by line; with an app's capabilities also what does not fit these."""
    found = [*_nothing_allowed(rules), *_shadowed(rules), *_unreachable(rules)]
    if capabilities is not None:
        found += [*_unknown(rules, capabilities), *_denied(rules, capabilities)]
    return tuple(sorted(found, key=lambda one: (one.line, one.code)))


def covers(one: Rule, other: Rule) -> bool:
    """Whether `one` fits, whatever its condition says, everywhere that `other` does."""
    if one.when is not None or not other.modes <= one.modes:
        return False
    if not all(_set_covers(one.match, other.match, name) for name in _SETS):
        return False
    pattern = glob_of(one.match.capability)
    return not one.match.capability or (
        bool(other.match.capability)
        and all(pattern.fullmatch(text) is not None for text in other.match.capability)
    )


def _set_covers(one: Match, other: Match, name: str) -> bool:
    wide, narrow = getattr(one, name), getattr(other, name)
    return not wide or (bool(narrow) and set(narrow) <= set(wide))


def _nothing_allowed(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    if not any(rule.effect in (Effect.ALLOW, Effect.REQUIRE_APPROVAL) for rule in rules):
        says = "No rule allows anything, so everything but looking up is denied."
        yield LintFinding("policy.nothing_allowed", 1, None, says)


def _shadowed(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    """Rules that another one makes void wherever they fit."""
    for rule in rules:
        above = [one for one in rules if one is not rule and _beats(one, rule)]
        if above:
            by = min(above, key=lambda one: (one.line, one.id))
            says = f"It never decides: rule {by.id} in line {by.line} fits wherever it does."
            yield LintFinding("policy.rule_shadowed", rule.line, rule.id, says)


def _beats(one: Rule, other: Rule) -> bool:
    if not covers(one, other):
        return False
    match one.effect:
        case Effect.DENY:
            twin = other.effect is Effect.DENY and covers(other, one)
            return not twin or one.line < other.line
        case Effect.REQUIRE_APPROVAL:
            return other.effect is Effect.ALLOW and not _restricts(other)
        case Effect.ALLOW:
            same = other.effect is Effect.ALLOW and not _restricts(other)
            return same and (not covers(other, one) or one.line < other.line)
        case None:
            return False
        case _:
            assert_never(one.effect)


def _restricts(rule: Rule) -> bool:
    return rule.freeze or rule.plan_ttl_ms is not None or bool(rule.limits)


def _unreachable(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    for rule in rules:
        kinds = set(rule.match.kind)
        if kinds == {PrincipalKind.RECOVERY} and Mode.RECONCILE not in rule.modes:
            says = "The recovery principal only looks up, which this rule is not about."
            yield LintFinding("policy.rule_unreachable", rule.line, rule.id, says)
        elif rule.effect is not Effect.DENY and not rule.modes & RULED_MODES:
            says = "Looking up needs no rule; only a deny can be about it."
            yield LintFinding("policy.rule_unreachable", rule.line, rule.id, says)


def _unknown(rules: Sequence[Rule], capabilities: Sequence[Capability]) -> Iterator[LintFinding]:
    for rule in rules:
        strange = [
            text
            for text in rule.match.capability
            if not any(glob_of((text,)).fullmatch(one.id) for one in capabilities)
        ]
        if strange:
            says = f"The app has no capability {', '.join(strange)}."
            yield LintFinding("policy.capability_unknown", rule.line, rule.id, says)
        elif not any(fits_capability(rule.match, one) for one in capabilities):
            says = "It fits no capability of the app."
            yield LintFinding("policy.rule_unreachable", rule.line, rule.id, says)


def _denied(rules: Sequence[Rule], capabilities: Sequence[Capability]) -> Iterator[LintFinding]:
    opening = [rule for rule in rules if rule.effect in (Effect.ALLOW, Effect.REQUIRE_APPROVAL)]
    for capability in capabilities:
        if not any(fits_capability(rule.match, capability) for rule in opening):
            says = f"No rule allows {capability.id}, so it is denied to everybody."
            yield LintFinding("policy.capability_denied", 1, None, says)
