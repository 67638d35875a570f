"""What holds of rules whatever they are: their order, an added deny, and what is not known."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amends.app.amends import Amends
from amends.contracts.approval_policy import ApprovalPolicy, ByRole
from amends.contracts.enums import Mode, PrincipalKind, Risk
from amends.contracts.errors import AmendsError
from amends.contracts.principals import Caller
from amends.governance.policy import CapabilityPolicy, PolicyDecision, PolicyQuestion, PolicyVerdict
from amends.governance.rule_explaining import explain
from amends.governance.rule_policy import RulePolicy
from amends.governance.rules import Effect, Limit, Match, Per, Rule
from amends.runtime.engine import Engine
from amends.testing.builders import capability, principal
from amends.testing.workbench import ALICE, CHARGE, Workbench
from amends.wiring.cel import Cel
from amends.wiring.opening import Runtime, Settings

CEL = Cel()
CONDITIONS = (
    None,
    "input.amount > 10",
    "input.amount <= 10",
    "principal.kind == 'agent'",
    "input.missing > 1",
    "'text'",
)


def some(values: Sequence[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.just(()) | st.tuples(st.sampled_from(values))


MATCHES = st.builds(
    Match,
    capability=some(["payments.*", "payments.charge", "mail.send"]),
    risk=some(list(Risk)),
    mode=some([Mode.EXECUTE, Mode.PLAN, Mode.RECONCILE]),
    kind=some(list(PrincipalKind)),
    role=some(["buyer", "seller"]),
)
LIMITS = st.builds(
    Limit,
    maximum=st.just(Decimal(5)),
    within_ms=st.just(1_000),
    per=st.sampled_from(Per),
    of=st.sampled_from([None, "/amount", "/missing"]),
)


@st.composite
def rule_sets(draw: st.DrawFn) -> list[Rule]:
    rules = []
    for number in range(draw(st.integers(0, 6))):
        effect = draw(st.sampled_from([*Effect, None]))
        approval = ApprovalPolicy(rule=ByRole(draw(st.sampled_from("abc"))))
        rules.append(
            Rule(
                id=f"r{number}",
                match=draw(MATCHES),
                when=draw(st.sampled_from(CONDITIONS)),
                effect=effect,
                approval=approval if effect is Effect.REQUIRE_APPROVAL else None,
                freeze=draw(st.booleans()),
                plan_ttl_ms=draw(st.none() | st.integers(1_000, 9_000)),
                limits=draw(st.just(()) | st.tuples(LIMITS)),
            )
        )
    return rules


QUESTIONS = st.builds(
    lambda risk, kind, roles, mode, amount, asked: PolicyQuestion(
        capability=capability(risk=risk),
        principal=principal(kind=kind, roles=roles),
        identity=None,
        mode=mode,
        input={"amount": amount},
        approval_requested=asked,
    ),
    risk=st.sampled_from(Risk),
    kind=st.sampled_from(PrincipalKind),
    roles=some(["buyer", "seller"]),
    mode=st.sampled_from([Mode.EXECUTE, Mode.PLAN, Mode.COMMIT, Mode.RECONCILE]),
    amount=st.sampled_from([0, 10, 11, "12.50", "much", -1, None, True]),
    asked=st.booleans(),
)


def decide(rules: Sequence[Rule], question: PolicyQuestion) -> PolicyDecision:
    return RulePolicy(rules, CEL, "rules-1").decide(question)


STRICTNESS = [PolicyVerdict.ALLOW, PolicyVerdict.REQUIRE_APPROVAL, PolicyVerdict.DENY]


@pytest.mark.rule("PO-2")
@given(rule_sets(), QUESTIONS, st.randoms())
def test_the_order_of_rules_does_not_matter(
    rules: list[Rule], question: PolicyQuestion, random: object
) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # it is a random.Random
    assert decide(shuffled, question) == decide(rules, question)


@pytest.mark.rule("PO-2")
@given(rule_sets(), QUESTIONS, MATCHES, st.sampled_from(CONDITIONS))
def test_a_deny_that_is_added_never_allows_anything(
    rules: list[Rule], question: PolicyQuestion, match: Match, when: str | None
) -> None:
    before = decide(rules, question)
    added = Rule(id="added", effect=Effect.DENY, match=match, when=when)
    after = decide([*rules, added], question)
    if before.verdict is PolicyVerdict.DENY:
        assert after.verdict is PolicyVerdict.DENY
    else:
        assert after == before or after.verdict is PolicyVerdict.DENY


@pytest.mark.rule("PO-2")
@given(rule_sets(), QUESTIONS, MATCHES)
def test_a_restriction_that_is_added_never_loosens_anything(
    rules: list[Rule], question: PolicyQuestion, match: Match
) -> None:
    before = decide(rules, question)
    added = Rule(id="added", match=match, freeze=True, plan_ttl_ms=5_000)
    after = decide([*rules, added], question)
    assert after.verdict is before.verdict
    assert after.freeze >= before.freeze
    if before.plan_ttl_ms is not None and after.plan_ttl_ms is not None:
        assert after.plan_ttl_ms <= before.plan_ttl_ms


@pytest.mark.rule("PO-1", "PO-2")
@given(rule_sets(), QUESTIONS)
def test_rules_only_make_the_built_in_policy_stricter(
    rules: list[Rule], question: PolicyQuestion
) -> None:
    below = CapabilityPolicy().decide(question)
    above = decide(rules, question)
    assert STRICTNESS.index(above.verdict) >= STRICTNESS.index(below.verdict)
    if not rules and question.mode is not Mode.RECONCILE:
        assert above.verdict is PolicyVerdict.DENY


@pytest.mark.rule("PO-3")
@given(rule_sets(), QUESTIONS)
def test_an_explanation_agrees_with_the_decision(
    rules: list[Rule], question: PolicyQuestion
) -> None:
    policy = RulePolicy(rules, CEL, "rules-1")
    told = explain(policy, question)
    assert told.decision == policy.decide(question)
    heard = {rule.id for rule in policy.hear(question).fitting}
    assert {one.id for one in told.rules if one.fits} == heard
    known = {rule.id for rule in rules}
    behind = {name.partition(":")[2] or name for name in told.decision.rules} & known
    assert {one.id for one in told.rules if one.decides} == behind


def beside(bench: Workbench, number: int) -> Amends:
    """Alice at another engine over the same store, as in another process."""
    environment = replace(bench.engine.environment, owner=f"beside:{number}")
    runtime = Runtime(Engine(environment), bench.signer, Settings(recover=False))
    return Amends(runtime, Caller(principal=ALICE))


@pytest.mark.rule("PO-2")
@given(
    amounts=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    pauses=st.lists(st.integers(0, 40), min_size=8, max_size=8),
)
def test_several_processes_never_take_more_than_a_limit_in_any_window(
    amounts: list[int], pauses: list[int]
) -> None:
    limit = Limit(maximum=Decimal(5), within_ms=60_000, per=Per.PRINCIPAL, of="/amount")
    rules = [Rule(id="all", effect=Effect.ALLOW, limits=(limit,))]

    async def play() -> list[tuple[float, int]]:
        taken: list[tuple[float, int]] = []
        async with Workbench(policy=RulePolicy(rules, CEL, "rules-1")) as bench:
            engines = [bench.alice, beside(bench, 2), beside(bench, 3)]
            start = bench.clock()
            for amount, pause in zip(amounts, pauses, strict=False):

                async def one(number: int, amount: int = amount) -> None:
                    try:
                        await engines[number].execute(CHARGE, {"amount": amount})
                    except AmendsError as error:
                        if not error.code.startswith("policy.limit"):
                            raise
                        return
                    taken.append(((bench.clock() - start).total_seconds(), amount))

                await asyncio.gather(*(one(number) for number in range(3)))
                bench.wait(pause)
        return taken

    taken = asyncio.run(play())
    for instant, _ in taken:
        assert sum(amount for at, amount in taken if instant <= at < instant + 60) <= 5
