"""What the sessions of both roles share: buffer, codec, state, poison.

Bytes are fed, and events are taken one at a time, so that a shell deals with each before the next
is even read. A broken rule poisons the session (FR-6): the call that met it raises `ChannelBroken`,
and every later call raises `channel.poisoned`. Nothing a peer sends leads to any other error.

A session is for one owner; it does not lock.
"""

from abc import ABC, abstractmethod
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.worker_identity import check_token
from amends.contracts.worker_messages import Names, RequestMessage
from amends.contracts.worker_wire import decode_any, encode_record
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.breaking import ChannelBroken, poisoned
from amends.protocol.events import Event
from amends.protocol.lines import LineCodec
from amends.protocol.matching import AnyMessage, check_version, kind_of
from amends.protocol.records import Record, RecordCodec, hello_kind, take_record
from amends.protocol.table import MessageKind, SessionState, first_state, following
from amends.protocol.versions import MAX_FRAME, Role, Version

_HELLOS: Final = frozenset({SessionState.HOST_HELLO, SessionState.WORKER_HELLO})


class Session(ABC):
    """One side of one session; see `host.HostSession` and `worker.WorkerSession`."""

    def __init__(self, bootstrap: Bootstrap, role: Role, tenant_scope: str) -> None:
        self.session_id: Final = check_token(bootstrap.session_id, "session_id")
        self.version: Final = bootstrap.version
        self.tenant_scope: Final = check_token(tenant_scope, "tenant_scope")
        self._bootstrap = bootstrap
        self._role = role
        self._state = first_state(bootstrap.version)
        self._buffer = bytearray()
        self._waiting: dict[str, RequestMessage] = {}
        self._codec: LineCodec | RecordCodec | None = None
        if bootstrap.version is Version.LINES:
            self._codec = LineCodec(bootstrap, role)

    @property
    def state(self) -> SessionState:
        """Where the session stands, as far as this side has seen."""
        return self._state

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of requests without an answer, oldest first."""
        return tuple(self._waiting)

    def names(self, request_id: str) -> Names:
        """What a request begins with: `InvokeRequest(**session.names("r-1"), …)`."""
        return {
            "protocol_version": self.version.value,
            "session_id": self.session_id,
            "request_id": request_id,
        }

    def feed(self, data: bytes) -> None:
        """Take bytes from the peer; `next_event` tells what they mean.

        The buffer holds what was fed and not yet taken. Raises `PeerViolation`
        (`channel.poisoned`).
        """
        self._require_whole()
        self._buffer += data

    def next_event(self) -> Event | None:
        """The next thing that the fed bytes mean, or None until there are more.

        Raises `ChannelBroken`, and then the session is poisoned.
        """
        self._require_whole()
        try:
            return self._next()
        except ChannelBroken:
            self.poison()
            raise

    def end(self) -> tuple[str, ...]:
        """The peer's bytes have ended: return the ids of requests that will have no answer.

        Take every event first. Silence proves nothing about them. Raises `ChannelBroken`
        (`channel.truncated`) if the end is in the middle of a frame.
        """
        self._require_whole()
        if self._buffer:
            self.poison()
            raise ChannelBroken("channel.truncated")
        self._state = SessionState.ENDED
        return self.waiting

    def poison(self) -> None:
        """Let nothing more pass, in either direction (FR-6, WS-2)."""
        self._state = SessionState.POISONED
        self._buffer.clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self._state.value})"

    @abstractmethod
    def _greeted(self, record: Record) -> Event:
        """The peer's greeting came."""

    @abstractmethod
    def _received(self, message: AnyMessage) -> Event:
        """A message came that the table allows."""

    def _farewell(self, message: AnyMessage) -> bytes:
        """What may still be said about a message that the table does not allow."""
        return b""

    def _next(self) -> Event | None:
        if self._state in _HELLOS:
            return self._next_greeting()
        if self._codec is None or self._state is SessionState.ENDED:
            return None
        data = self._codec.open(self._buffer)
        return None if data is None else self._understood(data)

    def _next_greeting(self) -> Event | None:
        due = Role.HOST if self._state is SessionState.HOST_HELLO else Role.WORKER
        if due is self._role:
            if self._buffer:
                raise ChannelBroken("channel.message_unexpected")
            return None
        record = take_record(self._buffer, hello_kind(due))
        if record is None:
            return None
        return self._greeted(record)

    def _understood(self, data: bytes) -> Event:
        message = self._decoded(data)
        kind = kind_of(message)
        after = following(self._state, self._role.other, kind, self.version)
        if after is None:
            raise ChannelBroken(
                "channel.message_unexpected",
                {"message": kind.value, "state": self._state.value},
                farewell=self._farewell(message),
            )
        event = self._received(message)
        self._state = after
        return event

    def _decoded(self, data: bytes) -> AnyMessage:
        try:
            message: AnyMessage = decode_any(data, AnyMessage, max_bytes=MAX_FRAME)
            check_version(message, self.version)
        except Refused as refusal:
            raise ChannelBroken("channel.message_malformed", {"reason": refusal.code}) from None
        return message

    def _pass(self, sender: Role, kind: MessageKind) -> None:
        """Go where the table leads; the caller has seen that it allows this."""
        after = following(self._state, sender, kind, self.version)
        assert after is not None
        self._state = after

    def _send(self, message: AnyMessage) -> bytes:
        """Seal a message that the table allows; if anything is refused, nothing changes."""
        after = self._after_sending(kind_of(message))
        check_version(message, self.version)
        assert self._codec is not None
        frame = self._codec.seal(encode_record(message))
        self._state = after
        return frame

    def _after_sending(self, kind: MessageKind) -> SessionState:
        self._require_whole()
        after = following(self._state, self._role, kind, self.version)
        if after is None:
            raise coded("misuse.channel_state", {"message": kind, "state": self._state})
        return after

    def _require_whole(self) -> None:
        if self._state is SessionState.POISONED:
            raise poisoned()
