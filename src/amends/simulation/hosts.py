"""Processes of a small world that run the real engine, and the fates that meet them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from random import Random
from typing import Any, Final, TypeVar

from amends.contracts.documents import Document
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId
from amends.governance.policy import CapabilityPolicy
from amends.receipts.signing import Signer
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.simulation.capabilities import GRACE_MS
from amends.simulation.chronicle import Chronicle
from amends.simulation.process import Life, ProcessDied
from amends.simulation.world import World
from amends.stores.memory import MemoryStore
from amends.stores.port import Accepted, ChangeSet, Lost, Stored

D = TypeVar("D", bound=Document)
T = TypeVar("T")
Call = Callable[[Engine], Coroutine[Any, Any, T]]

_PAUSES_S: Final = (3.0, 9.0, 14.0, 16.0, 30.0, 60.0, 130.0)


class Flaky:
    """How often a store fails, before or after it has written, until it is repaired."""

    def __init__(self, lot: Random, rate: float, seen: Counter[str]) -> None:
        self.rate = rate
        self._lot = lot
        self._seen = seen

    def fail(self, *codes: str) -> str | None:
        """The code with which the store fails now, if it does."""
        if self.rate == 0.0 or self._lot.random() > self.rate:
            return None
        code = self._lot.choice(codes)
        self._seen[code] += 1
        return code

    def check(self) -> None:
        """Raises `Unavailable` now and then."""
        if code := self.fail("store.unavailable"):
            raise _failed(code)


class FlakyStore(MemoryStore):
    """A store that fails now and then; a commit of unknown fate was made every other time."""

    def __init__(self, chronicle: Chronicle, flaky: Flaky, lot: Random) -> None:
        super().__init__(memory=chronicle)
        self._flaky = flaky
        self._lot = lot

    async def get(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        self._flaky.check()
        return await super().get(type_, tenant, id_)

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`."""
        self._flaky.check()
        return await super().due(type_, limit)

    async def tail(self, tenant: TenantId, chain: str) -> Tail | None:
        """See `Store.tail`."""
        self._flaky.check()
        return await super().tail(tenant, chain)

    async def now(self) -> datetime:
        """See `Store.now`."""
        self._flaky.check()
        return await super().now()

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """See `Store.commit`."""
        code = self._flaky.fail("store.unavailable", "store.commit_unknown")
        if code is None:
            return await super().commit(change_set)
        if code == "store.commit_unknown" and self._lot.random() < 0.5:
            await super().commit(change_set)
        raise _failed(code)


def _failed(code: str) -> Unavailable:
    return Unavailable(code, "The simulated store has failed.")


class Host:
    """One process with an engine of its own over the shared memory."""

    def __init__(
        self,
        world: World,
        name: str,
        chronicle: Chronicle,
        *,
        registry: Registry,
        signer: Signer | None,
        flaky: Flaky,
        sweeps_every_s: float | None = None,
    ) -> None:
        self.process = world.process(name)
        self._chronicle = chronicle
        self._issued = 0
        self.engine = Engine(
            Environment(
                store=self.process.through(FlakyStore(chronicle, flaky, world.random)),
                registry=registry,
                policy=CapabilityPolicy(),
                signer=signer,
                credentials=None,
                ids=self._next_id,
                owner=name,
                jitter=world.random.random,
                spawn=self.spawn,
                grace_ms=GRACE_MS,
            )
        )
        self.sweeper = Sweeper(self.engine, poll_s=sweeps_every_s or 1.0)
        if sweeps_every_s is not None:
            self.spawn(self.sweeper.run())

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked for something, now or after a pause."""
        return self.process.life is not Life.DEAD

    def _next_id(self, prefix: str) -> str:
        self._issued += 1
        return f"{prefix}{self.process.name}.{self._issued}"

    def spawn(self, main: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        """Start a task of this process. One that ends badly is a fault of the product."""
        task: asyncio.Task[None] = self.process.start(main)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Unavailable | ProcessDied):
            self._chronicle.fault(f"a task of {self.process.name} ended in {error!r}")

    async def ask(self, call: Call[T], patience_s: float | None = None) -> T | AmendsError:
        """Have the engine do something; what it refuses is an answer too.

        Raises `ProcessDied`, and `TimeoutError` if that takes longer than the caller's patience.
        """
        try:
            return await self.process.run(self._within(call, patience_s))
        except AmendsError as error:
            return error

    async def _within(self, call: Call[T], patience_s: float | None) -> T:
        async with asyncio.timeout(patience_s):
            return await call(self.engine)


def meet_fate(host: Host, lot: Random, loop: asyncio.AbstractEventLoop) -> str:
    """Draw what will happen to a host, and name it."""
    process = host.process
    drawn = lot.random()
    if drawn < 0.25:
        process.die_at(int(lot.expovariate(1 / 60)))
        return "dies at a step"
    if drawn < 0.35:
        process.die_after(lot.choice((1.0, 5.0, 12.0, 40.0)) * lot.random())
        return "dies in time"
    if drawn < 0.50:
        process.pause_at(int(lot.expovariate(1 / 60)), lot.choice(_PAUSES_S))
        return "is paused"
    if drawn < 0.55:
        loop.call_later(20 * lot.random(), _shut_down, host)
        return "shuts down"
    return "lives"


def _shut_down(host: Host) -> None:
    if host.is_alive:
        host.spawn(_close(host))


async def _close(host: Host) -> None:
    await host.engine.close(drain_ms=2_000)
    host.process.kill()
