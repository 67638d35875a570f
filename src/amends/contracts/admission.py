"""What counts as JSON: one walk that checks a value, copies it, and names what it refuses.

Text (`parsing`) and Python values that strangers hand over end in this walk, so a fact refused in
one form is refused in the other. What comes out is exactly JSON, shares nothing mutable with the
caller, lies within the limits, and its canonical form can be read back.

Refusals name keys and types, never values.

Decisions about Python values; only exact JSON types pass, since a subclass may lie about its
content:

| value | decision |
|---|---|
| `None`, `bool`, `str`, `list`, `dict` with `str` keys | taken; `True` is never `1` |
| `int` | taken within ±(2^53 - 1); beyond that a string must carry it |
| `float` | taken when finite, but see below |
| `tuple` | taken as an array, the only wire form it has |
| `IntEnum`, `StrEnum`, named tuples, other subclasses | refused |
| `Decimal`, numpy scalars, `bytes`, `set`, `datetime`, dataclasses | refused: no one wire form |
| `dict` with a key that is no `str` | refused, so `{1: a}` cannot meet `{"1": b}` |

A float from 2^53 on is a whole number, and below 1e21 its canonical form is plain digits: an
integer that would be refused when read back. So it is refused here, under the same code.

Strings pass as they are: composed and decomposed spellings of one visible text stay different.

Deliberately not here: text, schemas, the canonical form, the rules for identifiers.
"""

import re
from collections.abc import Iterable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

import msgspec

from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer, in either sign, that a double holds beyond doubt (RFC 7493)."""

DEPTH_CEILING: Final = 128
"""No limits may allow more: walk and scanner recurse, and must stay far from the stack's end."""

_EXPONENT_FROM: Final = 1e21
_POINTER_LENGTH: Final = 256
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_REASONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "input.too_large": ("The JSON is larger than allowed", "Send less."),
        "input.not_utf8": ("The text is not plain UTF-8", "Encode it so, without a mark in front."),
        "input.malformed": ("The text is not JSON", "Mend the syntax at the offset."),
        "input.too_deep": ("The JSON nests deeper than allowed", "Send a flatter value."),
        "input.duplicate_key": ("A key appears twice in one object", "Send each key once."),
        "input.not_a_number": (
            "A number is NaN, infinite or beyond a double",
            "Send a finite number, or a string.",
        ),
        "input.integer_too_large": (
            "An integer is beyond 2^53 - 1",
            "Send its digits as a string.",
        ),
        "input.integer_beyond_64_bits": (
            "An integer lies outside of -2^63 to 2^64 - 1",
            "Send its digits as a string.",
        ),
        "input.not_a_container": ("The JSON is no object and no array", "Wrap it in one."),
        "input.lone_surrogate": (
            "A string holds half of a surrogate pair",
            "Send whole characters only.",
        ),
        "input.unsupported_type": (
            "A Python value has no exact JSON type",
            "Convert it to None, bool, int, float, str, list or a dict with str keys.",
        ),
    }
)


class JsonLimits(msgspec.Struct, frozen=True):
    """How much JSON an edge takes.

    `max_bytes` counts UTF-8. `max_depth` counts containers: a scalar has depth 0, `[]` depth 1.
    Raises `Misuse` (`misuse.json_limits`) when built with a depth beyond `DEPTH_CEILING`.
    """

    max_bytes: int = 1_048_576
    max_depth: int = 64

    def __post_init__(self) -> None:
        if self.max_depth > DEPTH_CEILING:
            raise Misuse(
                "misuse.json_limits",
                "JSON cannot be allowed to nest that deep.",
                details={"max_depth": self.max_depth, "ceiling": DEPTH_CEILING},
                next_step=f"Give a max_depth of {DEPTH_CEILING} or less.",
            )


INPUT_LIMITS: Final = JsonLimits()
"""For what strangers send; leaves room for the documents that wrap it."""

DOCUMENT_LIMITS: Final = JsonLimits(max_bytes=67_108_864, max_depth=DEPTH_CEILING)
"""For what Amends wrote itself."""


def admit_value(value: object, *, limits: JsonLimits = INPUT_LIMITS) -> Json:
    """Take a deep snapshot of a Python value; later changes to `value` do not reach it.

    The size is counted in characters and elements, which is never more than the text would have:
    enough to stop a value that unfolds without end. The exact size is known when the canonical
    form is. A value that contains itself is too deep.

    Raises `Refused` with one of: `input.unsupported_type`, `input.not_a_number`,
    `input.integer_too_large`, `input.lone_surrogate`, `input.too_deep`, `input.too_large`.
    """
    try:
        return _Walk(limits.max_bytes).copy(value, limits.max_depth)
    except Fault as fault:
        raise fault.refusal() from None


class Fault(Exception):
    """A reason to refuse, on its way out of the walk; each container it leaves adds its step.

    A scanner that knows no paths puts the fault *into the tree*, where the value would stand, and
    the walk raises it on arrival. It never leaves this room: callers see its `refusal`.
    """

    def __init__(self, code: str, **details: Json) -> None:
        super().__init__(code)
        self.code = code
        self.details = details
        self.steps: list[str | int] = []

    def refusal(self) -> Refused:
        """What the caller sees: the reason, and the JSON pointer of the place if there is one."""
        message, next_step = _REASONS[self.code]
        details = dict(self.details)
        if self.steps:
            path = _pointer(reversed(self.steps))
            details["path"] = path
            message = f"{message}, at {path}"
        return Refused(self.code, f"{message}.", details=details, next_step=next_step)


def _pointer(steps: Iterable[str | int]) -> str:
    """RFC 6901, made safe to print: unprintable characters escaped, long pointers cut."""
    pointer = "".join(f"/{_token(step)}" for step in steps)
    return pointer if len(pointer) <= _POINTER_LENGTH else f"{pointer[:_POINTER_LENGTH]}…"


def _token(step: str | int) -> str:
    token = str(step)[:_POINTER_LENGTH].replace("~", "~0").replace("/", "~1")
    return token if token.isprintable() else token.encode("unicode_escape").decode("ascii")


class _Walk:
    """One walk over one value; keeps count of what the value costs.

    A container is copied in one step and its parts are then replaced in the copy, so a caller's
    other thread cannot change it under the walk.
    """

    __slots__ = ("_limit", "_room")

    def __init__(self, max_bytes: int) -> None:
        self._limit = self._room = max_bytes

    def copy(self, node: object, depth_left: int) -> Json:
        if type(node) is str:
            return self._text(node)
        if node is None or type(node) is bool:
            return node
        if type(node) is int:
            return _safe_integer(node)
        if type(node) is dict:
            return self._object(node, depth_left)
        if type(node) is list or type(node) is tuple:
            return self._array(node, depth_left)
        if type(node) is float:
            return _safe_float(node)
        if type(node) is Fault:
            raise node
        raise Fault("input.unsupported_type", type=type(node).__qualname__)

    def _object(self, node: dict[Any, Any], depth_left: int) -> Json:
        self._enter(len(node), depth_left)
        taken = node.copy()
        self._check_keys(taken)
        key = ""
        try:
            for key, item in taken.items():
                if type(item) is str:
                    self._text(item)
                else:
                    taken[key] = self.copy(item, depth_left - 1)
        except Fault as fault:
            fault.steps.append(key)
            raise
        return taken

    def _check_keys(self, taken: dict[Any, Any]) -> None:
        for key in taken:
            if type(key) is not str:
                raise Fault("input.unsupported_type", key_type=type(key).__qualname__)
        self._text("".join(taken))

    def _array(self, node: list[Any] | tuple[Any, ...], depth_left: int) -> Json:
        self._enter(len(node), depth_left)
        taken = list(node)
        index = 0
        try:
            for index, item in enumerate(taken):
                taken[index] = self.copy(item, depth_left - 1)
        except Fault as fault:
            fault.steps.append(index)
            raise
        return taken

    def _text(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            raise self._too_large()
        if not text.isascii() and _SURROGATE.search(text):
            raise Fault("input.lone_surrogate")
        return text

    def _enter(self, length: int, depth_left: int) -> None:
        if depth_left <= 0:
            raise Fault("input.too_deep")
        self._room -= length
        if self._room < 0:
            raise self._too_large()

    def _too_large(self) -> Fault:
        return Fault("input.too_large", limit=self._limit)


def _safe_integer(number: int) -> int:
    if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
        return number
    raise Fault("input.integer_too_large")


def _safe_float(number: float) -> float:
    if not isfinite(number):
        raise Fault("input.not_a_number")
    if MAX_SAFE_INTEGER < abs(number) < _EXPONENT_FROM:
        raise Fault("input.integer_too_large")
    return number
