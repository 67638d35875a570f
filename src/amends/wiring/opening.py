"""From a store URL and a set of capabilities to a running engine."""

import asyncio
import random
from collections.abc import Coroutine, Iterable
from os import PathLike
from pathlib import Path
from typing import Final

import msgspec

from amends.connectors.port import Connector
from amends.contracts.declarations import Capability
from amends.contracts.errors import AmendsError, Misuse, Unavailable
from amends.contracts.limits import LEASE_GRACE_MS, SERVER_GRACE_MS
from amends.contracts.principals import PrincipalSource
from amends.contracts.secrets import CredentialSource
from amends.governance.policy import CapabilityPolicy, Policy
from amends.receipts.signing import KeyRing
from amends.recovery.checkpointing import Checkpointer
from amends.recovery.expiring import Expiring
from amends.recovery.notifying import Channel, Notifier
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.memory import MemoryStore
from amends.stores.port import Store
from amends.wiring.drivers import open_place
from amends.wiring.identifiers import Identifiers, new_owner
from amends.wiring.keys import FileSigner, StoreSigner, ephemeral_key, key_path
from amends.wiring.places import OnServer, beside_of, is_on_a_server
from amends.wiring.shared_keys import AbsentSigner, SharedSigner, appointed, is_here, missing
from amends.wiring.spill import FileSpill, spill_path


class Notices(msgspec.Struct, frozen=True, kw_only=True):
    """Where people are told about approvals, and the link that leads them to where one decides.

    In `link`, `{approval_id}`, `{action_id}`, `{transaction_id}` and `{tenant}` are filled in.
    """

    channels: tuple[Channel, ...] = ()
    link: str = ""


_WITHOUT_A_KEY: Final = frozenset({"key.missing", "key.unavailable"})
"""What does not keep anybody from looking."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime is put together.

    `principals` says what principals hold now, whenever something is admitted, decided or claimed.
    `recover` runs the sweeper inside this runtime, tells `notices`, makes the daily checkpoint of
    the log, and forgets once a day what is due by the capabilities' `retention_ms`; `retain=False`
    leaves that to whoever runs `amends retention run`. `drain_ms` is how long a close waits for
    running attempts before it interrupts them; `grace_ms` how long an attempt outlives its time
    limit, at least two seconds where the store is on a server. `policy` is a policy, or the name of
    a YAML file of rules; none is what capabilities declare. With `looks` a store is opened also
    where its key is missing, and a file that this user can only read; whatever would write a
    receipt is refused then.
    """

    policy: Policy | str | PathLike[str] | None = None
    credentials: CredentialSource | None = None
    principals: PrincipalSource | None = None
    notices: Notices | None = None
    recover: bool = True
    looks: bool = False
    retain: bool = True
    poll_s: float = 1.0
    drain_ms: int = 5_000
    grace_ms: int = LEASE_GRACE_MS


class Runtime:
    """An engine with what keeps it going, until it is closed."""

    def __init__(self, engine: Engine, signer: StoreSigner, settings: Settings) -> None:
        self.engine = engine
        self.signer = signer
        self._settings = settings
        lasting: list[Coroutine[object, object, None]] = []
        if isinstance(signer, SharedSigner):
            lasting.append(signer.keep_asking())
        if settings.recover:
            store = engine.environment.store
            lasting.append(Sweeper(engine, poll_s=settings.poll_s).run())
            lasting.append(Checkpointer(store, signer, lambda: signer.ring).run())
            if settings.retain:
                lasting.append(Expiring(engine).run())
            lasting += [notifier.run() for notifier in notifiers_of(store, settings)]
        self._running = [asyncio.create_task(one) for one in lasting]

    @property
    def keys(self) -> KeyRing:
        """Every public key that the store has published by now."""
        return self.signer.ring

    async def close(self) -> None:
        """Stop sweeping, let attempts end or leave them recoverable, release the store."""
        try:
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)
            await self.engine.close(self._settings.drain_ms)
        finally:
            await self.engine.environment.store.close()


def notifiers_of(store: Store, settings: Settings) -> tuple[Notifier, ...]:
    """One for each channel that people are told by."""
    notices = settings.notices or Notices()
    return tuple(
        Notifier(store, channel, link=notices.link, poll_s=settings.poll_s)
        for channel in notices.channels
    )


async def open_runtime(
    url: str, capabilities: Iterable[tuple[Capability, Connector]], settings: Settings
) -> Runtime:
    """Open the store that the URL names and start an engine over it.

    Raises `Misuse` (`store.url_unknown`, `store.grace_too_short`, `capability.invalid`), what
    `PolicyFile` does, and whatever opening the store does.
    """
    _check_grace(url, settings.grace_ms)
    registry = Registry()
    for capability, connector in capabilities:
        registry.register(capability, connector)
    policy = policy_of(settings)
    store, signer = await open_store(url, looks=settings.looks)
    beside = beside_of(url)
    environment = Environment(
        store=store,
        registry=registry,
        policy=policy,
        signer=signer,
        credentials=settings.credentials,
        principals=settings.principals,
        ids=Identifiers(),
        owner=new_owner(),
        jitter=random.SystemRandom().random,
        spawn=asyncio.create_task,
        spill=FileSpill(spill_path(beside), signer) if beside else None,
        ready=signer.check if isinstance(signer, SharedSigner) else None,
        grace_ms=settings.grace_ms,
    )
    return Runtime(Engine(environment), signer, settings)


def _check_grace(url: str, grace_ms: int) -> None:
    """A server's time is carried for a while, and a grace must outlast it by far."""
    if is_on_a_server(url) and grace_ms < SERVER_GRACE_MS:
        raise Misuse(
            "store.grace_too_short",
            "The grace of leases is too short for a store on a server.",
            details={"grace_ms": grace_ms, "least": SERVER_GRACE_MS},
            next_step=f"Set grace_ms to {SERVER_GRACE_MS} or more; {LEASE_GRACE_MS} is usual.",
        )


def policy_of(settings: Settings) -> Policy:
    """The policy that the settings name. Raises what `PolicyFile` does."""
    named = settings.policy
    if named is None:
        return CapabilityPolicy()
    if not isinstance(named, str | PathLike):
        return named
    from amends.wiring.policies import PolicyFile

    return PolicyFile(named)


async def open_store(url: str, *, looks: bool = False) -> tuple[Store, StoreSigner]:
    """The store of a URL and the key that signs its receipts.

    Who only `looks` needs no key, and no permission to write. Raises as `database_of`,
    `Unavailable` (`key.missing`), and more.
    """
    beside = beside_of(url)
    if beside is None:
        return MemoryStore(), ephemeral_key()
    on_server = is_on_a_server(url)
    store = await open_place(OnServer(url) if on_server else beside, looks=looks)
    try:
        signer_of = _shared if on_server else _own
        try:
            return store, await signer_of(store, key_path(beside))
        except Unavailable as error:
            if not looks or error.code not in _WITHOUT_A_KEY:
                raise
            return store, AbsentSigner(error)
    except AmendsError:
        await store.close()
        raise


async def _shared(store: Store, path: Path) -> StoreSigner:
    from amends.stores.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return await appointed(store, path)


async def _own(store: Store, path: Path) -> StoreSigner:
    """The key beside a file, made for a store without receipts only.

    A key is there before the first receipt, so who finds receipts and still no key has lost it.
    """
    if not is_here(path) and await store.feed(limit=1) and not is_here(path):
        raise missing(path)
    return FileSigner(path)
