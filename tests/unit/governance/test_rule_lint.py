"""What is odd about rules: those that never decide, those that fit nothing, what nobody may use."""

import pytest

from amends.contracts.enums import Mode, PrincipalKind, Risk
from amends.contracts.ids import CapabilityId
from amends.governance.rule_lint import lint
from amends.governance.rules import Effect, Match, Rule
from amends.testing.builders import capability

ALL = Rule(id="all", effect=Effect.ALLOW, match=Match(capability=("payments.*",)), line=1)


def rule(id: str, effect: Effect | None = Effect.ALLOW, line: int = 2, **fields: object) -> Rule:
    return Rule(id=id, effect=effect, line=line, **fields)  # type: ignore[arg-type]  # by name


def found(*rules: Rule) -> list[tuple[str, str | None]]:
    return [(one.code, one.rule) for one in lint(rules)]


CHARGE = Match(capability=("payments.charge",))
SHADOWED = [("policy.rule_shadowed", "two")]


@pytest.mark.rule("PO-3")
@pytest.mark.parametrize(
    ("one", "two", "odd"),
    [
        (rule("one", Effect.DENY, match=CHARGE), rule("two", match=CHARGE), SHADOWED),
        (rule("one", Effect.DENY), rule("two", None, freeze=True, match=CHARGE), SHADOWED),
        (rule("one", Effect.DENY), rule("two", Effect.DENY, match=CHARGE), SHADOWED),
        (rule("one", Effect.DENY), rule("two", Effect.DENY, line=3), SHADOWED),
        (rule("one", Effect.DENY, when="true"), rule("two", match=CHARGE), []),
        (rule("one", Effect.DENY, match=CHARGE), rule("two"), []),
        (rule("one", Effect.DENY, match=Match(risk=(Risk.LOW,))), rule("two"), []),
        (
            rule("one", Effect.DENY, match=Match(risk=(Risk.LOW, Risk.HIGH))),
            rule("two", match=Match(risk=(Risk.LOW,))),
            SHADOWED,
        ),
        (
            rule("one", Effect.DENY, match=Match(mode=(Mode.PLAN,))),
            rule("two", match=Match(mode=(Mode.PLAN, Mode.COMMIT))),
            [],
        ),
        (
            rule("one", Effect.DENY, match=Match(capability=("payments.*",))),
            rule("two", match=Match(capability=("payments.charge", "mail.send"))),
            [],
        ),
        (
            rule("one", Effect.DENY, match=Match(capability=("payments.*",))),
            rule("two", match=Match(capability=("payments.c*", "payments.refund"))),
            SHADOWED,
        ),
        (rule("one", Effect.REQUIRE_APPROVAL), rule("two", match=CHARGE), SHADOWED),
        (rule("one", Effect.REQUIRE_APPROVAL), rule("two", match=CHARGE, freeze=True), []),
        (rule("one", Effect.REQUIRE_APPROVAL), rule("two", Effect.REQUIRE_APPROVAL), []),
        (rule("one"), rule("two", match=CHARGE), SHADOWED),
        (rule("one"), rule("two", line=3), SHADOWED),
        (rule("one"), rule("two", plan_ttl_ms=1000), []),
        (rule("one"), rule("two", Effect.DENY, match=CHARGE), []),
        (rule("one", None, freeze=True), rule("two", match=CHARGE), []),
    ],
)
def test_a_rule_that_another_one_makes_void_is_found(
    one: Rule, two: Rule, odd: list[tuple[str, str | None]]
) -> None:
    other = rule("zzz", match=Match(principal=("zoe",)), when="true")
    assert [told for told in found(one, two, other) if told[1] == "two"] == odd


def test_a_file_that_allows_nothing_is_odd() -> None:
    assert found(rule("one", Effect.DENY)) == [("policy.nothing_allowed", None)]


@pytest.mark.parametrize(
    ("match", "effect", "odd"),
    [
        (Match(kind=(PrincipalKind.RECOVERY,)), Effect.DENY, True),
        (Match(kind=(PrincipalKind.RECOVERY,), mode=(Mode.RECONCILE,)), Effect.DENY, False),
        (Match(mode=(Mode.RECONCILE,)), Effect.ALLOW, True),
        (Match(mode=(Mode.RECONCILE,)), Effect.DENY, False),
        (Match(mode=(Mode.RECONCILE, Mode.PLAN)), Effect.ALLOW, False),
    ],
)
def test_a_rule_about_what_rules_are_not_about_is_odd(
    match: Match, effect: Effect, odd: bool
) -> None:
    told = [("policy.rule_unreachable", "two")] if odd else []
    assert found(ALL, rule("two", effect, match=match)) == told


@pytest.mark.rule("PO-3")
def test_rules_are_compared_with_the_capabilities_of_an_app() -> None:
    capabilities = [capability(), capability(id=CapabilityId("mail.send"))]
    rules = [
        ALL,
        rule("typo", match=Match(capability=("payment.charge",)), line=3),
        rule("risky", match=Match(risk=(Risk.CRITICAL,)), line=4),
    ]
    told = [(one.code, one.rule) for one in lint(rules, capabilities)]
    assert told == [
        ("policy.capability_denied", None),
        ("policy.capability_unknown", "typo"),
        ("policy.rule_unreachable", "risky"),
    ]
    assert "mail.send" in lint(rules, capabilities)[0].says
