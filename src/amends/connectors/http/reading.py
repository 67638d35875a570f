"""Reading what a provider answers: leniently, and without losing a digit.

A number that a double cannot hold exactly is kept as the text it was sent as: 64-bit ids, and
decimals with more digits than a double has. Everything else is plain JSON. What contradicts itself
(a key twice) or is no JSON is unreadable, which says nothing about the effect.

Deliberately not here: strict reading of what callers send (`contracts.parsing`).
"""

import json
import re
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from amends.contracts.admission import MAX_SAFE_INTEGER
from amends.contracts.json_types import Json

_LONGEST_INTEGER: Final = len(str(-MAX_SAFE_INTEGER))
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


class Unreadable(Exception):
    """An answer that cannot be read; `flaw` is one word that says why."""

    def __init__(self, flaw: str) -> None:
        super().__init__(flaw)
        self.flaw = flaw


class UnreadableAnswer(msgspec.Struct, frozen=True):
    """Stands for the output of an effect whose answer could not be read.

    It is no JSON on purpose: the effect is there, but its output cannot be stored (TX-SETTLE-5).
    """

    status: int
    flaw: str
    size: int


def read_json(body: bytes) -> Json | UnsetType:
    """The value of a body, or UNSET where there is none. Raises `Unreadable`."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    if not body.strip():
        return UNSET
    try:
        value: Json = _READER.decode(body.decode())
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise Unreadable("not_json") from None
    except RecursionError:
        raise Unreadable("too_deep") from None
    return value


def _object(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("duplicate_key")
    return found


def _integer(literal: str) -> Json:
    if len(literal) > _LONGEST_INTEGER:
        return literal
    number = int(literal)
    return number if abs(number) <= MAX_SAFE_INTEGER else literal


def _decimal(literal: str) -> Json:
    number = float(literal)
    if not isfinite(number) or abs(number) > MAX_SAFE_INTEGER:
        return literal
    try:
        return number if Decimal(repr(number)) == Decimal(literal) else literal
    except InvalidOperation:  # an exponent that no number has
        return literal


_READER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_decimal, parse_constant=str
)


def pointer_fault(pointer: str) -> str | None:
    """What is wrong with a JSON pointer (RFC 6901), if anything."""
    return None if _POINTER.fullmatch(pointer) else "must be a JSON pointer such as /data/id"


def at(value: Json | UnsetType, pointer: str) -> Json | UnsetType:
    """What stands at a JSON pointer, or UNSET where nothing does."""
    for token in pointer.split("/")[1:]:
        value = step(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def step(value: Json | UnsetType, token: str) -> Json | UnsetType:
    """One step into an object by its key, or into an array by its index."""
    if isinstance(value, dict):
        return value.get(token, UNSET)
    if isinstance(value, list) and _INDEX.fullmatch(token):
        index = int(token)
        return value[index] if index < len(value) else UNSET
    return UNSET


def as_id(value: Json | UnsetType) -> str | None:
    """An id in its exact spelling, where the value is one: text, or a whole number."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def same(expected: Json, found: Json | UnsetType) -> bool:
    """Whether two values say the same; a whole number may be spelt as text."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, str) or isinstance(found, str):
        own, theirs = as_id(expected), as_id(found)
        return own is not None and own == theirs
    return expected == found
