"""A worker on another machine, reached over TLS, and the ledgers about it (INT-5).

    <state>/host                 the ledgers, their keys and their anchor
    on the other machine         the journals, one for each tenant

Nothing is known of how the other machine contains its worker, and nothing is assumed. Its journal
is out of reach from here: a person rules on it there (`amends worker resolve`), and a
reconciliation brings here what was ruled.

A worker serves one session and is started again by its supervisor. Meanwhile it cannot be
connected to, which is tried again within the time limit: nothing was sent so far. This process
opens one session at a time for a tenant; whoever comes meanwhile waits.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Final

from amends.containment.findings import ContainmentReport
from amends.contracts.codes import coded
from amends.contracts.errors import Unavailable
from amends.contracts.ids import TenantId
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Terminal
from amends.host.channel import WorkerChannel
from amends.host.identities import tenant_scope
from amends.host.keeping import OpenRecord
from amends.host.link import EntryRuling, WorkerLink
from amends.ledger.plans import WorkflowPlan
from amends.protocol.greeting import NONCE_LENGTH
from amends.transports.tls import Opened, connect_tls, read_address
from amends.transports.tls_files import TlsFiles
from amends.wiring.hosts import HOST, HostLedgers, draw_name

_OPEN_LIMIT_S: Final = 30.0
_PAUSE_S: Final = 0.1


class RemoteWorker(WorkerLink):
    """Where the workers of each tenant listen, and the folder of the ledgers about them.

    `anchor` is where the floors of the ledgers are kept, a file or a `postgresql://` URL, unless it
    is that folder. Raises `Misuse` (`misuse.tls_address`, `sealed.anchor_url`).
    """

    report: Final = ContainmentReport(known=False, reason="the worker runs on another machine")
    """What is known of its container."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        state: str | PathLike[str],
        files: TlsFiles,
        *,
        anchor: str | PathLike[str] | None = None,
    ) -> None:
        for address in addresses.values():
            read_address(address)
        self._addresses = dict(addresses)
        self._files = files
        self._ledgers = HostLedgers(Path(state).absolute() / HOST, anchor=anchor)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def initialise(self) -> None:
        """Make the folder of the ledgers. Once, by a person. Raises as `HostLedgers.initialise`."""
        self._ledgers.initialise()

    def scope(self, tenant: str) -> str:
        """What the tenant's worker is told as --scope."""
        return tenant_scope(tenant)

    @asynccontextmanager
    async def channel(
        self, tenant: TenantId, grant: CapabilityGrant, *, limit_s: float
    ) -> AsyncIterator[WorkerChannel]:
        """See `WorkerLink`.

        Raises `Refused` (`worker.tenant_unserved`), and as `connect_tls` and `WorkerChannel.open`.
        """
        address = self._addresses.get(tenant)
        if address is None:
            raise coded("worker.tenant_unserved")
        async with self._turns[tenant]:
            until = time.monotonic() + min(limit_s, _OPEN_LIMIT_S)
            transport, bootstrap = await self._connected(address, until)
            async with WorkerChannel(
                transport,
                bootstrap,
                [grant],
                tenant_scope=tenant_scope(tenant),
                nonce=os.urandom(NONCE_LENGTH),
                answer_limit_s=limit_s,
                open_limit_s=max(until - time.monotonic(), _PAUSE_S),
            ) as channel:
                yield channel

    async def ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        """See `WorkerLink`. Raises as `HostLedgers.ledger`."""
        return await self._ledgers.ledger(name, plan, create=create)

    async def rule(self, tenant: TenantId, ruling: EntryRuling) -> Terminal:
        """See `WorkerLink`. Raises `Unavailable` (`worker.journal_elsewhere`), with the keys."""
        raise coded(
            "worker.journal_elsewhere",
            {
                "scope": tenant_scope(tenant),
                "tool": ruling.tool,
                "operation_key": ruling.operation_key,
                "compensation_key": ruling.compensation_key,
                "grant": ruling.grant,
            },
        )

    async def aclose(self) -> None:
        """See `WorkerLink`."""
        await self._ledgers.aclose()

    async def _connected(self, address: str, until: float) -> Opened:
        """Connect, again and again while nobody is there: nothing was sent to anybody."""
        while True:
            left = until - time.monotonic()
            try:
                return await connect_tls(address, self._files, draw_name(), limit_s=max(left, 0.0))
            except Unavailable as gone:
                if gone.code != "channel.lost" or left <= _PAUSE_S:
                    raise
            await asyncio.sleep(_PAUSE_S)
