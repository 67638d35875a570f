"""Which message may pass in which state of a session: one table for both roles and both versions.

What has no row is refused. Whoever *receives* it poisons the session; whoever tries to *send* it
has misused the library, and nothing changes. The two sides walk the same table, each as far as it
has seen. `docs/spec/tables.md` prints it.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from amends.protocol.versions import Role, Version


class SessionState(StrEnum):
    """Where a session stands. The first four are named for what has to come next."""

    HOST_HELLO = "host_hello"
    WORKER_HELLO = "worker_hello"
    HOST_FINISHED = "host_finished"
    WORKER_FINISHED = "worker_finished"
    READY = "ready"
    OPEN = "open"
    CLOSING = "closing"
    ENDED = "ended"
    POISONED = "poisoned"


class MessageKind(StrEnum):
    """What passes between the two, by its name on the wire."""

    HOST_HELLO = "host_hello"
    WORKER_HELLO = "worker_hello"
    HOST_FINISHED = "host_finished"
    WORKER_FINISHED = "worker_finished"
    OPEN_SESSION = "open_session"
    INVOKE = "invoke"
    DISPATCH_OPERATION = "dispatch_operation"
    COMPENSATE_OPERATION = "compensate_operation"
    RECONCILE_OPERATION = "reconcile_operation"
    CANCEL = "cancel"
    COMPENSATION_STATE_REQUEST = "compensation_state_request"
    CLOSE_SESSION = "close_session"
    RESULT = "result"
    OPERATION_RESULT = "operation_result"
    COMPENSATION_RESULT = "compensation_result"
    RECONCILED_OPERATION = "reconciled_operation"
    CANCELLATION_RESULT = "cancellation_result"
    COMPENSATION_STATE = "compensation_state"
    REJECTED = "rejected"


class Row(NamedTuple):
    """One row: who may send what in which state, and which state follows."""

    kind: MessageKind
    sender: Role
    before: SessionState
    after: SessionState
    versions: frozenset[Version]
    rule: str


_BOTH: Final = frozenset(Version)
_SIXTH: Final = frozenset({Version.SEALED})


def _asked(kind: MessageKind, versions: frozenset[Version], rule: str) -> Row:
    return Row(kind, Role.HOST, SessionState.OPEN, SessionState.OPEN, versions, rule)


def _answered(kind: MessageKind, versions: frozenset[Version], rule: str) -> tuple[Row, Row]:
    return (
        Row(kind, Role.WORKER, SessionState.OPEN, SessionState.OPEN, versions, rule),
        Row(kind, Role.WORKER, SessionState.CLOSING, SessionState.CLOSING, versions, rule),
    )


def _greeted(kind: MessageKind, sender: Role, before: SessionState, after: SessionState) -> Row:
    return Row(kind, sender, before, after, _SIXTH, "FR-5")


_State: Final = SessionState
_Kind: Final = MessageKind

TABLE: Final[tuple[Row, ...]] = (
    _greeted(_Kind.HOST_HELLO, Role.HOST, _State.HOST_HELLO, _State.WORKER_HELLO),
    _greeted(_Kind.WORKER_HELLO, Role.WORKER, _State.WORKER_HELLO, _State.HOST_FINISHED),
    _greeted(_Kind.HOST_FINISHED, Role.HOST, _State.HOST_FINISHED, _State.WORKER_FINISHED),
    _greeted(_Kind.WORKER_FINISHED, Role.WORKER, _State.WORKER_FINISHED, _State.READY),
    Row(_Kind.OPEN_SESSION, Role.HOST, _State.READY, _State.OPEN, _BOTH, "FR-2"),
    _asked(_Kind.INVOKE, _BOTH, "FR-2"),
    _asked(_Kind.DISPATCH_OPERATION, _BOTH, "FR-2"),
    _asked(_Kind.COMPENSATE_OPERATION, _BOTH, "FR-2"),
    _asked(_Kind.RECONCILE_OPERATION, _BOTH, "FR-2"),
    _asked(_Kind.CANCEL, _BOTH, "FR-2"),
    _asked(_Kind.COMPENSATION_STATE_REQUEST, _SIXTH, "FR-5"),
    Row(_Kind.CLOSE_SESSION, Role.HOST, _State.OPEN, _State.CLOSING, _BOTH, "FR-2"),
    *_answered(_Kind.RESULT, _BOTH, "FR-2"),
    *_answered(_Kind.OPERATION_RESULT, _BOTH, "FR-2"),
    *_answered(_Kind.COMPENSATION_RESULT, _BOTH, "FR-2"),
    *_answered(_Kind.RECONCILED_OPERATION, _BOTH, "FR-2"),
    *_answered(_Kind.CANCELLATION_RESULT, _BOTH, "FR-2"),
    *_answered(_Kind.COMPENSATION_STATE, _SIXTH, "FR-5"),
    *_answered(_Kind.REJECTED, _SIXTH, "FR-5"),
)


def first_state(version: Version) -> SessionState:
    """Version 5 has no greeting: its first message is `open_session`."""
    return SessionState.READY if version is Version.LINES else SessionState.HOST_HELLO


def following(
    state: SessionState, sender: Role, kind: MessageKind, version: Version
) -> SessionState | None:
    """The state after this message, or None if it may not pass."""
    for row in TABLE:
        if (row.before, row.sender, row.kind) == (state, sender, kind) and version in row.versions:
            return row.after
    return None
