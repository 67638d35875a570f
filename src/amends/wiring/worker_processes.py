"""A worker that is a child process, started for each attempt, and the ledgers about it (INT-5).

    <state>/host                 the ledgers, their keys and their anchor
    <state>/<tenant scope>       the journal of a tenant's worker, likewise

Folders are made explicitly (`initialise`, `add_tenant`) and never anew by themselves. One worker
runs for one tenant at a time; whoever comes meanwhile waits, within its own time limit.

The child is contained as far as `contain` asks; `report` says what was found of the last one. Start
runtimes from a thread that stays: the kernel ends a container with the thread that started it.
"""

import asyncio
import importlib.util
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final

from amends.containment.description import Containment, describe
from amends.containment.entering import Contain
from amends.containment.findings import ContainmentReport
from amends.containment.provisions import Provision
from amends.containment.this_python import this_python
from amends.contracts.ids import TenantId
from amends.contracts.worker_grant import CapabilityGrant, Resource
from amends.contracts.worker_payload import Terminal
from amends.host.channel import WorkerChannel
from amends.host.identities import tenant_scope
from amends.host.keeping import OpenRecord
from amends.host.link import EntryRuling, WorkerLink
from amends.ledger.plans import WorkflowPlan
from amends.protocol.greeting import NONCE_LENGTH
from amends.transports.children import ChildWorker
from amends.wiring.contained import start_contained
from amends.wiring.hosts import HOST, HostLedgers, draw_bootstrap, worker_command
from amends.wiring.workers import WorkerPlace, close_by_hand, initialise_worker

_OPEN_LIMIT_S: Final = 30.0
_NOTHING: Final[Mapping[Resource, Provision]] = MappingProxyType({})
_NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


class WorkerProcess(WorkerLink):
    """A worker by its adapters, named as module:attribute, with the folder of its state.

    `provisions` say what the resources of grants are on this machine; `environment` is all that the
    child gets besides what Python needs. `code` are the folders that adapters are imported from:
    the one where their module lies, unless they are given. `anchor` is where the floors of the
    host's ledgers are kept, a file or a `postgresql://` URL; journals keep theirs in their folders,
    where a contained worker reaches them.
    """

    def __init__(
        self,
        adapters: str,
        state: str | PathLike[str],
        *,
        contain: Contain | str = Contain.IF_POSSIBLE,
        provisions: Mapping[Resource, Provision] = _NOTHING,
        environment: Mapping[str, str] = _NO_VARIABLES,
        code: Iterable[str | PathLike[str]] | None = None,
        anchor: str | PathLike[str] | None = None,
    ) -> None:
        self._adapters = adapters
        self._state = Path(state).absolute()
        self._contain = Contain(contain)
        self._provisions = dict(provisions)
        self._variables = dict(environment)
        self._code = _folders_of(adapters) if code is None else tuple(map(Path, code))
        self._ledgers = HostLedgers(self._state / HOST, anchor=anchor)
        self._child: ChildWorker | None = None
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.report: ContainmentReport | None = None
        """What was found of the container of the worker that was started last."""

    def initialise(self, *tenants: str) -> None:
        """Make the folders of the ledgers and of these tenants. Once, by a person.

        Raises `Conflict` (`sealed.initialised`) where they are, and as `initialise_worker`.
        """
        self._ledgers.initialise()
        for tenant in tenants:
            self.add_tenant(tenant)

    def add_tenant(self, tenant: str) -> None:
        """Make the folder of one more tenant. Raises as `initialise`."""
        initialise_worker(self.place(tenant))

    def kill(self) -> int | None:
        """Send SIGKILL to the worker that was started last; its process id, if it still serves."""
        child = self._child
        if child is None:
            return None
        child.kill()
        return child.process.pid

    def place(self, tenant: str) -> WorkerPlace:
        """Where a tenant's journal lies: what `amends worker` is told as --state and --scope."""
        scope = tenant_scope(tenant)
        return WorkerPlace(directory=self._state / scope, scope=scope)

    @asynccontextmanager
    async def channel(
        self, tenant: TenantId, grant: CapabilityGrant, *, limit_s: float
    ) -> AsyncIterator[WorkerChannel]:
        """See `WorkerLink`. Raises as `start_contained` and `WorkerChannel.open`."""
        place = self.place(tenant)
        async with self._turns[place.scope]:
            bootstrap = draw_bootstrap()
            worker = await start_contained(
                worker_command(self._adapters, place),
                bootstrap,
                self._container(place, grant),
                self._contain,
            )
            self.report, self._child = worker.report, worker.child
            try:
                async with WorkerChannel(
                    worker.child.transport,
                    bootstrap,
                    [grant],
                    tenant_scope=place.scope,
                    nonce=os.urandom(NONCE_LENGTH),
                    answer_limit_s=limit_s,
                    open_limit_s=min(limit_s, _OPEN_LIMIT_S),
                ) as channel:
                    yield channel
            finally:
                self._child = None
                await worker.child.stop()

    async def ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        """See `WorkerLink`. Raises as `HostLedgers.ledger`."""
        return await self._ledgers.ledger(name, plan, create=create)

    async def rule(self, tenant: TenantId, ruling: EntryRuling) -> Terminal:
        """See `WorkerLink`. Waits a moment for a worker that serves. Raises as `close_by_hand`."""
        return await asyncio.to_thread(close_by_hand, self.place(tenant), ruling)

    async def aclose(self) -> None:
        """See `WorkerLink`."""
        await self._ledgers.aclose()

    def _container(self, place: WorkerPlace, grant: CapabilityGrant) -> Containment:
        program = this_python(code=self._code, state=[place.directory], environment=self._variables)
        return describe(program, [grant], self._provisions)


def _folders_of(adapters: str) -> tuple[Path, ...]:
    """Where the module of the adapters is found; nowhere, if it is not found here."""
    package = adapters.partition(":")[0].partition(".")[0]
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ()
    if found is None or found.origin is None:
        return ()
    folder = Path(found.origin).parent
    return (folder.parent if found.submodule_search_locations else folder,)
