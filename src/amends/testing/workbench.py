"""A whole runtime on a bench: real engine and store, standing clock, counting ids, a provider.

    async with Workbench() as bench:
        plan = await bench.alice.plan("payments.charge", {"amount": 500})
        done = await bench.alice.commit(plan)
        assert bench.provider.charges == 1
        assert await bench.check() == []

Time moves only by `wait`; ids count; recovery happens only in `sweep`. `restart` gives a new
incarnation over the same store, as after a crash: what the old one still ran is cut off from it.

Deliberately not here: the time limits of attempts, which are the event loop's own time (declare
short ones, or run on a virtual loop), and real processes.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from amends.app.amends import Amends
from amends.connectors.function import FunctionConnector
from amends.connectors.handlers import HandlerFunction
from amends.connectors.port import Connector
from amends.contracts import limits
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    ExecutionContract,
    TransactionContract,
)
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Handler,
    Mode,
    PrincipalKind,
    SideEffect,
)
from amends.contracts.ids import CapabilityId, PrincipalId, TenantId
from amends.contracts.principals import (
    APPROVE_SCOPE,
    Caller,
    Identity,
    Principal,
    PrincipalSource,
)
from amends.contracts.results import Result
from amends.contracts.secrets import CredentialSource
from amends.governance.policy import CapabilityPolicy, Policy
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.recovery.sweeper import Sweeper, Swept
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.memory import MemoryStore
from amends.stores.port import Store
from amends.stores.sqlite import open_sqlite
from amends.testing.clock import CountingIds, FixedClock
from amends.testing.faults import Fault
from amends.testing.invariants import check_world
from amends.testing.provider import ScriptedProvider
from amends.testing.snapshots import Snapshot, take_snapshot
from amends.wiring.opening import Runtime, Settings

Served = tuple[Capability, Connector]

TENANT: Final = TenantId("acme")
ALICE: Final = Principal(id=PrincipalId("alice"), tenant=TENANT)
"""Asks for things, and holds every scope but those that are granted by name."""

BOB: Final = Principal(id=PrincipalId("bob"), tenant=TENANT, scopes=(APPROVE_SCOPE,))
"""Approves what others asked for, and may do nothing else."""

OLGA: Final = Principal(id=PrincipalId("olga"), tenant=TENANT, kind=PrincipalKind.OPERATOR)
"""Operates: looks after what others began."""

EVE: Final = Principal(
    id=PrincipalId("eve"), tenant=TenantId("globex"), kind=PrincipalKind.OPERATOR
)
"""Operates as well, but for another tenant."""

CHARGE: Final = "payments.charge"
EVERY_MODE: Final = (
    Mode.EXECUTE,
    Mode.DRY_RUN,
    Mode.PLAN,
    Mode.COMMIT,
    Mode.COMPENSATE,
    Mode.RECONCILE,
)
_KEY: Final = bytes(range(32))


def charging(provider: ScriptedProvider, **changes: object) -> Served:
    """The provider's own capability: previews, charges, is looked up by key, refunds."""
    return serving(provider.handlers, CHARGE, **changes)


def serving(
    handlers: Mapping[Handler, HandlerFunction], capability: str = CHARGE, /, **changes: object
) -> Served:
    """A capability of these handlers that admits whatever they make possible.

    Each contract can be replaced whole, by its field name in `Capability`.
    """
    connector = FunctionConnector(handlers)
    declared = Capability(
        id=CapabilityId(capability),
        side_effects=(SideEffect.FINANCIAL,),
        input_schema=connector.inputs[Handler.EXECUTE].schema,
        compensation_schema=connector.inputs[Handler.COMPENSATE].schema,
        transaction=contract_of(handlers),
        compensation=_compensation(handlers),
        execution=ExecutionContract(lookup_by_key=Handler.RECONCILE in handlers),
        handlers=connector.handlers,
    )
    return replace(declared, **changes), connector


def contract_of(
    handlers: Iterable[Handler], fidelity: Fidelity | None = None
) -> TransactionContract:
    """The modes that handlers make possible, at the strongest fidelity or at a given one."""
    has = set(handlers)
    needed = {Mode.RECONCILE: Handler.RECONCILE, Mode.COMPENSATE: Handler.COMPENSATE}
    strongest = (
        Fidelity.DOWNSTREAM_VALIDATION if Handler.PREVIEW in has else Fidelity.POLICY_AND_SCHEMA
    )
    return TransactionContract(
        supported_modes=tuple(m for m in EVERY_MODE if needed.get(m, Handler.EXECUTE) in has),
        dry_run_fidelity=fidelity or strongest,
    )


def _compensation(handlers: Iterable[Handler]) -> CompensationContract:
    if Handler.COMPENSATE not in set(handlers):
        return CompensationContract()
    return CompensationContract(mode=CompensationMode.SUPPORTED)


def seconds_of(clock: FixedClock) -> Callable[[], float]:
    """The clock in seconds, as a provider is given it."""
    return lambda: clock().timestamp()


class Workbench:
    """One runtime over one store, with everything around it in the test's hands.

    `script` is played by the provider's charges and refunds; a `provider` of one's own should tell
    the time by `seconds_of(clock)`. `file` puts the store into SQLite instead of memory, `database`
    (a URL) on a server. `served` replaces the capabilities, which are otherwise the provider's own,
    declared with `changes`.
    Use it as an async context manager.
    """

    def __init__(
        self,
        script: Iterable[Fault] = (),
        *,
        provider: ScriptedProvider | None = None,
        served: Iterable[Served] | None = None,
        file: Path | None = None,
        database: str | None = None,
        policy: Policy | None = None,
        credentials: CredentialSource | None = None,
        principals: PrincipalSource | None = None,
        clock: FixedClock | None = None,
        grace_ms: int = limits.LEASE_GRACE_MS,
        **changes: object,
    ) -> None:
        self.clock = clock or FixedClock()
        self.provider = provider or ScriptedProvider(script, clock=seconds_of(self.clock))
        self.served = tuple(served or [charging(self.provider, **changes)])
        self.ids = CountingIds()
        self.signer = Ed25519Signer(_KEY)
        self.keys = KeyRing([self.signer.public_key])
        self.policy = policy or CapabilityPolicy()
        self.credentials = credentials
        self.principals = principals
        self.grace_ms = grace_ms
        self.store: Store
        self.engine: Engine
        self._file = file
        self._database = database
        self._runtime: Runtime
        self._incarnation = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Open the store and start the first incarnation."""
        self.store = await self._opened()
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cut everything off that still runs, and close the store."""
        await self._cut_off()

    async def _opened(self) -> Store:
        if self._database is not None:
            from amends.stores.postgres import open_postgres

            return await open_postgres(self._database, clock=self.clock)
        if self._file is None:
            return MemoryStore(clock=self.clock)
        return await open_sqlite(self._file, clock=self.clock)

    def _start(self) -> None:
        registry = Registry()
        for capability, connector in self.served:
            registry.register(capability, connector)
        self._incarnation += 1
        environment = Environment(
            store=self.store,
            registry=registry,
            policy=self.policy,
            signer=self.signer,
            credentials=self.credentials,
            principals=self.principals,
            ids=self.ids,
            owner=f"bench:{self._incarnation}",
            jitter=lambda: 1.0,
            spawn=self._spawn,
            grace_ms=self.grace_ms,
        )
        self.engine = Engine(environment)
        settings = Settings(recover=False, grace_ms=self.grace_ms)
        self._runtime = Runtime(self.engine, self.signer, settings)

    def _spawn(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    async def _cut_off(self) -> None:
        """Close the store under whatever still runs, then end it: nothing more becomes durable."""
        await self.store.close()
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def restart(self, served: Iterable[Served] | None = None) -> None:
        """Crash, and come back over the same store as somebody else, perhaps with other code."""
        left = self.store
        fresh = left.beside() if isinstance(left, MemoryStore) else None
        await self._cut_off()
        self.store = fresh or await self._opened()
        if served is not None:
            self.served = tuple(served)
        self._start()

    # ── who acts ─────────────────────────────────────────────────────────────────────────────────

    def acting_as(
        self, principal: Principal, identity: Identity | None = None, *, trusted: bool = True
    ) -> Amends:
        """The library as this principal meets it, or (not trusted) as a public entrance does."""
        caller = Caller(principal=principal, identity=identity, asserted=True, trusted=trusted)
        return Amends(self._runtime, caller)

    @property
    def alice(self) -> Amends:
        """The requester."""
        return self.acting_as(ALICE)

    @property
    def bob(self) -> Amends:
        """The approver."""
        return self.acting_as(BOB)

    @property
    def olga(self) -> Amends:
        """The operator."""
        return self.acting_as(OLGA)

    @property
    def eve(self) -> Amends:
        """The operator of another tenant."""
        return self.acting_as(EVE)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def wait(self, seconds: float) -> None:
        """Let so much time pass for store, engine and provider."""
        self.clock.step(round(seconds * 1000))

    async def sweep(self) -> Swept:
        """One round of recovery over everything that is due now."""
        return await Sweeper(self.engine).sweep()

    # ── what became of it ────────────────────────────────────────────────────────────────────────

    @property
    def effects(self) -> tuple[str, ...]:
        """The provider key of every effect, once per effect, as the provider counted them."""
        counted = self.provider.far_side.effects()
        return tuple(one.arrival.key for one in counted if one.arrival.key)

    async def record(self, transaction: Result | str) -> TransactionRecord:
        """The stored record of one of the tenant's transactions."""
        id_ = transaction if isinstance(transaction, str) else transaction.transaction_id
        found = await self.store.get(TransactionRecord, TENANT, id_)
        assert found is not None, f"there is no record of {id_}"
        return found.document

    async def snapshot(self) -> Snapshot:
        """Everything the store holds."""
        return await take_snapshot(self.store)

    async def check(self) -> list[str]:
        """Every invariant that is broken; none, if all is well."""
        return await check_world(self.store, self.effects, self.keys)
