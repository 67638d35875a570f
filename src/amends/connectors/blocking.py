"""What a handler written as a plain `def` is given, and the threads in which it runs.

Invariants: a blocking checkpoint returns when the reference is durable, or raises; it never waits
on the very thread that would have to make it so. A job is either entered by its thread or given up
by its waiter, never both, so a handler that was given up while it waited for a thread stays unsent.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Final, Protocol, TypeVar

import msgspec

from amends.connectors.port import Attempt
from amends.contracts.errors import Misuse, Unavailable

T = TypeVar("T")

THREADS: Final = 32
"""How many plain handlers of one pool run at once; the next ones wait their turn."""

_LOOK_AGAIN_S: Final = 0.5
"""How long a checkpoint waits before it looks whether its event loop is still there."""


class RunSync(Protocol):
    """Runs a job outside of the event loop and gives its result; a job never raises."""

    def __call__(self, job: Callable[[], T], /) -> Awaitable[T]:
        """Begin the job, and return at once."""
        ...


class HandlerThreads:
    """A bounded pool of threads for plain handlers.

    It goes through the loop's `run_in_executor`, so a simulated loop runs the handlers inline. The
    interpreter waits for running handlers before it exits.
    """

    def __init__(self, limit: int = THREADS) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(limit, "amends-handler")

    def __call__(self, job: Callable[[], T], /) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, job)

    def close(self) -> None:
        """Take no more handlers and drop those that wait; the running ones are not disturbed."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Ended(msgspec.Struct, frozen=True):
    """How a plain handler ended; kept as data, since executors lose some exceptions."""

    value: object = None
    error: BaseException | None = None

    async def answer(self) -> object:
        """What the handler returned, or raised; a coroutine it returned is run in the loop."""
        if self.error is not None:
            raise self.error
        return await self.value if isinstance(self.value, Awaitable) else self.value


class Job:
    """One run of a plain handler, in the context of its caller.

    Called by its thread, it gives None when `give_up` came first or the attempt was cancelled.
    """

    def __init__(self, handler: Callable[[], object], attempt: Attempt) -> None:
        self._handler = handler
        self._is_cancelled = attempt.cancelled.is_set
        self._context = copy_context()
        # Taken once, by the first to come, and never released.
        self._claim = threading.Lock()

    def __call__(self) -> Ended | None:
        if self._is_cancelled() or not self._claim.acquire(blocking=False):
            return None
        try:
            return Ended(self._context.run(self._handler))
        except BaseException as error:
            return Ended(error=error)

    def give_up(self) -> bool:
        """Keep the handler from being entered; false when it has been already."""
        return self._claim.acquire(blocking=False)


class BlockingAttempt(Attempt):
    """The attempt as a plain handler sees it: the same facts, and a checkpoint that blocks.

    Make it in the event loop's own thread. `cancelled.is_set()` may be asked from any thread; only
    a coroutine can wait for it.
    """

    __slots__ = ("_loop", "_loop_thread")

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.call, attempt._checkpoint, attempt.cancelled)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def checkpoint(  # type: ignore[override]  # the same promise, kept by blocking
        self,
        provider: str,
        operation_id: str,
        request_id: str | None = None,
        cursor: str | None = None,
    ) -> None:
        """Record what the provider accepted; durable when it returns (TX-CHECKPOINT-1).

        Raises as `Attempt.checkpoint`, and besides `Misuse` (`connector.checkpoint_deadlock`) when
        the handler runs in the event loop's own thread, as it does in a simulation, and
        `Unavailable` (`connector.loop_closed`) when the loop has ended.
        """
        if threading.get_ident() == self._loop_thread:
            raise Misuse(
                "connector.checkpoint_deadlock",
                "A blocking checkpoint would wait for the thread that it blocks.",
                next_step="Write the handler as async def and await the checkpoint.",
            )
        if self._loop.is_closed():
            raise _loop_closed()
        written = super().checkpoint(provider, operation_id, request_id, cursor)
        self._wait_for(asyncio.run_coroutine_threadsafe(written, self._loop))

    def _wait_for(self, written: "concurrent.futures.Future[None]") -> None:
        while not concurrent.futures.wait((written,), _LOOK_AGAIN_S).done:
            if self._loop.is_closed():
                raise _loop_closed()
        written.result()


def _loop_closed() -> Unavailable:
    return Unavailable(
        "connector.loop_closed",
        "The event loop ended while a handler was still at work.",
        next_step="Reconcile the transaction: its provider operation may not be recorded.",
    )
