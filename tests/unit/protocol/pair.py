"""A host session and a worker session that talk to one another, and messages of every kind."""

from dataclasses import dataclass, field
from typing import Any, Final

from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import CompensationKey, Fingerprint, OperationKey
from amends.contracts.worker_messages import (
    AskCompensationState,
    Cancel,
    CancellationRequest,
    CloseSession,
    CompensateOperation,
    CompensationRequest,
    CompensationStateRequest,
    DispatchOperation,
    Invoke,
    InvokeRequest,
    LedgerHead,
    NoRecord,
    OpenSession,
    OperationRequest,
    ReconcileOperation,
    ReconciliationRequest,
    Rejected,
    Rejection,
    RequestMessage,
)
from amends.contracts.worker_payload import Running, Succeeded, ToolPayload
from amends.contracts.worker_wire import encode_record
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.events import Greeted
from amends.protocol.greeting import HostFinished, WorkerFinished
from amends.protocol.host import HostSession
from amends.protocol.matching import AnyMessage, answer_to
from amends.protocol.session import Session
from amends.protocol.table import MessageKind, SessionState
from amends.protocol.versions import Version
from amends.protocol.worker import WorkerSession

TENANT: Final = "tenant-a"
SESSION: Final = "session-1"
HASH: Final = Fingerprint("ab" * 32)
KEY: Final = SessionKey(bytes(range(1, 33)))
GRANT: Final = CapabilityGrant("pay", max_calls=3, max_compensations=2, max_output_bytes=64)
GRANTS: Final = (GRANT, CapabilityGrant.text("note"))
OPERATION: Final = OperationKey("op-" + "1" * 64)
COMPENSATION: Final = CompensationKey("cmp-" + "2" * 64)
PAYLOAD: Final = ToolPayload.json({"amount": 5})
HEAD: Final = LedgerHead(7, 3, HASH)

REQUESTS: Final = (
    MessageKind.INVOKE,
    MessageKind.DISPATCH_OPERATION,
    MessageKind.COMPENSATE_OPERATION,
    MessageKind.RECONCILE_OPERATION,
    MessageKind.CANCEL,
    MessageKind.COMPENSATION_STATE_REQUEST,
)
ANSWERS: Final = {
    MessageKind.RESULT: MessageKind.INVOKE,
    MessageKind.OPERATION_RESULT: MessageKind.DISPATCH_OPERATION,
    MessageKind.COMPENSATION_RESULT: MessageKind.COMPENSATE_OPERATION,
    MessageKind.RECONCILED_OPERATION: MessageKind.RECONCILE_OPERATION,
    MessageKind.CANCELLATION_RESULT: MessageKind.CANCEL,
    MessageKind.COMPENSATION_STATE: MessageKind.COMPENSATION_STATE_REQUEST,
}
ORDER: Final = {
    Version.LINES: (SessionState.READY, SessionState.OPEN, SessionState.CLOSING),
    Version.SEALED: (
        SessionState.HOST_HELLO,
        SessionState.WORKER_HELLO,
        SessionState.HOST_FINISHED,
        SessionState.WORKER_FINISHED,
        SessionState.READY,
        SessionState.OPEN,
        SessionState.CLOSING,
    ),
}


def bootstrap(version: Version = Version.SEALED, session: str = SESSION) -> Bootstrap:
    return Bootstrap(session, KEY, version)


def host_session(version: Version = Version.SEALED) -> HostSession:
    return HostSession(bootstrap(version), GRANTS, tenant_scope=TENANT, nonce=b"h" * 32)


def worker_session(version: Version = Version.SEALED) -> WorkerSession:
    return WorkerSession(bootstrap(version), tenant_scope=TENANT, nonce=b"w" * 32)


@dataclass
class Pair:
    """Two sessions and every frame that passed, as (sent by the host, bytes)."""

    version: Version = Version.SEALED
    host: HostSession = field(init=False)
    worker: WorkerSession = field(init=False)
    passed: list[tuple[bool, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host, self.worker = host_session(self.version), worker_session(self.version)

    def to_worker(self, frame: bytes) -> Any:
        self.passed.append((True, frame))
        self.worker.feed(frame)
        return self.worker.next_event()

    def to_host(self, frame: bytes) -> Any:
        self.passed.append((False, frame))
        self.host.feed(frame)
        return self.host.next_event()

    def prove(self) -> bytes:
        return self.worker.prove(fence=4, journal_revision=9, journal_hash=HASH)

    def ask(self, message: RequestMessage) -> Any:
        return self.to_worker(self.host.ask(message))

    def answered(self, message: RequestMessage, outcome: Any) -> Any:
        """Ask, charge, answer."""
        self.ask(message)
        request_id = message.request.request_id
        self.worker.charge(request_id)
        return self.to_host(self.worker.answer(request_id, outcome))


def greet(pair: Pair) -> None:
    event = pair.to_worker(pair.host.start())
    assert isinstance(event, Greeted)
    event = pair.to_host(event.reply)
    assert isinstance(event, Greeted)
    pair.to_worker(event.reply)
    pair.to_host(pair.prove())


def opened(version: Version = Version.SEALED) -> Pair:
    pair = Pair(version)
    if version is Version.SEALED:
        greet(pair)
    pair.to_worker(pair.host.open_session())
    return pair


def message_of(
    kind: MessageKind,
    version: Version = Version.SEALED,
    request_id: str = "r-1",
    transcript: Fingerprint = HASH,
) -> Any:
    """A well-formed message of any kind but the greetings."""
    names: Any = host_session(version).names(request_id)
    target: Any = names | {"tool": "pay", "operation_key": OPERATION}
    inverse: Any = target | {
        "compensation_key": COMPENSATION,
        "tenant_scope": TENANT,
        "grant_fingerprint": grant_fingerprint(GRANT),
    }
    head: Any = {"head": HEAD} if version is Version.SEALED else {}
    match kind:
        case MessageKind.HOST_FINISHED:
            return HostFinished(transcript)
        case MessageKind.WORKER_FINISHED:
            return WorkerFinished(transcript, 4, 9, HASH)
        case MessageKind.OPEN_SESSION:
            return OpenSession(host_session(version).manifest)
        case MessageKind.CLOSE_SESSION:
            return CloseSession(version.value, SESSION)
        case MessageKind.INVOKE:
            return Invoke(InvokeRequest(**names, tool="pay", payload=PAYLOAD))
        case MessageKind.DISPATCH_OPERATION:
            return DispatchOperation(OperationRequest(**target, payload=PAYLOAD, **head))
        case MessageKind.COMPENSATE_OPERATION:
            return CompensateOperation(CompensationRequest(**inverse, payload=PAYLOAD, **head))
        case MessageKind.RECONCILE_OPERATION:
            return ReconcileOperation(ReconciliationRequest(**target, **head))
        case MessageKind.CANCEL:
            return Cancel(CancellationRequest(**names, target_request_id="r-0"))
        case MessageKind.COMPENSATION_STATE_REQUEST:
            return AskCompensationState(CompensationStateRequest(**inverse, head=HEAD))
        case MessageKind.REJECTED:
            return Rejected(Rejection(**names, code="worker.calls_spent"))
        case _:
            asked = message_of(ANSWERS[kind], version, request_id)
            return answer_to(asked, outcome_for(kind))


def outcome_for(kind: MessageKind) -> Any:
    """An outcome that fits this kind of answer."""
    if kind is MessageKind.CANCELLATION_RESULT:
        return True
    if kind is MessageKind.COMPENSATION_STATE:
        return NoRecord()
    if kind is MessageKind.OPERATION_RESULT:
        return Succeeded(ToolPayload.json({"id": "ch_1"}))
    return Running()


def forged(session: Session, message: AnyMessage) -> bytes:
    """A frame of a peer that has the keys and does not keep to the table."""
    codec = session._codec
    assert codec is not None
    return codec.seal(encode_record(message))


def conversation(version: Version) -> list[tuple[bool, bytes]]:
    """Every frame of a session in which every kind of message passes that the version has."""
    pair = opened(version)
    for number, (answer, request) in enumerate(ANSWERS.items()):
        if version is Version.SEALED or request is not MessageKind.COMPENSATION_STATE_REQUEST:
            asked = message_of(request, version, f"r-{number}")
            pair.answered(asked, outcome_for(answer))
    if version is Version.SEALED:
        pair.ask(message_of(MessageKind.INVOKE, version, "r-9"))
        pair.to_host(pair.worker.reject("r-9", "worker.calls_spent"))
    pair.to_worker(pair.host.close())
    return pair.passed


def pair_at(version: Version, state: SessionState) -> Pair:
    """A pair of which the receiver of the next frame is in this state, where that can be."""
    pair = Pair(version)
    if state in {SessionState.HOST_FINISHED, SessionState.WORKER_FINISHED}:
        finished = pair.to_host(pair.to_worker(pair.host.start()).reply).reply
        if state is SessionState.WORKER_FINISHED:
            pair.to_worker(finished)
        else:
            codec: Any = pair.host._codec
            codec._sent = 0  # as if the proof had not been sealed yet
    late = {SessionState.READY, SessionState.OPEN, SessionState.CLOSING}
    if state in late and version is Version.SEALED:
        greet(pair)
    if state in {SessionState.OPEN, SessionState.CLOSING}:
        pair.to_worker(pair.host.open_session())
    if state is SessionState.CLOSING:
        pair.to_worker(pair.host.close())
    return pair


def changed(record: Any, **changes: Any) -> Any:
    """The record with some fields changed, and checked as if it were new."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return type(record)(**fields | changes)
