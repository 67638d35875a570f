"""Texts with references into what an attempt is told, and how each place of a request takes them.

`{input.customer}` stands for the input's field, `{input.lines.0.sku}` reaches into lists, `{{` and
`}}` are braces. A reference that ends in `?` may be missing: what it stands in is then left out.

| place | takes |
|---|---|
| path | text or a whole number, as one encoded segment; not empty, and no part of it dots alone |
| query, form | text, numbers, true and false |
| header | the same, if it is printable ASCII |
| body | a text that is one reference alone: the value with its type; else as in a query |

Invariants: a value cannot leave its place, whatever it holds, and a refusal names the reference
and never the value.

Deliberately not here: which references a place may have (`forms`), and credentials, which are not
among the facts.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, UnsetType

from amends.connectors.http.codes import REFERENCE_MISSING, VALUE_UNFIT
from amends.connectors.http.reading import step
from amends.contracts.canonical import canonical_bytes
from amends.contracts.json_types import Json, JsonObject

Facts: TypeAlias = Mapping[str, Json]
"""What references look into, by their first word."""

SEGMENT_LENGTH: Final = 512

_BRACES: Final = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")
_REFERENCE: Final = re.compile(r"\{([a-z]+)((?:\.[A-Za-z0-9_-]+)*)(\??)\}", re.ASCII)
_SLASHES: Final = re.compile(r"[/\\]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HEADER: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)


class TemplateFault(Exception):
    """A text that is no template; its message speaks of the declaration only."""


class Unfit(Exception):
    """A request that cannot be made of these facts: a reference leads nowhere, or does not fit."""

    def __init__(self, code: str, reference: str) -> None:
        super().__init__(code, reference)
        self.code = code
        self.reference = reference


class Reference(msgspec.Struct, frozen=True):
    """One `{…}` of a template."""

    root: str
    path: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        return ".".join((self.root, *self.path))


class Template(msgspec.Struct, frozen=True):
    """A text in its parts, in order."""

    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> Iterator[Reference]:
        """The references of the text, in order."""
        return (part for part in self.parts if isinstance(part, Reference))


Node: TypeAlias = "Template | bool | int | float | list[Node] | dict[str, Node] | None"


def parse(text: str) -> Template:
    """Read a template. Raises `TemplateFault`."""
    parts: list[str | Reference] = []
    literal = ""
    for piece in _BRACES.split(text):
        if not piece.startswith(("{", "}")):
            literal += piece
        elif piece in ("{{", "}}"):
            literal += piece[0]
        else:
            parts += [literal, _reference(piece)] if literal else [_reference(piece)]
            literal = ""
    return Template((*parts, literal) if literal else tuple(parts))


def _reference(piece: str) -> Reference:
    match = _REFERENCE.fullmatch(piece)
    if match is None:
        raise TemplateFault("has a brace that is no reference such as {input.customer}")
    root, path, optional = match.groups()
    return Reference(root, tuple(path.split(".")[1:]), optional=bool(optional))


def parse_node(value: Json) -> Node:
    """Read a body in which every text is a template. Raises `TemplateFault`."""
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, dict):
        return {key: parse_node(item) for key, item in value.items()}
    if isinstance(value, list):
        return [parse_node(item) for item in value]
    return value


def references(node: Node) -> Iterator[Reference]:
    """Every reference in a body."""
    if isinstance(node, Template):
        yield from node.references
    elif isinstance(node, dict | list):
        for item in node.values() if isinstance(node, dict) else node:
            yield from references(item)


def look_up(reference: Reference, facts: Facts) -> Json | UnsetType:
    """What a reference stands for, or UNSET if it is optional and missing. Raises `Unfit`."""
    value: Json | UnsetType = facts.get(reference.root, UNSET)
    for token in reference.path:
        value = step(value, token)
    if value is UNSET and not reference.optional:
        raise Unfit(REFERENCE_MISSING, str(reference))
    return value


def fill(node: Node, facts: Facts) -> Json | UnsetType:
    """A body with its values, or UNSET if all of it was one optional reference. Raises `Unfit`."""
    if isinstance(node, Template):
        if len(node.parts) == 1 and isinstance(node.parts[0], Reference):
            return look_up(node.parts[0], facts)
        return text(node, facts)
    if isinstance(node, dict):
        filled = {key: fill(item, facts) for key, item in node.items()}
        return {key: item for key, item in filled.items() if item is not UNSET}
    if isinstance(node, list):
        items = [fill(item, facts) for item in node]
        return [item for item in items if item is not UNSET]
    return node


def text(template: Template, facts: Facts) -> str | UnsetType:
    """The text with its values, or UNSET if an optional one is missing. Raises `Unfit`."""
    words: list[str] = []
    for part in template.parts:
        if isinstance(part, str):
            words.append(part)
            continue
        value = look_up(part, facts)
        if value is UNSET:
            return UNSET
        words.append(_word(value, str(part)))
    return "".join(words)


def _word(value: Json | UnsetType, reference: str) -> str:
    """A scalar as text; numbers are spelt as they were approved (RFC 8785)."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return canonical_bytes(value).decode()
    raise Unfit(VALUE_UNFIT, reference)


def segment(template: Template, facts: Facts) -> str:
    """One segment of a path, encoded. Raises `Unfit`."""
    words = [
        part if isinstance(part, str) else quote(_segment_word(part, facts), safe="")
        for part in template.parts
    ]
    filled = "".join(words)
    if template.parts and _climbs(filled):
        raise Unfit(VALUE_UNFIT, ", ".join(map(str, template.references)))
    return filled


def _segment_word(reference: Reference, facts: Facts) -> str:
    value = look_up(reference, facts)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Unfit(VALUE_UNFIT, str(reference))
    word = _word(value, str(reference))
    if _climbs(word) or len(word) > SEGMENT_LENGTH or _CONTROL.search(word):
        raise Unfit(VALUE_UNFIT, str(reference))
    return word


def _climbs(word: str) -> bool:
    """Whether a server that decodes before it splits would leave the place where the word stands.

    Decoded twice, since a careless server does so too, and split as on any system.
    """
    decoded = unquote(unquote(word))
    return any(not part.strip(".") for part in _SLASHES.split(decoded) if part or not decoded)


def header(template: Template, name: str, facts: Facts) -> str | UnsetType:
    """The value of a header. Raises `Unfit`."""
    value = text(template, facts)
    if isinstance(value, str) and not fits_header(value):
        raise Unfit(VALUE_UNFIT, f"header {name}")
    return value


def fits_header(value: str) -> bool:
    """Whether a text can be sent in a header without anybody reading it differently."""
    return _HEADER.fullmatch(value) is not None


def query(pairs: Mapping[str, Template], facts: Facts) -> str:
    """An encoded query string, without its question mark. Raises `Unfit`."""
    filled = ((name, text(template, facts)) for name, template in pairs.items())
    return "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, value in filled
        if isinstance(value, str)
    )


def form(body: JsonObject) -> str:
    """A body as a form: `a[b]=…` for objects and `a[0]=…` for arrays. Raises `Unfit`."""
    return "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in _flat(body)
    )


def _flat(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _flat(item, f"{name}[{key}]" if name else str(key))
    else:
        yield name, _word(value, f"body {name}")
