"""What the small worlds found, each played again by hand so that it stays found.

Every test here failed once. The seeds that found these bugs do not mean the same any more, since
the worlds have changed after them; what happened in them does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import pytest

from amends.contracts.approvals import Answer, ApprovalRequest
from amends.contracts.enums import Status, Verdict
from amends.contracts.ids import ActionId
from amends.runtime.deciding import Deciding
from amends.runtime.requests import Request
from amends.simulation.client import ALICE, BOB, OLGA
from amends.simulation.hosts import Host
from amends.simulation.promises import Promise
from amends.simulation.town import Town
from amends.testing import faults
from tests.simulation.drama import (
    STEADY,
    commit,
    compensate,
    execute,
    look_up,
    perform,
    plan,
    play,
    promise,
    record_of,
)

HOUR: Final = timedelta(hours=1)
NO_LOOK_UP: Final = promise(looks_up="none", window_ms=300_000, flight_ms=0)


async def ask(town: Town, host: Host, *requests: Request) -> None:
    """One request after the other, through one process."""
    for request in requests:
        await town.ask("somebody", perform(request), host=host)


Before = Callable[[Town, Host], Awaitable[None]]


def stopped_everywhere(before: Before, asks: Request, kept: Promise, seconds: float) -> int:
    """Ask something of a process that stands still for a while, at each of its steps in turn; how
    many steps that were. The laws say whether it does anything then that it must not do any more.
    """
    steps = _stopped_at(None, before, asks, kept, seconds)
    for step in range(steps):
        _stopped_at(step, before, asks, kept, seconds)
    return steps


def _stopped_at(
    step: int | None, before: Before, asks: Request, kept: Promise, seconds: float
) -> int:
    lived: list[int] = []

    async def acts(town: Town) -> None:
        helper, victim = town.start_host(fated=False), town.start_host(fated=False)
        await before(town, helper)
        if step is not None:
            victim.process.pause_at(step, seconds)
        await ask(town, victim, asks)
        lived.append(victim.process.steps)
        await asyncio.sleep(seconds)

    play(acts, kept)
    return lived[0]


@pytest.mark.rule("TX-LEASE-1")
@pytest.mark.fault(20, 21)
def test_a_process_that_slept_over_the_stores_answer_does_not_take_it_for_the_time() -> None:
    """The store's time was asked before sending, but the answer was read a minute later."""

    async def nothing(_town: Town, _host: Host) -> None: ...

    assert stopped_everywhere(nothing, execute("a1"), STEADY, 16.0) > 10


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.fault(14, 20)
def test_a_process_that_slept_before_its_claim_does_not_redrive_after_the_window() -> None:
    """The dedup window was open when the claim was prepared, and closed when it was written."""

    async def lose_the_answer(town: Town, host: Host) -> None:
        town.weather.foretell(faults.acknowledgement())
        await ask(town, host, execute("a1"))
        await asyncio.sleep(20)

    kept = promise(looks_up="none", window_ms=40_000)
    assert stopped_everywhere(lose_the_answer, look_up("t-a1", OLGA), kept, 25.0) > 15


@pytest.mark.rule("TX-COMP-2")
def test_a_process_that_slept_before_its_claim_does_not_compensate_after_the_window() -> None:

    async def charge(town: Town, host: Host) -> None:
        await ask(town, host, execute("a1"))
        await asyncio.sleep(50)

    kept = promise(refund_window_ms=60_000)
    assert stopped_everywhere(charge, compensate("c1", "a1"), kept, 15.0) > 15


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.fault(2, 4, 14)
def test_a_redrive_that_never_left_proves_nothing_about_the_attempt_before_it() -> None:
    """The first answer was lost; the re-drive could not connect, which said "not applied"."""

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        town.weather.foretell(faults.acknowledgement(), faults.connect())
        await ask(town, host, execute("a1"))
        await asyncio.sleep(30)
        await ask(town, host, look_up("t-a1", OLGA))
        assert record_of(town, "t-a1").status is Status.OUTCOME_UNKNOWN

    town = play(acts, NO_LOOK_UP)
    assert record_of(town, "t-a1").verdict is Verdict.COMMITTED
    assert len(town.bank.effects()) == 1


@pytest.mark.rule("TX-CLAIM-1", "ID-3")
def test_a_key_is_not_taken_over_while_its_holder_is_being_tried_again() -> None:
    """A retryable failure frees its key for others, and lets its own action be tried again: both
    did, at once, and the key had two effects.
    """
    tried_again = 0
    for seed in range(80):

        async def acts(town: Town) -> None:
            one, other = town.start_host(fated=False), town.start_host(fated=False)
            town.weather.foretell(faults.connect())
            await ask(town, one, execute("a1", key="k"))
            await asyncio.gather(
                ask(town, one, execute("a1", key="k")), ask(town, other, execute("a2", key="k"))
            )

        town = play(acts, promise(safe_to_retry=True), seed=seed)
        assert len(town.bank.effects()) == 1
        tried_again += record_of(town, "t-a1").status is Status.COMMITTED
    assert 0 < tried_again < 80


@pytest.mark.rule("TX-COMMIT-7", "TX-RECON-2")
@pytest.mark.fault(11)
def test_a_commit_is_looked_up_although_its_plan_has_expired_since() -> None:
    """Only sending needs a plan that still stands; finding out what it led to does not."""

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        town.weather.foretell(faults.acknowledgement())
        await ask(town, host, plan("p1"), commit("a1", "p1"))
        await asyncio.sleep(130)

    town = play(acts)
    assert record_of(town, "t-p1").status is Status.RECONCILED
    assert record_of(town, "t-p1").verdict is Verdict.COMMITTED


@pytest.mark.rule("TX-REV-1")
@pytest.mark.fault(21)
def test_no_document_goes_back_with_the_clock() -> None:
    """Cancelling and taking a slot wrote the clock's time down even where it had gone back."""
    kept = promise(refund_approval=True, approval=True, max_compensations=2)

    async def approve(town: Town, host: Host) -> None:
        for request in tuple(town.chronicle.documents(ApprovalRequest)):
            await town.ask(
                "bob",
                lambda engine, id_=request.approval_id: Deciding(engine).decide(  # type: ignore[misc]  # a lambda's defaults have no types
                    BOB, id_, Answer.APPROVED, reason="", evidence={}, seen_revision=None
                ),
                host=host,
            )

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        await ask(town, host, execute("a1"), execute("a2"))
        await approve(town, host)
        await ask(town, host, execute("a1"), compensate("c1", "a1"), compensate("c2", "a1"))
        town.world.clock.step(-HOUR)
        await town.ask(
            "alice", lambda engine: Deciding(engine).cancel(ALICE, ActionId("a2"), ""), host=host
        )
        await approve(town, host)
        await ask(town, host, compensate("c1", "a1"))
        town.world.clock.step(-HOUR)
        await ask(town, host, compensate("c2", "a1"))

    town = play(acts, kept)
    assert record_of(town, "t-c2").status is Status.COMPENSATED


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.fault(21)
def test_an_effect_that_the_clock_says_ended_before_it_began_can_still_be_compensated() -> None:
    """It was settled an hour before it was made, and then taken for a damaged record."""

    async def acts(town: Town) -> None:
        host = town.start_host(fated=False)
        town.weather.foretell(faults.late(5.0))
        charging = asyncio.ensure_future(ask(town, host, execute("a1")))
        await asyncio.sleep(2)
        town.world.clock.step(-HOUR)
        await charging
        await ask(town, host, compensate("c1", "a1"))

    town = play(acts)
    assert record_of(town, "t-a1").status is Status.COMMITTED
    assert record_of(town, "t-c1").status is Status.COMPENSATED
