"""A simulated process: killed, paused and counted between the steps of its code.

A *process* is whatever runs under its context: tasks it starts, their children, their timers.
A *step* is one callback the loop runs for it, so between two steps lies every point at which its
code was suspended. Death is decided between steps: a dead process is never stepped again, and no
`except` or `finally` of its coroutines runs while the scenario lasts. That is `kill -9`.

The world (stores, providers) belongs to no process. A process touches it only through
`Process.reach` or an object wrapped by `Process.through`: the call is carried out on the world's
side, goes on if its caller dies, is cancelled or stops waiting, and costs the caller exactly one
suspension. A sweep over all steps therefore dies before the first effect, between any two, and
after the last with its answer lost. A dead process is refused at that gate (`ProcessDied`), so
what unwinds at the end of the world, or after a process killed itself, has no effect.

Limits. Code between two awaits is atomic: no thread, no torn write, no death in the middle. The
memory of a dead process is not erased: after a death build new runtime objects, and share only
the world between processes. What does not go through the gate is not refused.
"""

import asyncio
import enum
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast

from amends.simulation.loop import OWNER, VirtualLoop

T = TypeVar("T")
P = ParamSpec("P")


class ProcessDied(BaseException):
    """Raised to who waits for a process that died, and in its own code at the world's gate.

    Not an `Exception`, so that no handler takes it for a failure of the call.
    """


class Life(enum.Enum):
    """Whether a process is stepped."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One simulated process; make it with `World.process`."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name = name
        self.steps = 0
        self.life = Life.RUNNING
        self._loop = loop
        self._death: asyncio.Future[None] = loop.create_future()
        self._planned: dict[int, Callable[[], None]] = {}
        self._parked: list[asyncio.Handle] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._context = copy_context()
        self._context.run(OWNER.set, self)
        self._outside = copy_context()
        self._outside.run(OWNER.set, None)

    def __str__(self) -> str:
        return f"{self.name} ({self.life.value}, {self.steps} steps)"

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in this process, whoever asks. Raises `ProcessDied`."""
        if self.life is Life.DEAD:
            main.close()
        self.check_alive()
        return self._loop.create_task(main, context=self._context.copy())

    async def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this process and wait outside of it for the result.

        The process lives on afterwards, and also if the wait is cancelled. Raises `ProcessDied`
        as soon as it dies.
        """
        task = self.start(main)
        await asyncio.wait((task, self._death), return_when=asyncio.FIRST_COMPLETED)
        self.check_alive()
        return task.result()

    def check_alive(self) -> None:
        """The gate before every effect. Raises `ProcessDied`."""
        if self.life is Life.DEAD:
            raise ProcessDied(f"{self.name} died at step {self.steps}")

    async def reach(self, call: Callable[[], Awaitable[T]]) -> T:
        """Have the world carry out the call once, and wait for its answer.

        Nothing that becomes of the caller stops the call. Raises `ProcessDied` instead of
        calling, and whatever the call raises.
        """
        self.check_alive()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._loop.create_task(_serve(call, answer), context=self._outside.copy())
        return await answer

    def through(self, target: T) -> T:
        """Return the object as this process sees it: its async methods go through `reach`.

        Its plain methods and attributes are given as they are while the process lives.
        """
        return cast(T, _Reached(self, target))

    def kill(self) -> None:
        """Die now. From the process's own code, raises `ProcessDied` so as not to return there."""
        self.life = Life.DEAD
        if not self._death.done():
            self._death.set_result(None)
        if OWNER.get() is self:
            self.check_alive()

    def pause(self, seconds: float | None = None) -> None:
        """Stop being stepped, as by SIGSTOP, for virtual seconds or until `resume`.

        The world goes on: leases end, answers and due timers wait to be taken up. A process that
        pauses itself still finishes its current step. Nothing happens unless it is running.
        """
        if self.life is not Life.RUNNING:
            return
        self.life = Life.PAUSED
        if seconds is not None:
            self._alarm = self._loop.call_later(seconds, self.resume, context=self._outside)

    def resume(self) -> None:
        """Take up in order all that became ready during the pause."""
        if self.life is not Life.PAUSED:
            return
        self.life = Life.RUNNING
        if self._alarm is not None:
            self._alarm.cancel()
        parked, self._parked = self._parked, []
        self._loop.requeue(parked)

    def at(self, step: int, action: Callable[[], None]) -> None:
        """Do something to the world just before this process's step, counted from 0."""
        if step < self.steps:
            raise ValueError(f"{self.name} is past step {step} already")
        self._planned[step] = action

    def die_at(self, step: int) -> None:
        """Die just before the step: 0 runs nothing, the number of all steps never dies."""
        self.at(step, self.kill)

    def die_after(self, seconds: float) -> None:
        """Die once the virtual seconds are over, so while a call is under way, for example."""
        self._loop.call_later(seconds, self.kill, context=self._outside)

    def pause_at(self, step: int, seconds: float) -> None:
        """Pause just before the step, for virtual seconds."""
        self.at(step, partial(self.pause, seconds))

    def admit(self, handle: asyncio.Handle) -> bool:
        """Answer the loop: count the step, keep it for later, or drop it."""
        if self._planned and self.life is Life.RUNNING:
            self._planned.pop(self.steps, _nothing)()
        if self.life is Life.PAUSED:
            self._parked.append(handle)
        if self.life is not Life.RUNNING:
            return False
        self.steps += 1
        return True


def current_process() -> Process | None:
    """Return the process whose code is running; None on the world's side."""
    owner = OWNER.get()
    return owner if isinstance(owner, Process) else None


class _Reached(Generic[T]):
    """A stand-in that a process holds in place of an object of the world."""

    def __init__(self, process: Process, target: T) -> None:
        self._process = process
        self._target = target

    def __getattr__(self, name: str) -> object:
        self._process.check_alive()
        member = getattr(self._target, name)
        if inspect.iscoroutinefunction(member):
            # Kept, so that it is not asked for again; whoever awaits it still passes the gate.
            member = self.__dict__[name] = partial(_reach, self._process, member)
        return member


async def _reach(
    process: Process, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    return await process.reach(partial(method, *args, **kwargs))


async def _serve(call: Callable[[], Awaitable[T]], answer: asyncio.Future[T]) -> None:
    try:
        result = await call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)


def _nothing() -> None:
    """Nothing is planned for this step."""
