"""A worker in the same event loop, behind the real engine and the real connector; no test in here.

Its provider is that of the worker's own tests: it counts effects by key, and can be told to
misbehave. Journal, ledgers and store survive as many openings of the engine as a test makes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import msgspec

from amends import OriginalEffect, WorkerCapability, worker_capability
from amends.contracts.declarations import DataContract, RecoveryContract
from amends.contracts.errors import AmendsError
from amends.contracts.ids import TenantId
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Terminal
from amends.host.channel import WorkerChannel
from amends.host.identities import tenant_scope
from amends.host.keeping import OpenRecord
from amends.host.link import EntryRuling, WorkerLink
from amends.journal.capacity import JournalLimits
from amends.journal.closing import Closing
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal, Ruling, open_journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import WorkflowPlan, open_ledger
from amends.ledger.records import Ledger
from amends.ledger.targets import Question, Stage
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.versions import Version
from amends.testing.durable import MemoryRecord, MemorySessions
from amends.testing.wires import WireEnd, make_wire
from amends.testing.workbench import TENANT, Workbench
from amends.worker.adapters import Adapters
from amends.worker.ruling import close
from amends.worker.shell import JournalAccess, WorkerShell
from tests.unit.worker.stage import GRANT, Provider

SCOPE: Final = tenant_scope(TENANT)


class Release(msgspec.Struct, frozen=True):
    version: str


class Withdrawal(msgspec.Struct, frozen=True):
    undo: str


RELEASE: Final = Release(version="1.2.3")
WITHDRAWAL: Final = Withdrawal(undo="release")


class LoopWorker(WorkerLink):
    """Everything of the worker's side, and the ledgers of the host's."""

    def __init__(self, version: Version = Version.SEALED) -> None:
        self.version = version
        self.provider = Provider()
        journal = open_journal(SCOPE, format_version=3 if version is Version.SEALED else 2)
        self.journal = MemoryRecord(encode_journal(journal))
        self.ledgers: dict[str, MemoryRecord] = {}
        self.used = MemorySessions()
        self.sessions = 0
        self.down: AmendsError | None = None
        self.grants: list[CapabilityGrant] = []
        self.closed = 0
        self.wires: tuple[WireEnd, WireEnd] = make_wire()

    @property
    def kept(self) -> Journal:
        return decode_journal(self.journal.payload, max_bytes=10_000_000)

    @property
    def ledger_of_all(self) -> Ledger:
        (record,) = self.ledgers.values()
        return decode_ledger(record.payload)

    async def ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        if create and name not in self.ledgers:
            self.ledgers[name] = MemoryRecord(encode_ledger(open_ledger(plan)))
        return self.ledgers[name].open if name in self.ledgers else None

    async def rule(self, tenant: TenantId, ruling: EntryRuling) -> Terminal:
        if self.down is not None:
            raise self.down
        closing = Closing(
            tool=ruling.tool,
            operation_key=ruling.operation_key,
            compensation_key=ruling.compensation_key,
            grant=ruling.grant,
            ending=ruling.ending,
            ruling=Ruling(who=ruling.who, why=ruling.why, evidence=ruling.evidence),
            old_run_gone=True,
        )
        return close(self.journal.open(), JournalLimits(), closing)

    async def aclose(self) -> None:
        self.closed += 1

    @asynccontextmanager
    async def channel(
        self, tenant: TenantId, grant: CapabilityGrant, *, limit_s: float
    ) -> AsyncIterator[WorkerChannel]:
        if self.down is not None:
            raise self.down
        self.sessions += 1
        self.grants.append(grant)
        bootstrap = Bootstrap(
            f"session-{self.sessions}", SessionKey(bytes([self.sessions]) * 32), self.version
        )
        sealed = self.version is Version.SEALED
        self.wires = host_end, worker_end = make_wire()
        access = JournalAccess(
            scope=tenant_scope(tenant),
            open=self.journal.open,
            used=self.used,
            predecessor_gone=lambda: True,
        )
        shell = WorkerShell(
            worker_end,
            bootstrap,
            Adapters(self.provider.adapter),
            access,
            nonce=b"w" * 32 if sealed else b"",
        )
        serving = asyncio.ensure_future(shell.run())
        try:
            async with WorkerChannel(
                host_end,
                bootstrap,
                [grant],
                tenant_scope=tenant_scope(tenant),
                nonce=b"h" * 32 if sealed else b"",
                answer_limit_s=limit_s,
            ) as channel:
                yield channel
        finally:
            await asyncio.gather(serving, return_exceptions=True)


class World:
    """A worker, its capability, and how its verifiers answer."""

    def __init__(
        self,
        *,
        version: Version = Version.SEALED,
        grant: CapabilityGrant = GRANT,
        horizon: timedelta | None = None,
        cancelled_is_absent: bool = False,
        verified: bool = True,
        attempts: int = 12,
        redacted: bool = False,
        timeout: timedelta | None = None,
        worker: LoopWorker | None = None,
    ) -> None:
        self.worker = worker or LoopWorker(version)
        self.asked: list[Question] = []
        self.granted = True
        self.breaks = False
        self.right: object = True
        self.denies: Stage | None = None
        self.capability: WorkerCapability = worker_capability(
            GRANT.tool,
            worker=self.worker,
            grant=grant,
            input=Release,
            inverse=Withdrawal,
            granted=lambda _tenant, _grant: self._is_granted(),
            cancelled_is_absent=cancelled_is_absent,
            horizon=horizon,
            timeout=timeout,
            recovery=RecoveryContract(max_attempts=attempts),
            data=DataContract(redaction_required=redacted),
        )
        if verified:
            self.capability.verify_compensation(self._verify)

    def _is_granted(self) -> bool:
        if self.breaks:
            raise RuntimeError("the list of grants cannot be read")
        return self.granted

    def _verify(self, question: Question, original: OriginalEffect) -> bool:
        self.asked.append(question)
        assert original.input in ({"version": "1.2.3"}, None)
        if question.stage is self.denies:
            return False
        return self.right  # type: ignore[return-value]  # tests answer anything

    def bench(self) -> Workbench:
        """An engine over this world."""
        return Workbench(served=[self.capability.build()])

    @property
    def effects(self) -> list[int]:
        return list(self.worker.provider.effects.values())
