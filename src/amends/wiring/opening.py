"""From a store URL and a set of capabilities to a running engine."""

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from amends.connectors.port import Connector
from amends.contracts.declarations import Capability
from amends.contracts.errors import AmendsError, Misuse
from amends.contracts.limits import LEASE_GRACE_MS
from amends.contracts.secrets import CredentialSource
from amends.governance.policy import CapabilityPolicy, Policy
from amends.receipts.signing import Ed25519Signer
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.memory import MemoryStore
from amends.stores.port import Store
from amends.stores.sqlite import open_sqlite
from amends.wiring.identifiers import new_id, new_owner
from amends.wiring.keys import ephemeral_key, key_path, load_or_make_key

SQLITE: Final = "sqlite:///"
MEMORY: Final = "memory:"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime is put together.

    `recover` runs the sweeper inside this runtime; `drain_ms` is how long a close waits for running
    attempts before it interrupts them; `grace_ms` how long an attempt outlives its time limit.
    """

    policy: Policy | None = None
    credentials: CredentialSource | None = None
    recover: bool = True
    poll_s: float = 1.0
    drain_ms: int = 5_000
    grace_ms: int = LEASE_GRACE_MS


class Runtime:
    """An engine with what keeps it going, until it is closed."""

    def __init__(self, engine: Engine, signer: Ed25519Signer, settings: Settings) -> None:
        self.engine = engine
        self.signer = signer
        self._settings = settings
        self._sweeping: asyncio.Task[None] | None = None
        if settings.recover:
            sweeper = Sweeper(engine, poll_s=settings.poll_s)
            self._sweeping = asyncio.create_task(sweeper.run())

    async def close(self) -> None:
        """Stop sweeping, let attempts end or leave them recoverable, release the store."""
        try:
            if self._sweeping is not None:
                self._sweeping.cancel()
                await asyncio.wait((self._sweeping,))
            await self.engine.close(self._settings.drain_ms)
        finally:
            await self.engine.environment.store.close()


async def open_runtime(
    url: str, capabilities: Iterable[tuple[Capability, Connector]], settings: Settings
) -> Runtime:
    """Open the store that the URL names and start an engine over it.

    Raises `Misuse` (`store.url_unknown`, `capability.invalid`) and whatever opening the store does.
    """
    registry = Registry()
    for capability, connector in capabilities:
        registry.register(capability, connector)
    store, signer = await open_store(url)
    environment = Environment(
        store=store,
        registry=registry,
        policy=settings.policy or CapabilityPolicy(),
        signer=signer,
        credentials=settings.credentials,
        ids=new_id,
        owner=new_owner(),
        jitter=random.SystemRandom().random,
        spawn=asyncio.create_task,
        grace_ms=settings.grace_ms,
    )
    return Runtime(Engine(environment), signer, settings)


async def open_store(url: str) -> tuple[Store, Ed25519Signer]:
    """The store of a URL and the key that signs its receipts.

    `sqlite:///file.db` is relative to the working directory, `sqlite:////dir/file.db` absolute;
    `memory:` forgets everything at the end of the process.
    """
    if url == MEMORY:
        return MemoryStore(), ephemeral_key()
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        path = Path(url.removeprefix(SQLITE))
        store = await open_sqlite(path)
        try:
            return store, load_or_make_key(key_path(path))
        except AmendsError:
            await store.close()
            raise
    raise Misuse(
        "store.url_unknown",
        "The store URL names no store that is known here.",
        next_step="Use sqlite:///amends.db, or memory: for a trial.",
    )
