"""The shell around one session of a contained worker (WS-1 to WS-4).

    shell = WorkerShell(transport, bootstrap, adapters, journal, nonce=os.urandom(32))
    await shell.run()

It opens in one order: authenticate the host, take the fence, load the journal, admit the session's
name, answer. Requests run side by side; what changes the journal is done one at a time. When an
effect may have happened and nothing durable says so, the session is poisoned: it answers nothing
more, memory is dropped, and `run` raises. Open another session, with another name, to go on.

When the host's bytes end, handlers that were entered are waited for and written down, since they
cannot be called back.

Deliberately not here: making transports, drawing names and keys, and where the journal lies.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol, assert_never

import msgspec

from amends.connectors.blocking import HandlerThreads
from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError, Refused, Unavailable
from amends.contracts.worker_grant import Manifest
from amends.contracts.worker_messages import (
    AskCompensationState,
    Cancel,
    CompensateOperation,
    DispatchOperation,
    Indeterminate,
    Invoke,
    NoRecord,
    ReconcileOperation,
    RequestMessage,
    TerminalRecord,
)
from amends.contracts.worker_payload import Succeeded
from amends.journal.capacity import JournalLimits
from amends.journal.observation import without_body
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.breaking import ChannelBroken
from amends.protocol.events import (
    Answered,
    Asked,
    AskRefused,
    Event,
    Greeted,
    HostProved,
    SessionClosed,
    SessionOpened,
    WorkerProved,
)
from amends.protocol.matching import Outcome
from amends.protocol.versions import Version
from amends.protocol.worker import WorkerSession
from amends.transports.port import Transport
from amends.worker.adapters import Adapters
from amends.worker.keeping import JournalKeeper, OpenRecord
from amends.worker.service import Lost, Service


class UsedSessions(Protocol):
    """The names of all sessions that were ever served here, durably (WS-4)."""

    def take(self, session_id: str) -> None:
        """Use a name up; durable when it returns. Raises `Refused` (`worker.session_used`)."""
        ...


class JournalAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker gets at its journal.

    `predecessor_gone` says that every other process that ever had this journal open has ended, so
    that what a look-up does not find will not appear any more. It is asked once the journal is
    open: an answer from before does not know who had it in between.
    """

    scope: str
    open: OpenRecord
    used: UsedSessions
    limits: JournalLimits = JournalLimits()
    predecessor_gone: Callable[[], bool] = lambda: False


class WorkerShell:
    """One session. `nonce` is 32 fresh random bytes, for version 6."""

    def __init__(
        self,
        transport: Transport,
        bootstrap: Bootstrap,
        adapters: Adapters,
        journal: JournalAccess,
        *,
        nonce: bytes = b"",
    ) -> None:
        self._transport = transport
        self._session = WorkerSession(bootstrap, tenant_scope=journal.scope, nonce=nonce)
        self._adapters = adapters
        self._access = journal
        self._threads = HandlerThreads()
        self._keeper: JournalKeeper | None = None
        self._service: Service | None = None
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_heard = True

    async def run(self) -> None:
        """Serve until the host's bytes end and everything that was entered is written down.

        Raises `OutcomeUnknown` (`worker.indeterminate_operation`,
        `worker.indeterminate_compensation`) after poison; `ChannelBroken`; what opening and writing
        the journal raise; in version 5 also a refusal, which it has no words for.
        """
        try:
            await self._talk()
        except Lost as lost:
            raise lost.error from None
        finally:
            await self._leave()

    async def _talk(self) -> None:
        try:
            while data := await self._received():
                self._session.feed(data)
                while (event := self._session.next_event()) is not None:
                    await self._on(event)
            self._session.end()
        except ChannelBroken as broken:
            await self._send_bytes(broken.farewell)
            self._is_heard = False
            await self._drained()
            raise
        except Refused:
            await self._drained()
            raise
        self._is_heard = False
        await self._drained()

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    async def _received(self) -> bytes:
        """The next bytes, unless a request fails for good first."""
        receiving = asyncio.ensure_future(self._transport.receive())
        try:
            while not receiving.done():
                await asyncio.wait({receiving, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
                self._raise_failed()
            return receiving.result()
        finally:
            receiving.cancel()

    async def _drained(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failed()

    def _raise_failed(self) -> None:
        for task in [one for one in self._tasks if one.done()]:
            self._tasks.discard(task)
            task.result()

    async def _leave(self) -> None:
        """Poison what is left, and drop what is in memory."""
        self._session.poison()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._keeper = self._service = None
        await self._transport.close()

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    async def _on(self, event: Event) -> None:
        match event:
            case Greeted(reply):
                await self._send_bytes(reply)
            case HostProved():
                keeper = await self._open()
                proof = self._session.prove(
                    fence=keeper.fence,
                    journal_revision=keeper.revision,
                    journal_hash=keeper.digest,
                )
                await self._send_bytes(proof)
            case SessionOpened(manifest):
                await self._begin(manifest)
            case Asked(message):
                self._start(self._serve(message))
            case AskRefused(_, error, reply):
                await self._refused(reply, error)
            case SessionClosed():
                return
            case WorkerProved() | Answered():
                raise coded("misuse.channel_state")
            case _:
                assert_never(event)

    async def _open(self) -> JournalKeeper:
        """The fence, then the journal, then the name of the session (WS-4)."""
        access = self._access
        self._keeper = await JournalKeeper.open(
            access.open, access.scope, access.limits, is_alone=lambda: len(self._tasks) <= 1
        )
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, access.used.take, self._session.session_id)
        return self._keeper

    async def _begin(self, manifest: Manifest) -> None:
        """In version 5 the manifest is the first thing that proves the host."""
        keeper = self._keeper or await self._open()
        self._service = Service(
            self._session,
            keeper,
            self._adapters,
            manifest,
            self._threads,
            predecessor_gone=self._access.predecessor_gone(),
        )

    def _start(self, request: Coroutine[object, object, None]) -> None:
        self._tasks.add(asyncio.ensure_future(request))

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, message: RequestMessage) -> None:
        request_id = message.request.request_id
        try:
            outcome = await self._outcome(message)
        except Refused as refusal:
            self._require_whole()
            await self._reject(request_id, refusal)
        except Lost:
            if self._session.version is Version.SEALED:
                await self._answer(request_id, Indeterminate())
            raise
        else:
            await self._answer(request_id, outcome)

    async def _outcome(self, message: RequestMessage) -> Outcome:
        service = self._service
        assert service is not None
        match message:
            case DispatchOperation() | CompensateOperation():
                return await service.perform(message)
            case ReconcileOperation() | AskCompensationState():
                return await service.look_up(message)
            case Cancel(request):
                self._session.charge(request.request_id)
                service.stop(request.target_request_id)
                return False
            case Invoke():
                raise coded("worker.handler_missing")
            case _:
                assert_never(message)

    async def _answer(self, request_id: str, outcome: Outcome) -> None:
        """Seal and send; sealing numbers the frame, so nothing comes between the two.

        Version 5 cannot say that nobody knows: the channel is closed instead, which says as much.
        """
        if not self._is_heard:
            return
        if self._session.version is Version.LINES and isinstance(outcome, Indeterminate | NoRecord):
            raise coded("worker.status_unknown_to_version")
        async with self._sending:
            await self._send_bytes(self._sealed(request_id, outcome))

    def _sealed(self, request_id: str, outcome: Outcome) -> bytes:
        """A stored output may be more than this session's grant, or a frame, takes; the success of
        it is told all the same.
        """
        try:
            return self._session.answer(request_id, outcome)
        except Refused:
            return self._session.answer(request_id, _without_output(outcome))

    async def _reject(self, request_id: str, refusal: Refused) -> None:
        if not self._is_heard:
            return
        async with self._sending:
            await self._refused(self._session.reject(request_id, refusal.code), refusal)

    async def _refused(self, reply: bytes, error: AmendsError) -> None:
        if not reply:
            raise error
        await self._send_bytes(reply)

    async def _send_bytes(self, data: bytes) -> None:
        """What cannot be sent is durable all the same; the host asks again."""
        if not data or not self._is_heard:
            return
        try:
            await self._transport.send(data)
        except Unavailable:
            self._is_heard = False

    def _require_whole(self) -> None:
        """A refusal of the store came after its opening had failed: that is no refusal to send."""
        if self._keeper is not None:
            _ = self._keeper.journal


def _without_output(outcome: Outcome) -> Outcome:
    match outcome:
        case Succeeded():
            return without_body(outcome)
        case TerminalRecord(Succeeded() as status):
            return TerminalRecord(without_body(status))
        case _:
            return outcome
