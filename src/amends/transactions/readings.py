"""What an outcome says of the effect, in the four terms that rules know (TX-SETTLE-*).

Everything that is not declared definite is uncertain. Where a connector's words contradict one
another, the more careful word counts.
"""

from enum import StrEnum
from typing import Final, assert_never

import msgspec

from amends.contracts import limits
from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import Refused
from amends.contracts.ids import ProviderOperationId, check_opaque
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

TIMEOUT_CODE: Final = "sla.timeout_exceeded"


class Certainty(StrEnum):
    """What an outcome says of the effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    PARTIAL = "partial"
    UNCERTAIN = "uncertain"


class Reading(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An outcome in the four terms that rules know.

    `declared` is true where a connector said in so many words that nothing was applied, rather than
    returning a failure that merely does not say otherwise.
    """

    certainty: Certainty
    error: ErrorInfo | None = None
    operation: ProviderOperation | None = None
    cursor: str | None = None
    retry_after_ms: int | None = None
    declared: bool = False
    attention: str | None = None


def read_outcome(outcome: Outcome) -> Reading:
    """Read what a connector reported about an attempt that may have an effect."""
    match outcome:
        case Applied():
            return Reading(certainty=Certainty.APPLIED, operation=outcome.operation)
        case NotApplied():
            return _read_failure(outcome.error, outcome.operation, None, declared=True)
        case Partial():
            return _read_failure(outcome.error, outcome.operation, None, partial=True)
        case Failure():
            return _read_failure(outcome.error, outcome.operation, outcome.cursor)
        case Uncertain():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=outcome.error,
                operation=outcome.operation or named_operation(outcome.error),
                cursor=outcome.cursor,
                retry_after_ms=outcome.retry_after_ms or _retry_after(outcome.error),
                attention=outcome.attention,
            )
        case Pending():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=not_known("transaction.outcome_unknown"),
                operation=outcome.operation,
                cursor=outcome.cursor,
                retry_after_ms=outcome.retry_after_ms,
            )
        case NotFound():
            return Reading(
                certainty=Certainty.UNCERTAIN,
                error=not_known("transaction.provider_answer_invalid"),
                cursor=outcome.cursor,
            )
        case _:
            assert_never(outcome)


def _read_failure(
    error: ErrorInfo,
    operation: ProviderOperation | None,
    cursor: str | None,
    *,
    declared: bool = False,
    partial: bool = False,
) -> Reading:
    certainty = Certainty.NOT_APPLIED
    if error.code == TIMEOUT_CODE or error.details.get("uncertain_outcome") is True:
        certainty = Certainty.UNCERTAIN
    elif partial or error.details.get("side_effects_committed") is True:
        certainty = Certainty.PARTIAL
    return Reading(
        certainty=certainty,
        error=error,
        operation=operation or named_operation(error),
        cursor=cursor,
        retry_after_ms=_retry_after(error),
        declared=declared and certainty is Certainty.NOT_APPLIED,
    )


def _retry_after(error: ErrorInfo) -> int | None:
    value = error.details.get("retry_after_ms")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def bounded_delay(retry_after_ms: int | None) -> int:
    """A look-up delay in milliseconds: five seconds unless the provider says otherwise, bounded."""
    if retry_after_ms is None:
        return limits.RETRY_AFTER_MS
    return min(max(retry_after_ms, 0), limits.RETRY_AFTER_MAX_MS)


def named_operation(error: ErrorInfo) -> ProviderOperation | None:
    """A provider operation that a connector named only in its error details."""
    named = error.details.get("provider_operation")
    if not isinstance(named, dict):
        return None
    length = limits.PROVIDER_OPERATION_LENGTH
    try:
        provider = check_opaque(named.get("provider"), "provider", length=limits.ID_LENGTH)
        operation_id = check_opaque(named.get("operation_id"), "operation_id", length=length)
    except Refused:
        return None
    return ProviderOperation(provider, ProviderOperationId(operation_id))


def not_known(code: str) -> ErrorInfo:
    """The error of an outcome that nobody knows."""
    return ErrorInfo(code=code, category=ErrorCategory.CONNECTOR)
