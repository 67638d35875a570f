"""JSON Schema, draft 2020-12: compiled once, checked often, silent about values.

A schema is one closed document. Whatever refers out of it is refused before it is compiled, and the
compiler itself runs offline, so nothing is ever fetched. A finding tells where a value does not fit
and what the *schema* asks for; it never repeats the value, nor a key that the schema does not name,
which is why the library's own messages are not used (they quote both).

Formats are checked, not merely noted, where the library knows them: a declared limit that nobody
holds would mislead.

Numbers: to JSON Schema `1.0` is an integer, and so it is to us, since the input was brought to its
RFC 8785 form first and `1.0` became `1` there. Amounts are integers in minor units; `78.43` does
not fit `"type": "integer"`.

Deliberately not here: making schemas from types, and whether a capability needs one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

import jsonschema_rs
import msgspec

from amends.contracts.admission import admit_value
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json, JsonObject

FINDINGS: Final = 20
"""How many findings one check reports at most."""

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_STANDARD: Final = frozenset({_DRAFT, f"{_DRAFT}#"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED_PARTS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
"""Keywords whose members are named by the author; such a name is no keyword."""

_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose content is a value, in which `$ref` would mean nothing."""

_LISTED_BYTES: Final = 8192
"""Up to this size all findings of a value are listed, since the library cannot be made to stop
early; of a larger one the first is reported."""

_EXPECTED_LENGTH: Final = 200
_ROOT: Final = "its root"
_ELSE: Final = "a value that fits this keyword"
_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "additionalProperties": "no properties beyond those declared",
        "anyOf": "a value that fits at least one of the alternatives",
        "const": "exactly {}",
        "contains": "an item of the kind asked for",
        "enum": "one of {}",
        "exclusiveMaximum": "a number less than {}",
        "exclusiveMinimum": "a number greater than {}",
        "falseSchema": "nothing here",
        "format": "text in the format {}",
        "maxItems": "at most {} items",
        "maxLength": "at most {} characters",
        "maxProperties": "at most {} properties",
        "maximum": "a number of at most {}",
        "minItems": "at least {} items",
        "minLength": "at least {} characters",
        "minProperties": "at least {} properties",
        "minimum": "a number of at least {}",
        "multipleOf": "a multiple of {}",
        "not": "a value that does not fit what is excluded",
        "oneOf": "a value that fits exactly one of the alternatives",
        "pattern": "text that matches {}",
        "propertyNames": "property names of the kind asked for",
        "required": "the property {}",
        "type": "a value of type {}",
        "unevaluatedItems": "no items beyond those declared",
        "unevaluatedProperties": "no properties beyond those declared",
        "uniqueItems": "items that are all different",
    }
)
"""What each keyword asks for. A text takes a value in only where the value is the schema's own."""

_Path = tuple[str | int, ...]


class Finding(msgspec.Struct, frozen=True):
    """One place where a value does not fit.

    `pointer` is a JSON pointer in which `*` stands for a key that the schema does not name.
    `expected` speaks of the schema alone.
    """

    pointer: str
    keyword: str
    expected: str


class Schema:
    """A compiled schema; immutable, and safe to share between threads."""

    __slots__ = ("_validator", "known_keys")

    def __init__(self, validator: jsonschema_rs.Validator, known_keys: frozenset[str]) -> None:
        self._validator = validator
        self.known_keys: Final = known_keys
        """Every property name that the schema itself spells out, wherever it does."""

    def fits(self, value: Json) -> bool:
        """Whether an admitted value fits; a microsecond or two for an ordinary input."""
        return self._validator.is_valid(value)

    def check(self, value: Json) -> tuple[Finding, ...]:
        """Where an admitted value does not fit; none when it does, and never more than `FINDINGS`.

        A large value is examined only as far as its first fault.
        """
        if self._validator.is_valid(value):
            return ()
        return tuple(self._finding(error) for error in islice(self._errors(value), FINDINGS))

    def _errors(self, value: Json) -> Iterator[jsonschema_rs.ValidationError]:
        if len(msgspec.json.encode(value)) <= _LISTED_BYTES:
            yield from self._validator.iter_errors(value)
            return
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield error

    def _finding(self, error: jsonschema_rs.ValidationError) -> Finding:
        steps = [
            step if isinstance(step, int) or step in self.known_keys else "*"
            for step in error.instance_path
        ]
        return Finding(_pointer(steps), error.kind.name, _expected(error.kind))


def compile_schema(schema: Json) -> Schema:
    """Compile a schema; the result does not change when `schema` does.

    Raises `Refused` with `schema.invalid` (no schema of draft 2020-12, or a reference that leads
    nowhere) or `schema.remote_reference` (it refers to another document, or to another draft).
    """
    try:
        document = admit_value(schema)
    except Refused as refused:
        raise _invalid(dict(refused.details), refused.message) from refused
    for path, part in _subschemas(document):
        _require_local(part, path)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            document,  # type: ignore[arg-type]  # what is no object is refused with its position
            offline=True,
            validate_formats=True,
        )
    except jsonschema_rs.ValidationError as error:
        place, rule = _pointer(error.instance_path), error.kind.name
        reason = f"It breaks the draft's rule {rule}, at {place or _ROOT}."
        raise _invalid({"path": place, "keyword": rule}, reason) from error
    return Schema(validator, frozenset(_names(document)))


def refuse_mismatch(
    findings: Sequence[Finding], *, code: str = "input.schema_mismatch", subject: str = "input"
) -> Refused:
    """The error for a value that does not fit; names the first place, details list the others."""
    listed: list[Json] = [
        {"path": one.pointer, "keyword": one.keyword, "expected": one.expected}
        for one in findings[:FINDINGS]
    ]
    where = "".join(f" at {one.pointer or _ROOT}: expected {one.expected}" for one in findings[:1])
    return Refused(
        code,
        f"The {subject} does not fit its schema{where}.",
        details={"findings": listed},
        next_step=f"Send the {subject} as the capability's schema describes it.",
    )


def _subschemas(node: Json, path: _Path = ()) -> Iterator[tuple[_Path, JsonObject]]:
    """Every object that may serve as a schema, with its place; in doubt, it may."""
    if isinstance(node, list):
        for place, item in enumerate(node):
            yield from _subschemas(item, (*path, place))
    elif isinstance(node, dict):
        yield path, node
        for keyword, part in node.items():
            if keyword in _NAMED_PARTS and isinstance(part, dict):
                for name, named in part.items():
                    yield from _subschemas(named, (*path, keyword, name))
            elif keyword not in _DATA:
                yield from _subschemas(part, (*path, keyword))


def _require_local(part: JsonObject, path: Iterable[str | int]) -> None:
    draft = part.get("$schema", _DRAFT)
    strange = [] if draft in _STANDARD or not isinstance(draft, str) else ["$schema"]
    for keyword in _REFERENCES:
        target = part.get(keyword)
        if isinstance(target, str) and not target.startswith("#") and target not in _STANDARD:
            strange.append(keyword)
    if strange:
        place = _pointer(path)
        raise Refused(
            "schema.remote_reference",
            f"The schema refers to another document, with {strange[0]} at {place or _ROOT}.",
            details={"path": place, "keyword": strange[0]},
            next_step="Use draft 2020-12, and refer only to parts of the same schema: '#/$defs/…'.",
        )


def _names(document: Json) -> Iterator[str]:
    for _, part in _subschemas(document):
        for keyword in ("properties", "required", "dependentRequired", "dependentSchemas"):
            named = part.get(keyword)
            if isinstance(named, dict | list):
                yield from (name for name in named if isinstance(name, str))


def _expected(kind: jsonschema_rs.ValidationErrorKind) -> str:
    template = _EXPECTED.get(kind.name, _ELSE)
    return template.format(_shown(kind.value)) if "{}" in template else template


def _shown(own: object) -> str:
    """A value of the schema as text; a list of names as alternatives."""
    if isinstance(own, list) and all(isinstance(item, str) for item in own):
        text = " or ".join(own)
    else:
        text = own if isinstance(own, str) else msgspec.json.encode(own).decode()
    return text if len(text) <= _EXPECTED_LENGTH else f"{text[:_EXPECTED_LENGTH]}…"


def _pointer(steps: Iterable[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _invalid(details: JsonObject, reason: str) -> Refused:
    return Refused(
        "schema.invalid",
        f"The schema cannot be compiled. {reason}",
        details=details,
        next_step="Mend it; it has to be a JSON Schema of draft 2020-12.",
    )
