"""A small payments program: one store, the scripted provider, and a clock that can be moved on.

It is put together as any program is, except that its store and its provider can be watched for
crash points and its clock stepped, so that a lease of half a minute can lapse at once. Several
processes may open the same files, each with a till of its own; the provider's books (`ledger`) say
how often money really moved.

Deliberately not here: what a till is told to do (`errands`), and processes (`victim`).
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from amends.app.amends import LOCAL, Amends
from amends.contracts import limits
from amends.contracts.declarations import (
    ExecutionContract,
    RecoveryContract,
    ServiceLevelContract,
)
from amends.contracts.principals import Caller
from amends.governance.policy import CapabilityPolicy
from amends.receipts.signing import KeyRing
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.port import Store
from amends.stores.postgres import open_postgres
from amends.stores.rows import system_clock
from amends.stores.sqlite import open_sqlite
from amends.testing.crash_points import Reached, watch_provider, watch_store
from amends.testing.effects import FileLedger, Kind, Ledger, Ruling, rulings
from amends.testing.faults import Fault
from amends.testing.invariants import check_world
from amends.testing.provider import ScriptedProvider
from amends.testing.workbench import Served, charging
from amends.wiring.identifiers import new_id, new_owner
from amends.wiring.keys import key_path, load_or_make_key
from amends.wiring.opening import Runtime, Settings
from amends.wiring.places import beside_of, is_on_a_server


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Where a till stands and how it goes.

    `store` is a path, or the URL of a database on a server; `ledger` is a path. `script` and
    `lookups` are the provider's faults in this process. `starts_at` stops the clock at that
    instant; without it the system's clock is taken, or a server's, moved on by `ahead_ms`.
    `horizon_ms` is how long after its sender's lease a request is surely dead. After
    `most_look_ups` a person is called. `recover` runs the sweeper by itself, every `poll_s`.
    """

    store: str
    ledger: str
    script: tuple[Fault, ...] = ()
    lookups: tuple[Fault, ...] = ()
    starts_at: datetime | None = None
    ahead_ms: int = 0
    timeout_ms: int = limits.TIMEOUT_MS
    grace_ms: int = limits.LEASE_GRACE_MS
    drain_ms: int = 200
    horizon_ms: int | None = 1_000
    most_look_ups: int = 12
    recover: bool = False
    poll_s: float = 0.02


class SteppedClock:
    """A store's clock: the system's, or one that stands still; either can be moved on."""

    def __init__(self, starts_at: datetime | None, ahead_ms: int = 0) -> None:
        self._starts_at = starts_at
        self._ahead = timedelta(milliseconds=ahead_ms)

    def __call__(self) -> datetime:
        return (self._starts_at or system_clock()) + self._ahead

    @property
    def is_plain(self) -> bool:
        """Whether it is the system's, just as it is."""
        return self._starts_at is None and not self._ahead

    def step(self, milliseconds: int) -> None:
        """Move on by so much."""
        self._ahead += timedelta(milliseconds=milliseconds)


class Till:
    """An open store with everything around it."""

    def __init__(
        self, runtime: Runtime, provider: ScriptedProvider, ledger: Ledger, clock: SteppedClock
    ) -> None:
        self.provider = provider
        self.clock = clock
        self.store = runtime.engine.environment.store
        self.sweeper = Sweeper(runtime.engine)
        self.amends = Amends(runtime, Caller(principal=LOCAL, asserted=True, trusted=True))
        self._keys = KeyRing([runtime.signer.public_key])
        self._ledger = ledger

    async def check(self) -> list[str]:
        """Every invariant that is broken, of the store and of what the provider did.

        Only while nobody else works on the files.
        """
        keys = [one.arrival.key for one in effects_in(self._ledger)]
        return await check_world(self.store, keys, self._keys)


def effects_in(ledger: Ledger, kind: Kind | None = None) -> list[Ruling]:
    """What the provider did by its own books: one entry for each time money moved, by whomever."""
    made = rulings(ledger.arrivals(), math.inf, None).values()
    return [one for one in made if one.is_effect and kind in (None, one.arrival.kind)]


@asynccontextmanager
async def open_till(
    setup: Setup, *, reached: Reached | None = None, store: Store | None = None
) -> AsyncIterator[Till]:
    """Open the files of a till and close them again; running attempts get `drain_ms` to end.

    `reached` is told of crash points. `store` stands in for the file, whose key is made all the
    same.
    """
    clock = SteppedClock(setup.starts_at, setup.ahead_ms)
    ledger = FileLedger(setup.ledger)
    provider = ScriptedProvider(
        setup.script,
        lookups=setup.lookups,
        ledger=ledger,
        on=watch_provider(reached) if reached else None,
    )
    store = store or await _opened(setup.store, clock)
    signer = load_or_make_key(key_path(_beside(setup.store)))
    registry = Registry()
    registry.register(*served(provider, setup))
    environment = Environment(
        store=watch_store(store, reached) if reached else store,
        registry=registry,
        policy=CapabilityPolicy(),
        signer=signer,
        credentials=None,
        ids=new_id,
        owner=new_owner(),
        jitter=random.random,
        spawn=asyncio.create_task,
        grace_ms=setup.grace_ms,
    )
    settings = Settings(recover=setup.recover, poll_s=setup.poll_s, drain_ms=setup.drain_ms)
    runtime = Runtime(Engine(environment), signer, settings)
    try:
        yield Till(runtime, provider, ledger, clock)
    finally:
        await runtime.close()


async def _opened(place: str, clock: SteppedClock) -> Store:
    """The store in a file, or on a server, whose own time counts until the clock is moved on."""
    if not is_on_a_server(place):
        return await open_sqlite(place, clock=clock)
    return await open_postgres(place, clock=lambda: None if clock.is_plain else clock())


def _beside(place: str) -> Path:
    found = beside_of(place) if is_on_a_server(place) else Path(place)
    assert found is not None
    return found


def served(provider: ScriptedProvider, setup: Setup) -> Served:
    """The one capability of a till: it charges, looks its charges up by key, and refunds them."""
    return charging(
        provider,
        execution=ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=setup.horizon_ms),
        service_level=ServiceLevelContract(timeout_ms=setup.timeout_ms),
        recovery=RecoveryContract(max_attempts=setup.most_look_ups),
    )
