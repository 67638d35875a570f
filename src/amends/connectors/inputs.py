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
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import msgspec

from amends.contracts.admission import DOCUMENT_LIMITS, admit_value
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.outcomes import Outcome

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    Adapter: TypeAlias = TypeAdapter[Any]

_DEFINITIONS: Final = "#/$defs/"
_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")


class InputType(msgspec.Struct, frozen=True):
    """What a handler's declared input means on the wire and in Python.

    `decode` takes JSON that the schema admitted. `encode` takes an instance of the declared type,
    or JSON as it stands, and gives exact JSON. Both raise `Refused` (`input.not_convertible`);
    `encode` also whatever `admit_value` raises.
    """

    schema: Json
    decode: Callable[[Json], object]
    encode: Callable[[object], Json]


def input_type(declared: object) -> InputType:
    """The input type that a type or a JSON Schema (a dict) declares.

    Raises `Misuse` (`connector.type_unsupported`) for a type that has no schema.
    """
    if isinstance(declared, dict):
        return InputType(_plain(declared), decode=_as_it_is, encode=admit_value)
    adapter = _pydantic_adapter(declared)
    if adapter is not None:
        document = adapter.json_schema(mode="validation")
        read, write = partial(_read_pydantic, adapter), partial(_write_pydantic, adapter)
    else:
        document = _msgspec_schema(declared)
        read, write = partial(_read, declared), partial(_write, _is_record(declared))
    return InputType(_closed(_flat(_plain(document))), decode=read, encode=write)


def output_schema(annotation: object) -> Json:
    """The schema of a return annotation, or None where it promises nothing about an output.

    Records stay open: a provider that answers with one field more has still done its work.
    """
    if annotation is None or annotation is Any or _names_an_outcome(annotation):
        return None
    try:
        adapter = _pydantic_adapter(annotation)
        if adapter is not None:
            return _flat(_plain(adapter.json_schema(mode="serialization")))
        return _flat(_plain(_msgspec_schema(annotation)))
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


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def _msgspec_schema(declared: object) -> object:
    try:
        return msgspec.json.schema(declared)
    except Exception as error:
        raise _unsupported(declared) from error


def _plain(document: object) -> JsonObject:
    """A copy that is JSON and shares nothing with the declaration."""
    try:
        copy = admit_value(document, limits=DOCUMENT_LIMITS)
    except Refused as error:
        raise _unsupported(document) from error
    return copy if isinstance(copy, dict) else {}


def _flat(document: JsonObject) -> JsonObject:
    """Put the root's own definition at the root; it stays among the others if it is recursive."""
    reference = document.get("$ref")
    definitions = document.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return document
    name = reference.removeprefix(_DEFINITIONS)
    root = definitions[name]
    if not isinstance(root, dict):
        return document
    kept = definitions if _refers(definitions, reference) else _without(definitions, name)
    return {**root, "$defs": kept} if kept else dict(root)


def _closed(document: JsonObject) -> JsonObject:
    """Refuse unknown fields in every record; all of them are definitions, or the root."""
    definitions = document.get("$defs")
    if isinstance(definitions, dict):
        closed: JsonObject = {name: _closed_record(one) for name, one in definitions.items()}
        document = {**document, "$defs": closed}
    return {**document, **_closing(document)}


def _closed_record(definition: Json) -> Json:
    if not isinstance(definition, dict):
        return definition
    return {**definition, **_closing(definition)}


def _closing(definition: JsonObject) -> JsonObject:
    is_open_record = "properties" in definition and "additionalProperties" not in definition
    return {"additionalProperties": False} if is_open_record else {}


def _refers(node: Json, reference: str) -> bool:
    if isinstance(node, dict):
        return any(_refers(item, reference) for item in node.values())
    if isinstance(node, list):
        return any(_refers(item, reference) for item in node)
    return node == reference


def _without(definitions: JsonObject, name: str) -> JsonObject:
    return {other: one for other, one in definitions.items() if other != name}


# ── conversions ──────────────────────────────────────────────────────────────────────────────────


def _as_it_is(value: Json) -> object:
    return value


def _is_record(declared: object) -> bool:
    return isinstance(declared, type) and (
        dataclasses.is_dataclass(declared) or issubclass(declared, msgspec.Struct)
    )


def _read(declared: object, value: Json) -> object:
    try:
        return msgspec.convert(value, declared)  # type: ignore[call-overload]  # any declared type
    except Exception as error:
        # An error that a class of the user's raised has a cause, and may quote anything.
        place = None if error.__cause__ else _PLACE.search(str(error))
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


def _unsupported(declared: object) -> Misuse:
    name = getattr(declared, "__qualname__", type(declared).__qualname__)
    return Misuse(
        "connector.type_unsupported",
        "A declared input type has no JSON Schema.",
        details={"type": name},
        next_step="Declare a dataclass, Struct, TypedDict, Pydantic model or a JSON Schema.",
    )
