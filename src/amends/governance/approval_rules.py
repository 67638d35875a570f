"""The algebra of approval rules: which words meet a policy (AP-1).

One person's words count once, however the principal is named or whoever lends the word.
"""

from collections.abc import Iterable
from typing import assert_never

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
from amends.contracts.approvals import Answer, Decision
from amends.contracts.persons import names_in, same_person


def names_behind(made: Decision) -> tuple[str, ...]:
    """Everybody whose word a decision is, by folded names."""
    own = names_in(made.approver)
    return tuple(sorted({*made.names, *own, *names_lending(made)}))


def names_lending(made: Decision) -> tuple[str, ...]:
    """Who lent the word of a decision, by folded names; nobody, where it is the approver's own."""
    under = made.under
    return () if under is None else tuple(sorted({*under.names, *names_in(under.delegator)}))


def _one_each(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """The last word of each person; words that share a name are one person's."""
    voices: list[tuple[frozenset[str], Decision]] = []
    for made in decisions:
        names = frozenset(names_behind(made))
        same = [voice for voice in voices if same_person(voice[0], names)]
        voices = [voice for voice in voices if voice not in same]
        voices.append((names.union(*(known for known, _ in same)), made))
    return tuple(made for _, made in voices)


def is_granted(policy: ApprovalPolicy, decisions: Iterable[Decision]) -> bool:
    """Whether these decisions meet the policy: its rule, and its number of distinct principals."""
    approvals = _one_each(made for made in decisions if made.answer is Answer.APPROVED)
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
            return made.speaks_for.id in ids
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
