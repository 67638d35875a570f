"""The one redactor that everything passes which is rendered, logged or exported (RD-2).

It hides three kinds of things: what stands under a sensitive name, what a capability declared by
JSON pointer, and what looks like a secret. Everything else of admitted JSON comes back exactly as
it was, so that an approver sees what will run and an export still meets its hash.

It is total: whatever it is given, it returns JSON that can be stored and never raises, since it
also serves the moment after an effect, when there is no way back.

With `redaction_required` nothing of a value may remain but its shape (RD-1): `redacted_form` and
`redacted_error`; and nothing of what people write beside it but its hash: `hidden_text`. Outputs
that are kept whole lose the credential of their attempt, and only that: `without_secret`.
Deliberately not here: the tables of names and looks (`sensitive`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from amends.contracts.admission import DEPTH_CEILING, DOCUMENT_LIMITS, admit_value
from amends.contracts.canonical import domain_digest
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.secrets import Secret
from amends.contracts.sensitive import REDACTED, is_sensitive_name, scrub

__all__ = [
    "CUT",
    "REDACTED",
    "Redactor",
    "hidden_text",
    "kept_text",
    "redacted_error",
    "redacted_form",
    "without_secret",
]

CUT: Final = "[too large]"
"""Stands for what was left out because of its size or depth."""

MESSAGE_LENGTH: Final = 500
CODE_LENGTH: Final = 128
DETAIL_ENTRIES: Final = 64
DETAIL_LENGTH: Final = 1024
"""How many characters and elements one entry of an error's details may have."""

_SCANNED_LENGTH: Final = 8192
_DETAIL_DEPTH: Final = 16
_SECRET_LENGTH: Final = 4
"""Shorter literals are not looked for: they would be found in innocent words."""

_ECHO_LENGTH: Final = 8
"""Shorter credentials are left in outputs, where they would be innocent words. None is so short."""

_SETTLING_DETAILS: Final = frozenset(
    {"uncertain_outcome", "side_effects_committed", "compensation_required", "retry_after_ms"}
)
"""What the rules read in an error; switches and a time, never values of the input."""

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIDDEN: Final = re.compile(re.escape(REDACTED) + r" sha256:[0-9a-f]{64}")
_MASKED_KEY: Final = re.compile(r"\[key \d+\]")
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_MARKERS: Final[Mapping[type, str]] = MappingProxyType(
    {type(None): "[null]", bool: "[boolean]", int: "[number]", float: "[number]", str: "[string]"}
)

_Paths = tuple[tuple[str, ...], ...]
"""What is left of the declared pointers on the way down; an empty one has arrived."""


class Redactor:
    """Hides secrets for one capability, or for none in particular.

    `pointers` are RFC 6901 with one addition: the token `*` means any key and any item. `secrets`
    are values in use, such as the credential of an attempt, found wherever they are echoed.

    Raises `Refused` (`redaction.pointer_invalid`) for a pointer that is none.
    """

    __slots__ = ("_paths", "_secrets")

    def __init__(self, pointers: Iterable[str] = (), *, secrets: Iterable[Secret] = ()) -> None:
        self._paths: _Paths = tuple(_parse_pointer(pointer) for pointer in pointers)
        self._secrets = tuple(secrets)

    def json(self, value: Json) -> Json:
        """The value with its secrets hidden; admitted JSON without any is returned equal."""
        room = DOCUMENT_LIMITS.max_bytes
        return _Walk(self._storable, room, DEPTH_CEILING).show(value, self._paths, 0)

    def text(self, text: str) -> str:
        """One line without secrets, whose control characters and lone surrogates are escaped."""
        return _UNPRINTABLE.sub(_escaped, self._scrubbed(text))

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """The error as it may be stored and shown: scrubbed, escaped and bounded."""
        return msgspec.structs.replace(
            error,
            code=self._line(error.code, CODE_LENGTH),
            message=self._line(error.message, MESSAGE_LENGTH),
            details=self._details(error.details),
        )

    def _details(self, details: Mapping[str, Json]) -> dict[str, Json]:
        """Each entry has room of its own, so that a long one cannot push out a telling one."""
        shown: dict[str, Json] = {}
        for place, (key, item) in enumerate(details.items()):
            if place == DETAIL_ENTRIES:
                shown[f"[key {place}]"] = CUT
                break
            walk = _Walk(self._bounded, DETAIL_LENGTH, _DETAIL_DEPTH)
            shown |= walk.members({key: item}, self._paths, 0, place)
        return shown

    def _bounded(self, text: str) -> str:
        return self._line(text, MESSAGE_LENGTH)

    def _line(self, text: str, length: int) -> str:
        """Scrubbed before it is cut, since half a secret no longer looks like one."""
        if len(text) > _SCANNED_LENGTH:
            head = text[:_SCANNED_LENGTH]
            text = head[: max(head.rfind(" "), head.rfind("\n")) + 1] + CUT
        line = self.text(text)
        return line if len(line) <= length else f"{line[: length - 1]}…"

    def _storable(self, text: str) -> str:
        return _SURROGATE.sub(_escaped, self._scrubbed(text))

    def _scrubbed(self, text: str) -> str:
        for secret in self._secrets:
            for spelling in _spellings(secret.reveal()):
                text = text.replace(spelling, REDACTED)
        return scrub(text)


def redacted_form(value: Json, known_keys: frozenset[str]) -> Json:
    """The shape of a value: markers for scalars, and no key that its schema does not name.

    Two values of one shape have one form: nothing of the content is left.
    """
    return _form(value, known_keys, 0)


def redacted_error(error: ErrorInfo) -> ErrorInfo:
    """The error of a capability that requires redaction: code, category, and what rules need."""
    kept = {
        key: item
        for key, item in error.details.items()
        if key in _SETTLING_DETAILS and type(item) in {bool, int}
    }
    plain = Redactor().error(msgspec.structs.replace(error, message="", details=kept))
    return msgspec.structs.replace(plain, message=REDACTED)


def hidden_text(text: str) -> str:
    """What people wrote, as its hash: it says nothing, and proves a copy kept elsewhere.

    What is empty or hidden already stays as it is.
    """
    if not text or _HIDDEN.fullmatch(text):
        return text
    return f"{REDACTED} sha256:{domain_digest('amends-text-v1', text)}"


def kept_text(text: str, *, hidden: bool) -> str:
    """A reason or a note as it is stored: scrubbed, and only its hash beside redacted values."""
    if hidden:
        return hidden_text(text)
    shown = Redactor().json(text)
    assert isinstance(shown, str)
    return shown


def without_secret(value: Json, secret: Secret) -> Json:
    """Admitted JSON with a credential taken out that the provider echoed; else an equal value."""
    spellings = [one for one in _spellings(secret.reveal()) if len(one) >= _ECHO_LENGTH]

    def without(node: Json) -> Json:
        if isinstance(node, str):
            for spelling in spellings:
                node = node.replace(spelling, REDACTED)
            return node
        if isinstance(node, dict):
            return {str(without(key)): without(item) for key, item in node.items()}
        return [without(item) for item in node] if isinstance(node, list) else node

    return without(value)


class _Walk:
    """One walk over one value; total, and bounded in depth and in size."""

    __slots__ = ("_depth", "_room", "_say")

    def __init__(self, say: Callable[[str], str], room: int, depth: int) -> None:
        self._say = say
        self._room = room
        self._depth = depth

    def show(self, node: object, paths: _Paths, depth: int) -> Json:
        if () in paths:
            return REDACTED
        if isinstance(node, str):
            return self._text(node)
        if not isinstance(node, dict | list | tuple):
            return self._scalar(node)
        if depth >= self._depth or self._room <= 0:
            return CUT
        if isinstance(node, dict):
            return self.members(node, paths, depth)
        return self._items(node, paths, depth)

    def members(
        self, node: Mapping[object, object], paths: _Paths, depth: int, first_place: int = 0
    ) -> dict[str, Json]:
        shown: dict[str, Json] = {}
        for place, (key, item) in enumerate(tuple(node.items()), start=first_place):
            name = self._key(key, place)
            if self._room <= 0:
                shown[f"[key {place}]"] = CUT
                break
            self._room -= 1 + len(name)
            step = key if isinstance(key, str) else ""
            hidden = is_sensitive_name(step)
            shown[name] = REDACTED if hidden else self.show(item, _beneath(paths, step), depth + 1)
        return shown

    def _items(self, node: Iterable[object], paths: _Paths, depth: int) -> Json:
        shown: list[Json] = []
        for place, item in enumerate(node):
            if self._room <= 0:
                shown.append(CUT)
                break
            self._room -= 1
            shown.append(self.show(item, _beneath(paths, str(place)), depth + 1))
        return shown

    def _key(self, key: object, place: int) -> str:
        """The key if it is harmless as it stands; else a name of its own that no key can take."""
        harmless = type(key) is str and self._say(key) == key and not _MASKED_KEY.fullmatch(key)
        return str(key) if harmless else f"[key {place}]"

    def _text(self, text: str) -> str:
        said = self._say(str.__str__(text))
        self._room -= len(said)
        return said if self._room >= 0 else CUT

    def _scalar(self, node: object) -> Json:
        try:
            return admit_value(node)
        except Refused:
            return f"[{type(node).__name__}]"


def _form(node: object, known_keys: frozenset[str], depth: int) -> Json:
    if depth > DEPTH_CEILING:
        return CUT
    if isinstance(node, dict):
        return {
            _known(key, known_keys, place): _form(item, known_keys, depth + 1)
            for place, (key, item) in enumerate(node.items())
        }
    if isinstance(node, list | tuple):
        return [_form(item, known_keys, depth + 1) for item in node]
    return _MARKERS.get(type(node), "[unknown]")


def _known(key: str, known_keys: frozenset[str], place: int) -> str:
    return key if key in known_keys and not _MASKED_KEY.fullmatch(key) else f"[key {place}]"


def _parse_pointer(pointer: str) -> tuple[str, ...]:
    if not _POINTER.fullmatch(pointer):
        raise Refused(
            "redaction.pointer_invalid",
            "A declared pointer is no JSON pointer.",
            next_step="Write '/customer/tax_id' or '/items/*/note'; '~' is '~0' and '/' is '~1'.",
        )
    tokens = pointer.split("/")[1:]
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def _beneath(paths: _Paths, step: str) -> _Paths:
    return tuple(path[1:] for path in paths if path and path[0] in {step, "*"})


def _spellings(literal: str) -> Iterable[str]:
    """How a value reads when a message quotes it, the longest first; all of it, or none."""
    bare = literal.strip()
    quoted = bare.encode("unicode_escape").decode("ascii")
    as_bytes = repr(bare.encode("utf-8", "surrogatepass"))[2:-1]
    found = {literal, bare, quoted, as_bytes}
    return sorted((one for one in found if len(one) >= _SECRET_LENGTH), key=len, reverse=True)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
