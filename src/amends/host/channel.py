"""The host's end of one session with one worker: proves, opens, asks, and waits for answers.

A request that was sent and has no answer is unknown, whatever broke: `OutcomeUnknown`. What was
refused before it was sealed was not sent.

A compensation is sealed by `compensate` and by nothing else, which takes a permit (PM-5): the
session and its key never leave this object.

Deliberately not here: making transports, and what an answer means to a ledger.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Final, TypeAlias

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    AnswerMessage,
    CompensateOperation,
    CompensationRequest,
    Names,
    Rejected,
    RequestMessage,
)
from amends.ledger.permits import DispatchPermit, PermitDesk
from amends.ledger.records import Ledger
from amends.ledger.targets import Target, Verdicts
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.events import Answered, Event, Greeted, WorkerProved
from amends.protocol.host import HostSession
from amends.protocol.table import SessionState
from amends.protocol.versions import Version
from amends.transports.port import Transport

CLOSE_LIMIT_S: Final = 1.0
"""How long a worker has to take the host's farewell."""

_Waiting: TypeAlias = "asyncio.Future[AnswerMessage]"


class WorkerChannel:
    """One session, from its greeting to its end. Use it as an async context manager.

    `nonce` is 32 fresh random bytes, for version 6. `answer_limit_s` bounds waiting for one answer,
    `open_limit_s` the greetings. A worker that breaks a rule, or ends, ends the channel.
    """

    def __init__(
        self,
        transport: Transport,
        bootstrap: Bootstrap,
        grants: Iterable[CapabilityGrant],
        *,
        tenant_scope: str,
        nonce: bytes = b"",
        answer_limit_s: float = 60.0,
        open_limit_s: float = 10.0,
    ) -> None:
        self._transport = transport
        self._session = HostSession(bootstrap, grants, tenant_scope=tenant_scope, nonce=nonce)
        self.session_id: Final = self._session.session_id
        self.protocol_version: Final = self._session.version.value
        self.tenant_scope: Final = tenant_scope
        self._limits = (answer_limit_s, open_limit_s)
        self._sending = asyncio.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._requests = 0
        self._reading: asyncio.Task[None] | None = None
        self._failure: AmendsError | None = None
        self.desk: Final = PermitDesk()
        """Gives the permits of this session."""
        self.proof: WorkerProved | None = None
        """Where the worker's journal stood when the session opened. Version 6."""

    async def __aenter__(self) -> "WorkerChannel":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def state(self) -> SessionState:
        """Where the session stands, as far as this side has seen."""
        return self._session.state

    def grant(self, tool: str) -> CapabilityGrant:
        """The grant of this session for a tool. Raises `Refused` (`worker.tool_not_granted`)."""
        found = self._session.manifest.grant(tool)
        if found is None:
            raise coded("worker.tool_not_granted")
        return found

    def names(self) -> Names:
        """What the next request begins with; its id is new in this session."""
        self._requests += 1
        return self._session.names(f"r-{self._requests}")

    async def open(self) -> None:
        """Greet, prove, and open the session with its grants.

        Raises `ChannelBroken`, and `Unavailable` (`channel.lost`) when the worker ends or says
        nothing. Nothing was asked then.
        """
        try:
            async with asyncio.timeout(self._limits[1]):
                if self._session.version is Version.SEALED:
                    await self._greet()
                await self._transport.send(self._session.open_session())
        except TimeoutError:
            await self.close()
            raise coded("channel.lost") from None
        except BaseException:
            await self.close()
            raise
        self._reading = asyncio.ensure_future(self._read())

    async def ask(self, message: RequestMessage) -> AnswerMessage:
        """Send one request, and wait for its answer. Raises as `send` and `Sent.answer`."""
        return await (await self.send(message)).answer()

    async def send(self, message: RequestMessage) -> "Sent":
        """Send one request.

        Raises `Refused` and `Unavailable` (`channel.lost`) before anything was sent,
        `OutcomeUnknown` (`worker.no_answer`) when it broke while sending, and `Misuse`
        (`misuse.permit_required`) for a compensation.
        """
        if isinstance(message, CompensateOperation):
            raise coded("misuse.permit_required")
        async with self._sending:
            self._require_open()
            return await self._send(message.request.request_id, self._session.ask(message))

    async def compensate(
        self,
        permit: DispatchPermit,
        ledger: Ledger,
        target: Target,
        verdicts: Verdicts,
        *,
        now: datetime,
    ) -> "tuple[CompensationRequest, Sent]":
        """Seal a compensation with a permit, and send it. The permit is used up.

        Raises as `PermitDesk.redeem` and `send`.
        """
        async with self._sending:
            with _used_up(permit):
                self._require_open()
                sealed = self.desk.redeem(
                    permit,
                    ledger,
                    target,
                    verdicts,
                    _Sealer(self._session),
                    request_id=self.names()["request_id"],
                    now=now,
                )
            return sealed.request, await self._send(sealed.request.request_id, sealed.frame)

    async def close(self) -> None:
        """End the session. Answers that are still owed never come; nobody knows about them."""
        if self._failure is None and self._session.state is SessionState.OPEN:
            with contextlib.suppress(AmendsError, TimeoutError):
                async with asyncio.timeout(CLOSE_LIMIT_S):
                    await self._transport.send(self._session.close())
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._fail(coded("channel.lost"))
        await self._transport.close()

    # ── the session ──────────────────────────────────────────────────────────────────────────────

    async def _greet(self) -> None:
        await self._transport.send(self._session.start())
        while self.proof is None:
            await self._take()

    async def _read(self) -> None:
        """Deal with what comes, until nothing more does."""
        try:
            while True:
                await self._take()
        except AmendsError as error:
            self._fail(error)
        finally:
            self._fail(coded("channel.lost"))  # whatever ended it, nobody waits for more

    async def _take(self) -> None:
        data = await self._transport.receive()
        if not data:
            self._session.end()
            raise coded("channel.lost")
        self._session.feed(data)
        while (event := self._session.next_event()) is not None:
            await self._on(event)

    async def _on(self, event: Event) -> None:
        match event:
            case Greeted(reply):
                await self._transport.send(reply)
            case WorkerProved():
                self.proof = event
            case Answered(_, answer):
                waiting = self._waiting.pop(answer.result.request_id)
                if not waiting.done():
                    waiting.set_result(answer)
            case _:
                raise coded("channel.poisoned")

    async def _send(self, request_id: str, frame: bytes) -> "Sent":
        waiting: _Waiting = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiting
        try:
            async with asyncio.timeout(self._limits[0]):
                await self._transport.send(frame)
        except (AmendsError, TimeoutError):
            self._fail(coded("channel.lost"))
            raise coded("worker.no_answer", {"request_id": request_id}) from None
        return Sent(request_id, waiting, self._limits[0])

    def _require_open(self) -> None:
        if self._failure is not None or self._reading is None:
            raise coded("channel.lost")

    def _fail(self, error: AmendsError) -> None:
        """Everything that waits will have no answer."""
        self._failure = self._failure or error
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()


class Sent:
    """A request that is on its way."""

    __slots__ = ("_limit_s", "_waiting", "request_id")

    def __init__(self, request_id: str, waiting: _Waiting, limit_s: float) -> None:
        self.request_id: Final = request_id
        self._waiting = waiting
        self._limit_s = limit_s

    async def answer(self) -> AnswerMessage:
        """Wait for the answer.

        Raises `OutcomeUnknown` (`worker.no_answer`) when none came, and `Refused`
        (`worker.rejected`), whose details name the worker's code, when nothing was done.
        """
        await asyncio.wait({self._waiting}, timeout=self._limit_s)
        if not self._waiting.done() or self._waiting.cancelled():
            raise coded("worker.no_answer", {"request_id": self.request_id})
        answer = self._waiting.result()
        if isinstance(answer, Rejected):
            raise coded("worker.rejected", {"code": answer.result.code})
        return answer


class _Sealer:
    """What a permit is redeemed with. It exists only while one is."""

    def __init__(self, session: HostSession) -> None:
        self._session = session

    @property
    def protocol_version(self) -> int:
        return self._session.version.value

    @property
    def session_id(self) -> str:
        return self._session.session_id

    def seal_compensation(self, request: CompensationRequest) -> bytes:
        return self._session.ask(CompensateOperation(request))


@contextlib.contextmanager
def _used_up(permit: DispatchPermit) -> Iterator[None]:
    """Whatever comes of it, the permit was used."""
    try:
        yield
    finally:
        permit.void()
