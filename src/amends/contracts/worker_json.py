"""The worker protocol's own canonical JSON, and the strict reading of what a peer sends.

It differs from RFC 8785 (`canonical.py`) in three ways: `1` and `1.0` stay two values, keys are
sorted by code point, and integers reach from -2^63 to 2^64 - 1. Strings escape the quote, the
backslash and control characters only. Floats are the shortest text that reads back as the same
double: fixed from 0.00001 up to below 1e16, with an exponent elsewhere (`1e+16`, `1e-7`).

Reading and writing refuse the same things, each with a code, before anything recurses (GR-ID-1): a
key twice, NaN, infinity, half a surrogate pair, integers beyond 64 bits, nesting, size. A reader
that turns a large integer into a float would sign another number than it was shown, so we refuse
what the original protocol rounds.

Depth counts scalars here: `[]` has depth 1, and so has `0`.
"""

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from math import isfinite
from typing import Final, NoReturn

from amends.contracts.admission import Fault
from amends.contracts.json_types import Json
from amends.contracts.parsing import objects_without_repeats, require_shallow, text_within

MAX_DEPTH: Final = 32
MAX_BYTES: Final = 256 * 1024
"""The longest canonical body of one payload."""

_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_LONGEST_INTEGER: Final = len(str(_LEAST))
_LAST_FIXED_EXPONENT: Final = "-05"
"""Python changes to exponents one power of ten earlier than the protocol does."""

_quoted: Final[Callable[[str], str]] = encode_basestring


def read_json(data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Read one JSON text. `max_depth` bounds containers; `write_json` then counts scalars too.

    Raises `Refused` with one of: `input.too_large`, `input.not_utf8`, `input.too_deep`,
    `input.malformed`, `input.duplicate_key`, `input.not_a_number`, `input.integer_beyond_64_bits`,
    `input.lone_surrogate`.
    """
    try:
        text = text_within(data, max_bytes)
        require_shallow(text, max_depth)
        return _read(text)
    except Fault as fault:
        raise fault.refusal() from None


def write_json(value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> bytes:
    """The canonical text of an object or array.

    Raises `Refused` with one of: `input.unsupported_type`, `input.not_a_number`,
    `input.integer_beyond_64_bits`, `input.lone_surrogate`, `input.too_deep`, `input.too_large`.
    """
    try:
        if type(value) is not dict and type(value) is not list:
            raise Fault("input.not_a_container")
        writer = _Writer(max_bytes)
        writer.write(value, max_depth)
        return writer.result()
    except Fault as fault:
        raise fault.refusal() from None


def float_text(number: float) -> str:
    """The shortest text that reads back as this double, in the protocol's notation."""
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    if exponent == _LAST_FIXED_EXPONENT:
        sign = "-" if mantissa.startswith("-") else ""
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
    return f"{mantissa}e{int(exponent):+d}"


def _read(text: str) -> Json:
    try:
        value: Json = _SCANNER.decode(text)
    except json.JSONDecodeError as error:
        raise Fault("input.malformed", offset=error.pos) from None
    if "\\u" in text:
        _require_whole_characters(value)
    return value


def _require_whole_characters(value: Json) -> None:
    """Only an escape can bring in half of a surrogate pair, since the text itself is UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Fault("input.lone_surrogate") from None


def _scanned_object(pairs: list[tuple[str, object]]) -> object:
    found = objects_without_repeats(pairs)
    if isinstance(found, Fault):
        raise found
    return found


def _scanned_integer(literal: str) -> float:
    if literal == "-0":
        return -0.0
    if len(literal) > _LONGEST_INTEGER:
        raise Fault("input.integer_beyond_64_bits")
    return _integer(int(literal))


def _integer(number: int) -> int:
    if _LEAST <= number <= _MOST:
        return number
    raise Fault("input.integer_beyond_64_bits")


def _scanned_float(literal: str) -> float:
    return _float(float(literal))


def _float(number: float) -> float:
    if isfinite(number):
        return number
    raise Fault("input.not_a_number")


def _scanned_constant(_: str) -> NoReturn:
    raise Fault("input.not_a_number")


_SCANNER: Final = json.JSONDecoder(
    object_pairs_hook=_scanned_object,
    parse_int=_scanned_integer,
    parse_float=_scanned_float,
    parse_constant=_scanned_constant,
)


class _Writer:
    """One walk over one value. Only exact JSON types pass, since a subclass may lie."""

    __slots__ = ("_limit", "_pieces", "_room")

    def __init__(self, max_bytes: int) -> None:
        self._limit = self._room = max_bytes
        self._pieces: list[str] = []

    def write(self, node: object, depth_left: int) -> None:
        if depth_left <= 0:
            raise Fault("input.too_deep")
        if type(node) is dict:
            self._object(node, depth_left - 1)
        elif type(node) is list:
            self._array(node, depth_left - 1)
        else:
            self._put(_scalar(node))

    def _object(self, node: dict[object, object], depth_left: int) -> None:
        separator = "{"
        for key in self._keys(node):
            self._put(f"{separator}{_quoted(key)}:")
            self.write(node[key], depth_left)
            separator = ","
        self._put("}" if node else "{}")

    def _keys(self, node: dict[object, object]) -> list[str]:
        keys = [key for key in node if type(key) is str]
        if len(keys) != len(node):
            raise Fault("input.unsupported_type")
        return sorted(keys)

    def _array(self, node: list[object], depth_left: int) -> None:
        separator = "["
        for item in node:
            self._put(separator)
            self.write(item, depth_left)
            separator = ","
        self._put("]" if node else "[]")

    def _put(self, piece: str) -> None:
        self._room -= len(piece)
        if self._room < 0:
            raise Fault("input.too_large", limit=self._limit)
        self._pieces.append(piece)

    def result(self) -> bytes:
        try:
            encoded = "".join(self._pieces).encode()
        except UnicodeEncodeError:
            raise Fault("input.lone_surrogate") from None
        if len(encoded) > self._limit:
            raise Fault("input.too_large", limit=self._limit)
        return encoded


def _scalar(node: object) -> str:
    if type(node) is str:
        return _quoted(node)
    if node is None:
        return "null"
    if type(node) is bool:
        return "true" if node else "false"
    if type(node) is int:
        return str(_integer(node))
    if type(node) is float:
        return float_text(_float(node))
    raise Fault("input.unsupported_type", type=type(node).__qualname__)
