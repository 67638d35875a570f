"""A host's workflow and a worker's shell over one wire, for the tests; no test in here."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from amends.contracts.errors import AmendsError
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Failed, Status, Succeeded, ToolPayload
from amends.host.channel import WorkerChannel
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal, open_journal
from amends.ledger.document import encode_ledger
from amends.ledger.operations import OperationIntent
from amends.ledger.plans import make_plan, open_ledger
from amends.ledger.targets import Question, Target
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.versions import Version
from amends.testing.durable import MemoryRecord, MemorySessions
from amends.testing.wires import WireEnd, make_wire
from amends.worker.adapters import Adapter, AdapterContract, Adapters, Call, LookUp
from amends.worker.shell import JournalAccess, WorkerShell

SCOPE: Final = "tenant-release"
GRANT: Final = CapabilityGrant.json("release.publish").with_compensation_limit(1)
WIDE: Final = CapabilityGrant("release.publish", max_calls=8, max_compensations=4)
INPUT: Final = ToolPayload.json({"version": "1.2.3"})
INVERSE: Final = ToolPayload.json({"undo": "release"})
PLAN: Final = make_plan([("publish", "let release = true")])
INTENT: Final = OperationIntent(
    step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:1"
)
NONCE: Final = b"release-42:publish:undo:1"
DONE: Final = Succeeded(ToolPayload.json({"done": True}))
NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)


class Provider:
    """What really happened, by key; and an adapter over it that can be told to misbehave."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.entered: Counter[str] = Counter()
        self.before: Callable[[Call], object] | None = None
        self.after: Callable[[Call], object] | None = None
        self.found: Callable[[LookUp], object] = self.truth
        self.adapter = Adapter(
            GRANT.tool, contract=AdapterContract.RECONCILIATION, handler_limit_s=2.0
        )
        self.adapter.dispatch(self.publish)
        self.adapter.compensate(self.withdraw)
        self.adapter.status(self.find)
        self.adapter.compensation_status(self.find_inverse)

    async def publish(self, call: Call) -> object:
        return await self._act("dispatch", call)

    async def withdraw(self, call: Call) -> object:
        return await self._act("compensate", call)

    async def find(self, look: LookUp) -> object:
        self.entered["status"] += 1
        return self.found(look)

    async def find_inverse(self, look: LookUp) -> object:
        self.entered["compensation_status"] += 1
        return self.found(look)

    def truth(self, look: LookUp) -> Status:
        return DONE if self.effects[look.key] else Failed("it is not there")

    async def _act(self, kind: str, call: Call) -> object:
        self.entered[kind] += 1
        if self.before is not None and (answer := await _awaited(self.before(call))) is not None:
            return answer
        self.effects[call.key] += 1
        answer = await _awaited(self.after(call)) if self.after is not None else None
        return DONE if answer is None else answer


async def _awaited(value: object) -> object:
    return await value if asyncio.iscoroutine(value) else value


class Both:
    """What survives of both sides, and the sessions that were played."""

    def __init__(self, version: Version = Version.SEALED) -> None:
        self.version = version
        self.provider = Provider()
        journal = open_journal(SCOPE, format_version=3 if version is Version.SEALED else 2)
        self.journal = MemoryRecord(encode_journal(journal))
        self.ledger = MemoryRecord(encode_ledger(open_ledger(PLAN)))
        self.used = MemorySessions()
        self.sessions = 0
        self.says: dict[str, Callable[[Question], object]] = {}
        self.asked: list[tuple[str, Question]] = []
        self.now = NOW
        self.ends: AmendsError | None = None
        self.wires: tuple[WireEnd, WireEnd] = make_wire()

    @property
    def kept(self) -> Journal:
        return decode_journal(self.journal.payload, max_bytes=10_000_000)

    async def workflow(self) -> Workflow:
        return await Workflow.open(PLAN, self.ledger.open, self.verifiers(), clock=lambda: self.now)

    def verifiers(self) -> Verifiers:
        return Verifiers(
            grant=lambda question: self._said("grant", question),  # type: ignore[arg-type]  # tests answer anything
            action=lambda question: self._said("action", question),  # type: ignore[arg-type]  # tests answer anything
            limit_s=0.2,
        )

    def _said(self, who: str, question: Question) -> object:
        self.asked.append((who, question))
        return self.says[who](question) if who in self.says else True

    @property
    def bootstrap(self) -> Bootstrap:
        key = SessionKey(bytes([self.sessions]) * 32)
        return Bootstrap(f"session-{self.sessions}", key, self.version)

    def shell(self, worker_end: WireEnd, *, predecessor_gone: bool = True) -> WorkerShell:
        access = JournalAccess(
            scope=SCOPE,
            open=self.journal.open,
            used=self.used,
            predecessor_gone=lambda: predecessor_gone,
        )
        nonce = b"w" * 32 if self.version is Version.SEALED else b""
        adapters = Adapters(self.provider.adapter)
        return WorkerShell(worker_end, self.bootstrap, adapters, access, nonce=nonce)

    @asynccontextmanager
    async def channel(
        self, grant: CapabilityGrant = GRANT, *, predecessor_gone: bool = True
    ) -> AsyncIterator[WorkerChannel]:
        """A new session between a channel and a shell; how the shell ended is kept in `ends`."""
        self.sessions += 1
        sealed = self.version is Version.SEALED
        self.wires = host_end, worker_end = make_wire()
        shell = self.shell(worker_end, predecessor_gone=predecessor_gone)
        serving = asyncio.ensure_future(self._serve(shell))
        channel = WorkerChannel(
            host_end,
            self.bootstrap,
            [grant],
            tenant_scope=SCOPE,
            nonce=b"h" * 32 if sealed else b"",
            answer_limit_s=5.0,
        )
        try:
            async with channel:
                yield channel
        finally:
            await serving

    async def _serve(self, shell: WorkerShell) -> None:
        self.ends = None
        try:
            await shell.run()
        except AmendsError as error:
            self.ends = error

    async def succeeded(self) -> tuple[Workflow, str]:
        """A workflow whose operation succeeded."""
        workflow = await self.workflow()
        key = await workflow.record(INTENT)
        async with self.channel(WIDE) as channel:
            assert await workflow.dispatch(channel, key, INPUT) == DONE
        return workflow, key

    async def intended(self, grant: CapabilityGrant = GRANT) -> tuple[Workflow, Target]:
        """A workflow with a recorded intent to compensate."""
        workflow, key = await self.succeeded()
        target = workflow.target(key, SCOPE, grant, INVERSE)
        await workflow.record_compensation(target, NONCE)
        return workflow, target


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)
