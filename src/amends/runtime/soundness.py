"""What a connector reports, made safe to store: references, errors and details of any shape.

A connector is foreign code, and an effect does not become undone because its report is odd. So an
odd reference is kept in an escaped spelling, an odd error keeps its code or gets one, and odd
details are left out; what they say of certainty is read before. A reference that holds the
credential of the attempt is none: it would be stored, shown, and sent in the URL of a look-up.
"""

import re
from math import isfinite
from typing import Final

from msgspec import to_builtins
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.admission import MAX_SAFE_INTEGER
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
from amends.contracts.redaction import without_secret
from amends.contracts.secrets import Secret
from amends.transactions.readings import named_operation

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_FLAGS: Final = (
    "uncertain_outcome",
    "side_effects_committed",
    "compensation_required",
    "retry_after_ms",
)
_UNNAMED: Final = "provider.failed"


def sound(outcome: Outcome) -> Outcome:
    """The same outcome with nothing in it that could not be stored, hashed or shown.

    An operation that only the error's details name is taken out of them, since details may be
    redacted before anybody reads them again.
    """
    match outcome:
        case Applied(operation=None):
            return outcome
        case Applied():
            return replace(outcome, operation=_operation_or_none(outcome.operation))
        case NotApplied() | Partial():
            return replace(outcome, error=_error(outcome.error), operation=_named(outcome))
        case Failure():
            return replace(
                outcome,
                error=_error(outcome.error),
                operation=_named(outcome),
                cursor=sound_cursor(outcome.cursor),
            )
        case Uncertain():
            return replace(
                outcome,
                error=_error(outcome.error),
                operation=_named(outcome),
                cursor=sound_cursor(outcome.cursor),
                retry_after_ms=_milliseconds(outcome.retry_after_ms),
                attention=_code_or_none(outcome.attention),
            )
        case Pending():
            return replace(
                outcome,
                operation=_operation_or_none(outcome.operation),
                cursor=sound_cursor(outcome.cursor),
                retry_after_ms=_milliseconds(outcome.retry_after_ms),
            )
        case NotFound():
            cursor = sound_cursor(outcome.cursor)
            return replace(outcome, voided=outcome.voided is True, cursor=cursor)


def without_echo(outcome: Outcome, secret: Secret) -> Outcome:
    """The same outcome without references and cursors in which the provider repeats a credential.

    Of a sound outcome; its error's texts are left to the redactor.
    """
    changes: dict[str, object] = {}
    if echoes_in(None, getattr(outcome, "cursor", None), secret):
        changes["cursor"] = None
    operation = getattr(outcome, "operation", None)
    if operation is not None and echoes_in(operation, None, secret):
        bare = replace(operation, request_id=None)
        changes["operation"] = None if echoes_in(bare, None, secret) else bare
        error = getattr(outcome, "error", None)
        if error is not None:  # or the rules would read it there
            details = {k: v for k, v in error.details.items() if k != "provider_operation"}
            changes["error"] = replace(error, details=details)
    return replace(outcome, **changes) if changes else outcome


def echoes_in(operation: ProviderOperation | None, cursor: str | None, secret: Secret) -> bool:
    """Whether a reference or a cursor holds a credential."""
    said: list[Json] = [to_builtins(operation), cursor]
    return without_secret(said, secret) != said


def _named(outcome: NotApplied | Partial | Failure | Uncertain) -> ProviderOperation | None:
    return _operation_or_none(outcome.operation) or named_operation(_error(outcome.error))


def _operation_or_none(operation: object) -> ProviderOperation | None:
    """What is no reference at all is left out: the rest of the report still counts."""
    return sound_operation(operation) if isinstance(operation, ProviderOperation) else None


def sound_operation(operation: ProviderOperation) -> ProviderOperation:
    """A reference that can be stored: odd parts in an escaped spelling."""
    return ProviderOperation(
        _text(operation.provider, limits.ID_LENGTH),
        ProviderOperationId(_text(operation.operation_id, limits.PROVIDER_OPERATION_LENGTH)),
        None
        if operation.request_id is None
        else _text(operation.request_id, limits.PROVIDER_OPERATION_LENGTH),
    )


def _code_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _milliseconds(value: object) -> int | None:
    """A delay as rules read it; bounded, since a number may be larger than any store takes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not isfinite(value):
        return None
    return int(min(value, limits.RETRY_AFTER_MAX_MS)) if value >= 0 else None


def sound_cursor(cursor: object) -> str | None:
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
    """What rules read comes first, where no bound on the number of details cuts it off."""
    try:
        admitted = admit_value(details)
    except Refused:
        admitted = None
    flags = _flags(details)
    return {**flags, **admitted} if isinstance(admitted, dict) else flags


def _flags(details: object) -> dict[str, Json]:
    """What rules read in details, even in such as cannot be kept whole."""
    if not isinstance(details, dict):
        return {}
    kept: dict[str, Json] = {}
    for name in _FLAGS:
        value = details.get(name)
        if type(value) is bool or (type(value) is int and abs(value) <= MAX_SAFE_INTEGER):
            kept[name] = value
    return kept
