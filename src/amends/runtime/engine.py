"""The engine: `begin`, the one connector call, `settle`; and the attempts that run here.

A caller that goes away does not stop an attempt: it runs in a task of its own, and the caller only
waits for its answer. At the time limit the outcome is settled as unknown while the connector may
still be at it; what it says until the lease ends is taken as a late answer.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from amends.connectors.port import Call
from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Handler, Mode
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.ids import Fence
from amends.contracts.outcomes import Outcome
from amends.contracts.results import Result
from amends.contracts.times import MILLISECOND
from amends.runtime.acceptance import Acceptance
from amends.runtime.attempt import (
    TIMEOUT,
    enter,
    never_dispatched,
    uncertain,
)
from amends.runtime.begin import Begin
from amends.runtime.checkpoints import Checkpoints
from amends.runtime.environment import Environment
from amends.runtime.intake import Intake
from amends.runtime.previews import Previews
from amends.runtime.requests import Request
from amends.runtime.running import Running
from amends.runtime.settle import Settle
from amends.runtime.upkeep import Upkeep

T = TypeVar("T")
_NOTHING: Final = timedelta()
NOT_SENT: Final = "transaction.not_dispatched"


class Engine:
    """One runtime over one store. Any number of them may share the store."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.acceptance = Acceptance(environment)
        self.upkeep = Upkeep(environment)
        self.settlement = Settle(environment, self.acceptance)
        self._checkpoints = Checkpoints(environment)
        self._intake = Intake(environment)
        previews = Previews(environment, self.acceptance)
        self._begin = Begin(environment, self.acceptance, previews, self.upkeep)
        self._running: dict[Fence, Running] = {}
        self._starting: set[asyncio.Task[None] | None] = set()
        self._closed = False

    async def perform(self, request: Request) -> Result:
        """Run one request through the pipeline and return what became of it.

        When it returns or raises, everything it says is durable. Cancelling the caller does not
        cancel the attempt. Raises the coded refusal of the gate or rule that said no.
        """
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._starting.add(self.environment.spawn(self._perform(request, answer)))
        return await answer

    async def _perform(self, request: Request, answer: "asyncio.Future[Result]") -> None:
        """The whole of one request in one task: no caller can go away between claim and call.

        A caller that went away has cancelled its answer; the rest goes on without it.
        """
        task = asyncio.current_task()
        try:
            started = await self.begin(request)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as error:  # handed to whoever waits, be it a refusal or a fault of ours
            if not answer.done():
                answer.set_exception(error)
            return
        finally:
            self._starting.discard(task)
        if isinstance(started, Result):
            if not answer.done():
                answer.set_result(started)
            return
        started.answer, started.task = answer, task
        self._running[started.fence] = started
        await self._carry(started)

    async def begin(self, request: Request) -> Running | Result:
        """Steps 1 to 13: a licensed attempt, or the result that makes none."""
        self._check_open()
        admitted = await self._intake.admit(request, await self.environment.store.now())
        # A credential or a policy may have taken its time, and the word to stop come meanwhile.
        self._check_open()
        return await self._begin.begin(admitted)

    def _check_open(self) -> None:
        if self._closed:
            raise coded("runtime.closed")
        if self.environment.ready is not None:
            self.environment.ready()

    def stop_taking(self) -> None:
        """Take no new work from now on; what was begun goes on. Signal handlers may call it."""
        self._closed = True

    def dispatch(self, running: Running) -> None:
        """Let a licensed attempt run in a task of its own."""
        self._running[running.fence] = running
        running.answer = asyncio.get_running_loop().create_future()
        running.answer.add_done_callback(_retrieved)
        running.task = self.environment.spawn(self._carry(running))

    async def _carry(self, running: Running) -> None:
        timer = None
        try:
            now = await self._time(running.answer.get_loop())
            left = None if now is None else _time_left(running, now)
            if now is None or left is None:
                outcome = _unsent(running)
            else:
                timer = running.answer.get_loop().call_later(
                    left.total_seconds(), self._out_of_time, running
                )
                running.call = _within_lease(running, now)
                running.dispatched_at = now
                outcome = await self._enter(running)
            running.answered = True
            await self._end(running, outcome)
        finally:
            if timer is not None:
                timer.cancel()
            self._running.pop(running.fence, None)
            if not running.answer.done():
                running.answer.set_exception(coded("transaction.outcome_unknown"))

    async def _time(self, loop: asyncio.AbstractEventLoop) -> datetime | None:
        """The store's time as it may be by now at the latest; none where the store does not tell.

        This process may have stood still while the answer was waiting for it, so the time that the
        question took by the local clock is added.
        """
        asked = loop.time()
        try:
            told = await self.environment.store.by_now()
        except Unavailable:
            return None
        return told + timedelta(seconds=loop.time() - asked)

    async def _enter(self, running: Running) -> Outcome:
        checkpoint = partial(self._checkpoints.write, running)
        return await enter(running.serving.connector, running, checkpoint)

    async def _end(self, running: Running, outcome: Outcome) -> None:
        """Settle once; what comes after that is a late answer."""
        async with running.lock:
            if running.settled:
                with contextlib.suppress(AmendsError):  # it was spilled; nobody waits for it
                    await self.settlement.late(running, outcome)
                return
            running.settled = True
            await self._settle(running, outcome)

    async def _settle(self, running: Running, outcome: Outcome) -> None:
        try:
            result = await self.settlement.settle(running, outcome)
        except AmendsError as error:
            if not running.answer.done():
                running.answer.set_exception(error)
            return
        if not running.answer.done():
            running.answer.set_result(result)

    def _out_of_time(self, running: Running) -> None:
        """At the time limit: unknown for the record, a request to stop for the connector."""
        running.cancelled.set()
        loop = asyncio.get_running_loop()
        loop.call_later(self.environment.grace_ms / 1000, running.interrupt)
        running.giving_up = self.environment.spawn(self._give_up(running))

    async def _give_up(self, running: Running) -> None:
        async with running.lock:
            if not running.settled:
                running.settled = True
                await self._settle(running, uncertain(TIMEOUT))

    def find_running(self, record: TransactionRecord) -> Running | None:
        """The record's present attempt, if it runs in this process."""
        return self._running.get(record.attempt.fence) if record.attempt else None

    def runs(self, record: TransactionRecord) -> bool:
        """Whether this very process still runs the record's attempt (TX-LEASE-2)."""
        running = self.find_running(record)
        return running is not None and running.holds(record) and not running.settled

    async def close(self, drain_ms: int) -> None:
        """Take no new work, let attempts end, and interrupt those that do not.

        An interrupted attempt is settled as unknown, exactly as if the process had been killed.
        """
        self._closed = True
        starting = tuple(task for task in self._starting if task is not None)
        await _drain({task: task.cancel for task in starting}, drain_ms)
        running = tuple(self._running.values())
        await _drain({r.task: r.interrupt for r in running if r.task is not None}, drain_ms)


async def _drain(endings: Mapping[asyncio.Future[T], Callable[[], object]], drain_ms: int) -> None:
    """Wait for them all, and interrupt those that take too long."""
    if not endings:
        return
    _, late = await asyncio.wait(tuple(endings), timeout=drain_ms / 1000)
    for one in late:
        endings[one]()
    if late:
        await asyncio.wait(late, timeout=drain_ms / 1000 + 1)


def _time_left(running: Running, now: datetime) -> timedelta | None:
    """How long the connector may take from now, or none where it must not be entered any more.

    The licence is used at once or not at all: a paused process does not send late, nor a plan that
    expired between claim and call; and a late start does not make the end any later than the lease.
    """
    plan = running.record.plan
    commits = running.record.mode is Mode.COMMIT and not _looks_up(running)
    if commits and plan is not None and now >= plan.expires_at:
        return None
    limit = running.call.deadline_in_ms * MILLISECOND
    left = running.started_at + limit - now
    return min(left, limit) if left > _NOTHING else None


def _within_lease(running: Running, now: datetime) -> Call:
    """The call with a span that ends with the lease, however late it begins: what a connector sends
    within its span is then never sent after the lease.
    """
    call, left = running.call, (running.lease_end - now) // MILLISECOND
    return call if left >= call.deadline_in_ms else replace(call, deadline_in_ms=max(left, 1))


def _looks_up(running: Running) -> bool:
    """Whether the attempt is to find out about an earlier one; that needs no plan any more."""
    return running.call.handler is Handler.RECONCILE or running.redrive


def _unsent(running: Running) -> Outcome:
    """An effect that was not sent did not happen; a look-up that was not made says nothing."""
    return uncertain(NOT_SENT) if _looks_up(running) else never_dispatched(NOT_SENT)


def _retrieved(answer: "asyncio.Future[Result]") -> None:
    """Nobody has to wait for an answer; it is durable whether or not somebody reads it."""
    if not answer.cancelled():
        answer.exception()
