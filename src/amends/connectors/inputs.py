"""Typed inputs: one declaration gives the schema that is published and the two conversions.

A declaration is a type (dataclass, msgspec Struct, TypedDict, builtin types and their unions, a
Pydantic model) or a JSON Schema, in which case the handler is given plain JSON. The schema is one
document whose references all point into itself, and records are closed in it: a field that the
declaration does not name is refused by the schema, before anything is decoded.

Pydantic is never imported from here. A declaration can only be a Pydantic model if somebody else
has imported it already.

Refusals name places and types, never values; foreign validation errors quote what they refuse, so
they are not kept as causes.

Deliberately not here: checking a value against a schema, and limits of size. Both belong to
admission, which every input passes first.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    get_args,
    runtime_checkable,
)

import msgspec

from amends.connectors import schemas
from amends.connectors.defaults import has_defaults, with_defaults
from amends.contracts.admission import admit_value
from amends.contracts.enums import Handler
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import Outcome

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    Adapter: TypeAlias = TypeAdapter[Any]

_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")


class InputType(msgspec.Struct, frozen=True):
    """What a handler's declared input means on the wire and in Python.

    `decode` takes JSON that the schema admitted. `encode` takes an instance of the declared type,
    or JSON, and gives exact JSON with the defaults of the type. Both raise `Refused`
    (`input.not_convertible`); `encode` also whatever `admit_value` raises.
    """

    schema: Json
    decode: Callable[[Json], object]
    encode: Callable[[object], Json]


@runtime_checkable
class TakesTypes(Protocol):
    """A connector whose inputs have types of their own beside JSON."""

    @property
    def inputs(self) -> Mapping[Handler, InputType]:
        """How the input of each handler is described and converted."""
        ...


def input_type(declared: object) -> InputType:
    """The input type that a type or a JSON Schema (a dict) declares.

    Raises `Misuse` (`connector.type_unsupported`) for a type that has no schema.
    """
    if isinstance(declared, dict):
        return InputType(schemas.plain(declared), decode=_as_it_is, encode=admit_value)
    adapter = _pydantic_adapter(declared)
    if adapter is None:
        read, write = partial(_read, declared), partial(_write, _is_record(declared))
    else:
        read, write = partial(_read_pydantic, adapter), partial(_write_pydantic, adapter)
    document = schemas.closed(_described(declared, adapter, "validation"))
    if has_defaults(document):
        return InputType(document, decode=read, encode=partial(_whole, document, write))
    return InputType(document, decode=read, encode=write)


def output_schema(annotation: object) -> Json:
    """The schema of a return annotation, or None where it promises nothing about an output.

    Records stay open: a provider that answers with one field more has still done its work.
    """
    if annotation is None or annotation is Any or _names_an_outcome(annotation):
        return None
    try:
        return _described(annotation, _pydantic_adapter(annotation), "serialization")
    except Misuse:
        return None


def output_to_json(value: object) -> object:
    """Reduce what a handler returned to the builtin types that JSON is made of.

    NaN, oversized integers and the like pass: whether the output can be stored is decided, with a
    reason, where it is stored. Raises `Refused` (`output.not_convertible`) for other types.
    """
    try:
        return msgspec.to_builtins(value, order="deterministic", enc_hook=_pydantic_to_builtins)
    except Exception:
        raise Refused(
            "output.not_convertible",
            "The handler's output holds a value that has no JSON form.",
            details={"type": type(value).__qualname__},
            next_step="Return builtin types, dataclasses, msgspec Structs or Pydantic models.",
        ) from None


# ── conversions ──────────────────────────────────────────────────────────────────────────────────


def _described(
    declared: object, adapter: "Adapter | None", mode: Literal["validation", "serialization"]
) -> JsonObject:
    if adapter is None:
        return schemas.described(declared, partial(msgspec.json.schema, declared))
    return schemas.described(declared, partial(adapter.json_schema, mode=mode))


def _whole(document: JsonObject, write: Callable[[object], Json], value: object) -> Json:
    return with_defaults(document, write(value))


def _as_it_is(value: Json) -> object:
    return value


def _is_record(declared: object) -> bool:
    return isinstance(declared, type) and (
        dataclasses.is_dataclass(declared) or issubclass(declared, msgspec.Struct)
    )


def _read(declared: object, value: Json) -> object:
    try:
        return msgspec.convert(value, declared)
    except Exception as error:
        # What a class of the user's has raised may quote anything; wrapped, it is a cause.
        is_clean = isinstance(error, msgspec.ValidationError) and error.__cause__ is None
        place = _PLACE.search(str(error)) if is_clean else None
        raise _not_convertible(_steps(place[1]) if place else ()) from None


def _write(is_record: bool, value: object) -> Json:
    """A dict in the place of a record is JSON already, and is held to that strictly."""
    if is_record and type(value) is dict:
        return admit_value(value)
    try:
        plain = msgspec.to_builtins(value, order="deterministic")
    except Exception:
        raise _not_convertible(()) from None
    return admit_value(plain)


def _steps(path: str) -> list[str]:
    return path.replace("[...]", ".*").replace("[", ".").replace("]", "").split(".")[1:]


def _pydantic_adapter(declared: object) -> "Adapter | None":
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not hasattr(declared, "__pydantic_core_schema__"):
        return None
    adapter: Adapter = pydantic.TypeAdapter(declared)
    return adapter


def _read_pydantic(adapter: "Adapter", value: Json) -> object:
    try:
        return adapter.validate_python(value)
    except Exception as error:
        raise _not_convertible(_pydantic_steps(error)) from None


def _pydantic_steps(error: Exception) -> Iterable[str | int]:
    """Where the first fault lies, read without the values that the error quotes."""
    pydantic = sys.modules["pydantic"]
    if not isinstance(error, pydantic.ValidationError):
        return ()
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    steps: Iterable[str | int] = faults[0]["loc"]
    return steps


def _write_pydantic(adapter: "Adapter", value: object) -> Json:
    if type(value) is dict:
        return admit_value(value)
    try:
        # A round trip leaves out computed fields, which the schema of the input does not know.
        plain = adapter.dump_python(
            value, mode="json", by_alias=True, round_trip=True, warnings="error"
        )
    except Exception:
        raise _not_convertible(()) from None
    return admit_value(plain)


def _pydantic_to_builtins(value: object) -> object:
    adapter = _pydantic_adapter(type(value))
    if adapter is None:
        raise TypeError("no JSON form")
    return adapter.dump_python(value, mode="json", by_alias=True)


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


def _names_an_outcome(annotation: object) -> bool:
    arms = get_args(annotation) or (annotation,)
    return any(arm in get_args(Outcome) for arm in arms)


def _not_convertible(steps: Iterable[str | int]) -> Refused:
    pointer = "".join(f"/{step}" for step in steps)
    where = f", at {pointer}" if pointer else ""
    return Refused(
        "input.not_convertible",
        f"The input does not fit its declared type{where}.",
        details={"path": pointer} if pointer else None,
        next_step="Send what the capability's input schema describes.",
    )
