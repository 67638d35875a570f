"""What an object of the provider says of an effect, once it is shown to be ours.

Deliberately not here: whether there is an object at all.
"""

from collections.abc import Mapping
from enum import Enum
from typing import assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from amends.connectors.http import codes
from amends.connectors.http.declaration import State
from amends.connectors.http.failures import Context, error_of, request_id
from amends.connectors.http.forms import ObjectForm
from amends.connectors.http.messages import Answer
from amends.connectors.http.reading import as_id, at, same
from amends.connectors.http.templates import Facts, fill
from amends.contracts.ids import ProviderOperationId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    Applied,
    NotApplied,
    Outcome,
    Partial,
    Pending,
    ProviderOperation,
    Uncertain,
)


class Progress(Enum):
    """How far an object of the provider is."""

    APPLIED = "applied"
    PENDING = "pending"
    NOT_APPLIED = "not_applied"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


def expectations(form: ObjectForm, facts: Facts) -> dict[str, Json]:
    """What an object must say to be ours; comparisons with what may be missing, and is, are none.

    To be known before anything is sent. Raises `Unfit`.
    """
    filled = {pointer: fill(template, facts) for pointer, template in form.match.items()}
    return {pointer: value for pointer, value in filled.items() if value is not UNSET}


def agrees(item: Json | UnsetType, expected: Mapping[str, Json]) -> bool:
    """Whether an object is the one that was asked for."""
    return all(same(value, at(item, pointer)) for pointer, value in expected.items())


def judge_object(
    form: ObjectForm, item: Json | UnsetType, answer: Answer, context: Context
) -> Outcome:
    """What an object that is ours says of the effect."""
    operation = operation_of(form, item, answer, context)
    output = None if item is UNSET else item
    progress = Progress.APPLIED if form.state is None else _progress(form.state, item)
    match progress:
        case Progress.APPLIED:
            return Applied(output=output, operation=operation)
        case Progress.PENDING:
            return Pending(
                retry_after_ms=context.delay_ms(answer),
                operation=operation,
            )
        case Progress.NOT_APPLIED:
            error = error_of(answer, codes.REFUSED, context)
            return NotApplied(error=error, operation=operation)
        case Progress.PARTIAL:
            error = error_of(answer, codes.PARTIAL, context)
            details = {**error.details, "side_effects_committed": True}
            error = replace(error, details={**details, "compensation_required": True})
            return Partial(error=error, output=output, operation=operation)
        case Progress.UNKNOWN:
            return Uncertain(
                error=error_of(answer, codes.STATE_UNKNOWN, context), operation=operation
            )
        case _:
            assert_never(progress)


def _progress(state: State, item: Json | UnsetType) -> Progress:
    """The provider's word, where it is one of those that were declared."""
    word = at(item, state.at)
    spelt = str(word).lower() if isinstance(word, bool) else as_id(word)
    lists = (
        (Progress.APPLIED, state.applied),
        (Progress.PENDING, state.pending),
        (Progress.NOT_APPLIED, state.not_applied),
        (Progress.PARTIAL, state.partial),
    )
    return next((progress for progress, words in lists if spelt in words), Progress.UNKNOWN)


def operation_of(
    form: ObjectForm, item: Json | UnsetType, answer: Answer, context: Context
) -> ProviderOperation | None:
    """The provider's reference, with its digits as they were sent."""
    if form.operation_id is None:
        return None
    operation_id = as_id(at(item, form.operation_id))
    if operation_id is None:
        return None
    return ProviderOperation(
        context.provider.name, ProviderOperationId(operation_id), request_id(answer, context)
    )
