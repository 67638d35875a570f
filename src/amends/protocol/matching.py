"""Which answer belongs to which request, and what of the request it has to repeat (FR-2).

An answer is made of its request, so what it repeats is right by construction; and a peer's answer
is held against the request that waits for it, field by field.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import msgspec

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    AnsweredStatus,
    AnswerMessage,
    AskCompensationState,
    Cancel,
    CancellationAnswer,
    CancellationResult,
    CompensateOperation,
    CompensationAnswer,
    CompensationResult,
    CompensationState,
    CompensationStateAnswer,
    CompensationStateResult,
    DispatchOperation,
    Indeterminate,
    Invoke,
    InvokeAnswer,
    InvokeResult,
    Message,
    OperationAnswer,
    OperationResult,
    ReconciledOperation,
    ReconcileOperation,
    Rejected,
    RequestMessage,
    TerminalRecord,
)
from amends.contracts.worker_payload import Status, Succeeded, SucceededOversize
from amends.protocol.breaking import ChannelBroken
from amends.protocol.budget import check_output
from amends.protocol.greeting import HostFinished, WorkerFinished
from amends.protocol.table import MessageKind
from amends.protocol.versions import Version

Outcome: TypeAlias = AnsweredStatus | CompensationState | bool
"""What can be answered: a status, what is known of a compensation, or whether it was cancelled."""

AnyMessage: TypeAlias = Message | HostFinished | WorkerFinished


class _Form(NamedTuple):
    """How one kind of request is answered. `own` is what the answer says by itself."""

    answer: Callable[[Any], AnswerMessage]
    record: type[msgspec.Struct]
    own: str
    outcomes: tuple[type, ...]


_STATUSES: Final = (*get_args(Status), Indeterminate)
_FORMS: Final[Mapping[type, _Form]] = MappingProxyType(
    {
        Invoke: _Form(InvokeResult, InvokeAnswer, "status", _STATUSES),
        DispatchOperation: _Form(OperationResult, OperationAnswer, "status", _STATUSES),
        CompensateOperation: _Form(CompensationResult, CompensationAnswer, "status", _STATUSES),
        ReconcileOperation: _Form(
            ReconciledOperation, OperationAnswer, "status", get_args(AnsweredStatus)
        ),
        Cancel: _Form(CancellationResult, CancellationAnswer, "cancelled", (bool,)),
        AskCompensationState: _Form(
            CompensationStateResult, CompensationStateAnswer, "state", get_args(CompensationState)
        ),
    }
)
_REPEATED_BY_REJECTIONS: Final = ("protocol_version", "session_id", "request_id")


def kind_of(message: AnyMessage) -> MessageKind:
    """The message's name on the wire."""
    return MessageKind(str(message.__struct_config__.tag))


def answer_to(message: RequestMessage, outcome: Outcome) -> AnswerMessage:
    """The answer to a request. Raises `Misuse` (`misuse.answer_kind`) if it cannot be one."""
    form = _FORMS[type(message)]
    if not isinstance(outcome, form.outcomes):
        raise coded("misuse.answer_kind")
    repeated = {field: getattr(message.request, field) for field in _repeated(form)}
    return form.answer(form.record(**repeated, **{form.own: outcome}))


def outcome_of(answer: AnswerMessage) -> Outcome | None:
    """What an answer says; a rejection says nothing of an outcome."""
    for own in ("status", "state", "cancelled"):
        if hasattr(answer.result, own):
            outcome: Outcome = getattr(answer.result, own)
            return outcome
    return None


def check_answer(message: RequestMessage, answer: AnswerMessage) -> None:
    """Hold a peer's answer against the request that waits for it.

    Raises `ChannelBroken` (`channel.answer_mismatch`).
    """
    form = _FORMS[type(message)]
    if isinstance(answer, Rejected):
        repeated: tuple[str, ...] = _REPEATED_BY_REJECTIONS
    elif type(answer) is form.answer and isinstance(outcome_of(answer), form.outcomes):
        repeated = _repeated(form)
    else:
        raise ChannelBroken("channel.answer_mismatch", {"field": "type"})
    for field in repeated:
        if getattr(answer.result, field) != getattr(message.request, field):
            raise ChannelBroken("channel.answer_mismatch", {"field": field})


def check_outcome(outcome: Outcome | None, grant: CapabilityGrant) -> None:
    """Refuse an outcome whose payload the grant does not allow; raises as `check_output`."""
    if isinstance(outcome, TerminalRecord):
        outcome = outcome.status
    if isinstance(outcome, Succeeded):
        check_output(outcome.payload, grant)


def check_version(message: AnyMessage, version: Version) -> None:
    """Refuse what only the other version can say: heads, and outcomes that version 5 lacks.

    Raises `Refused` (`worker.head_required`, `worker.status_unknown_to_version`).
    """
    sealed = version is Version.SEALED
    request: object = getattr(message, "request", None)
    if hasattr(request, "head") and (request.head is not None) is not sealed:
        raise coded("worker.head_required")
    status = getattr(getattr(message, "result", None), "status", None)
    unknown = isinstance(status, (SucceededOversize, *_ONLY_SEALED))
    if unknown and not sealed:
        raise coded("worker.status_unknown_to_version")


_ONLY_SEALED: Final = tuple(set(get_args(AnsweredStatus)) - set(get_args(Status)))


def _repeated(form: _Form) -> tuple[str, ...]:
    return tuple(field for field in form.record.__struct_fields__ if field != form.own)
