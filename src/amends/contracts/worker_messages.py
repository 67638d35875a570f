"""Every message between host and worker (FR-2, FR-5), as records in the order of their fields.

A request names the session it belongs to and itself, and its answer repeats that. Version 6 adds
the head of the ledger to what asks for an operation, and three messages of its own. In version 5 a
head is absent, so the bytes are those of version 5.

The layouts of `invoke`, `result`, `reconcile_operation`, `reconciled_operation`, `cancel`,
`cancellation_result` and `close_session` follow those that were recorded; nobody recorded them.

Deliberately not here: who may send what and when, and what a frame around it looks like.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

from amends.contracts.codes import CODES, coded
from amends.contracts.worker_grant import Manifest
from amends.contracts.worker_identity import (
    CompensationKey,
    Fingerprint,
    OperationKey,
    check_compensation_key,
    check_fingerprint,
    check_operation_key,
    check_token,
)
from amends.contracts.worker_payload import (
    Pending,
    Running,
    Status,
    Terminal,
    ToolPayload,
)

MAX_COUNTER: Final = 2**63 - 1


class LedgerHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the host's ledger stood when an attempt was sent, and the fence of that attempt.

    The journal keeps the highest of each and refuses a lower or contradicting one (FR-5).
    """

    attempt_fence: int
    ledger_revision: int
    ledger_hash: Fingerprint

    def __post_init__(self) -> None:
        check_counter(self.attempt_fence, "attempt_fence")
        check_counter(self.ledger_revision, "ledger_revision")
        check_fingerprint(self.ledger_hash, "ledger_hash")


class Names(TypedDict):
    """What every request and answer repeats, as keyword arguments of their records."""

    protocol_version: int
    session_id: str
    request_id: str


class _Named(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What every request and answer repeats."""

    protocol_version: int
    session_id: str
    request_id: str

    def __post_init__(self) -> None:
        """Check every identity that the record has, once for all kinds."""
        for field, value in msgspec.structs.asdict(self).items():
            check = _CHECKS.get(field)
            if check is not None and value is not None:
                check(value)


_CHECKS: Final[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
    {
        "session_id": lambda value: check_token(value, "session_id"),
        "request_id": lambda value: check_token(value, "request_id"),
        "target_request_id": lambda value: check_token(value, "target_request_id"),
        "tool": lambda value: check_token(value, "tool"),
        "tenant_scope": lambda value: check_token(value, "tenant_scope"),
        "operation_key": check_operation_key,
        "compensation_key": check_compensation_key,
        "grant_fingerprint": lambda value: check_fingerprint(value, "grant_fingerprint"),
    }
)


class InvokeRequest(_Named, frozen=True, kw_only=True):
    """A call without a durable identity."""

    tool: str
    payload: ToolPayload


class OperationRequest(_Named, frozen=True, kw_only=True):
    """A durable operation to be carried out at most once."""

    tool: str
    operation_key: OperationKey
    payload: ToolPayload
    head: LedgerHead | None = None


class CompensationRequest(_Named, frozen=True, kw_only=True):
    """The one inverse effect of a succeeded operation."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey
    tenant_scope: str
    grant_fingerprint: Fingerprint
    payload: ToolPayload
    head: LedgerHead | None = None


class ReconciliationRequest(_Named, frozen=True, kw_only=True):
    """Ask what became of an operation; never carries it out."""

    tool: str
    operation_key: OperationKey
    head: LedgerHead | None = None


class CancellationRequest(_Named, frozen=True, kw_only=True):
    """Ask that another request of this session be stopped, if it still can be."""

    target_request_id: str


class CompensationStateRequest(_Named, frozen=True, kw_only=True):
    """Ask what became of a compensation; never carries it out. Version 6."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey
    tenant_scope: str
    grant_fingerprint: Fingerprint
    head: LedgerHead | None = None


class _Known(msgspec.Struct, frozen=True, tag_field="state", forbid_unknown_fields=True):
    """What version 6 can answer besides a status; told apart like one."""


class NoRecord(_Known, frozen=True, tag="none"):
    """The journal has nothing under this key."""


class Indeterminate(_Known, frozen=True, tag="indeterminate"):
    """Nobody can say; never stored, only reported."""


class TerminalRecord(_Known, frozen=True, tag="terminal"):
    """It ended so."""

    status: Terminal


AnsweredStatus: TypeAlias = Status | Indeterminate | NoRecord
"""What became of something. `NoRecord` answers look-ups only; version 5 has only a `Status`."""

CompensationState: TypeAlias = NoRecord | Pending | Running | Indeterminate | TerminalRecord
"""What a journal knows of a compensation."""


class InvokeAnswer(_Named, frozen=True, kw_only=True):
    """What became of a call."""

    tool: str
    status: AnsweredStatus


class OperationAnswer(_Named, frozen=True, kw_only=True):
    """What became of an operation, asked for or looked up."""

    tool: str
    operation_key: OperationKey
    status: AnsweredStatus


class CompensationAnswer(_Named, frozen=True, kw_only=True):
    """What became of a compensation; repeats all of its identity."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey
    tenant_scope: str
    grant_fingerprint: Fingerprint
    status: AnsweredStatus


class CancellationAnswer(_Named, frozen=True, kw_only=True):
    """Whether the target was stopped. No means no more than that it was not."""

    target_request_id: str
    cancelled: bool


class CompensationStateAnswer(_Named, frozen=True, kw_only=True):
    """What the journal knows of a compensation. Version 6."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey
    tenant_scope: str
    grant_fingerprint: Fingerprint
    state: CompensationState


class Rejection(_Named, frozen=True, kw_only=True):
    """Nothing was done and nothing was spent; `code` is from our list and says why. Version 6."""

    code: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.code not in CODES:
            raise coded("worker.message_invalid", {"field": "code"})


class _Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """How messages are told apart."""


class OpenSession(_Message, frozen=True, tag="open_session"):
    """The host's first message: all that the session may do."""

    manifest: Manifest


class Invoke(_Message, frozen=True, tag="invoke"):
    """See `InvokeRequest`."""

    request: InvokeRequest


class DispatchOperation(_Message, frozen=True, tag="dispatch_operation"):
    """See `OperationRequest`."""

    request: OperationRequest


class CompensateOperation(_Message, frozen=True, tag="compensate_operation"):
    """See `CompensationRequest`."""

    request: CompensationRequest


class ReconcileOperation(_Message, frozen=True, tag="reconcile_operation"):
    """See `ReconciliationRequest`."""

    request: ReconciliationRequest


class Cancel(_Message, frozen=True, tag="cancel"):
    """See `CancellationRequest`."""

    request: CancellationRequest


class AskCompensationState(_Message, frozen=True, tag="compensation_state_request"):
    """See `CompensationStateRequest`."""

    request: CompensationStateRequest


class CloseSession(_Message, frozen=True, tag="close_session"):
    """The host asks nothing more. Answers that are still owed may follow."""

    protocol_version: int
    session_id: str

    def __post_init__(self) -> None:
        check_token(self.session_id, "session_id")


class InvokeResult(_Message, frozen=True, tag="result"):
    """See `InvokeAnswer`."""

    result: InvokeAnswer


class OperationResult(_Message, frozen=True, tag="operation_result"):
    """See `OperationAnswer`."""

    result: OperationAnswer


class CompensationResult(_Message, frozen=True, tag="compensation_result"):
    """See `CompensationAnswer`."""

    result: CompensationAnswer


class ReconciledOperation(_Message, frozen=True, tag="reconciled_operation"):
    """See `OperationAnswer`."""

    result: OperationAnswer


class CancellationResult(_Message, frozen=True, tag="cancellation_result"):
    """See `CancellationAnswer`."""

    result: CancellationAnswer


class CompensationStateResult(_Message, frozen=True, tag="compensation_state"):
    """See `CompensationStateAnswer`."""

    result: CompensationStateAnswer


class Rejected(_Message, frozen=True, tag="rejected"):
    """See `Rejection`."""

    result: Rejection


Request: TypeAlias = (
    InvokeRequest
    | OperationRequest
    | CompensationRequest
    | ReconciliationRequest
    | CancellationRequest
    | CompensationStateRequest
)

RequestMessage: TypeAlias = (
    Invoke
    | DispatchOperation
    | CompensateOperation
    | ReconcileOperation
    | Cancel
    | AskCompensationState
)

AnswerMessage: TypeAlias = (
    InvokeResult
    | OperationResult
    | CompensationResult
    | ReconciledOperation
    | CancellationResult
    | CompensationStateResult
    | Rejected
)

Message: TypeAlias = OpenSession | RequestMessage | AnswerMessage | CloseSession


def check_counter(value: object, field: str) -> int:
    """A fence or revision: 0 to 2^63 - 1. Raises `Refused` (`worker.message_invalid`)."""
    if type(value) is not int or not 0 <= value <= MAX_COUNTER:
        raise coded("worker.message_invalid", {"field": field})
    return value
