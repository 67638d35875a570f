"""What a worker's word means to a transaction (INT-2).

    succeeded                        completed
    failed                           a definite failure, never reopened
    cancelled                        unknown, unless its contract says that nothing was applied
    running                          unknown, with a next look-up
    indeterminate, silent, lost      unknown, with a next look-up
    refused before the intent        a definite failure, which frees the slot
    refused between intent and seal  unknown, with attention; the intent waits

What names an operation was recorded in the ledger. Deliberately not here: asking anybody.
"""

from typing import Final, assert_never

import msgspec

from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import AmendsError, Refused, Unavailable
from amends.contracts.ids import ProviderOperationId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    WORKER,
    Applied,
    ErrorInfo,
    NotApplied,
    NotFound,
    Outcome,
    Pending,
    ProviderOperation,
    Uncertain,
)
from amends.contracts.worker_messages import AnsweredStatus, Indeterminate, NoRecord
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Running,
    Succeeded,
    SucceededOversize,
)

PROVIDER: Final = WORKER
FAILED: Final = "worker.failed"
CANCELLED: Final = "worker.cancelled"
INDETERMINATE: Final = "worker.indeterminate_operation"
NOT_ADMITTED: Final = "worker.compensation_not_admitted"
_NOT_SENT: Final = "channel.lost"


def operation_of(key: str) -> ProviderOperation:
    """The reference of a recorded intent: its key."""
    return ProviderOperation(PROVIDER, ProviderOperationId(key))


def told(status: AnsweredStatus, key: str, *, cancelled_is_absent: bool) -> Outcome:
    """The outcome of an effect that a worker reported on."""
    operation = operation_of(key)
    match status:
        case Succeeded(payload):
            return Applied(output=payload.value, operation=operation)
        case SucceededOversize(digest, size):
            kept: Json = {"result_too_large": {"digest": digest, "size": size}}
            return Applied(output=kept, operation=operation)
        case Failed(message):
            return NotApplied(error=_error(FAILED, message), operation=operation)
        case Cancelled() if cancelled_is_absent:
            return NotApplied(error=_error(CANCELLED), operation=operation)
        case Cancelled():
            return Uncertain(error=_error(CANCELLED), operation=operation, attention=CANCELLED)
        case Running():
            return Pending(operation=operation)
        case Indeterminate():
            return Uncertain(error=_error(INDETERMINATE), operation=operation)
        case NoRecord():
            return NotFound()
        case _:
            assert_never(status)


def refused(error: AmendsError) -> NotApplied:
    """Nothing was recorded, so nothing can have been sent. What was out of reach may come again."""
    again = isinstance(error, Unavailable)
    category = ErrorCategory.TEMPORARY if again else ErrorCategory.POLICY
    return NotApplied(error=msgspec.structs.replace(_info(error, category), retryable=again))


def left_open(error: AmendsError, key: str | None) -> Uncertain:
    """An intent is recorded, or may be. One that was refused before it was sealed waits for a
    person; what was sent is looked up.
    """
    unsent = isinstance(error, Refused) or error.code == _NOT_SENT
    return Uncertain(
        error=_info(error, ErrorCategory.CONNECTOR),
        operation=None if key is None else operation_of(key),
        attention=error.code if unsent else None,
    )


def for_a_person(code: str, key: str | None = None) -> Uncertain:
    """Only a person can go on."""
    operation = None if key is None else operation_of(key)
    return Uncertain(error=_error(code), operation=operation, attention=code)


def _info(error: AmendsError, category: ErrorCategory) -> ErrorInfo:
    return ErrorInfo(
        code=error.code, message=error.message, category=category, details=dict(error.details)
    )


def _error(code: str, message: str = "") -> ErrorInfo:
    return ErrorInfo(code=code, message=message, category=ErrorCategory.CONNECTOR)
