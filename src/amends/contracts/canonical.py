"""Canonical JSON (RFC 8785) and the digests over it.

One value has one canonical form, whoever wrote it and in whatever order: `1`, `1.0` and `1e0` are
`1`, `-0.0` is `0`, keys are sorted by UTF-16 code units, strings stand exactly as given. What is
stored, shown, hashed and sent derives from these bytes, and `parse_json` takes all of them back.

`rfc8785` is the reference. msgspec's sorted output is the same text, some ten times faster, for
values without floats and without characters beyond U+FFFF: only those are two UTF-16 units, which
sort unlike their code point. A property test holds the two together; everything else takes the
reference's road.

Deliberately not here: the worker protocol's own canonical form, which keeps `1` and `1.0` apart.
"""

import hashlib
import re
from typing import Final

import msgspec
import rfc8785

from amends.contracts.admission import (
    DEPTH_CEILING,
    DOCUMENT_LIMITS,
    INPUT_LIMITS,
    MAX_SAFE_INTEGER,
    Fault,
    JsonLimits,
    admit_value,
)
from amends.contracts.errors import Misuse
from amends.contracts.json_types import Json

_SORTED: Final = msgspec.json.Encoder(order="sorted")
_BEYOND_U_FFFF: Final = re.compile(rb"[\xf0-\xff]")
"""The first UTF-8 byte of every character that is two units of UTF-16."""


def canonical_bytes(value: Json) -> bytes:
    """The RFC 8785 form of `value`, in UTF-8.

    Raises `Refused` as `admit_value` does, for a value that only claims to be JSON.
    """
    try:
        encoded = _SORTED.encode(value)
    except (TypeError, ValueError, RecursionError):
        encoded = b""
    if encoded and (encoded.isascii() or _sorts_alike(encoded)) and _is_plain(value):
        return encoded
    return rfc8785.dumps(admit_value(value, limits=DOCUMENT_LIMITS))


def normalise(value: object, *, limits: JsonLimits = INPUT_LIMITS) -> bytes:
    """Admit a value and return the bytes that stand for it from now on (TX-PLAN-3).

    The bytes are at most `limits.max_bytes` long. Raises `Refused` as `admit_value` does.
    """
    canonical = canonical_bytes(admit_value(value, limits=limits))
    if len(canonical) > limits.max_bytes:
        raise Fault("input.too_large", limit=limits.max_bytes).refusal()
    return canonical


def digest(value: Json) -> str:
    """SHA-256 over the canonical form, in lower-case hex. Raises as `canonical_bytes`."""
    return digest_bytes(canonical_bytes(value))


def digest_bytes(data: bytes) -> str:
    """SHA-256 in lower-case hex, for bytes that are canonical already or are no JSON."""
    return hashlib.sha256(data).hexdigest()


def domain_digest(tag: str, value: Json) -> str:
    """SHA-256 over `tag`, a line feed and the canonical form: hashes of two kinds never meet.

    Neither the tag nor canonical JSON contains a line feed, so the parts cannot be cut elsewhere.

    Raises `Misuse` (`misuse.digest_tag`) for a tag that is empty or not printable ASCII.
    """
    if not (tag and tag.isascii() and tag.isprintable()):
        raise Misuse(
            "misuse.digest_tag",
            "A digest tag must be printable ASCII.",
            next_step="Name the kind of thing that is hashed, with a version.",
        )
    return digest_bytes(tag.encode("ascii") + b"\n" + canonical_bytes(value))


def parts_digest(tag: str, *parts: str) -> str:
    """As `domain_digest` of a list of strings, which need no sorting and hold no numbers."""
    try:
        encoded = _SORTED.encode(parts)
    except UnicodeEncodeError:
        return domain_digest(tag, list(parts))
    return digest_bytes(tag.encode("ascii") + b"\n" + encoded)


def record_digest(tag: str, record: msgspec.Struct) -> str:
    """As `domain_digest`, for a record without floats and with integers that a double holds.

    Encoded straight from the record where that gives the canonical bytes, which is several times
    faster than going through plain JSON; the caller vouches for the numbers. Raises `Refused` as
    `admit_value` does.
    """
    try:
        encoded = _SORTED.encode(record)
    except UnicodeEncodeError:
        encoded = b""
    if not encoded or not (encoded.isascii() or _sorts_alike(encoded)):
        return domain_digest(tag, msgspec.to_builtins(record))
    return hashlib.sha256(tag.encode("ascii") + b"\n" + encoded).hexdigest()


def _sorts_alike(encoded: bytes) -> bool:
    return _BEYOND_U_FFFF.search(encoded) is None


def _is_plain(value: object) -> bool:
    """Whether both roads lead to the same text, given that msgspec could encode the value.

    The encoding proves what is not looked at again: the value is finite, its keys are strings and
    no surrogate stands alone. Goes by level, which bounds the depth without counting each node.
    """
    level = [value]
    for _ in range(DEPTH_CEILING + 1):
        below: list[object] = []
        for node in level:
            kind = type(node)
            if kind is str or kind is bool or node is None:
                continue
            if type(node) is int and -MAX_SAFE_INTEGER <= node <= MAX_SAFE_INTEGER:
                continue
            if type(node) is dict:
                below += node.values()
            elif type(node) is list:
                below += node
            else:
                return False
        if not below:
            return True
        level = below
    return False
