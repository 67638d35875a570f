"""The defaults of a declared type, written into an input that leaves them out.

What a type adds to an input decides what is carried out. So it is added before anything is hashed:
approvers see it, and a release with another default does not change what was approved. Only what
the published schema says is added, so nothing is added that would be another value each time, and
nothing that was given is changed. An input that the schema refuses is refused all the same.

Where a value may be one of several records, the one whose constants it has is meant; where that
leaves more than one, nothing is added inside of it.

Deliberately not here: schemas that people write themselves. There a default is a remark.
"""

from typing import Final

from amends.contracts.json_types import Json, JsonObject

_DEFINITIONS: Final = "#/$defs/"
_CHOICES: Final = ("anyOf", "oneOf")


def with_defaults(document: JsonObject, value: Json) -> Json:
    """The value with the defaults of a schema whose references all point into itself."""
    definitions = document.get("$defs")
    return _filled(document, value, definitions if isinstance(definitions, dict) else {})


def has_defaults(schema: Json) -> bool:
    """Whether a schema names any default at all."""
    if isinstance(schema, dict):
        return "default" in schema or any(has_defaults(part) for part in schema.values())
    return isinstance(schema, list) and any(has_defaults(part) for part in schema)


def _filled(schema: Json, value: Json, definitions: JsonObject) -> Json:
    if not isinstance(value, dict | list):
        return value
    meant = _meant(schema, value, definitions)
    if isinstance(value, list):
        items = meant.get("items")
        return [_filled(items, one, definitions) for one in value]
    properties = meant.get("properties")
    if not isinstance(properties, dict):
        others = meant.get("additionalProperties")
        return {name: _filled(others, one, definitions) for name, one in value.items()}
    given = {name: _filled(properties.get(name), one, definitions) for name, one in value.items()}
    return given | {
        name: part["default"]
        for name, part in properties.items()
        if isinstance(part, dict) and "default" in part and name not in given
    }


def _meant(schema: Json, value: JsonObject | list[Json], definitions: JsonObject) -> JsonObject:
    """The one record or list that the value can be, if there is only one."""
    meant = [one for one in _alternatives(schema, definitions) if _may_be(one, value)]
    return meant[0] if len(meant) == 1 else {}


def _alternatives(schema: Json, definitions: JsonObject) -> list[JsonObject]:
    if not isinstance(schema, dict):
        return []
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _alternatives(definitions.get(reference.removeprefix(_DEFINITIONS)), definitions)
    for choice in _CHOICES:
        arms = schema.get(choice)
        if isinstance(arms, list):
            return [one for arm in arms for one in _alternatives(arm, definitions)]
    return [schema]


def _may_be(schema: JsonObject, value: JsonObject | list[Json]) -> bool:
    if isinstance(value, list):
        return schema.get("type") == "array"
    properties = schema.get("properties", {})
    return schema.get("type") == "object" and all(
        value.get(name, part.get("default")) in _constants(part)
        for name, part in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(part, dict) and _constants(part)
    )


def _constants(part: JsonObject) -> list[Json]:
    """The values that a field may have, where they are listed."""
    listed = [part["const"]] if "const" in part else part.get("enum")
    return listed if isinstance(listed, list) else []
