"""An asyncio event loop without an outside: virtual time, no sockets, no threads.

Time stands still while a callback is ready and jumps to the next timer when none is, so an hour
of waiting costs nothing. The same seed gives the same order of callbacks in every run: without a
seed first in, first out; with one the next callback is drawn from all that are ready, which
explores interleavings that a real loop reaches only by luck. What could hang raises `Stalled`.

The loop runs one callback at a time and asks the callback's *owner* first, found in the context
that asyncio already carries from task to child task, timer and done-callback. That one question
is all that simulated death and pause need; who the owners are is not known here (see `process`).

Determinism ends where Python's does: sets of strings follow `PYTHONHASHSEED`, sets of plain
futures follow memory addresses. Sets of tasks (a `TaskGroup` keeps one) are made to agree.
"""

import asyncio
import contextlib
import heapq
import random
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from operator import attrgetter
from typing import Any, Never, Protocol, TypeVar, TypeVarTuple, Unpack, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
CoroutineLike = Generator[Any, None, T] | Coroutine[Any, Any, T]

PATIENCE = 1_000_000
# A coroutine that swallows its own end in a loop is left to itself after so many tries.
UNWINDINGS = 100
# Handle.get_context came with Python 3.12.
context_of: Callable[[asyncio.Handle], Context] = attrgetter("_context")


class Owner(Protocol):
    """Decides, callback by callback, what of its own still runs."""

    def admit(self, handle: asyncio.Handle) -> bool:
        """Return whether the loop runs the handle now; if not, the owner may keep it."""


OWNER: ContextVar[Owner | None] = ContextVar("amends.simulation.owner", default=None)


class Stalled(RuntimeError):
    """Raised out of the loop where a real one would hang: by waiting or by spinning for ever."""


class VirtualTask(asyncio.Task[T]):
    """A task hashed by its number, so that a set of tasks iterates alike in every run."""

    _log_destroy_pending: bool

    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        loop: asyncio.AbstractEventLoop,
        home: Context,
        number: int,
    ) -> None:
        self.body = coro
        self.home = home
        self.number = number
        super().__init__(coro, loop=loop, context=home)

    def __hash__(self) -> int:
        return self.number

    def describe(self) -> str:
        """Name the coroutine and whose it is, for the one who reads `Stalled`."""
        name = getattr(self.body, "__qualname__", self.get_name())
        owner = self.home.get(OWNER)
        return name if owner is None else f"{name} of {owner}"

    def abandon(self) -> None:
        """Unwind the coroutine outside the loop and forget the task.

        Its `finally` blocks do run now, long after they matter: the loop is closed, so they can
        schedule nothing, and their owner refuses effects. A block that awaits is unwound again.
        """
        asyncio.tasks._unregister_task(self)
        if self.done():
            return
        self._log_destroy_pending = False
        for _ in range(UNWINDINGS):
            with contextlib.suppress(Exception, asyncio.CancelledError):
                self.home.run(self.body.close)
                break


class VirtualLoop(asyncio.BaseEventLoop):
    """One simulation's loop; cheap enough to make one per scenario.

    `seed` shuffles the ready callbacks, None keeps them in order. `patience` is how many
    callbacks may run in all before the loop is taken to spin for ever.
    """

    # Kept by BaseEventLoop, which leaves to subclasses how they are drained.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: int | None = None, *, patience: int = PATIENCE) -> None:
        super().__init__()
        self._now = 0.0
        self._order = None if seed is None else random.Random(seed)
        self._patience = patience
        self._tasks: list[VirtualTask[Any]] = []
        self.callbacks = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Make ready again, in order, what an owner kept when it was asked."""
        self._ready.extend(handles)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run the function inline as a callback of its own; it takes no virtual time.

        As with a real thread, giving up the wait does not stop the function.
        """
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(self._run_inline, future, func, args)
        return future

    async def getaddrinfo(self, *_args: object, **_kwargs: object) -> Never:
        """Refuse: every connection and server begins here, and this loop has no outside."""
        raise RuntimeError("a simulated loop opens no connections; give the code a simulated peer")

    def close(self) -> None:
        """Close the loop and unwind every task that never finished, without a warning."""
        super().close()
        tasks, self._tasks = self._tasks, []
        with warnings.catch_warnings():
            # An argument of a coroutine that died before its first step was never awaited.
            warnings.simplefilter("ignore", RuntimeWarning)
            while tasks:
                tasks.pop().abandon()

    def _make_task(
        self, _loop: object, coro: CoroutineLike[T], *, context: Context | None = None
    ) -> VirtualTask[T]:
        home = copy_context() if context is None else context
        task = VirtualTask(cast(Coroutine[Any, Any, T], coro), self, home, len(self._tasks))
        # asyncio holds tasks weakly; a dead one must not be unwound by a garbage collection.
        self._tasks.append(task)
        return task

    def _run_inline(
        self, future: asyncio.Future[T], func: Callable[[Unpack[Ts]], T], args: tuple[*Ts]
    ) -> None:
        events._set_running_loop(None)  # a worker thread sees no running loop
        try:
            result = func(*args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)
        finally:
            events._set_running_loop(self)

    def _run_once(self) -> None:
        self._wake_due()
        if not self._ready:
            if not self._stopping:
                self._stall("no callback is ready and no timer is set")
            return
        self.callbacks += 1
        if self.callbacks > self._patience:
            self._stall(f"{self._patience} callbacks ran and the end did not come")
        handle = self._draw()
        if handle.cancelled():
            return
        owner = context_of(handle).get(OWNER)
        if owner is None or owner.admit(handle):
            handle._run()

    def _wake_due(self) -> None:
        """Make the timers of this instant ready; jump to the next instant if nothing is."""
        while self._scheduled:
            timer = self._scheduled[0]
            if not timer.cancelled() and timer.when() > self._now:
                if self._ready or self._stopping:
                    return
                self._now = timer.when()
            heapq.heappop(self._scheduled)
            if not timer.cancelled():
                self._ready.append(timer)

    def _draw(self) -> asyncio.Handle:
        ready = self._ready
        if self._order is not None and len(ready) > 1:
            index = int(self._order.random() * len(ready))
            ready[0], ready[index] = ready[index], ready[0]
        return ready.popleft()

    def _stall(self, reason: str) -> Never:
        waiting = [task.describe() for task in self._tasks if not task.done()]
        raise Stalled(
            f"{reason}, at virtual second {self._now:g}; "
            f"{len(waiting)} tasks unfinished: {', '.join(waiting[:8])}"
        )

    def _write_to_self(self) -> None:
        """Nothing sleeps in a selector here, so there is nobody to wake."""
