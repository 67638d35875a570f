"""A small world of one host and one worker after the other, which die and pause between any steps.

Both shells run as they are, in one event loop and virtual time. What survives is ledger, journal,
the names of sessions, and the provider's books. A round is one session: a host process opens its
ledger, a worker process serves. When either dies, its end of the wire is cut, and the next round
begins, with new processes; a worker that was paused may wake up in the middle of it.

The laws: no key has its effect twice, whatever happens; and within so many rounds both sides end
in what really happened.

Deliberately not here: torn files and lost anchors, which the sealed room's own tests go through.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple

from amends.contracts.errors import AmendsError
from amends.host.channel import WorkerChannel
from amends.host.workflow import Workflow
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import open_journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import open_ledger
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.simulation.process import Life, Process, ProcessDied
from amends.simulation.world import World
from amends.testing.durable import MemoryRecord, MemorySessions
from amends.testing.release import (
    GRANT,
    PLAN,
    SCOPE,
    YES,
    Progress,
    faults_in,
    go_on,
    make_adapters,
)
from amends.testing.wires import WireEnd, make_wire
from amends.worker.shell import JournalAccess, WorkerShell

ROUNDS: Final = 20
LEFT_BEHIND_S: Final = 70.0
"""How long a host is waited for before another one takes over; longer than it waits itself."""

BETWEEN_S: Final = 20.0
MAX_BYTES: Final = 16 * 1024 * 1024
STEPS: Final = 60
"""A little more than either process takes when nothing happens."""

_PAUSES_S: Final = (1.0, 65.0, 200.0)


class Side(StrEnum):
    """Who meets a fate."""

    HOST = "host"
    WORKER = "worker"


class Fate(NamedTuple):
    """What happens to a process just before one of its steps: it dies, or sleeps for so long."""

    step: int
    pause_s: float | None = None


Fates = Mapping[tuple[int, Side], Fate]
"""By round and side."""


class Broken(Exception):
    """A law was broken. The schedule says how to see it again."""


class ReleaseWorld:
    """Everything that survives a process."""

    def __init__(self, world: World, fates: Fates) -> None:
        self.world = world
        self.fates = fates
        self.effects: Counter[str] = Counter()
        self.ledger = MemoryRecord(encode_ledger(open_ledger(PLAN)))
        self.journal = MemoryRecord(encode_journal(open_journal(SCOPE)))
        self.used = MemorySessions()
        self.seen: Counter[str] = Counter()
        self.rounds = 0
        self._workers: list[Process] = []
        self._running: list[asyncio.Task[bool]] = []

    async def play(self) -> None:
        """Go on, round after round, until nothing more follows. Raises `Broken`."""
        while not await self._round():
            if self.rounds >= ROUNDS:
                raise Broken("it does not come to an end")
            await asyncio.sleep(BETWEEN_S)
        await asyncio.gather(*self._running)  # whoever was left behind wakes up and finds out
        faults = faults_in(
            decode_ledger(self.ledger.payload),
            decode_journal(self.journal.payload, max_bytes=MAX_BYTES),
            dict(self.effects),
        )
        if faults:
            raise Broken("; ".join(faults))

    async def _round(self) -> bool:
        """One session; whether the host has nothing more to do."""
        number, self.rounds = self.rounds, self.rounds + 1
        host_end, worker_end = make_wire()
        bootstrap = Bootstrap(f"session-{number}", SessionKey(self.world.random_bytes(32)))
        worker = self._process(number, Side.WORKER)
        host = self._process(number, Side.HOST)
        serving = self._start(self._serve(worker, worker_end, bootstrap))
        driving = self._start(self._drive(host, host_end, bootstrap))
        self._workers.append(worker)
        await asyncio.wait({driving}, timeout=LEFT_BEHIND_S)
        if not driving.done():
            self.seen["a host was left behind"] += 1
            return False
        if worker.life is not Life.PAUSED:
            await serving
        return driving.result()

    def _start(self, side: Coroutine[object, object, bool]) -> "asyncio.Task[bool]":
        task = self.world.loop.create_task(side)
        self._running.append(task)
        return task

    def _process(self, number: int, side: Side) -> Process:
        process = self.world.process(f"{side}-{number}")
        fate = self.fates.get((number, side))
        if fate is not None and fate.pause_s is None:
            process.die_at(fate.step)
        elif fate is not None:
            process.pause_at(fate.step, fate.pause_s or 0.0)
        return process

    async def _drive(self, host: Process, end: WireEnd, bootstrap: Bootstrap) -> bool:
        try:
            return await host.run(self._host(end, bootstrap))
        except ProcessDied:
            self.seen["a host died"] += 1
        except AmendsError as error:
            self.seen[error.code] += 1
        finally:
            end.cut()
        return False

    async def _host(self, end: WireEnd, bootstrap: Bootstrap) -> bool:
        workflow = await Workflow.open(PLAN, self.ledger.open, YES, clock=self.world.clock)
        nonce = self.world.random_bytes(32)
        channel = WorkerChannel(end, bootstrap, [GRANT], tenant_scope=SCOPE, nonce=nonce)
        async with channel:
            while (progress := await go_on(workflow, channel)) is Progress.GOES_ON:
                pass
        return progress is Progress.ENDED

    async def _serve(self, worker: Process, end: WireEnd, bootstrap: Bootstrap) -> bool:
        try:
            await worker.run(self._worker(worker, end, bootstrap))
        except ProcessDied:
            self.seen["a worker died"] += 1
        except AmendsError as error:
            self.seen[error.code] += 1
        finally:
            end.cut()
            worker.life = Life.DEAD
        return True

    async def _worker(self, worker: Process, end: WireEnd, bootstrap: Bootstrap) -> None:
        async def act(key: str) -> None:
            await worker.reach(lambda: self._act(key))

        async def has(key: str) -> bool:
            return await worker.reach(lambda: self._has(key))

        access = JournalAccess(
            scope=SCOPE,
            open=self.journal.open,
            used=self.used,
            predecessor_gone=lambda: self._are_gone(worker),
        )
        adapters, nonce = make_adapters(act, has), self.world.random_bytes(32)
        await WorkerShell(end, bootstrap, adapters, access, nonce=nonce).run()

    def _are_gone(self, worker: Process) -> bool:
        others = [one for one in self._workers if one is not worker]
        gone = all(one.life is Life.DEAD for one in others)
        self.seen["a worker met its predecessor alive"] += not gone
        return gone

    async def _act(self, key: str) -> None:
        self.effects[key] += 1

    async def _has(self, key: str) -> bool:
        return self.effects[key] > 0


def play(fates: Fates, seed: int | None = None) -> ReleaseWorld:
    """Play one world. Raises `Broken`, with the fates in a note."""
    world = World(seed)

    async def scenario(world: World) -> ReleaseWorld:
        releases = ReleaseWorld(world, fates)
        await releases.play()
        return releases

    try:
        return world.run(scenario)
    except BaseException as error:
        error.add_note(f"seed {seed}, {dict(fates)}")
        raise


def play_drawn(seed: int) -> ReleaseWorld:
    """Play the world of a seed: a fate in its first round, and up to three more."""
    lot = Random(f"fates {seed}")
    fates: dict[tuple[int, Side], Fate] = {}
    for round_ in (0, *(lot.randrange(4) for _ in range(lot.choice((0, 1, 1, 2, 3))))):
        place = round_, lot.choice(list(Side))
        pause_s = lot.choice(_PAUSES_S) if lot.random() < 0.3 else None
        fates[place] = Fate(lot.randrange(STEPS), pause_s)
    return play(fates, seed)
