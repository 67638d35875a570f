"""Who is written when: all that wait at the end of a turn of the event loop go together.

A caller queues its change set, and when the turn ends everything in the queue becomes one
transaction with one flush. Statements run on the loop, where their cost would be paid anyway and no
lock of the interpreter is fought for. The flush only waits: for a batch of one it is done right
there; for more it is done in a thread, and what is asked for meanwhile forms the next batch. Where
another process holds the store, the waiting for it is done in that thread too.

Where many ask, no more than half of them go together (`sharing`): one half is flushed while the
other goes on.

While it is calm, which is as long as each batch is one change set and no two tasks ask in one turn,
nobody waits for the end of the turn, nor is anybody queued.

What is queued is carried out: a caller that is cancelled stops waiting, and nothing else. Callers
may sit in several event loops and threads of this process.

Deliberately not here: SQL, verdicts, and any retry.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, TypeAlias

import msgspec

from amends.contracts.errors import Unavailable
from amends.stores.sharing import BATCH, FEW, share
from amends.stores.sqlite.changes import Prepared
from amends.stores.sqlite.failures import BUSY, CLOSED, Failure, unknown
from amends.stores.sqlite.session import Failed, Session, Verdict

Outcome: TypeAlias = Sequence[Verdict] | Failure

_STANDS_ASIDE_S: Final = 0.002
"""However slow the thread is to begin, the loop waits no longer for it."""


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
        if self._calm and self._take_alone(loop):
            verdict = self._write_alone(prepared)
            if verdict is not None:
                return verdict
        waiting = Waiting(prepared, loop, loop.create_future())
        with self._lock:
            self._queue.append(waiting)
            if not (self._busy or loop in self._called):
                self._called.add(loop)
                loop.call_soon(self._begin, 0)
        return await waiting.promise

    def _take_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Take the session for one change set if it is calm and nobody else has it or waits."""
        with self._lock:
            if self._busy or not self._calm:
                return False
            task = asyncio.current_task()
            if self._turn is None:
                self._turn = task
                loop.call_soon(self._end_turn)
            self._busy = self._calm = self._turn is task and not self._queue
            return self._busy

    def _write_alone(self, prepared: Prepared) -> Verdict | None:
        """Write and flush here; none where another process holds the store and has to be waited
        for.
        """
        try:
            verdicts = self._session.write((prepared,), patience_ms=0)
            self._session.flush()
            return verdicts[0]
        except Failed as failed:
            failure = failed.failure
        except BaseException as error:
            self._session.abandon()
            if not isinstance(error, Exception):
                raise
            failure = unknown(error)
        finally:
            for loop in self._free():
                _call(loop, partial(self._begin, 0))
        if failure.code == BUSY:
            return None
        raise failure.exception()

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
        for loop in {one.loop for one in left}:
            _call(loop, partial(_keep_promises, left, CLOSED, loop))
        self._session.close()

    def _begin(self, computing: int) -> None:
        """Begin a batch of those that wait, unless one is under way; its end looks again.

        So many more are `computing`, having just been told.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            self._called.discard(loop)
            if self._busy or not self._queue:
                return
            batch = self._take(computing)
            self._busy = True
            self._calm = len(batch) == 1
        self._carry_out(batch, partial(self._write_here, batch), loop)

    def _take(self, computing: int) -> list[Waiting]:
        """Their share; all, where there is no thread in which one half could be flushed."""
        waiting = len(self._queue)
        size = min(waiting, BATCH) if self._executor is None else share(waiting, computing)
        batch, self._queue = self._queue[:size], self._queue[size:]
        return batch

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
            self._end(batch, unknown(error), here)
            raise
        if outcome is not None:
            self._end(batch, outcome, here)

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
        self._flush_there(batch, verdicts, executor)
        return None

    def _flush_there(
        self, batch: Sequence[Waiting], verdicts: Sequence[Verdict], executor: ThreadPoolExecutor
    ) -> None:
        """Have the thread flush, and stand aside until it does.

        It needs the interpreter's lock to begin, which a loop that computes gives away every five
        milliseconds: there would be nothing left to do meanwhile.
        """
        begins = Lock()
        begins.acquire()

        def flush() -> Outcome:
            begins.release()
            return self._flush(verdicts)

        executor.submit(self._carry_out, batch, flush)
        begins.acquire(timeout=_STANDS_ASIDE_S)

    def _write_there(self, prepared: Sequence[Prepared]) -> Outcome:
        return self._flush(self._session.write(prepared, self._busy_ms))

    def _flush(self, verdicts: Sequence[Verdict]) -> Outcome:
        self._session.flush()
        return verdicts

    def _end(
        self, batch: Sequence[Waiting], outcome: Outcome, here: asyncio.AbstractEventLoop | None
    ) -> None:
        """Free the session, and have every loop that somebody waits in go on."""
        waiting = self._free()
        if here is not None:
            _keep_promises(batch, outcome, here)
        for loop in {*waiting, *(one.loop for one in batch)}:
            if loop is not here:
                _call(loop, partial(self._go_on, batch, outcome, loop))
            elif loop in waiting:
                loop.call_soon(self._begin, len(batch))

    def _free(self) -> Collection[asyncio.AbstractEventLoop]:
        """Give the session back; the loops that somebody waits in have to begin the next batch."""
        with self._lock:
            self._busy = False
            self._called = {one.loop for one in self._queue}
            return tuple(self._called)

    def _go_on(
        self, batch: Sequence[Waiting], outcome: Outcome, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Begin the next batch, so that it is flushed while those who are told now compute.

        Where few wait, the batch begins when these have had their turn, and takes them along.
        """
        if len(self._queue) >= FEW:
            try:
                self._begin(len(batch))
            finally:
                _keep_promises(batch, outcome, loop)
        else:
            _keep_promises(batch, outcome, loop)
            loop.call_soon(self._begin, 0)


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
