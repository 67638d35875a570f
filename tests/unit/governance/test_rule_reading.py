"""Files of rules: what they say, and that everything wrong with one is told at once."""

from decimal import Decimal

import pytest

from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ApprovalPolicy,
    ByGroup,
    ByPrincipal,
    ByRole,
    ByTenantPolicy,
    Quorum,
)
from amends.contracts.enums import Mode, PrincipalKind, Risk, Sensitivity, SideEffect
from amends.contracts.ids import PrincipalId
from amends.governance.rule_fields import Faults
from amends.governance.rule_reading import read_rules
from amends.governance.rule_tree import FileFault, Items, Scalar
from amends.governance.rules import RULED_MODES, Effect, Limit, Match, Per, Rule
from amends.wiring.policy_yaml import read_yaml


def read(text: str) -> tuple[tuple[Rule, ...], list[FileFault]]:
    faults = Faults()
    tree = read_yaml(text.encode(), faults)
    assert tree is not None
    return read_rules(tree, faults), faults.found


def rules_of(text: str) -> tuple[Rule, ...]:
    rules, faults = read(text)
    assert faults == []
    return rules


def one_rule(body: str) -> Rule:
    [rule] = rules_of(f"version: 1\nrules:\n  - {{id: one, effect: allow, {body}}}")
    return rule


FULL = """
version: 1
rules:
  - id: everything
    reason: All of it.
    match:
      capability: [payments.*, "*.refund"]
      risk: [low, high]
      side_effect: financial
      sensitivity: restricted
      tenant: acme
      mode: [plan, commit]
      kind: agent
      role: [buyer]
      group: west
      principal: bot@example.com
    when: input.amount < 10
    effect: require_approval
    approval:
      rule: {all: [{role: treasury}, {any: [{group: legal}, {principal: [carol, dave]}]}]}
      ttl: 4h
      minimum_distinct: 2
      separation_of_duties: false
      evidence: [ticket]
      version: "7"
    freeze: governance
    plan_ttl: 5m
    limits:
      - {count: 10, within: 1h, per: principal}
      - {total: 5000.50, of: /amount, within: 7d, per: tenant}
"""


@pytest.mark.rule("PO-2")
def test_a_rule_says_all_that_rules_can() -> None:
    [rule] = rules_of(FULL)
    assert rule.match == Match(
        capability=("payments.*", "*.refund"),
        risk=(Risk.LOW, Risk.HIGH),
        side_effect=(SideEffect.FINANCIAL,),
        sensitivity=(Sensitivity.RESTRICTED,),
        tenant=("acme",),
        mode=(Mode.PLAN, Mode.COMMIT),
        kind=(PrincipalKind.AGENT,),
        role=("buyer",),
        group=("west",),
        principal=("bot@example.com",),
    )
    assert rule.approval == ApprovalPolicy(
        reason="All of it.",
        ttl_ms=4 * 3_600_000,
        rule=AllOf(
            (
                ByRole("treasury"),
                AnyOf((ByGroup("legal"), ByPrincipal((PrincipalId("carol"), PrincipalId("dave"))))),
            )
        ),
        minimum_distinct=2,
        separation_of_duties=False,
        evidence=("ticket",),
        version="7",
    )
    assert rule.limits == (
        Limit(maximum=Decimal(10), within_ms=3_600_000, per=Per.PRINCIPAL),
        Limit(
            maximum=Decimal("5000.50"), within_ms=7 * 24 * 3_600_000, per=Per.TENANT, of="/amount"
        ),
    )
    assert (rule.id, rule.line, rule.effect) == ("everything", 4, Effect.REQUIRE_APPROVAL)
    assert (rule.when, rule.freeze, rule.plan_ttl_ms) == ("input.amount < 10", True, 300_000)
    assert rule.modes == {Mode.PLAN, Mode.COMMIT}


def test_a_rule_may_say_little() -> None:
    [rule] = rules_of("version: 1\nrules:\n  - {id: one, effect: allow}")
    assert rule == Rule(id="one", effect=Effect.ALLOW, line=3)
    assert rule.modes == RULED_MODES


@pytest.mark.parametrize("approval", ["", "approval: {rule: tenant_policy}"])
def test_an_approval_that_says_nothing_is_the_tenants_own(approval: str) -> None:
    text = f"version: 1\nrules:\n  - {{id: one, effect: require_approval, reason: Why, {approval}}}"
    [rule] = rules_of(text)
    assert rule.approval == ApprovalPolicy(reason="Why", rule=ByTenantPolicy())


def test_an_approval_may_need_a_quorum_and_have_a_reason_of_its_own() -> None:
    [rule] = rules_of(
        """
version: 1
rules:
  - id: one
    effect: require_approval
    approval: {reason: Money., rule: {quorum: {n: 2, of: {principal: carol}}}}
"""
    )
    assert rule.approval is not None
    assert rule.approval.reason == "Money."
    assert rule.approval.rule == Quorum(2, ByPrincipal((PrincipalId("carol"),)))


@pytest.mark.parametrize(
    ("said", "ms"), [("1s", 1_000), ("2500ms", 2_500), ("366d", 366 * 86_400_000)]
)
def test_spans_have_a_unit(said: str, ms: int) -> None:
    assert one_rule(f"plan_ttl: {said}").plan_ttl_ms == ms


def test_a_quoted_text_is_a_text_whatever_it_looks_like() -> None:
    assert one_rule('match: {role: ["no", "1e3"]}').match.role == ("no", "1e3")


def faulty(body: str) -> str:
    return f"version: 1\nrules:\n  - {{id: one, {body}}}"


APPROVING = "effect: require_approval, approval: "
LIMITING = "effect: allow, limits: "
FAULTS = [
    ("", "policy.field_missing"),
    ("a: 1", "policy.field_unknown"),
    ("version: 2\nrules: [{id: a, effect: allow}]", "policy.value_invalid"),
    ("version: 1", "policy.field_missing"),
    ("version: 1\nrules: []", "policy.value_invalid"),
    ("version: 1\nrules: {a: b}", "policy.value_invalid"),
    ("version: 1\nrules: [a]", "policy.value_invalid"),
    ("version: 1\nrules: [{effect: allow}]", "policy.field_missing"),
    ("version: 1\nrules: [{id: a, effect: allow}, {id: a, effect: deny}]", "policy.rule_twice"),
    (faulty("id: two, effect: allow"), "policy.field_twice"),
    (faulty("effect: allow, action: deny"), "policy.field_unknown"),
    (faulty("effect: perhaps"), "policy.value_invalid"),
    (faulty("effect: [allow]"), "policy.value_invalid"),
    (faulty("reason: nothing"), "policy.rule_empty"),
    (faulty("effect: deny, freeze: governance"), "policy.rule_contradicts"),
    (faulty("effect: allow, freeze: everything"), "policy.value_invalid"),
    (faulty("effect: allow, freeze: nothing, plan_ttl: 5"), "policy.value_invalid"),
    (faulty("effect: allow, plan_ttl: 999ms"), "policy.value_invalid"),
    (faulty("effect: allow, plan_ttl: 367d"), "policy.value_invalid"),
    (faulty("effect: allow, when: true"), "policy.value_invalid"),
    (faulty("effect: allow, when: ' '"), "policy.value_invalid"),
    (faulty("effect: allow, match: []"), "policy.value_invalid"),
    (faulty("effect: allow, match: {risk: []}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {risk: [extreme]}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {role: no}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {role: 7}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {role: [[a]]}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {capability: pay ments}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {capability: '*a*a*a*a*'}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {principal: a b}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {tenant: a/b}"), "policy.value_invalid"),
    (faulty("effect: allow, match: {capabilities: a}"), "policy.field_unknown"),
    (faulty("effect: allow, approval: {rule: tenant_policy}"), "policy.rule_contradicts"),
    (faulty(APPROVING + "{ttl: soon}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: everybody}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {role: a, group: b}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {nobody: a}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: [a]}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {role: 7}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {group: 7}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {principal: []}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {principal: [a b]}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {all: []}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {any: tenant_policy}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {any: [{role: 7}]}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {quorum: {n: 0, of: {role: a}}}}"), "policy.value_invalid"),
    (faulty(APPROVING + "{rule: {quorum: {n: 2}}}"), "policy.field_missing"),
    (faulty(APPROVING + "{minimum_distinct: '2'}"), "policy.value_invalid"),
    (faulty(APPROVING + "{separation_of_duties: no}"), "policy.value_invalid"),
    (faulty(APPROVING + "{people: 2}"), "policy.field_unknown"),
    (faulty(LIMITING + "[]"), "policy.value_invalid"),
    (faulty(LIMITING + "[7]"), "policy.value_invalid"),
    (faulty(LIMITING + "{count: 1, per: tenant}"), "policy.field_missing"),
    (faulty(LIMITING + "{count: 1, within: 1h}"), "policy.field_missing"),
    (faulty(LIMITING + "{within: 1h, per: tenant}"), "policy.value_invalid"),
    (faulty(LIMITING + "{count: 1, total: 2, within: 1h, per: tenant}"), "policy.value_invalid"),
    (faulty(LIMITING + "{total: 2, within: 1h, per: tenant}"), "policy.value_invalid"),
    (faulty(LIMITING + "{count: 2, of: /a, within: 1h, per: tenant}"), "policy.value_invalid"),
    (faulty(LIMITING + "{total: 0, of: /a, within: 1h, per: tenant}"), "policy.value_invalid"),
    (faulty(LIMITING + "{total: -1, of: /a, within: 1h, per: tenant}"), "policy.value_invalid"),
    (
        faulty(
            LIMITING + "[{count: 1, within: 1h, per: tenant}, {count: 2, within: 1h, per: tenant}]"
        ),
        "policy.value_invalid",
    ),
]


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(("text", "code"), FAULTS)
def test_a_fault_is_told_by_its_code(text: str, code: str) -> None:
    _, faults = read(text or "{}")
    assert code in [fault.code for fault in faults]


@pytest.mark.rule("PO-2")
def test_all_faults_are_told_at_once_with_line_and_rule() -> None:
    _, faults = read(
        """
version: 1
rules:
  - id: one
    effect: alow
  - effect: deny
  - id: three
    efect: deny
    plan_ttl: soon
"""
    )
    assert [(fault.line, fault.rule, fault.code) for fault in faults] == [
        (5, "one", "policy.value_invalid"),
        (6, None, "policy.field_missing"),
        (9, "three", "policy.value_invalid"),
        (8, "three", "policy.field_unknown"),
    ]
    assert str(faults[0]).startswith("line 5, rule one: effect has to be one of: allow, deny")
    assert str(faults[1]) == "line 6: a rule needs id [policy.field_missing]"


def test_a_field_that_is_no_name_is_not_repeated() -> None:
    _, faults = read(faulty('effect: allow, "a\\nb": 1'))
    assert [fault.says for fault in faults] == ["a rule has no field of that name"]


def test_rules_for_approvers_lie_in_one_another_only_so_deep() -> None:
    rule = "{role: a}"
    for _ in range(9):
        rule = f"{{all: [{rule}]}}"
    _, faults = read(faulty(f"{APPROVING}{{rule: {rule}}}"))
    assert [fault.code for fault in faults] == ["policy.value_invalid"]


def test_a_file_has_no_more_rules_than_anybody_reads() -> None:
    faults = Faults()
    listed = Items(tuple(Scalar("a", 1) for _ in range(10_001)), 1)
    tree = read_yaml(b"version: 1\nrules: [a]", faults)
    assert tree is not None
    entries = tuple(
        type(one)(one.name, one.line, listed if one.name == "rules" else one.node)
        for one in tree.entries  # type: ignore[union-attr]  # it is a mapping
    )
    assert read_rules(type(tree)(entries, 1), faults) == ()  # type: ignore[arg-type]  # from a table
    assert [fault.code for fault in faults.found] == ["policy.value_invalid"]
