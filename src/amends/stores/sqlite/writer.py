"""Who is written when: all that wait at the end of a turn of the event loop go together.

A caller queues its change set, and when the turn ends everything in the queue becomes one
transaction with one flush. Statements run on the loop, where their cost would be paid anyway and no
lock of the interpreter is fought for. The flush only waits: for a batch of one it is done right
there; for more it is done in a thread, and what is asked for meanwhile forms the next batch. Where
another process holds the store, the waiting for it is done in that thread too.

While it is calm, which is as long as each batch is one change set and no two tasks ask in one turn,
nobody waits for the end of the turn.

What is queued is carried out: a caller that is cancelled stops waiting, and nothing else. Callers
may sit in several event loops and threads of this process.

Deliberately not here: SQL, verdicts, and any retry.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, TypeAlias

import msgspec

from amends.contracts.errors import Unavailable
from amends.stores.sqlite.changes import Prepared
from amends.stores.sqlite.failures import BUSY, CLOSED, Failure, unknown
from amends.stores.sqlite.session import Failed, Session, Verdict

Outcome: TypeAlias = Sequence[Verdict] | Failure

BATCH: Final = 256
"""At most so many change sets hold the store together, so that other processes get their turn."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A change set in the queue and whom to tell."""

    prepared: Prepared
    loop: asyncio.AbstractEventLoop
    promise: asyncio.Future[Verdict]


class Writer:
    """The queue in front of the session. Safe to call from any loop and thread."""

    def __init__(self, session: Session, *, threads: bool, busy_ms: int) -> None:
        self._session = session
        self._busy_ms = busy_ms
        self._executor = ThreadPoolExecutor(1, "amends-store") if threads else None
        self._lock = Lock()
        self._queue: list[Waiting] = []
        self._busy = False
        """A batch is between the beginning of its transaction and the end of its flush."""
        self._called: set[asyncio.AbstractEventLoop] = set()
        """The loops that will begin a batch when their turn ends, the first of them with all."""
        self._calm = False
        self._turn: object = None
        """Who was written at once in this turn of the loop, if anybody was."""

    async def commit(self, prepared: Prepared) -> Verdict:
        """Durable when accepted. Raises `Unavailable`."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(prepared, loop, loop.create_future())
        with self._lock:
            self._queue.append(waiting)
            at_once = not self._busy and self._goes_at_once(loop)
            if not (self._busy or at_once or loop in self._called):
                self._called.add(loop)
                loop.call_soon(self._begin)
        if at_once:
            self._begin()
        # What is told already needs no turn of the loop to be heard.
        return waiting.promise.result() if waiting.promise.done() else await waiting.promise

    def _goes_at_once(self, loop: asyncio.AbstractEventLoop) -> bool:
        if not self._calm:
            return False
        task = asyncio.current_task()
        if self._turn is None:
            self._turn = task
            loop.call_soon(self._end_turn)
        self._calm = self._turn is task and len(self._queue) == 1
        return self._calm

    def _end_turn(self) -> None:
        self._turn = None

    async def drain(self) -> None:
        """Wait until all that is queued now has its verdict."""
        if self._busy or self._queue:
            with contextlib.suppress(Unavailable):
                await self.commit(Prepared((), None))

    def shut_down(self) -> None:
        """End the flush that is under way, refuse what is still queued, close the session."""
        if self._executor is not None:
            self._executor.shutdown()
        with self._lock:
            left, self._queue = self._queue, []
        self._tell(left, CLOSED, here=None)
        self._session.close()

    def _begin(self) -> None:
        """Begin a batch with all that wait, unless one is under way; its end looks again."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._called.discard(loop)
            if self._busy or not self._queue:
                return
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            self._busy = True
            self._calm = len(batch) == 1
        self._carry_out(batch, partial(self._write_here, batch), loop)

    def _carry_out(
        self,
        batch: Sequence[Waiting],
        work: Callable[[], Outcome | None],
        here: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Do the work and tell its outcome, unless the rest was handed on to the thread."""
        try:
            outcome = work()
        except Failed as failed:
            outcome = failed.failure
        except BaseException as error:
            self._session.abandon()
            self._tell(batch, unknown(error), here)
            self._release()
            raise
        if outcome is not None:
            self._tell(batch, outcome, here)
            self._release()

    def _write_here(self, batch: Sequence[Waiting]) -> Outcome | None:
        """Do the statements on this turn and hand the waiting, if there is any, to the thread."""
        prepared, executor = [one.prepared for one in batch], self._executor
        if executor is None:
            return self._write_there(prepared)
        try:
            verdicts = self._session.write(prepared, patience_ms=0)
        except Failed as failed:
            if failed.failure.code != BUSY:
                raise
            executor.submit(self._carry_out, batch, partial(self._write_there, prepared))
            return None
        if len(batch) == 1:
            return self._flush(verdicts)
        executor.submit(self._carry_out, batch, partial(self._flush, verdicts))
        return None

    def _write_there(self, prepared: Sequence[Prepared]) -> Outcome:
        return self._flush(self._session.write(prepared, self._busy_ms))

    def _flush(self, verdicts: Sequence[Verdict]) -> Outcome:
        self._session.flush()
        return verdicts

    def _tell(
        self, batch: Sequence[Waiting], outcome: Outcome, here: asyncio.AbstractEventLoop | None
    ) -> None:
        """Tell everyone in the batch, each in the loop it waits in."""
        for loop in {one.loop for one in batch}:
            told = partial(_keep_promises, batch, outcome, loop)
            if loop is here:
                told()
            else:
                _call(loop, told)

    def _release(self) -> None:
        """The session is free: have the next batch begun by whichever loop is the first to."""
        with self._lock:
            self._busy = False
            self._called = {one.loop for one in self._queue}
            called = tuple(self._called)
        for loop in called:
            _call(loop, self._begin)


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Have a loop do something; one that was closed meanwhile has nobody left to be told."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)


def _keep_promises(
    batch: Sequence[Waiting], outcome: Outcome, loop: asyncio.AbstractEventLoop
) -> None:
    """Resolve what this loop waits for; a caller that stopped waiting is passed over."""
    for place, one in enumerate(batch):
        if one.loop is not loop or one.promise.done():
            continue
        if isinstance(outcome, Failure):
            one.promise.set_exception(outcome.exception())
        else:
            one.promise.set_result(outcome[place])
