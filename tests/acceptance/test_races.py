"""Many processes and tasks that want the same thing at the same moment: one of them gets it.

The children stand at one store, a SQLite file or a PostgreSQL database, which this process has open
as well. A round is one line to
each child, and who is told first goes round. The provider's own books say how often money moved,
and every loser hears a coded answer.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec
import pytest

from amends.testing import faults
from amends.testing.errands import (
    Answer,
    AnyErrand,
    Commit,
    Compensate,
    Execute,
    Plan,
    Sweep,
    run_errand,
)
from amends.testing.till import Setup, open_till
from tests.acceptance.children import WAIT_S, Child, effects, status, stored

PROCESSES: Final = 4
TASKS: Final = 16
ROUNDS: Final = 200
LOSSES: Final = ("transaction.plan_already_claimed", "transaction.plan_not_committable")
"""Who lost in the race itself, and who came after it."""

IN_PROGRESS: Final = frozenset({"transaction.in_progress", "idempotency.in_progress"})


@contextmanager
def started(setup: Setup, count: int = PROCESSES) -> Iterator[list[Child]]:
    """So many children at the same files, each with a sweeper of its own."""
    with ExitStack() as stack:
        yield [stack.enter_context(Child(setup)) for _ in range(count)]


def at_once(
    children: Sequence[Child], errands: Sequence[Sequence[AnyErrand]], turn: int = 0
) -> list[list[Answer]]:
    """Tell every child its errands and gather the answers; who is told first goes round."""
    places = [(turn + n) % len(children) for n in range(len(children))]
    for place in places:
        children[place].tell(*errands[place])
    return [list(child.answers()) for child in children]


def winners(answers: Sequence[Sequence[Answer]]) -> list[Answer]:
    """Those who were not refused, and for whom it was done anew."""
    return [one for heard in answers for one in heard if one.code is None and not one.replayed]


@pytest.mark.fault(1)
@pytest.mark.rule("TX-CLAIM-1", "TX-PIPE-5")
async def test_of_64_tasks_in_four_processes_exactly_one_commits_a_plan_200_times(
    setup: Setup,
) -> None:
    won: list[Answer] = []
    places: Counter[int] = Counter()
    heard: Counter[str | None] = Counter()
    async with open_till(setup) as till:
        plans = [Plan(action_id=f"act_plan_{n}", transaction_id=f"txn_{n}") for n in range(ROUNDS)]
        await asyncio.gather(*(run_errand(till, plan) for plan in plans))
        with started(msgspec.structs.replace(setup, recover=True, poll_s=0.5)) as children:
            for n in range(ROUNDS):
                answers = at_once(children, [_commits(n, place) for place in range(PROCESSES)], n)
                assert len(winners(answers)) == 1
                won += winners(answers)
                places.update(p for p in range(PROCESSES) if winners([answers[p]]))
                heard.update(one.code for child in answers for one in child)
        records = [await stored(till, f"txn_{n}") for n in range(ROUNDS)]
        assert [found.document.action_id for found in records if found] == [
            one.action_id for one in won
        ]
        assert {one.status for one in won} == {"committed"}
        assert await till.check() == []
    assert heard.total() == ROUNDS * PROCESSES * TASKS
    assert heard.keys() <= {None, *LOSSES}
    assert heard["transaction.plan_already_claimed"] > 0
    assert len(places) > 1, "the race was none: one process won every time"
    assert effects(setup) == ROUNDS


def _commits(n: int, place: int) -> list[Commit]:
    return [
        Commit(action_id=f"act_{n}_{place}_{task}", plan_id=f"plan:txn_{n}")
        for task in range(TASKS)
    ]


@pytest.mark.fault(15)
@pytest.mark.case("IDR-01")
@pytest.mark.rule("TX-ACT-1", "TX-EXEC-2")
async def test_one_action_sent_by_many_at_once_is_done_once(setup: Setup) -> None:
    """The same transaction, action and key; the provider takes a while, so that some meet it."""
    rounds, each = 25, 8
    slow = msgspec.structs.replace(setup, script=(faults.late(0.005),) * rounds)
    heard: Counter[str | None] = Counter()
    with started(slow) as children:
        for n in range(rounds):
            errand = Execute(action_id=f"act_{n}", transaction_id=f"txn_{n}", key=f"key-{n}")
            answers = at_once(children, [[errand] * each] * PROCESSES, n)
            assert len(winners(answers)) == 1
            heard.update(one.code for child in answers for one in child)
            assert {one.action_id for child in answers for one in child} == {f"act_{n}"}
    assert heard.keys() <= {None} | IN_PROGRESS
    assert heard["transaction.in_progress"] > 0
    assert effects(setup) == rounds
    async with open_till(setup) as till:
        assert await till.check() == []


@pytest.mark.fault(15)
@pytest.mark.case("IDR-01")
async def test_one_key_used_by_many_actions_at_once_makes_one_effect(setup: Setup) -> None:
    """Each caller made up ids of its own; whoever comes too late is shown the action that ran."""
    rounds, each = 25, 8
    slow = msgspec.structs.replace(setup, script=(faults.late(0.005),) * rounds)
    with started(slow) as children:
        for n in range(rounds):
            answers = at_once(
                children,
                [
                    [
                        Execute(action_id=f"act_{n}_{place}_{task}", key=f"key-{n}")
                        for task in range(each)
                    ]
                    for place in range(PROCESSES)
                ],
                n,
            )
            (won,) = winners(answers)
            others = [one for child in answers for one in child if one is not won]
            assert {one.code for one in others} <= {None} | IN_PROGRESS
            assert {one.action_id for one in others if one.code is None} <= {won.action_id}
    assert effects(setup) == rounds
    async with open_till(setup) as till:
        page = await till.amends.list()
        assert len(page.items) == rounds
        assert await till.check() == []


@pytest.mark.case("IDR-03")
@pytest.mark.rule("TX-CLAIM-1")
async def test_a_commit_and_a_compensation_under_one_key_never_both_run(setup: Setup) -> None:
    rounds = 25
    outcomes: Counter[str] = Counter()
    async with open_till(setup) as till:
        for n in range(rounds):
            await run_errand(till, Plan(action_id=f"act_p{n}", transaction_id=f"txn_p{n}"))
            await run_errand(till, Execute(action_id=f"act_t{n}", transaction_id=f"txn_t{n}"))
        with started(setup, 2) as children:
            for n in range(rounds):
                commit = Commit(action_id=f"act_c{n}", plan_id=f"plan:txn_p{n}", key=f"k{n}")
                refund = Compensate(
                    action_id=f"act_r{n}",
                    transaction_id=f"txn_r{n}",
                    target=f"act_t{n}",
                    key=f"k{n}",
                )
                ((committed,), (refunded,)) = at_once(children, [[commit], [refund]], n)
                stands = (await status(till, f"txn_p{n}"), await status(till, f"txn_r{n}"))
                if committed.code is None:
                    assert refunded.code == "idempotency.input_mismatch"
                    assert stands == ("committed", None)
                    outcomes["commit"] += 1
                else:
                    assert committed.code == "idempotency.input_mismatch"
                    assert refunded.status == "compensated"
                    assert stands == ("planned", "compensated")
                    outcomes["refund"] += 1
        assert await till.check() == []
    assert effects(setup, "charge") == rounds + outcomes["commit"]
    assert effects(setup, "refund") == outcomes["refund"]
    assert outcomes.total() == rounds


@pytest.mark.fault(2, 4)
@pytest.mark.rule("TX-LEASE-2", "TX-RECON-2")
async def test_two_processes_that_sweep_the_same_dead_attempts_share_the_work(
    setup: Setup,
) -> None:
    """Each lapse and each look-up is done by one of them, and nobody asks the provider twice."""
    count = 20
    deeds = [Execute(action_id=f"act_{n}", transaction_id=f"txn_{n}") for n in range(count)]
    with Child(msgspec.structs.replace(setup, script=(faults.never(),) * count)) as dying:
        dying.tell(*deeds)
        deadline = time.monotonic() + WAIT_S
        while effects(setup) < count:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        dying.send(signal.SIGKILL)
        assert dying.death() == -signal.SIGKILL
    lapsed = _swept_by_two(msgspec.structs.replace(setup, ahead_ms=60_000))
    assert sum(one.swept.lapsed for one in lapsed if one.swept) == count
    found = _swept_by_two(msgspec.structs.replace(setup, ahead_ms=120_000))
    assert sum(one.swept.reconciled for one in found if one.swept) == count
    assert sum(one.look_ups for one in found) == count
    async with open_till(setup) as till:
        for n in range(count):
            kept = await stored(till, f"txn_{n}")
            assert kept is not None
            assert (kept.document.status, kept.document.verdict) == ("reconciled", "committed")
            assert (kept.document.attempts, kept.document.attention) == (2, None)
        assert await till.check() == []
    assert effects(setup) == count


def _swept_by_two(setup: Setup) -> list[Answer]:
    with started(setup, 2) as sweepers:
        return [one for heard in at_once(sweepers, [[Sweep()], [Sweep()]]) for one in heard]
