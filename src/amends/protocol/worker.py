"""The worker's side of a session: proves itself, is opened, and answers what it was asked.

What the host asks is held against manifest and budget here, whatever the host held it against
(WS-1). A refusal is an event and the session goes on; only a broken channel poisons it.

Deliberately not here: the journal. `charge` comes after its reading says that a request is
eligible, and before it is admitted.
"""

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.worker_grant import Manifest, manifest_fingerprint
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import (
    Cancel,
    CloseSession,
    OpenSession,
    Rejected,
    Rejection,
    RequestMessage,
)
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.breaking import ChannelBroken
from amends.protocol.budget import Budget
from amends.protocol.events import (
    Asked,
    AskRefused,
    Event,
    Greeted,
    HostProved,
    SessionClosed,
    SessionOpened,
)
from amends.protocol.greeting import (
    NONCE_LENGTH,
    HostFinished,
    WorkerFinished,
    derive_keys,
    hello_record,
    make_hello,
    read_hello,
    transcript_of,
)
from amends.protocol.matching import AnyMessage, Outcome, answer_to, check_outcome
from amends.protocol.records import Record, RecordCodec
from amends.protocol.session import Session
from amends.protocol.table import MessageKind, SessionState
from amends.protocol.versions import Role, Version


class WorkerSession(Session):
    """One session with one host.

    In version 6: (`Greeted`) → its reply → (`HostProved`) → `prove` → (`SessionOpened`) → … In
    version 5 it begins with `SessionOpened`. Then for each `Asked`: `charge`, and `answer` or
    `reject`. `nonce` is 32 fresh random bytes, for version 6 only. Raises `Refused`
    (`worker.token_invalid`), `Misuse` (`misuse.channel_nonce`).
    """

    def __init__(self, bootstrap: Bootstrap, *, tenant_scope: str, nonce: bytes = b"") -> None:
        super().__init__(bootstrap, Role.WORKER, tenant_scope)
        if self.version is Version.SEALED and len(nonce) != NONCE_LENGTH:
            raise coded("misuse.channel_nonce")
        self._nonce = nonce
        self._transcript = Fingerprint("")
        self._announced = ""
        self._manifest: Manifest | None = None
        self._budget: Budget | None = None
        self._charged: set[str] = set()

    def prove(self, *, fence: int, journal_revision: int, journal_hash: Fingerprint) -> bytes:
        """Answer a host that proved itself, once the fence is reserved and the journal loaded.

        Raises `Refused` (`worker.message_invalid`, `worker.fingerprint_invalid`).
        """
        return self._send(WorkerFinished(self._transcript, fence, journal_revision, journal_hash))

    def charge(self, request_id: str) -> None:
        """Spend what an eligible request costs, before it is admitted (GR-6).

        Raises `Refused` with a code of `worker.` if others have spent it meanwhile: then `reject`.
        """
        message = self._asked(request_id)
        if request_id not in self._charged:
            self._purses().charge(message)
            self._charged.add(request_id)

    def answer(self, request_id: str, outcome: Outcome) -> bytes:
        """Seal the answer to a charged request. It repeats the request, and ends it.

        Raises `Refused` (`worker.output_too_large`, `worker.format_not_granted`,
        `worker.status_unknown_to_version`): the request still waits, and another outcome can be
        answered. Raises `Misuse` for what is no answer to it.
        """
        message = self._asked(request_id)
        if request_id not in self._charged:
            raise coded("misuse.request_uncharged")
        if not isinstance(message, Cancel):
            grant = self._open_manifest().grant(message.request.tool)
            assert grant is not None
            check_outcome(outcome, grant)
        frame = self._send(answer_to(message, outcome))
        self._forget(request_id)
        return frame

    def reject(self, request_id: str, code: str) -> bytes:
        """Say that a request was refused, and end it. An uncharged one has spent nothing.

        `code` is one of ours. Version 5 has no word for it: the bytes are empty, and the channel
        is best closed. Raises `Refused` (`worker.message_invalid`).
        """
        message = self._asked(request_id)
        frame = self._rejection(message, code)
        if request_id not in self._charged:
            self._purses().release(request_id)
        self._forget(request_id)
        return frame

    def _asked(self, request_id: str) -> RequestMessage:
        self._require_whole()
        message = self._waiting.get(request_id)
        if message is None:
            raise coded("misuse.request_unknown")
        return message

    def _forget(self, request_id: str) -> None:
        del self._waiting[request_id]
        self._charged.discard(request_id)

    def _rejection(self, message: RequestMessage, code: str) -> bytes:
        if self.version is Version.LINES:
            return b""
        names = self.names(message.request.request_id)
        return self._send(Rejected(Rejection(**names, code=code)))

    def _farewell(self, message: AnyMessage) -> bytes:
        if self._state is SessionState.CLOSING and isinstance(message, RequestMessage):
            return self._rejection(message, "channel.message_unexpected")
        return b""

    def _greeted(self, record: Record) -> Event:
        hello = read_hello(record, self.session_id, self.tenant_scope)
        self._announced = hello.manifest_fingerprint
        mine = make_hello(
            self.session_id, self.tenant_scope, hello.manifest_fingerprint, self._nonce
        )
        if mine.nonce == hello.nonce:
            raise ChannelBroken("channel.session_mismatch")
        reply = hello_record(mine, Role.WORKER)
        self._transcript = transcript_of(record.header + record.body, reply)
        keys = derive_keys(self._bootstrap.key, self._transcript)
        self._codec = RecordCodec(keys, self.session_id, Role.WORKER)
        self._pass(Role.HOST, MessageKind.HOST_HELLO)
        self._pass(Role.WORKER, MessageKind.WORKER_HELLO)
        return Greeted(reply)

    def _received(self, message: AnyMessage) -> Event:
        match message:
            case HostFinished(transcript):
                if transcript != self._transcript:
                    raise ChannelBroken("channel.not_authentic")
                return HostProved()
            case OpenSession(manifest):
                return self._opened(manifest)
            case CloseSession(version, session_id):
                if (version, session_id) != (self.version, self.session_id):
                    raise ChannelBroken("channel.session_mismatch")
                return SessionClosed()
            case _:
                assert isinstance(message, RequestMessage)
                return self._take(message)

    def _opened(self, manifest: Manifest) -> SessionOpened:
        named = (manifest.protocol_version, manifest.session_id)
        announced = self.version is Version.LINES or (
            manifest_fingerprint(manifest) == self._announced
        )
        if named != (self.version, self.session_id) or not announced:
            raise ChannelBroken("channel.session_mismatch")
        self._manifest = manifest
        self._budget = Budget(manifest, self.tenant_scope)
        return SessionOpened(manifest)

    def _take(self, message: RequestMessage) -> Event:
        try:
            self._purses().reserve(message)
        except Refused as refusal:
            return AskRefused(message, refusal, self._rejection(message, refusal.code))
        self._waiting[message.request.request_id] = message
        return Asked(message)

    def _purses(self) -> Budget:
        assert self._budget is not None
        return self._budget

    def _open_manifest(self) -> Manifest:
        assert self._manifest is not None
        return self._manifest
