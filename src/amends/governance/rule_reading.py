"""From the tree of a file to its rules, with every fault that it has (PO-2).

    version: 1
    rules:
      - id: small-charges
        match: {capability: payments.*, kind: agent}
        when: input.amount <= 1000
        effect: allow

Deliberately not here: YAML, and whether expressions compile (`rule_policy` finds that out).
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

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
from amends.contracts.enums import Freeze, Mode, PrincipalKind, Risk, Sensitivity, SideEffect
from amends.contracts.ids import PrincipalId
from amends.governance.rule_fields import INVALID, Faults, Table, given, scalar
from amends.governance.rule_scalars import (
    Unfit,
    amount,
    count,
    identifier,
    one_of,
    pattern,
    principal,
    span_ms,
    text,
    truth,
)
from amends.governance.rule_tree import Fields, Items, Node, Scalar
from amends.governance.rules import Effect, Limit, Match, Per, Rule

VERSION: Final = "1"
MOST_RULES: Final = 10_000
_DEEPEST: Final = 8


def read_rules(tree: Node, faults: Faults) -> tuple[Rule, ...]:
    """The rules of a file. What is wrong is added to `faults`."""
    table = Table(tree, "the file", faults)
    table.one("version", _version, needed=True)
    listed = table.need("rules")
    table.rest()
    if listed is None:
        return ()
    if not isinstance(listed, Items) or not 1 <= len(listed.items) <= MOST_RULES:
        faults.add(INVALID, listed.line, f"rules has to list 1 to {MOST_RULES} rules")
        return ()
    rules = [_rule(node, faults) for node in listed.items]
    faults.rule = None
    return _distinct([rule for rule in rules if rule is not None], faults)


def _version(scalar: Scalar) -> str:
    if scalar.text != VERSION:
        raise Unfit(f"has to be {VERSION}")
    return scalar.text


def _distinct(rules: list[Rule], faults: Faults) -> tuple[Rule, ...]:
    first: dict[str, Rule] = {}
    for rule in rules:
        before = first.setdefault(rule.id, rule)
        if before is not rule:
            faults.rule = rule.id
            faults.add("policy.rule_twice", rule.line, f"line {before.line} has this id as well")
    return tuple(first.values())


def _rule(node: Node, faults: Faults) -> Rule | None:
    faults.rule, before = None, len(faults.found)
    table = Table(node, "a rule", faults)
    rule_id = faults.rule = table.one("id", identifier, needed=True)
    reason = table.one("reason", text)
    effect = table.one("effect", one_of(Effect))
    freeze = table.one("freeze", one_of(Freeze))
    match, approval, limits = table.node("match"), table.node("approval"), table.node("limits")
    fields: dict[str, object] = {
        "match": None if match is None else _match(match, faults),
        "when": table.one("when", text),
        "effect": effect,
        "approval": _approval(approval, reason or "", effect, table.line, faults),
        "freeze": freeze is Freeze.GOVERNANCE,
        "plan_ttl_ms": table.one("plan_ttl", span_ms),
        "limits": () if limits is None else _limits(limits, faults),
        "reason": reason,
    }
    table.rest()
    if rule_id is None:
        return None
    rule = Rule(id=rule_id, line=table.line, **given(fields))  # type: ignore[arg-type]  # by name
    if len(faults.found) == before:
        _check_says_something(rule, faults)
    return rule


def _check_says_something(rule: Rule, faults: Faults) -> None:
    restricts = rule.freeze or rule.plan_ttl_ms is not None or rule.limits
    if rule.effect is None and not restricts:
        says = "a rule has an effect, or it freezes, shortens plans, or limits"
        faults.add("policy.rule_empty", rule.line, says)
    if rule.effect is Effect.DENY and restricts:
        says = "what is denied cannot be restricted as well"
        faults.add("policy.rule_contradicts", rule.line, says)


def _match(node: Node, faults: Faults) -> Match:
    table = Table(node, "match", faults)
    match = Match(
        capability=table.many("capability", pattern),
        risk=table.many("risk", one_of(Risk)),
        side_effect=table.many("side_effect", one_of(SideEffect)),
        sensitivity=table.many("sensitivity", one_of(Sensitivity)),
        tenant=table.many("tenant", identifier),
        mode=table.many("mode", one_of(Mode)),
        kind=table.many("kind", one_of(PrincipalKind)),
        role=table.many("role", text),
        group=table.many("group", text),
        principal=table.many("principal", principal),
    )
    table.rest()
    return match


# ── approvals ────────────────────────────────────────────────────────────────────────────────────


def _approval(
    node: Node | None, reason: str, effect: Effect | None, line: int, faults: Faults
) -> ApprovalPolicy | None:
    if node is None:
        return ApprovalPolicy(reason=reason) if effect is Effect.REQUIRE_APPROVAL else None
    if effect is not Effect.REQUIRE_APPROVAL:
        says = "approval belongs to effect: require_approval"
        faults.add("policy.rule_contradicts", line, says)
    table = Table(node, "approval", faults)
    who = table.node("rule")
    fields: dict[str, object] = {
        "reason": table.one("reason", text) or reason,
        "ttl_ms": table.one("ttl", span_ms),
        "rule": None if who is None else _approvers(who, faults, _DEEPEST),
        "minimum_distinct": table.one("minimum_distinct", count),
        "separation_of_duties": table.one("separation_of_duties", truth),
        "evidence": table.many("evidence", text),
        "version": table.one("version", text),
    }
    table.rest()
    return ApprovalPolicy(**given(fields))  # type: ignore[arg-type]  # read by name above


def _approvers(node: Node, faults: Faults, depth: int) -> ApprovalRule | None:
    """`tenant_policy`, or one of role, group, principal, all, any and quorum."""
    if isinstance(node, Scalar):
        return scalar(node, "rule", _tenant_policy, faults)
    if not isinstance(node, Fields) or len(node.entries) != 1 or depth == 0:
        says = f"rule has to be one of {', '.join(sorted(_APPROVERS))}, or tenant_policy"
        faults.add(INVALID, node.line, says)
        return None
    [entry] = node.entries
    read = _APPROVERS.get(entry.name)
    if read is None:
        says = f"rule has to be one of {', '.join(sorted(_APPROVERS))}, or tenant_policy"
        faults.add(INVALID, entry.line, says)
        return None
    return read(entry.node, faults, depth - 1)


def _tenant_policy(scalar: Scalar) -> ByTenantPolicy:
    if scalar.text != "tenant_policy":
        raise Unfit("has to be tenant_policy, or to have a field")
    return ByTenantPolicy()


def _by_role(node: Node, faults: Faults, _depth: int) -> ApprovalRule | None:
    role = scalar(node, "role", text, faults)
    return None if role is None else ByRole(role)


def _by_group(node: Node, faults: Faults, _depth: int) -> ApprovalRule | None:
    group = scalar(node, "group", text, faults)
    return None if group is None else ByGroup(group)


def _by_principal(node: Node, faults: Faults, _depth: int) -> ApprovalRule | None:
    items = node.items if isinstance(node, Items) else (node,)
    ids = [scalar(item, "principal", principal, faults) for item in items]
    known = tuple(PrincipalId(one) for one in ids if one is not None)
    if not items:
        faults.add(INVALID, node.line, "principal lists nobody")
    return ByPrincipal(known) if known else None


def _parts(node: Node, faults: Faults, depth: int) -> tuple[ApprovalRule, ...]:
    if not isinstance(node, Items) or not node.items:
        faults.add(INVALID, node.line, "has to list rules for approvers")
        return ()
    parts = [_approvers(item, faults, depth) for item in node.items]
    return tuple(part for part in parts if part is not None)


def _all_of(node: Node, faults: Faults, depth: int) -> ApprovalRule | None:
    return AllOf(_parts(node, faults, depth))


def _any_of(node: Node, faults: Faults, depth: int) -> ApprovalRule | None:
    return AnyOf(_parts(node, faults, depth))


def _quorum(node: Node, faults: Faults, depth: int) -> ApprovalRule | None:
    table = Table(node, "quorum", faults)
    number = table.one("n", count, needed=True)
    inner = table.need("of")
    table.rest()
    of = None if inner is None else _approvers(inner, faults, depth)
    return Quorum(number, of) if number is not None and of is not None else None


_APPROVERS: Final[Mapping[str, Callable[[Node, Faults, int], ApprovalRule | None]]] = (
    MappingProxyType(
        {
            "role": _by_role,
            "group": _by_group,
            "principal": _by_principal,
            "all": _all_of,
            "any": _any_of,
            "quorum": _quorum,
        }
    )
)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


def _limits(node: Node, faults: Faults) -> tuple[Limit, ...]:
    nodes = node.items if isinstance(node, Items) else (node,)
    if not nodes:
        faults.add(INVALID, node.line, "limits lists nothing; leave it out")
    found = [(one.line, _limit(one, faults)) for one in nodes]
    limits = [(line, limit) for line, limit in found if limit is not None]
    counted: set[tuple[object, ...]] = set()
    for line, limit in limits:
        key = (limit.of, limit.per, limit.within_ms)
        if key in counted:
            faults.add(INVALID, line, "limits counts the same twice")
        counted.add(key)
    return tuple(limit for _, limit in limits)


def _limit(node: Node, faults: Faults) -> Limit | None:
    table = Table(node, "a limit", faults)
    counts, total = table.one("count", count), table.one("total", amount)
    of = table.one("of", text)
    within_ms = table.one("within", span_ms, needed=True)
    per = table.one("per", one_of(Per), needed=True)
    table.rest()
    if (counts is None) == (total is None) or (total is None) != (of is None):
        says = "a limit has either count, or total with of"
        faults.add(INVALID, table.line, says)
        return None
    if within_ms is None or per is None:
        return None
    maximum = Decimal(counts or 0) if total is None else total
    return Limit(maximum=maximum, within_ms=within_ms, per=per, of=of)
