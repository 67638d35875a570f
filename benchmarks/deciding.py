"""A policy's decision over many rules, and the condition engine's own time for the same."""

import time
from collections.abc import Callable
from statistics import median
from typing import Final

from amends.contracts.declarations import Capability
from amends.contracts.enums import Mode, PrincipalKind
from amends.contracts.ids import CapabilityId, PrincipalId, TenantId
from amends.contracts.principals import Principal
from amends.governance.policy import PolicyQuestion
from amends.governance.rule_policy import RulePolicy, variables
from amends.governance.rules import Effect, Match, Rule
from amends.wiring.cel import Cel

RULES: Final = 200
_ROUNDS: Final = 2_000
_CONDITION: Final = (
    "input.amount <= {} && principal.kind == 'agent' && !('guest' in principal.roles)"
)
_QUESTION: Final = PolicyQuestion(
    capability=Capability(id=CapabilityId("payments.charge"), input_schema={}),
    principal=Principal(
        id=PrincipalId("bot"),
        tenant=TenantId("acme"),
        kind=PrincipalKind.AGENT,
        roles=("buyer",),
        groups=("west",),
    ),
    identity=None,
    mode=Mode.EXECUTE,
    input={"amount": 500, "currency": "eur", "order": "o-1", "note": "a chair", "pieces": 1},
    approval_requested=False,
)


def decision(reached: int) -> float:
    """Microseconds of one decision over 200 rules of which so many conditions are reached."""
    rules = [_rule(number, reached=number < reached) for number in range(RULES)]
    policy = RulePolicy(rules, Cel(), "rules-bench")
    assert policy.decide(_QUESTION).verdict == "allow"
    return _median_us(lambda: policy.decide(_QUESTION))


def engine(reached: int) -> float:
    """Microseconds that the engine itself takes for these conditions, its facts included."""
    cel = Cel()
    programs = [cel.compile(_CONDITION.format(1_000 + number)) for number in range(reached)]
    told = variables(_QUESTION, programs[0].uses)

    def evaluate() -> None:
        facts = cel.facts(told)
        for program in programs:
            program.evaluate(facts)

    return _median_us(evaluate)


def _rule(number: int, *, reached: bool) -> Rule:
    """Every other rule that is not reached is of another capability, or of other principals."""
    match = Match(capability=("payments.*",))
    if not reached and number % 2:
        match = Match(capability=(f"other{number}.*",))
    elif not reached:
        match = Match(capability=("payments.*",), kind=(PrincipalKind.USER,))
    when = _CONDITION.format(1_000 + number)
    return Rule(id=f"rule-{number}", match=match, when=when, effect=Effect.ALLOW)


def _median_us(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1000
