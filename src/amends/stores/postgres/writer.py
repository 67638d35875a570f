"""Who is written when: all that wait while a batch is on its way go together in the next one.

Whichever session is free takes the queue, a batch at a time. What is queued is carried out: a
caller that is cancelled stops waiting, and nothing else.

Deliberately not here: SQL, verdicts, and any retry.
"""

import asyncio
from typing import Final

import msgspec

from amends.contracts.errors import AmendsError, Unavailable
from amends.stores.postgres.failures import CLOSED, unknown
from amends.stores.postgres.session import Failed, Session
from amends.stores.postgres.verdicts import Verdict
from amends.stores.postgres.writes import Prepared

BATCH: Final = 256
"""At most so many change sets share a transaction, so that other processes get their turn."""


class Waiting(msgspec.Struct, frozen=True):
    """A change set in the queue and whom to tell."""

    prepared: Prepared
    promise: asyncio.Future[Verdict]


class Writer:
    """The queue in front of the sessions. Belongs to one event loop."""

    def __init__(self, sessions: list[Session]) -> None:
        self._idle = sessions
        self._queue: list[Waiting] = []
        self._running: set[asyncio.Task[None]] = set()
        self._called = False

    async def commit(self, prepared: Prepared) -> Verdict:
        """Durable when accepted. Raises `Unavailable`."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(prepared, loop.create_future())
        self._queue.append(waiting)
        self._call()
        return await waiting.promise

    async def drain(self) -> None:
        """Wait until all that is queued now has its verdict."""
        while self._queue or self._running:
            self._call()
            if self._running:
                await asyncio.wait(set(self._running))
            else:
                await asyncio.sleep(0)

    def refuse(self) -> None:
        """Tell what is still queued that the store is closed."""
        left, self._queue = self._queue, []
        for one in left:
            if not one.promise.done():
                one.promise.set_exception(CLOSED.exception())

    def _call(self) -> None:
        """Begin a batch when this turn of the loop ends, with all that wait by then."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._called = False
        if not self._queue or not self._idle:
            return
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        task = asyncio.get_running_loop().create_task(self._carry_out(batch, self._idle.pop()))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _carry_out(self, batch: list[Waiting], session: Session) -> None:
        try:
            verdicts = await session.run([one.prepared for one in batch])
        except Failed as error:
            _refuse(batch, [error.failure.exception() for _ in batch])
        except AmendsError as error:
            _refuse(batch, [error for _ in batch])
        except BaseException as error:
            _refuse(batch, [unknown(error).exception() for _ in batch])
            raise
        else:
            for one, verdict in zip(batch, verdicts, strict=True):
                if not one.promise.done():
                    one.promise.set_result(verdict)
        finally:
            self._idle.append(session)
            if self._queue:
                self._call()


def _refuse(batch: list[Waiting], errors: list[AmendsError] | list[Unavailable]) -> None:
    for one, error in zip(batch, errors, strict=True):
        if not one.promise.done():
            one.promise.set_exception(error)
