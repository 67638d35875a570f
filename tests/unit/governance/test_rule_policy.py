"""What rules of a file come to together, and what denies: tables of rules and questions."""

from decimal import Decimal
from itertools import permutations

import pytest

from amends.contracts.approval_policy import AllOf, ApprovalPolicy, ByGroup, ByRole
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Mode, PrincipalKind, Risk, Sensitivity, SideEffect
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.principals import Identity, Principal
from amends.governance.conditions import ConditionRefused
from amends.governance.policy import PolicyVerdict
from amends.governance.rules import Effect, Limit, Match, Per, Rule
from amends.testing.builders import capability, principal
from tests.unit.governance.policies import decided, policy, question

ALLOW = Rule(id="allow", effect=Effect.ALLOW, reason="Small enough.")
DENY = Rule(id="deny", effect=Effect.DENY, reason="Never.")
TREASURY = ApprovalPolicy(rule=ByRole("treasury"), reason="Money leaves the house.")
LEGAL = ApprovalPolicy(rule=ByGroup("legal"), ttl_ms=1_000)
APPROVE = Rule(id="approve", effect=Effect.REQUIRE_APPROVAL, approval=TREASURY)
ALSO = Rule(id="also", effect=Effect.REQUIRE_APPROVAL, approval=LEGAL)
FREEZE = Rule(id="freeze", freeze=True)
SHORT = Rule(id="short", plan_ttl_ms=60_000)
SHORTER = Rule(id="shorter", plan_ttl_ms=30_000)


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(
    ("rules", "verdict", "decided_by"),
    [
        ([], "deny", ("policy.no_rule_allows",)),
        ([FREEZE, SHORT], "deny", ("policy.no_rule_allows",)),
        ([ALLOW], "allow", ("allow",)),
        ([ALLOW, FREEZE], "allow", ("allow",)),
        ([APPROVE], "require_approval", ("approve",)),
        ([ALLOW, APPROVE], "require_approval", ("approve",)),
        ([ALSO, APPROVE], "require_approval", ("also", "approve")),
        ([DENY], "deny", ("deny",)),
        ([ALLOW, DENY], "deny", ("deny",)),
        ([APPROVE, DENY], "deny", ("deny",)),
        ([ALLOW, APPROVE, DENY], "deny", ("deny",)),
    ],
)
def test_deny_beats_an_approval_which_beats_allow_in_any_order(
    rules: list[Rule], verdict: str, decided_by: tuple[str, ...]
) -> None:
    for order in permutations(rules):
        decision = decided(order)
        assert (decision.verdict, decision.rules) == (verdict, decided_by)
        assert decision.revision == "rules-1"


def test_the_approvals_of_several_rules_are_all_needed() -> None:
    approval = decided([APPROVE, ALSO]).approval
    assert approval is not None
    assert approval.rule == AllOf((ByGroup("legal"), ByRole("treasury")))
    assert approval.ttl_ms == 1_000


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(
    ("changes", "decided_by"),
    [
        (
            {"capability": capability(principal_kinds=(PrincipalKind.AGENT,))},
            "builtin.principal_kind",
        ),
        (
            {"principal": principal(scopes=()), "capability": capability(required_scopes=("pay",))},
            "builtin.scope",
        ),
    ],
)
def test_what_the_capability_denies_no_rule_allows(
    changes: dict[str, object], decided_by: str
) -> None:
    decision = decided([ALLOW], question(**changes))
    assert decision.verdict is PolicyVerdict.DENY
    assert decision.rules == (decided_by,)
    assert decision.revision == "rules-1"


def test_what_the_capability_wants_approved_no_rule_lets_pass() -> None:
    risky = question(capability=capability(risk=Risk.HIGH))
    assert decided([ALLOW], risky).rules == ("builtin.approval_risk",)
    both = decided([ALLOW, APPROVE], risky)
    assert both.rules == ("approve", "builtin.approval_risk")
    assert both.approval is not None
    assert isinstance(both.approval.rule, AllOf)


def test_reasons_are_told_in_words() -> None:
    assert decided([ALLOW]).reason == "Small enough."
    assert decided([DENY]).reason == "Never."
    assert decided([APPROVE]).reason == "Money leaves the house."
    assert decided([Rule(id="mute", effect=Effect.ALLOW)]).reason == "allowed by rule"
    assert decided([Rule(id="mute", effect=Effect.DENY)]).reason == "a rule denies it"
    assert decided([]).reason == "no rule allows it"


# ── restrictions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("PO-2", "TX-PLAN-5")
def test_restrictions_of_all_fitting_rules_hold_together() -> None:
    decision = decided([ALLOW, FREEZE, SHORT, SHORTER])
    assert (decision.freeze, decision.plan_ttl_ms) == (True, 30_000)
    alone = decided([ALLOW])
    assert (alone.freeze, alone.plan_ttl_ms, alone.charges) == (False, None, ())


def limited(**changes: object) -> Rule:
    limit = Limit(maximum=Decimal(3), within_ms=1_000, **changes)  # type: ignore[arg-type]  # from a table
    return Rule(id="limited", effect=Effect.ALLOW, limits=(limit,))


@pytest.mark.parametrize(
    ("per", "subject"),
    [
        (Per.PRINCIPAL, "principal:alice"),
        (Per.CAPABILITY, "capability:payments.charge"),
        (Per.TENANT, "tenant"),
    ],
)
def test_a_limit_is_shared_by_its_subject(per: Per, subject: str) -> None:
    [charge] = decided([limited(per=per)]).charges
    assert (charge.subject, charge.amount, charge.maximum) == (subject, Decimal(1), Decimal(3))


@pytest.mark.rule("PO-2")
def test_a_person_with_two_names_does_not_have_twice_the_limit() -> None:
    one = principal("local:Alice", persons=("p-7",))
    two = principal("bot", persons=("p-7",))
    charges = [decided([limited()], question(principal=who)).charges for who in (one, two)]
    assert [[charge.subject for charge in each] for each in charges] == [
        ["principal:alice", "principal:p-7"],
        ["principal:bot", "principal:p-7"],
    ]


@pytest.mark.parametrize("of", ["/amount", "input.amount", "/nested/0", "double(input.text)"])
def test_an_amount_comes_from_a_pointer_or_an_expression(of: str) -> None:
    value: Json = {"amount": 12.5, "nested": ["12.5"], "text": "12.5"}
    [charge] = decided([limited(of=of)], question(value)).charges
    assert charge.amount == Decimal("12.5")
    assert charge.of == of


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize(
    "of", ["/missing", "/amount/0", "input.missing", "input.text", "-input.amount"]
)
def test_an_amount_that_is_none_denies(of: str) -> None:
    decision = decided([limited(of=of)], question({"amount": 1, "text": "much"}))
    assert decision.verdict is PolicyVerdict.DENY
    assert decision.rules == ("policy.amount_invalid:limited",)
    assert decision.reason == "the amount that a rule limits is none"


# ── conditions ───────────────────────────────────────────────────────────────────────────────────

TRUE = (
    "principal['id'] == 'alice' && action['mode'] == 'execute' && input['amount'] == 500",
    "size(principal) == 7 && size(action) == 6 && size(input) == 1",
    "input.all(name, name == 'amount') && !has(input.other)",
    "input.amount == 500",
    "action.capability == 'payments.charge' && action.mode == 'execute'",
    "action.risk == 'medium' && 'financial' in action.side_effects",
    "action.sensitivity == 'internal' && !action.approval_requested",
    "principal.id == 'alice' && principal.kind == 'user' && principal.tenant == 'acme'",
    "'buyer' in principal.roles && 'west' in principal.groups && '*' in principal.scopes",
    "principal.external_account == null",
)
ALICE = principal(roles=("buyer",), groups=("west",))
PAYING = capability(side_effects=(SideEffect.FINANCIAL,))


@pytest.mark.parametrize("when", TRUE)
def test_conditions_speak_of_the_action_the_principal_and_the_input(when: str) -> None:
    rule = Rule(id="one", effect=Effect.ALLOW, when=when)
    asked = question(principal=ALICE, capability=PAYING)
    assert decided([rule], asked).verdict is PolicyVerdict.ALLOW
    other = Rule(id="one", effect=Effect.ALLOW, when=f"!({when})")
    assert decided([other], asked).rules == ("policy.no_rule_allows",)


def test_a_condition_sees_the_external_account() -> None:
    rule = Rule(id="one", effect=Effect.ALLOW, when="principal.external_account == 'acct_1'")
    account = Identity(tenant=principal().tenant, external_account="acct_1")
    assert decided([rule], question(identity=account)).verdict is PolicyVerdict.ALLOW


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize(
    "when",
    [
        "input.missing > 1",
        "principal.missing == 1",
        "input.amount > 'a'",
        "input.amount",
        "'true'",
        "null",
        "1 / 0 == 1",
        "input.amount.matches('(')",
    ],
)
@pytest.mark.parametrize("effect", Effect)
def test_a_condition_that_fails_or_is_no_truth_denies(when: str, effect: Effect) -> None:
    approval = TREASURY if effect is Effect.REQUIRE_APPROVAL else None
    broken = Rule(id="broken", effect=effect, approval=approval, when=when)
    decision = decided([ALLOW, broken])
    assert decision.verdict is PolicyVerdict.DENY
    assert decision.rules == ("policy.condition_failed:broken",)
    assert decision.reason == "a rule's condition could not be evaluated"


def test_a_denial_names_every_rule_behind_it() -> None:
    broken = Rule(id="broken", freeze=True, when="input.missing")
    assert decided([broken, DENY]).rules == ("deny", "policy.condition_failed:broken")


def test_an_expression_that_does_not_compile_makes_no_policy() -> None:
    with pytest.raises(ConditionRefused):
        policy(Rule(id="one", effect=Effect.ALLOW, when="1 +"))
    with pytest.raises(ConditionRefused):
        policy(limited(of="1 +"))


# ── what a rule fits ─────────────────────────────────────────────────────────────────────────────

SECRET = capability(data=DataContract(sensitivity=Sensitivity.RESTRICTED))
FITS: list[tuple[Match, dict[str, object], dict[str, object]]] = [
    (
        Match(capability=("payments.*",)),
        {},
        {"capability": capability(id=CapabilityId("mail.send"))},
    ),
    (
        Match(capability=("a", "payments.charge")),
        {},
        {"capability": capability(id=CapabilityId("paymentsXcharge"))},
    ),
    (Match(risk=(Risk.LOW, Risk.MEDIUM)), {}, {"capability": capability(risk=Risk.HIGH)}),
    (
        Match(side_effect=(SideEffect.FINANCIAL,)),
        {"capability": PAYING},
        {"capability": capability(side_effects=(SideEffect.READ,))},
    ),
    (Match(sensitivity=(Sensitivity.RESTRICTED,)), {"capability": SECRET}, {}),
    (Match(tenant=("acme",)), {}, {"principal": Principal.named("alice", tenant="globex")}),
    (Match(mode=(Mode.EXECUTE, Mode.PLAN)), {}, {"mode": Mode.COMMIT}),
    (Match(kind=(PrincipalKind.USER,)), {}, {"principal": principal(kind=PrincipalKind.AGENT)}),
    (Match(role=("buyer", "seller")), {"principal": ALICE}, {}),
    (Match(group=("west",)), {"principal": ALICE}, {}),
    (Match(principal=("alice",)), {}, {"principal": Principal.named("bob", tenant="acme")}),
]


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(("match", "fitting", "other"), FITS, ids=lambda one: str(one)[:40])
def test_a_rule_fits_where_every_field_of_its_match_does(
    match: Match, fitting: dict[str, object], other: dict[str, object]
) -> None:
    rules = [Rule(id="one", effect=Effect.DENY, match=match), ALLOW]
    assert decided(rules, question(**fitting)).rules == ("one",)
    assert decided(rules, question(**other)).rules != ("one",)


@pytest.mark.parametrize("mode", [Mode.RECONCILE, Mode.ROLLBACK_NOT_SUPPORTED])
def test_looking_up_needs_no_rule_and_is_denied_by_name_only(mode: Mode) -> None:
    asked = question(mode=mode)
    assert decided([DENY], asked).verdict is PolicyVerdict.ALLOW
    assert decided([DENY], asked).rules == ("builtin.allow",)
    named = Rule(id="one", effect=Effect.DENY, match=Match(mode=(mode,)))
    assert decided([named], asked).rules == ("one",)


def test_another_declaration_under_the_same_id_is_matched_anew() -> None:
    rules = policy(Rule(id="one", effect=Effect.DENY, match=Match(risk=(Risk.LOW,))), ALLOW)
    assert rules.decide(question()).verdict is PolicyVerdict.ALLOW
    low = capability(risk=Risk.LOW)
    assert rules.decide(question(capability=low)).verdict is PolicyVerdict.DENY


def test_no_more_capabilities_are_remembered_than_a_program_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("amends.governance.rule_policy._REMEMBERED", 1)
    rules = policy(ALLOW)
    for name in ("one", "two", "one"):
        asked = question(capability=capability(id=CapabilityId(name)))
        assert rules.decide(asked).verdict is PolicyVerdict.ALLOW
