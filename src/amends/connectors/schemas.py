"""The JSON Schema of a declared type, as one document that refers to nothing outside of itself.

Invariants: what comes out is exact JSON and shares nothing with the declaration; every reference
starts with `#/$defs/`; the root is the declared type itself, not a reference to it.

Deliberately not here: who describes a type, compiling schemas and checking values against them.
"""

from collections.abc import Callable
from typing import Final

from amends.contracts.admission import DOCUMENT_LIMITS, admit_value
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json, JsonObject

_DEFINITIONS: Final = "#/$defs/"


def described(declared: object, describe: Callable[[], object]) -> JsonObject:
    """What somebody says of a type, flat. Raises `Misuse` (`connector.type_unsupported`)."""
    try:
        document = describe()
    except Exception as error:
        raise _unsupported(declared) from error
    return flat(document)


def plain(document: object) -> JsonObject:
    """A copy that is exact JSON. Raises `Misuse` (`connector.type_unsupported`)."""
    try:
        copy = admit_value(document, limits=DOCUMENT_LIMITS)
    except Refused as error:
        raise _unsupported(document) from error
    return copy if isinstance(copy, dict) else {}


def flat(document: object) -> JsonObject:
    """Put the root's own definition at the root; it also stays where it was if it is recursive."""
    whole = plain(document)
    reference, definitions = whole.get("$ref"), whole.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return whole
    name = reference.removeprefix(_DEFINITIONS)
    kept = {other: one for other, one in definitions.items() if other != name}
    if _refers(definitions, reference):
        kept = definitions
    return {**plain(definitions[name]), "$defs": kept} if kept else plain(definitions[name])


def closed(document: JsonObject) -> JsonObject:
    """Refuse unknown fields in every record: each is a definition, or the root.

    A record that says itself what becomes of unknown fields keeps its word.
    """
    definitions = document.get("$defs")
    if isinstance(definitions, dict):
        document = {**document, "$defs": {name: _shut(one) for name, one in definitions.items()}}
    return {**document, **_closing(document)}


def _shut(definition: Json) -> Json:
    return {**definition, **_closing(definition)} if isinstance(definition, dict) else definition


def _closing(definition: JsonObject) -> JsonObject:
    is_open_record = "properties" in definition and "additionalProperties" not in definition
    return {"additionalProperties": False} if is_open_record else {}


def _refers(node: Json, reference: str) -> bool:
    if isinstance(node, dict):
        return any(_refers(item, reference) for item in node.values())
    if isinstance(node, list):
        return any(_refers(item, reference) for item in node)
    return node == reference


def _unsupported(declared: object) -> Misuse:
    name = getattr(declared, "__qualname__", type(declared).__qualname__)
    return Misuse(
        "connector.type_unsupported",
        "A declared type has no JSON Schema, or a schema is not JSON.",
        details={"type": name},
        next_step="Declare a dataclass, Struct, TypedDict, Pydantic model or a JSON Schema.",
    )
