"""What a handler function looks like: how it is entered, and what its input is declared to be.

Read once, when the connector is made, so that a handler that could not be entered is refused before
anything is governed by it. A handler takes `(input)` or `(input, attempt)`; further parameters keep
their defaults.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Final, TypeAlias, get_args, get_type_hints

import msgspec

from amends.connectors.blocking import BlockingAttempt
from amends.connectors.inputs import InputType, input_type
from amends.connectors.port import Attempt
from amends.contracts.errors import Misuse
from amends.contracts.json_types import Json

HandlerFunction: TypeAlias = Callable[..., object]

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_NEXT_STEP: Final = "Write it as (input) or (input, attempt), async or not."


class BoundHandler(msgspec.Struct, frozen=True):
    """A handler with what its signature says. `input` is None where nothing is declared."""

    function: HandlerFunction
    is_async: bool
    takes_attempt: bool
    input: InputType | None
    returns: object

    def arguments(self, value: object, attempt: Attempt) -> tuple[object, ...]:
        """What to call the function with."""
        return (value, attempt) if self.takes_attempt else (value,)


def bind(function: HandlerFunction, schema: Json = None) -> BoundHandler:
    """Read a handler's signature; a schema, where given, takes the place of its annotation.

    Raises `Misuse`: `connector.handler_signature` for one that cannot be called, or whose
    annotations cannot be read; `connector.handler_attempt` for an `async def` that asks for a
    `BlockingAttempt`; `connector.type_unsupported` for an input type without a schema.
    """
    parameters = _parameters(function)
    hints = _hints(function, needed=schema is None)
    if not parameters or any(one.default is one.empty for one in parameters[2:]):
        raise _signature("A handler must take one or two arguments.")
    is_async = _is_async(function)
    if is_async and hints.get(parameters[-1].name) is BlockingAttempt:
        raise Misuse(
            "connector.handler_attempt",
            "An async handler asks for the attempt of a blocking one.",
            next_step="Annotate it as Attempt, and await its checkpoint.",
        )
    declared = hints.get(parameters[0].name, _UNDECLARED) if schema is None else schema
    return BoundHandler(
        function,
        is_async=is_async,
        takes_attempt=_takes_attempt(parameters, hints),
        input=None if declared is _UNDECLARED else input_type(declared),
        returns=hints.get("return"),
    )


class _Undeclared:
    """The annotation of a parameter that has none; None is an annotation of its own."""


_UNDECLARED: Final = _Undeclared()


def _parameters(function: HandlerFunction) -> list[inspect.Parameter]:
    """The positional ones; raises for a keyword that would have to be given."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _signature("A handler must not be a generator.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise _signature("A handler's signature cannot be read.") from error
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise _signature("A handler must not require keyword arguments.")
    return [one for one in parameters if one.kind in _POSITIONAL]


def _takes_attempt(parameters: list[inspect.Parameter], hints: dict[str, object]) -> bool:
    if len(parameters) < 2:
        return False
    second = parameters[1]
    return second.default is second.empty or _is_attempt(hints.get(second.name))


def _is_attempt(hint: object) -> bool:
    return any(arm in (Attempt, BlockingAttempt) for arm in (hint, *get_args(hint)))


def _hints(function: HandlerFunction, *, needed: bool) -> dict[str, object]:
    """The annotations, resolved; a name that only a type checker can see has no value here."""
    try:
        return get_type_hints(_annotated(function), include_extras=True)
    except (NameError, AttributeError, TypeError) as error:
        if not needed:
            return {}
        raise Misuse(
            "connector.handler_signature",
            "A handler's annotations cannot be resolved.",
            next_step="Import the annotated types at run time, or give the schema explicitly.",
        ) from error


def _annotated(function: HandlerFunction) -> object:
    """Where the annotations stand: below partials, and in the class of a callable object."""
    plain = inspect.unwrap(function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    return plain if inspect.isroutine(plain) else type(plain).__call__


def _is_async(function: HandlerFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # not whether it can be called, but how
    )


def _signature(message: str) -> Misuse:
    return Misuse("connector.handler_signature", message, next_step=_NEXT_STEP)
