"""The world a scenario plays in: a loop, clocks, chance, processes, and the sweep over deaths.

One world runs one scenario and ends with it; what happened is a function of the scenario, the
seed and the fates given to its processes, so a failure is replayed by naming them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from amends.simulation.loop import PATIENCE, VirtualLoop
from amends.simulation.process import Life, Process, ProcessDied

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A wall clock, called for the time as an aware UTC datetime.

    It follows the loop's virtual time from `start` and can be stepped against it, as a corrected
    or wrong clock is: timers do not notice. Make one per host to let their clocks disagree.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: datetime = START) -> None:
        if start.utcoffset() is None:
            raise ValueError("a clock starts at an aware datetime")
        self._loop = loop
        self._origin = start.astimezone(UTC)

    def __call__(self) -> datetime:
        return self._origin + timedelta(seconds=self._loop.time())

    def step(self, by: timedelta) -> None:
        """Move the clock at once, forwards or (negative) backwards."""
        self._origin += by


Fate = Callable[[Process], None]


class World:
    """All that outlives a process: the loop, a clock, chance, and the processes by name.

    One world runs one scenario. `seed` decides the order of callbacks (None: first in, first
    out) and all that is drawn from `random`. `fates` are applied to the processes they name as
    soon as these are made.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        start: datetime = START,
        fates: Mapping[str, Fate] | None = None,
        patience: int = PATIENCE,
    ) -> None:
        self.seed = seed
        self.loop = VirtualLoop(seed, patience=patience)
        self.loop.set_exception_handler(self._note)
        self.clock = VirtualClock(self.loop, start)
        self.random = random.Random(f"world {seed}")
        self.processes: dict[str, Process] = {}
        self._fates = dict(fates or {})
        self._unhandled: list[BaseException] = []

    def random_bytes(self, count: int) -> bytes:
        """Return the same bytes in the same order for the same seed: a source of ids."""
        return self.random.randbytes(count)

    def process(self, name: str) -> Process:
        """Make a process. A restarted one is a new process with a name of its own."""
        if name in self.processes:
            raise ValueError(f"there is a process {name} already; name its next life differently")
        process = self.processes[name] = Process(self.loop, name)
        if fate := self._fates.get(name):
            fate(process)
        return process

    def run(self, scenario: Callable[["World"], Awaitable[T]]) -> T:
        """Run the scenario, then end the world: every process dies where it stands.

        Raises what the scenario raises, `Stalled` where it would hang, and an exception group
        if a callback failed with nobody to tell.
        """
        try:
            result = self.loop.run_until_complete(scenario(self))
        except BaseException as error:
            for unhandled in self._unhandled:
                error.add_note(f"before that, unhandled: {unhandled!r}")
            raise
        finally:
            self._end()
        if self._unhandled:
            raise BaseExceptionGroup("unhandled in the simulated world", self._unhandled)
        return result

    def _end(self) -> None:
        self.loop.set_exception_handler(_forget)
        for process in self.processes.values():
            process.life = Life.DEAD
        self.loop.close()

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, ProcessDied):
            self._unhandled.append(error or RuntimeError(context["message"]))


class Report(msgspec.Struct, Generic[T], frozen=True):
    """What a scenario returned, the steps each process took, and the virtual seconds it lasted."""

    result: T
    steps: dict[str, int]
    seconds: float


def run(scenario: Callable[[World], Awaitable[T]], seed: int | None = None) -> T:
    """Run a scenario in a new world; see `World.run`."""
    return World(seed).run(scenario)


def observe(
    scenario: Callable[[World], Awaitable[T]],
    seed: int | None = None,
    fates: Mapping[str, Fate] | None = None,
) -> Report[T]:
    """Run a scenario in a new world and report its steps; see `World.run`."""
    world = World(seed, fates=fates)
    result = world.run(scenario)
    steps = {name: process.steps for name, process in world.processes.items()}
    return Report(result, steps, world.loop.time())


def sweep(
    scenario: Callable[[World], Awaitable[T]],
    victim: str,
    seed: int | None = None,
    fate: Callable[[Process, int], None] = Process.die_at,
) -> Iterator[Report[T]]:
    """Run a scenario unharmed, then once for each step of the victim with its fate there.

    The step that failed is noted on whatever the scenario raises.
    """
    whole = observe(scenario, seed)
    yield whole
    for step in range(whole.steps[victim]):
        try:
            report = observe(scenario, seed, {victim: _at(step, fate)})
        except BaseException as error:
            error.add_note(f"seed {seed}, {victim} met its fate at step {step}")
            raise
        yield report


def _at(step: int, fate: Callable[[Process, int], None]) -> Fate:
    return lambda process: fate(process, step)


def _forget(_loop: object, _context: object) -> None:
    """After the end of the world nobody listens."""
