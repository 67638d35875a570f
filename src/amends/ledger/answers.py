"""Holding a worker's answer against what was sent (FR-2, PM-6).

An answer has to echo, exactly, everything that identifies the request. An output has to have the
grant's format and to fit its limit. Anything else breaks the rules of the channel, and the ledger
stays as it is: the effect may have happened all the same, so the entry stays open.

Deliberately not here: opening frames, and what follows a state.
"""

from typing import Final, TypeAlias, assert_never

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    AnsweredStatus,
    CompensationAnswer,
    CompensationRequest,
    CompensationStateAnswer,
    CompensationStateRequest,
    Indeterminate,
    NoRecord,
    OperationAnswer,
    OperationRequest,
    ReconciliationRequest,
    TerminalRecord,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.ledger.records import LedgerState
from amends.ledger.table import state_of

_Sent: TypeAlias = (
    OperationRequest | ReconciliationRequest | CompensationRequest | CompensationStateRequest
)
_Answer: TypeAlias = OperationAnswer | CompensationAnswer | CompensationStateAnswer
_OWN: Final = frozenset({"status", "state"})
"""What an answer says by itself; everything else repeats the request."""


def check_operation_answer(
    sent: OperationRequest | ReconciliationRequest, answer: OperationAnswer, grant: CapabilityGrant
) -> LedgerState | None:
    """The state that the answer reports; None where the worker cannot say, which proves nothing.

    Raises `PeerViolation`: `ledger.answer_mismatch` naming the field, `ledger.output_refused`.
    """
    _check_echo(sent, answer)
    return _state_of(answer.status, grant)


def check_compensation_answer(
    sent: CompensationRequest, answer: CompensationAnswer, grant: CapabilityGrant
) -> LedgerState | None:
    """As `check_operation_answer`, for the inverse."""
    _check_echo(sent, answer)
    return _state_of(answer.status, grant)


def check_state_answer(
    sent: CompensationStateRequest, answer: CompensationStateAnswer, grant: CapabilityGrant
) -> LedgerState | None:
    """As `check_operation_answer`, for what a journal knows of an inverse.

    `pending` is no news: it says that the outcome is still open.
    """
    _check_echo(sent, answer)
    match answer.state:
        case Pending():
            return None
        case TerminalRecord(status):
            return _state_of(status, grant)
        case state:
            return _state_of(state, grant)


def _check_echo(sent: _Sent, answer: _Answer) -> None:
    for field in answer.__struct_fields__:
        if field not in _OWN and getattr(answer, field) != getattr(sent, field):
            raise coded("ledger.answer_mismatch", {"field": field})


def _state_of(status: AnsweredStatus, grant: CapabilityGrant) -> LedgerState | None:
    match status:
        case Running():
            return LedgerState.RUNNING
        case Succeeded(payload):
            _check_output(payload, grant)
            return state_of(status)
        case SucceededOversize() | Failed() | Cancelled():
            return state_of(status)
        case Indeterminate() | NoRecord():
            return None
        case _:
            assert_never(status)


def _check_output(payload: ToolPayload, grant: CapabilityGrant) -> None:
    if payload.format is not grant.format or payload.size > grant.max_output_bytes:
        raise coded("ledger.output_refused", {"limit": grant.max_output_bytes})
