"""Recovery that runs while attempts do: it takes what is dead, and never what only looks so.

The clock of the store jumps past leases while the provider still has requests, as it does when a
process is held up or a clock is set. Everything is drawn from the seed but the interleaving, which
is the event loop's; one process, so that a thousand runs take seconds.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import pytest

from amends.testing import faults
from amends.testing.crash_points import CrashPoint
from amends.testing.errands import Execute, run_errand
from amends.testing.provider_api import Request
from amends.testing.till import Setup, SteppedClock, Till, open_till
from tests.acceptance.children import effects, status, stored

RUNS: Final = 250
TOGETHER: Final = 10
JUMP_MS: Final = 40_000
"""Longer than a lease."""

AN_HOUR_MS: Final = 3_600_000
FAULTS: Final = (faults.none(), faults.acknowledgement(), faults.server_error_after_commit())
"""In all of them the money moves, so that no run is without an effect for the provider's sake."""


def drawn(setup: Setup, chance: random.Random) -> Setup:
    """Any of the faults for each charge, each with an answer that takes a while."""
    return msgspec.structs.replace(
        setup,
        script=tuple(
            msgspec.structs.replace(fault, answer_after_s=chance.uniform(0.001, 0.003))
            for fault in chance.choices(FAULTS, k=RUNS)
        ),
        horizon_ms=None,
    )


async def keep_sweeping(till: Till) -> None:
    while True:
        await till.sweeper.sweep()
        await asyncio.sleep(0)


@asynccontextmanager
async def swept(*tills: Till) -> AsyncIterator[None]:
    """All of them sweep all the time, until the block ends."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(keep_sweeping(till)) for till in tills]
        yield
        for task in tasks:
            task.cancel()


async def execute_all(till: Till) -> None:
    for first in range(0, RUNS, TOGETHER):
        await asyncio.gather(
            *(
                run_errand(till, Execute(action_id=f"act_{n}", transaction_id=f"txn_{n}"))
                for n in range(first, first + TOGETHER)
            )
        )


async def look_up_the_rest(till: Till) -> None:
    """Everything unknown is due in an hour; whoever calls a person after that has failed."""
    for _ in range(5):
        till.clock.step(AN_HOUR_MS)
        await till.sweeper.sweep()


class Jumps:
    """Lets the clock jump, while a whole group of requests is at the provider or at any time."""

    def __init__(self, chance: random.Random, *, anywhere: bool) -> None:
        self.clock: SteppedClock | None = None
        self._chance = chance
        self._anywhere = anywhere
        self._sent = 0

    def __call__(self, point: CrashPoint, request: Request | None) -> None:
        if request is not Request.CHARGE or self.clock is None:
            return
        self._sent += point is CrashPoint.AFTER_EFFECT
        if self._anywhere:
            jumps = self._chance.random() < 0.05
        else:
            jumps = point is CrashPoint.AFTER_EFFECT and self._sent % TOGETHER == 0
        if jumps:
            self.clock.step(JUMP_MS)


@pytest.mark.case("STK-06")
@pytest.mark.fault(21)
@pytest.mark.rule("TX-LEASE-2", "TX-PIPE-5", "TX-SETTLE-6")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beside", ["its own recovery", "another recovery as well"])
@pytest.mark.parametrize("jumps", ["in the call", "anywhere"])
async def test_recovery_beside_new_attempts_leaves_each_with_one_effect(
    setup: Setup, seed: int, beside: str, jumps: str
) -> None:
    """A thousand runs with each. Only a jump between a claim and its call leaves no effect: then
    the lease is over before anything was sent, nothing is sent, and the record says so.
    """
    chance = random.Random(f"{beside} {seed}")
    setup = drawn(setup, chance)
    jump = Jumps(chance, anywhere=jumps == "anywhere")
    async with open_till(setup, reached=jump) as own, open_till(setup) as other:
        jump.clock = own.clock
        async with swept(own) if beside == "its own recovery" else swept(own, other):
            await execute_all(own)
        await look_up_the_rest(own)
        ended: Counter[str] = Counter()
        for n in range(RUNS):
            found = await stored(own, f"txn_{n}")
            assert found is not None
            assert found.document.status in {"committed", "reconciled", "failed"}
            ended[str(found.document.verdict)] += 1
        assert await own.check() == []
    assert effects(setup) == ended["committed"]
    assert ended.keys() <= {"committed", "not_committed"}
    assert ended["not_committed"] == 0 or jumps == "anywhere"


@pytest.mark.case("STK-06")
@pytest.mark.rule("TX-LEASE-2")
async def test_recovery_never_takes_what_its_own_process_still_runs(setup: Setup) -> None:
    """The lease is long over, by a clock that jumped; its own process knows better than the clock.

    Another process cannot know, and writes the unknown outcome; the late answer is then taken.
    """
    slow = msgspec.structs.replace(setup, script=(faults.late(0.2),))
    sent = asyncio.Event()

    def note(point: CrashPoint, _request: Request | None) -> None:
        if point is CrashPoint.AFTER_EFFECT:
            sent.set()

    async with open_till(slow, reached=note) as own, open_till(setup) as other:
        running = asyncio.create_task(
            run_errand(own, Execute(action_id="act_1", transaction_id="txn_1"))
        )
        await sent.wait()
        for till in (own, other):
            till.clock.step(JUMP_MS)
        assert (await own.sweeper.sweep()).lapsed == 0
        assert await status(own, "txn_1") == "prepared"
        assert (await other.sweeper.sweep()).lapsed == 1
        assert await status(own, "txn_1") == "outcome_unknown"
        answer = await running
        assert (answer.status, answer.verdict) == ("reconciled", "committed")
        assert await own.check() == []
    assert effects(setup) == 1
