"""What a handler function looks like: how it is entered, and what its input is declared to be.

Read once, when the connector is made, so that a handler that could not be entered is refused before
anything is governed by it. A handler takes `(input)` or `(input, attempt)`; further parameters keep
their defaults. An input that is annotated as `object`, or not at all, declares nothing.
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
_UNDECLARED: Final = inspect.Parameter.empty
_NEXT_STEP: Final = "Write it as (input) or (input, attempt), async or not."


class BoundHandler(msgspec.Struct, frozen=True):
    """A handler with what its signature says. `input` is None where nothing is declared."""

    function: HandlerFunction
    is_async: bool
    takes_attempt: bool
    input: InputType | None
    returns: object

    def enter(self, value: object, attempt: Attempt) -> object:
        """Call the function with as many arguments as it takes."""
        return self.function(value, attempt) if self.takes_attempt else self.function(value)


def bind(function: HandlerFunction, schema: Json = None) -> BoundHandler:
    """Read a handler's signature; a schema, where given, takes the place of its annotation.

    Raises `Misuse`: `connector.handler_signature` for one that cannot be called, or whose
    annotations cannot be read; `connector.handler_attempt` for an `async def` that asks for a
    `BlockingAttempt`; `connector.type_unsupported` for an input type without a schema.
    """
    parameters = _parameters(function)
    hints = _hints(function, needed=schema is None)
    declared = hints.get(parameters[0].name, _UNDECLARED) if schema is None else schema
    attempt_hint = hints.get(parameters[1].name) if len(parameters) > 1 else None
    is_async = _is_async(function)
    if is_async and attempt_hint is BlockingAttempt:
        raise Misuse(
            "connector.handler_attempt",
            "An async handler asks for the attempt of a blocking one.",
            next_step="Annotate it as Attempt, and await its checkpoint.",
        )
    return BoundHandler(
        function,
        is_async=is_async,
        takes_attempt=_takes_attempt(parameters[1:], attempt_hint),
        input=None if declared in (_UNDECLARED, object) else input_type(declared),
        returns=hints.get("return"),
    )


def _parameters(function: HandlerFunction) -> list[inspect.Parameter]:
    """The positional ones: at least one, and none after the second that would have to be given."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _signature("A handler must not be a generator.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise _signature("A handler's signature cannot be read.") from error
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    keywords = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    if not positional or any(one.default is one.empty for one in positional[2:] + keywords):
        raise _signature("A handler must take one or two arguments.")
    return positional


def _takes_attempt(second: list[inspect.Parameter], hint: object) -> bool:
    """A second parameter with a default is the handler's own, unless it is declared otherwise."""
    is_attempt = any(arm in (Attempt, BlockingAttempt) for arm in (hint, *get_args(hint)))
    return bool(second) and (is_attempt or second[0].default is inspect.Parameter.empty)


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
    plain: object = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    return plain if inspect.isroutine(plain) else type(plain).__call__


def _is_async(function: HandlerFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _signature(message: str) -> Misuse:
    return Misuse("connector.handler_signature", message, next_step=_NEXT_STEP)
