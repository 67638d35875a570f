"""Who is written when: all that wait while a batch is on its way go together in the next one.

Where few ask, whichever session is free takes the queue. Where many do, no more than half of them
go together (`sharing`), and the other half waits until the first one is back, which by then has
been computing for a while: so this process and the server work at the same time. A batch that is
long on its way, behind somebody else's lock or a standby far away, is not waited for.

What is queued is carried out: a caller that is cancelled stops waiting, and nothing else.

Deliberately not here: SQL, verdicts, and any retry.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from amends.contracts.errors import AmendsError
from amends.stores.postgres.failures import CLOSED, unknown
from amends.stores.postgres.session import Failed, Session
from amends.stores.postgres.verdicts import Verdict
from amends.stores.postgres.writes import Prepared
from amends.stores.sharing import FEW, are_many, share

Told: TypeAlias = Sequence[Verdict | AmendsError]
"""For each change set of a batch what its caller is told."""

LONG_S: Final = 0.01
"""A batch that takes longer is not waited for. A server nearby is done in a few milliseconds."""


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
        self._waited_for: set[Session] = set()
        """Those whose batch has not been on its way for long."""
        self._sent = 0
        """How many change sets are on their way."""
        self._called = False

    async def commit(self, prepared: Prepared, loop: asyncio.AbstractEventLoop) -> Verdict:
        """Durable when accepted. Raises `Unavailable`."""
        waiting = Waiting(prepared, loop.create_future())
        self._queue.append(waiting)
        self._call(loop)
        return await waiting.promise

    async def drain(self) -> None:
        """Wait until all that is queued now has its verdict."""
        while self._queue or self._running:
            self._call(asyncio.get_running_loop())
            if self._running:
                await asyncio.wait(set(self._running))
            else:
                await asyncio.sleep(0)

    def refuse(self) -> None:
        """Tell what is still queued that the store is closed."""
        left, self._queue = self._queue, []
        _tell(left, [CLOSED.exception() for _ in left])

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a batch when this turn of the loop ends, with all that wait by then."""
        if not self._called:
            self._called = True
            loop.call_soon(self._begin, 0)

    def _begin(self, computing: int) -> None:
        """Begin a batch, unless those that wait go later with those whose batch is on its way.

        So many more are `computing`, having just been told.
        """
        self._called = False
        waiting, others = len(self._queue), computing + self._sent
        if not waiting or not self._idle:
            return
        if self._waited_for and are_many(waiting + others):
            return
        size, session = share(waiting, others), self._idle.pop()
        batch, self._queue = self._queue[:size], self._queue[size:]
        self._sent += size
        self._waited_for.add(session)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._carry_out(batch, session, loop))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _carry_out(
        self, batch: Sequence[Waiting], session: Session, loop: asyncio.AbstractEventLoop
    ) -> None:
        long = loop.call_later(LONG_S, self._wait_no_longer, session)
        told: Told = ()
        try:
            told = await session.run([one.prepared for one in batch])
        except Failed as error:
            told = [error.failure.exception() for _ in batch]
        except AmendsError as error:
            told = [error for _ in batch]
        except BaseException as error:
            told = [unknown(error).exception() for _ in batch]
            raise
        finally:
            long.cancel()
            self._end(batch, session, told, loop)

    def _wait_no_longer(self, session: Session) -> None:
        self._waited_for.discard(session)
        self._begin(0)

    def _end(
        self,
        batch: Sequence[Waiting],
        session: Session,
        told: Told,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Give the session back and tell them, once the next batch is on its way.

        Where few wait, the batch begins when these have had their turn, and takes them along.
        """
        self._sent -= len(batch)
        self._waited_for.discard(session)
        self._idle.append(session)
        if len(self._queue) >= FEW:
            self._begin(len(batch))
            loop.call_soon(_tell, batch, told)
        else:
            _tell(batch, told)
            if self._queue:
                self._call(loop)


def _tell(batch: Sequence[Waiting], told: Told) -> None:
    """Resolve what is waited for; a caller that stopped waiting is passed over."""
    for one, outcome in zip(batch, told, strict=True):
        if one.promise.done():
            continue
        if isinstance(outcome, AmendsError):
            one.promise.set_exception(outcome)
        else:
            one.promise.set_result(outcome)
