"""Sealed records: authenticated, bound to a place, chained, encrypted if asked (ST-1, ST-5).

Format 2 is ours. Its tag covers every member; `previous` is the commitment to the record before, so
that a copy cannot be put behind another one. Its keys are derived, so no key serves two purposes.
With encryption the payload is sealed by ChaCha20-Poly1305 under a key of its own place.

Format 1 is that of protocol version 5: no chain, no fence, no encryption, and the place stands in
the tag only, so a transplanted record cannot be told from a tampered one.

Pure: a nonce is handed in. Deliberately not here: files, and which revision is the right one.
"""

import hmac
from typing import Final, NamedTuple, TypeVar

import msgspec
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from amends.contracts.codes import coded
from amends.contracts.persistence import content_digest
from amends.contracts.worker_identity import Fingerprint, framed
from amends.sealed.keys import KeyRing

FORMAT_5: Final = 1
FORMAT_6: Final = 2
NONCE_BYTES: Final = 12
MAX_COUNTER: Final = 2**63 - 1

_TAG_5: Final = b"octoscript-storage-record-v1"
_TAG_6: Final = b"amends-sealed-record-v2"
_MAC_CONTEXT: Final = "amends 2025 sealed records, authentication, format 2"
_AEAD_CONTEXT: Final = "amends 2025 sealed records, encryption, format 2"

NOTHING: Final = Fingerprint("0" * 64)
"""What the first record is chained to."""


class Place(NamedTuple):
    """Where a record belongs: a kind of record, and which one. Both are tokens."""

    namespace: str
    name: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One record, opened. `commitment` is the hash of exactly these sealed bytes."""

    revision: int
    previous: Fingerprint
    fence: int
    payload: bytes
    commitment: Fingerprint

    def __repr__(self) -> str:
        return f"Snapshot(revision={self.revision}, fence={self.fence})"


class _Format(msgspec.Struct, frozen=True):
    format_version: int


class _Envelope5(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    key_id: str
    revision: int
    payload: bytes
    auth_tag: str


class _Envelope6(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    namespace: str
    name: str
    key_id: str
    revision: int
    previous: str
    fence: int
    nonce: str
    payload: bytes
    auth_tag: str


_Kind = TypeVar("_Kind", _Envelope5, _Envelope6)


def seal(
    place: Place,
    keys: KeyRing,
    payload: bytes,
    *,
    revision: int,
    previous: Fingerprint,
    fence: int,
    nonce: bytes | None = None,
) -> bytes:
    """The sealed record of this payload, under the active key.

    With a nonce, 12 bytes that were never used before, the payload is encrypted.
    """
    key = keys.key(keys.active)
    body = payload if nonce is None else _aead(key, place).encrypt(nonce, payload, None)
    envelope = _Envelope6(
        FORMAT_6,
        place.namespace,
        place.name,
        keys.active,
        revision,
        previous,
        fence,
        (nonce or b"").hex(),
        body,
        "",
    )
    tag = _tag_6(key, envelope)
    return msgspec.json.encode(msgspec.structs.replace(envelope, auth_tag=tag))


def unseal(place: Place, keys: KeyRing, data: bytes) -> Snapshot:
    """The record that was sealed here.

    Raises `Corrupt` (`sealed.malformed`, `sealed.format_unknown`, `sealed.tampered`,
    `sealed.transplanted`) and `Unavailable` (`sealed.key_unknown`).
    """
    version = _decode(data, _Format).format_version
    if version == FORMAT_5:
        return _unseal_5(place, keys, data)
    if version != FORMAT_6:
        raise coded("sealed.format_unknown")
    envelope = _exactly(data, _Envelope6)
    key = keys.key(envelope.key_id)
    _check_tag(_tag_6(key, envelope), envelope.auth_tag)
    if place != (envelope.namespace, envelope.name):
        raise coded("sealed.transplanted")
    return Snapshot(
        revision=envelope.revision,
        previous=Fingerprint(envelope.previous),
        fence=envelope.fence,
        payload=_plain(key, place, envelope),
        commitment=content_digest(data),
    )


def seal_5(place: Place, keys: KeyRing, payload: bytes, *, revision: int) -> bytes:
    """As protocol version 5 stores a record."""
    envelope = _Envelope5(FORMAT_5, keys.active, revision, payload, "")
    tag = _tag_5(keys.key(keys.active), place, envelope)
    return msgspec.json.encode(msgspec.structs.replace(envelope, auth_tag=tag))


def _unseal_5(place: Place, keys: KeyRing, data: bytes) -> Snapshot:
    envelope = _exactly(data, _Envelope5)
    tag = _tag_5(keys.key(envelope.key_id), place, envelope)
    _check_tag(tag, envelope.auth_tag)
    return Snapshot(
        revision=envelope.revision,
        previous=NOTHING,
        fence=0,
        payload=envelope.payload,
        commitment=content_digest(data),
    )


def _tag_5(key: bytes, place: Place, envelope: _Envelope5) -> str:
    parts = (place.namespace.encode(), place.name.encode(), envelope.key_id.encode())
    return blake3(
        _TAG_5
        + bytes([FORMAT_5])
        + b"".join(map(framed, parts))
        + _counter(envelope.revision)
        + framed(envelope.payload),
        key=key,
    ).hexdigest()


def _tag_6(key: bytes, envelope: _Envelope6) -> str:
    texts = (envelope.namespace, envelope.name, envelope.key_id, envelope.previous, envelope.nonce)
    return blake3(
        _TAG_6
        + bytes([FORMAT_6])
        + b"".join(framed(text.encode()) for text in texts)
        + _counter(envelope.revision)
        + _counter(envelope.fence)
        + framed(envelope.payload),
        key=_derived(_MAC_CONTEXT, key),
    ).hexdigest()


def _check_tag(tag: str, given: str) -> None:
    """In constant time. Compared as bytes, since Python compares strings of ASCII only."""
    if not hmac.compare_digest(tag.encode(), given.encode()):
        raise coded("sealed.tampered")


def _plain(key: bytes, place: Place, envelope: _Envelope6) -> bytes:
    """The tag was checked, so only a writer with the key could have made this fail."""
    if not envelope.nonce:
        return envelope.payload
    try:
        return _aead(key, place).decrypt(bytes.fromhex(envelope.nonce), envelope.payload, None)
    except (InvalidTag, ValueError):
        raise coded("sealed.tampered") from None


def _aead(key: bytes, place: Place) -> ChaCha20Poly1305:
    parts = (place.namespace.encode(), place.name.encode())
    own = blake3(b"".join(map(framed, parts)), key=_derived(_AEAD_CONTEXT, key)).digest()
    return ChaCha20Poly1305(own)


def _derived(context: str, key: bytes) -> bytes:
    return blake3(key, derive_key_context=context).digest()


def _counter(number: int) -> bytes:
    if not 0 <= number <= MAX_COUNTER:
        raise coded("sealed.malformed")
    return number.to_bytes(8, "big")


def _exactly(data: bytes, kind: type[_Kind]) -> _Kind:
    """An envelope that a writer would have written in exactly these bytes."""
    envelope = _decode(data, kind)
    if msgspec.json.encode(envelope) != data or envelope.revision < 1:
        raise coded("sealed.malformed")
    return envelope


_Any = TypeVar("_Any")


def _decode(data: bytes, kind: type[_Any]) -> _Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise coded("sealed.malformed") from None
