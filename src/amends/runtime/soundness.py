"""What a connector reports, made safe to store: references, errors and details of any shape.

A connector is foreign code, and an effect does not become undone because its report is odd. So an
odd reference is kept in an escaped spelling, an odd error keeps its code or gets one, and odd
details are left out; what they say of certainty is read before.
"""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import Refused
from amends.contracts.ids import ProviderOperationId, check_opaque
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    ProviderOperation,
    Uncertain,
)
from amends.contracts.parsing import admit_value

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_FLAGS: Final = (
    "uncertain_outcome",
    "side_effects_committed",
    "compensation_required",
    "retry_after_ms",
)
_UNNAMED: Final = "provider.failed"


def sound(outcome: Outcome) -> Outcome:
    """The same outcome with nothing in it that could not be stored, hashed or shown."""
    match outcome:
        case Applied():
            return replace(outcome, operation=_operation(outcome.operation))
        case NotApplied() | Partial():
            return replace(
                outcome, error=_error(outcome.error), operation=_operation(outcome.operation)
            )
        case Failure() | Uncertain():
            return replace(
                outcome,
                error=_error(outcome.error),
                operation=_operation(outcome.operation),
                cursor=_cursor(outcome.cursor),
            )
        case Pending():
            return replace(
                outcome,
                operation=_operation(outcome.operation),
                cursor=_cursor(outcome.cursor),
            )
        case NotFound():
            return replace(outcome, voided=outcome.voided is True, cursor=_cursor(outcome.cursor))


def _operation(operation: ProviderOperation | None) -> ProviderOperation | None:
    if operation is None:
        return None
    return ProviderOperation(
        _text(operation.provider, limits.ID_LENGTH),
        ProviderOperationId(_text(operation.operation_id, limits.PROVIDER_OPERATION_LENGTH)),
        None
        if operation.request_id is None
        else _text(operation.request_id, limits.PROVIDER_OPERATION_LENGTH),
    )


def _cursor(cursor: object) -> str | None:
    """A cursor that cannot be kept is none: the look-up begins anew, which is always safe."""
    try:
        return check_opaque(cursor, "cursor", length=limits.CURSOR_LENGTH)
    except Refused:
        return None


def _text(value: object, length: int) -> str:
    """The value as it is where it is well-formed, else an escaped spelling of it."""
    try:
        return check_opaque(value, "value", length=length)
    except Refused:
        escaped = ascii(value if isinstance(value, str) else str(value))
        return escaped[:length]


def _error(error: ErrorInfo) -> ErrorInfo:
    code: object = error.code
    message: object = error.message
    category: object = error.category
    return ErrorInfo(
        code=code if isinstance(code, str) and _CODE.fullmatch(code) else _UNNAMED,
        message=message if isinstance(message, str) else "",
        category=category if isinstance(category, ErrorCategory) else ErrorCategory.CONNECTOR,
        retryable=error.retryable is True,
        details=_details(error.details),
    )


def _details(details: object) -> dict[str, Json]:
    try:
        admitted = admit_value(details)
    except Refused:
        admitted = _flags(details)
    return admitted if isinstance(admitted, dict) else {}


def _flags(details: object) -> dict[str, Json]:
    """What rules read in details that cannot be kept whole."""
    if not isinstance(details, dict):
        return {}
    kept: dict[str, Json] = {}
    for name in _FLAGS:
        value = details.get(name)
        if isinstance(value, bool | int) and abs(value) <= limits.RETRY_AFTER_MAX_MS:
            kept[name] = msgspec.convert(value, int) if not isinstance(value, bool) else value
    return kept
