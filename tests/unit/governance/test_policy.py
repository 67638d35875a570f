"""Policy: the built-in answers as a table, engines that fail, and two answers that both hold."""

from decimal import Decimal
from itertools import product

import pytest
from msgspec.structs import replace

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
from amends.contracts.declarations import Capability
from amends.contracts.enums import Mode, PrincipalKind, Risk
from amends.contracts.ids import DecisionId, PrincipalId
from amends.contracts.principals import PrincipalRef
from amends.governance.approval_rules import is_granted, touches
from amends.governance.limits import Charge
from amends.governance.policy import (
    DEFAULT_APPROVAL,
    CapabilityPolicy,
    PolicyDecision,
    PolicyQuestion,
    PolicyVerdict,
    ask,
    force_approval,
    stricter,
)
from amends.testing.builders import NOW, capability, principal

BUILT_IN = CapabilityPolicy()
DECLARED = ApprovalPolicy(rule=ByRole("treasury"), reason="Money leaves the house.")
OPTIONAL = replace(DECLARED, required=False)
ALLOW = PolicyDecision(verdict=PolicyVerdict.ALLOW, rules=("one",), reason="fine", revision="r1")
DENY = replace(ALLOW, verdict=PolicyVerdict.DENY, rules=("two",))
NEEDS = replace(ALLOW, verdict=PolicyVerdict.REQUIRE_APPROVAL, approval=DECLARED, rules=("three",))


def question(**changes: object) -> PolicyQuestion:
    asked = PolicyQuestion(
        capability=capability(),
        principal=principal(),
        identity=None,
        mode=Mode.EXECUTE,
        input={"amount": 500},
        approval_requested=False,
    )
    return replace(asked, **changes)


def answer(asked: PolicyQuestion) -> PolicyDecision:
    return ask(BUILT_IN, asked)


# ── the built-in policy ──────────────────────────────────────────────────────────────────────────

ASKING_MODES = {Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE, Mode.DRY_RUN, Mode.PLAN}
GROUNDS = list(product(Mode, Risk, (None, DECLARED, OPTIONAL), (False, True)))


@pytest.mark.parametrize(("mode", "risk", "declared", "requested"), GROUNDS)
def test_an_approval_is_asked_for_by_contract_by_flag_or_for_a_high_risk(
    mode: Mode, risk: Risk, declared: ApprovalPolicy | None, requested: bool
) -> None:
    decision = answer(
        question(
            capability=capability(risk=risk, approval=declared),
            mode=mode,
            approval_requested=requested,
        )
    )
    by_contract = declared is DECLARED
    by_risk = risk in (Risk.HIGH, Risk.CRITICAL)
    if mode not in ASKING_MODES or not (by_contract or requested or by_risk):
        assert (decision.verdict, decision.approval) == (PolicyVerdict.ALLOW, None)
        assert decision.rules == ("builtin.allow",)
        return
    ground = "contract" if by_contract else "flag" if requested else "risk"
    assert decision.verdict is PolicyVerdict.REQUIRE_APPROVAL
    assert decision.rules == (f"builtin.approval_{ground}",)
    assert decision.approval == (DECLARED if declared else DEFAULT_APPROVAL)
    assert decision.approval.required
    assert decision.reason == decision.approval.reason


@pytest.mark.parametrize(("kind", "mode"), list(product(PrincipalKind, Mode)))
def test_a_principal_is_admitted_by_its_kind_and_recovery_for_look_ups_alone(
    kind: PrincipalKind, mode: Mode
) -> None:
    admitted = mode is Mode.RECONCILE if kind is PrincipalKind.RECOVERY else True
    decision = answer(question(principal=principal(kind=kind), mode=mode))
    assert (decision.verdict is not PolicyVerdict.DENY) is admitted
    nobody = capability(principal_kinds=())
    denied = answer(question(capability=nobody, principal=principal(kind=kind), mode=mode))
    recovers = kind is PrincipalKind.RECOVERY and mode is Mode.RECONCILE
    assert (denied.verdict is PolicyVerdict.DENY) is not recovers
    if not recovers:
        assert denied.rules == ("builtin.principal_kind",)


def needing(*scopes: str) -> Capability:
    return capability(required_scopes=scopes)


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        (("pay", "ship"), True),
        (("*",), True),
        (("pay",), False),
        ((), False),
        (("PAY", "ship"), False),
        (("pay ship",), False),
    ],
)
def test_every_required_scope_has_to_be_held(held: tuple[str, ...], allowed: bool) -> None:
    asked = question(capability=needing("pay", "ship"), principal=principal(scopes=held))
    decision = answer(asked)
    assert (decision.verdict is PolicyVerdict.ALLOW) is allowed
    assert decision.rules == (("builtin.allow",) if allowed else ("builtin.scope",))


def test_a_missing_scope_is_denied_before_any_approval_is_asked_for() -> None:
    asked = question(
        capability=replace(needing("pay"), approval=DECLARED), principal=principal(scopes=())
    )
    assert answer(asked).verdict is PolicyVerdict.DENY


def test_recovery_may_look_up_without_holding_the_scopes_of_the_effect() -> None:
    recovery = principal("recovery", kind=PrincipalKind.RECOVERY, scopes=())
    asked = question(capability=needing("pay"), principal=recovery, mode=Mode.RECONCILE)
    assert answer(asked).verdict is PolicyVerdict.ALLOW
    assert answer(replace(asked, mode=Mode.EXECUTE)).verdict is PolicyVerdict.DENY


def test_the_built_in_policy_names_its_revision() -> None:
    assert answer(question()).revision == BUILT_IN.revision == "capability-policy-1"


# ── engines that fail ────────────────────────────────────────────────────────────────────────────


class Engine:
    """A policy engine that answers what a test gives it, whatever that is."""

    revision = "engine-1"

    def __init__(self, given: object) -> None:
        self._given = given

    def decide(self, _question: PolicyQuestion) -> PolicyDecision:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given  # type: ignore[return-value]  # a foreign engine is not type-checked


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (RuntimeError("no rules loaded"), "policy.engine_failed"),
        (KeyError("attribute"), "policy.engine_failed"),
        (None, "policy.answer_invalid"),
        (True, "policy.answer_invalid"),
        ("allow", "policy.answer_invalid"),
        (PolicyVerdict.ALLOW, "policy.answer_invalid"),
        (replace(ALLOW, verdict="allow"), "policy.answer_invalid"),
        (replace(ALLOW, verdict=None), "policy.answer_invalid"),
        (replace(ALLOW, freeze="yes"), "policy.answer_invalid"),
        (replace(ALLOW, plan_ttl_ms="5m"), "policy.answer_invalid"),
        (replace(ALLOW, plan_ttl_ms=0), "policy.answer_invalid"),
        (replace(ALLOW, charges=None), "policy.answer_invalid"),
        (replace(ALLOW, charges=("one",)), "policy.answer_invalid"),
        (replace(NEEDS, approval=None), "policy.answer_incomplete"),
        (replace(NEEDS, approval="anybody"), "policy.answer_incomplete"),
        (replace(ALLOW, approval=DECLARED), "policy.answer_incomplete"),
        (replace(DENY, approval=DECLARED), "policy.answer_incomplete"),
    ],
)
def test_whatever_is_not_a_clear_answer_is_a_deny(given: object, rule: str) -> None:
    decision = ask(Engine(given), question())
    assert decision.verdict is PolicyVerdict.DENY
    assert decision.rules == (rule,)


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize("given", [ALLOW, DENY, NEEDS])
def test_a_clear_answer_is_taken_as_it_is(given: PolicyDecision) -> None:
    assert ask(Engine(given), question()) is given


# ── two answers that both hold ───────────────────────────────────────────────────────────────────

ORDER = [PolicyVerdict.ALLOW, PolicyVerdict.REQUIRE_APPROVAL, PolicyVerdict.DENY]


@pytest.mark.parametrize(("one", "other"), list(product([ALLOW, NEEDS, DENY], repeat=2)))
def test_of_two_answers_the_stricter_verdict_holds(
    one: PolicyDecision, other: PolicyDecision
) -> None:
    expected = max(one.verdict, other.verdict, key=ORDER.index)
    assert stricter(one, other).verdict is stricter(other, one).verdict is expected


def test_the_restrictions_of_two_answers_hold_together() -> None:
    charge = Charge(
        rule="few",
        subject="tenant",
        of="count",
        within_ms=1_000,
        maximum=Decimal(1),
        amount=Decimal(1),
    )
    one = replace(ALLOW, freeze=True, plan_ttl_ms=5_000, charges=(charge,))
    other = replace(ALLOW, plan_ttl_ms=1_000, charges=(charge,))
    both = stricter(one, other)
    assert (both.freeze, both.plan_ttl_ms, both.charges) == (True, 1_000, (charge,))
    assert stricter(ALLOW, one).plan_ttl_ms == 5_000
    assert stricter(ALLOW, ALLOW).plan_ttl_ms is None


def test_the_same_approval_asked_for_twice_is_asked_for_once() -> None:
    both = stricter(NEEDS, replace(NEEDS, rules=("four",)))
    assert both.approval == DECLARED
    assert both.rules == ("three", "four")


def test_two_different_approvals_are_both_needed() -> None:
    legal = ApprovalPolicy(
        rule=ByGroup("legal"),
        reason="A contract is at stake.",
        ttl_ms=1000,
        separation_of_duties=False,
        evidence=("opinion",),
        version="7",
    )
    treasury = replace(DECLARED, minimum_distinct=2, evidence=("invoice", "opinion"))
    one = replace(NEEDS, approval=treasury)
    both = stricter(one, replace(NEEDS, approval=legal)).approval
    assert both is not None
    assert (both.ttl_ms, both.minimum_distinct, both.separation_of_duties) == (1000, 2, True)
    assert both.evidence == ("invoice", "opinion")
    assert both.reason == "Money leaves the house. A contract is at stake."
    assert both.version == "1+7"
    assert both.required


LEAVES: tuple[ApprovalRule, ...] = (
    ByRole("treasury"),
    ByGroup("legal"),
    ByPrincipal((PrincipalId("carol"),)),
    ByTenantPolicy(),
)
COMPOSITES: tuple[ApprovalRule, ...] = (
    AllOf((ByRole("treasury"), ByGroup("legal"))),
    AnyOf((ByRole("treasury"), ByPrincipal((PrincipalId("carol"),)))),
    Quorum(2, AnyOf((ByRole("treasury"), ByTenantPolicy()))),
)


def approval(name: str, **held: object) -> Decision:
    return replace(
        Decision(
            decision_id=DecisionId(f"dec_{name}"),
            answer=Answer.APPROVED,
            approver=PrincipalRef(PrincipalId(name), PrincipalKind.USER),
            seen_revision=1,
            at=NOW,
        ),
        **held,
    )


PEOPLE = (
    approval("carol"),
    approval("tom", roles=("treasury",)),
    approval("tina", roles=("treasury",), groups=("legal",)),
    approval("liz", groups=("legal",)),
    approval("otto", may_approve=True),
)
GROUPS = [
    tuple(one for one, chosen in zip(PEOPLE, bits, strict=True) if chosen)
    for bits in product((False, True), repeat=len(PEOPLE))
]


@pytest.mark.parametrize(
    ("one", "other", "minimum"),
    [
        (one, other, minimum)
        for one, other in product(LEAVES + COMPOSITES, repeat=2)
        for minimum in (0, 1, 2)
        if one != other
    ],
)
def test_a_joint_approval_is_granted_only_where_each_of_the_two_would_be(
    one: ApprovalRule, other: ApprovalRule, minimum: int
) -> None:
    """Each policy alone counts only people whose word counts for its own rule."""
    first = ApprovalPolicy(rule=one, minimum_distinct=minimum)
    second = ApprovalPolicy(rule=other, version="2")
    joint = stricter(replace(NEEDS, approval=first), replace(NEEDS, approval=second)).approval
    assert joint is not None
    for group in GROUPS:
        if is_granted(joint, group):
            assert is_granted(first, _counting_for(first, group))
            assert is_granted(second, _counting_for(second, group))


def _counting_for(policy: ApprovalPolicy, group: tuple[Decision, ...]) -> list[Decision]:
    return [made for made in group if touches(policy.rule, made)]


def test_everybody_together_satisfies_a_joint_approval() -> None:
    first = ApprovalPolicy(rule=COMPOSITES[0], minimum_distinct=2)
    second = ApprovalPolicy(rule=COMPOSITES[2])
    joint = stricter(replace(NEEDS, approval=first), replace(NEEDS, approval=second)).approval
    assert joint is not None
    assert is_granted(joint, PEOPLE)


# ── the compensation contract ────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-PIPE-3")
@pytest.mark.parametrize("decision", [ALLOW, NEEDS, DENY])
def test_a_compensation_contract_forces_an_approval_unless_a_stronger_one_is_chosen(
    decision: PolicyDecision,
) -> None:
    assert force_approval(decision, required=False) is decision
    forced = force_approval(decision, required=True)
    if decision is not ALLOW:
        assert forced is decision
        return
    assert forced.verdict is PolicyVerdict.REQUIRE_APPROVAL
    assert forced.approval == DEFAULT_APPROVAL
    assert forced.rules == ("one", "builtin.compensation_contract")


def test_the_default_approval_is_the_tenants_with_separation_of_duties() -> None:
    assert DEFAULT_APPROVAL.rule == ByTenantPolicy()
    assert DEFAULT_APPROVAL.separation_of_duties
    assert DEFAULT_APPROVAL.minimum_distinct == 1
