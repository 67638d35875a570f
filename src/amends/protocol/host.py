"""The host's side of a session: greets, opens, asks, and holds each answer against its request.

The host keeps the same budget as the worker, and refuses what the worker would refuse before a
number is used. Deliberately not here: permits. Whoever holds a session can seal; the host shell
keeps it where only a permit leads.
"""

from collections.abc import Iterable

from amends.contracts.errors import AmendsError, Refused
from amends.contracts.worker_grant import CapabilityGrant, Manifest, manifest_fingerprint
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import (
    AnswerMessage,
    Cancel,
    CloseSession,
    OpenSession,
    RequestMessage,
)
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.breaking import ChannelBroken
from amends.protocol.budget import Budget
from amends.protocol.events import Answered, Event, Greeted, WorkerProved
from amends.protocol.greeting import (
    HostFinished,
    WorkerFinished,
    derive_keys,
    hello_record,
    make_hello,
    read_hello,
    transcript_of,
)
from amends.protocol.matching import AnyMessage, check_answer, check_outcome, kind_of, outcome_of
from amends.protocol.records import Record, RecordCodec
from amends.protocol.session import Session
from amends.protocol.table import MessageKind
from amends.protocol.versions import Role, Version


class HostSession(Session):
    """One session with one worker.

    In version 6: `start` → (`Greeted`) → its reply → (`WorkerProved`) → `open_session` → `ask` …
    In version 5: `open_session` → `ask` … `nonce` is 32 fresh random bytes, for version 6 only.
    Raises `Refused` (`worker.manifest_invalid`, `worker.token_invalid`), `Misuse`
    (`misuse.channel_nonce`).
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        grants: Iterable[CapabilityGrant],
        *,
        tenant_scope: str,
        nonce: bytes = b"",
    ) -> None:
        super().__init__(bootstrap, Role.HOST, tenant_scope)
        self.manifest = Manifest(self.version.value, self.session_id, tuple(grants))
        self._budget = Budget(self.manifest, tenant_scope)
        self._transcript = Fingerprint("")
        self._hello = b""
        if self.version is Version.SEALED:
            fingerprint = manifest_fingerprint(self.manifest)
            hello = make_hello(self.session_id, tenant_scope, fingerprint, nonce)
            self._hello = hello_record(hello, Role.HOST)

    def start(self) -> bytes:
        """The greeting to send first. Raises `Misuse` in version 5, which has none."""
        self._state = self._after_sending(MessageKind.HOST_HELLO)
        return self._hello

    def open_session(self) -> bytes:
        """The manifest, which opens the session. No answer follows.

        Raises `Refused` (`worker.frame_too_large`).
        """
        return self._send(OpenSession(self.manifest))

    def ask(self, message: RequestMessage) -> bytes:
        """Seal one request, with the next number, out of the budget.

        Raises `Refused` with a code of `worker.`; then no number and no budget was used.
        """
        self._after_sending(kind_of(message))
        self._budget.reserve(message)
        try:
            frame = self._send(message)
        except AmendsError:
            self._budget.release(message.request.request_id)
            raise
        self._budget.charge(message)
        self._waiting[message.request.request_id] = message
        return frame

    def close(self) -> bytes:
        """Say that nothing more will be asked. Answers that are owed can still come."""
        return self._send(CloseSession(self.version.value, self.session_id))

    def _greeted(self, record: Record) -> Event:
        hello = read_hello(record, self.session_id, self.tenant_scope)
        if hello.manifest_fingerprint != manifest_fingerprint(self.manifest):
            raise ChannelBroken("channel.session_mismatch")
        self._transcript = transcript_of(self._hello, record.header + record.body)
        keys = derive_keys(self._bootstrap.key, self._transcript)
        self._codec = RecordCodec(keys, self.session_id, Role.HOST)
        self._pass(Role.WORKER, MessageKind.WORKER_HELLO)
        return Greeted(self._send(HostFinished(self._transcript)))

    def _received(self, message: AnyMessage) -> Event:
        if isinstance(message, WorkerFinished):
            if message.transcript != self._transcript:
                raise ChannelBroken("channel.not_authentic")
            return WorkerProved(message.fence, message.journal_revision, message.journal_hash)
        assert isinstance(message, AnswerMessage)
        return self._answered(message)

    def _answered(self, answer: AnswerMessage) -> Answered:
        request_id = answer.result.request_id
        message = self._waiting.get(request_id)
        if message is None:
            raise ChannelBroken("channel.answer_unasked")
        check_answer(message, answer)
        self._check_output(message, answer)
        del self._waiting[request_id]
        return Answered(message, answer)

    def _check_output(self, message: RequestMessage, answer: AnswerMessage) -> None:
        if isinstance(message, Cancel):
            return
        grant = self.manifest.grant(message.request.tool)
        assert grant is not None
        try:
            check_outcome(outcome_of(answer), grant)
        except Refused as refusal:
            raise ChannelBroken("channel.answer_mismatch", {"reason": refusal.code}) from None
