"""Which rule decided, and the first thing that did not fit of each other one."""

from decimal import Decimal

import pytest

from amends.contracts.enums import Mode, PrincipalKind, Risk, Sensitivity, SideEffect
from amends.contracts.json_types import Json
from amends.governance.policy import CapabilityPolicy, PolicyVerdict
from amends.governance.rule_explaining import explain
from amends.governance.rules import Effect, Limit, Match, Per, Rule
from amends.testing.builders import principal
from tests.unit.governance.policies import policy, question

ALLOW = Rule(id="allow", effect=Effect.ALLOW, line=7)


def said(rule: Rule, value: Json = None) -> str:
    explanation = explain(policy(ALLOW, rule), question(value))
    [told] = [one for one in explanation.rules if one.id == rule.id]
    assert told.fits or told.says != "fits"
    return told.says


@pytest.mark.rule("PO-3")
@pytest.mark.parametrize(
    ("match", "says"),
    [
        (Match(), "fits"),
        (Match(mode=(Mode.PLAN,)), "another mode"),
        (Match(capability=("mail.*",)), "another capability"),
        (Match(risk=(Risk.LOW,)), "another risk"),
        (Match(side_effect=(SideEffect.FINANCIAL,)), "another side effect"),
        (Match(sensitivity=(Sensitivity.PUBLIC,)), "another sensitivity"),
        (Match(kind=(PrincipalKind.AGENT,)), "another kind of principal"),
        (Match(principal=("bob",)), "another principal"),
        (Match(tenant=("globex",)), "another tenant"),
        (Match(role=("buyer",)), "another role"),
        (Match(group=("west",)), "another group"),
    ],
)
def test_the_first_field_that_does_not_fit_is_named(match: Match, says: str) -> None:
    assert said(Rule(id="one", freeze=True, match=match)) == says


@pytest.mark.rule("PO-3")
@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("input.amount == 500", "fits"),
        ("input.amount == 1", "its condition does not hold"),
        ("input.missing", "its condition cannot be evaluated, which denies"),
    ],
)
def test_a_condition_is_told_to_hold_or_not_or_to_have_failed(when: str, says: str) -> None:
    assert said(Rule(id="one", freeze=True, when=when)) == says


def test_an_amount_that_is_none_is_told() -> None:
    limit = Limit(maximum=Decimal(1), within_ms=1000, per=Per.TENANT, of="/missing")
    told = said(Rule(id="one", limits=(limit,)))
    assert told == "the amount that it limits is none, which denies"


@pytest.mark.rule("PO-3")
def test_the_rules_behind_the_verdict_are_marked() -> None:
    deny = Rule(id="deny", effect=Effect.DENY, match=Match(role=("guest",)))
    freeze = Rule(id="freeze", freeze=True)
    broken = Rule(id="broken", effect=Effect.ALLOW, when="input.missing")
    rules = policy(ALLOW, deny, freeze)
    told = explain(rules, question())
    assert told.decision.verdict is PolicyVerdict.ALLOW
    assert [(one.id, one.effect, one.decides) for one in told.rules] == [
        ("allow", "allow", True),
        ("deny", "deny", False),
        ("freeze", "restrict", False),
    ]
    assert told.rules[0].line == 7
    guest = explain(rules, question(principal=principal(roles=("guest",))))
    assert [one.id for one in guest.rules if one.decides] == ["deny"]
    failed = explain(policy(ALLOW, broken), question())
    assert [one.id for one in failed.rules if one.decides] == ["broken"]


def test_a_policy_without_rules_is_explained_by_its_decision() -> None:
    told = explain(CapabilityPolicy(), question())
    assert (told.decision.rules, told.rules) == (("builtin.allow",), ())
