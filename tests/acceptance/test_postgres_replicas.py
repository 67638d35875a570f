"""Four runtimes on one database, each of which wants every plan: each plan has one effect."""

import asyncio
from collections import Counter

import pytest

from amends.testing.errands import Commit, Plan, run_errand
from amends.testing.till import Setup, open_till
from tests.acceptance.children import Child, effects
from tests.acceptance.test_races import LOSSES, at_once, started, winners

PLANS = 2_000
AT_ONCE = 50
REPLICAS = 4


@pytest.mark.fault(1)
@pytest.mark.rule("TX-CLAIM-1")
@pytest.mark.parametrize("setup", ["postgresql"], indirect=True)
async def test_of_four_replicas_that_commit_2000_plans_at_once_one_gets_each(setup: Setup) -> None:
    async with open_till(setup) as till:
        for first in range(0, PLANS, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            plans = [Plan(action_id=f"act_p{n}", transaction_id=f"txn_{n}") for n in numbers]
            await asyncio.gather(*(run_errand(till, plan) for plan in plans))
    heard: Counter[str | None] = Counter()
    won = 0
    with started(setup, REPLICAS) as children:
        for turn, first in enumerate(range(0, PLANS, AT_ONCE)):
            answers = at_once(children, commits(children, first), turn)
            won += len(winners(answers))
            heard.update(one.code for each in answers for one in each)
    assert won == effects(setup) == PLANS
    assert heard.total() == PLANS * REPLICAS
    assert set(heard) <= {None, *LOSSES}
    async with open_till(setup) as till:
        assert await till.check() == []


def commits(children: list[Child], first: int) -> list[list[Commit]]:
    return [
        [
            Commit(action_id=f"act_{child}_{number}", plan_id=f"plan:txn_{number}")
            for number in range(first, first + AT_ONCE)
        ]
        for child in range(len(children))
    ]
