"""Strict JSON text: what two readers could understand in two ways is refused, with a code.

The standard scanner does the syntax. Around it stand what it lacks: size, encoding and nesting are
checked before it starts, so that it cannot be made to recurse or to convert thousands of digits;
repeated keys and oversized integers are marked in the tree it builds; and the tree then passes the
same walk as any Python value (`admission`), which refuses what is left and knows where it stands.

A float literal means the double nearest to it. Refusals never carry values; for the same reason the
foreign exceptions, which hold the whole text, are not kept as causes.

Deliberately not here: schemas, and a lenient reading for providers that send large integers.
"""

import json
from collections import Counter
from typing import Final

from amends.contracts.admission import (
    DOCUMENT_LIMITS,
    INPUT_LIMITS,
    MAX_SAFE_INTEGER,
    Fault,
    JsonLimits,
    admit_value,
)
from amends.contracts.json_types import Json

__all__ = ["DOCUMENT_LIMITS", "INPUT_LIMITS", "JsonLimits", "admit_value", "parse_json"]

_LONGEST_INTEGER: Final = len(str(-MAX_SAFE_INTEGER))


def parse_json(data: bytes | str, *, limits: JsonLimits = INPUT_LIMITS) -> Json:
    """Read one JSON text.

    Raises `Refused` with one of: `input.too_large`, `input.not_utf8` (a byte order mark too),
    `input.too_deep`, `input.malformed`, `input.duplicate_key`, `input.not_a_number`,
    `input.integer_too_large`, `input.lone_surrogate`.
    """
    try:
        text = text_within(data, limits.max_bytes)
        require_shallow(text, limits.max_depth)
        tree = _scan(text)
    except Fault as fault:
        raise fault.refusal() from None
    return admit_value(tree, limits=limits)


def text_within(data: bytes | str, max_bytes: int) -> str:
    """The text of bytes that are plain UTF-8 and not too many; raises `Fault`."""
    raw = _utf8_of(data) if isinstance(data, str) else data
    if len(raw) > max_bytes:
        raise Fault("input.too_large", limit=max_bytes)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Fault("input.not_utf8", offset=error.start) from None
    if text.startswith("\ufeff"):
        raise Fault("input.not_utf8", offset=0)
    return text


def _utf8_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Fault("input.lone_surrogate", offset=error.start) from None


def require_shallow(text: str, max_depth: int) -> None:
    """Measure nesting before anything recurses.

    Once the escaped backslashes are taken out, and then the escaped quotes, every quote opens or
    closes a string, so every other piece between quotes is outside of strings. That holds up to
    the first syntax error, and the scanner goes no further than that.
    """
    if text.count("[") + text.count("{") <= max_depth:
        return
    pieces = text.replace("\\\\", "").replace('\\"', "").split('"')
    depth = 0
    for mark in "".join(pieces[::2]):
        if mark in "]}":
            depth -= 1
        elif mark in "[{":
            depth += 1
            if depth > max_depth:
                raise Fault("input.too_deep", limit=max_depth)


def _scan(text: str) -> object:
    try:
        return _SCANNER.decode(text)
    except json.JSONDecodeError as error:
        raise Fault("input.malformed", offset=error.pos) from None


def objects_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object] | Fault:
    """The object of these pairs, or the fault that stands for it in the tree."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
    fault = Fault("input.duplicate_key")
    fault.steps.append(key)
    return fault


def _scanned_integer(literal: str) -> object:
    """Python raises a bare ValueError for thousands of digits, so the length decides first."""
    if len(literal) > _LONGEST_INTEGER:
        return Fault("input.integer_too_large")
    return int(literal)


_SCANNER: Final = json.JSONDecoder(
    object_pairs_hook=objects_without_repeats, parse_int=_scanned_integer
)
