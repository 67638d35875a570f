"""Several runtimes on one database that all commit the same plans at the same moment.

Deliberately not here: anything that goes wrong by itself (`chaos`).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amends.testing.chaos_runtime import ChaosRuntime
from amends.testing.effects import FileLedger
from amends.testing.errands import Answer, Commit, Plan, run_errand
from amends.testing.postgres_server import PostgresServer
from amends.testing.till import Setup, effects_in, open_till

AT_ONCE: Final = 40
_LOSSES: Final = ("transaction.plan_already_claimed", "transaction.plan_not_committable")


async def commit_by_all(
    server: PostgresServer, folder: Path, plans: int, runtimes: int
) -> list[str]:
    """Have every plan committed by every runtime at once; what is broken, which is nothing."""
    database = server.lend()
    setup = Setup(store=f"{database.url}?folder={folder}", ledger=str(folder / "provider.jsonl"))
    async with open_till(setup) as till:
        every = [Plan(action_id=f"act_{n}", transaction_id=f"txn_{n}") for n in range(plans)]
        for place in range(0, plans, AT_ONCE):
            await asyncio.gather(*(run_errand(till, one) for one in every[place:][:AT_ONCE]))
        answers = await _answers(setup, every, runtimes)
        effects = len(effects_in(FileLedger(setup.ledger)))
        problems = [*await till.check(), *_told(answers, plans)]
    if effects != plans:
        problems.append(f"{plans} plans had {effects} effects")
    server.take_back(database)
    return problems


async def _answers(setup: Setup, plans: Sequence[Plan], runtimes: int) -> list[Answer]:
    """What every runtime hears about every plan."""
    processes = [await ChaosRuntime.start(setup) for _ in range(runtimes)]
    heard: list[Answer] = []
    try:
        for process in processes:
            assert await process.opened(), await process.complaint()
        for place in range(0, len(plans), AT_ONCE):
            some = plans[place:][:AT_ONCE]
            for answers in await asyncio.gather(
                *(
                    process.ask(*(_commit(plan, number) for plan in some))
                    for number, process in enumerate(processes)
                )
            ):
                assert answers is not None
                heard += answers
        for process in processes:
            await process.end()
    finally:
        for process in processes:
            process.kill()
            process.close()
    return heard


def _commit(plan: Plan, number: int) -> Commit:
    action = f"{plan.action_id}_by_{number}"
    return Commit(action_id=action, plan_id=f"plan:{plan.transaction_id}")


def _told(answers: Sequence[Answer], plans: int) -> list[str]:
    """One winner of each plan, and for everybody else the code of a loser."""
    won = [one for one in answers if one.code is None]
    problems = [f"a loser heard {one.code}" for one in answers if one.code not in (None, *_LOSSES)]
    if len({one.transaction_id for one in won}) != plans or len(won) != plans:
        problems.append(f"{len(won)} runtimes won {plans} plans")
    return problems
