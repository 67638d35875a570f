"""Public keys as others pin them: a JWK Set of Ed25519 keys (RFC 7517, RFC 8037).

`kid` is the key's id in receipts. `iat` and `exp` say when the key signed, and `revoked` that
somebody else may have had it, as the historical keys of OpenID Federation say it; all are whole
seconds since 1970. What others add to a set is passed over, private parts included.

Pure: text in, keys out. Deliberately not here: the file that holds a private key (`wiring.keys`).
"""

import base64
import binascii
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from amends.contracts.errors import Corrupt, Refused
from amends.contracts.parsing import DOCUMENT_LIMITS, parse_json
from amends.contracts.times import EPOCH
from amends.receipts.signing import KeyRing, PublishedKey

_LATEST: Final = 253_402_300_799
"""The last second of the year 9999, where calendars end."""


class Revoked(msgspec.Struct, frozen=True, kw_only=True):
    """From when on a key must not be believed, and why."""

    revoked_at: int
    reason: str = "compromised"


class Jwk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One public key of a set."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    iat: int | None = None
    exp: int | None = None
    revoked: Revoked | None = None


class JwkSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of public keys."""

    keys: tuple[Jwk, ...]


def jwk_of(key: PublishedKey) -> Jwk:
    """A key as it is published. The span is widened to whole seconds."""
    return Jwk(
        kty="OKP",
        crv="Ed25519",
        x=to_base64url(key.public_key),
        kid=key.key_id,
        use="sig",
        alg="EdDSA",
        iat=None if key.since is None else math.floor(_seconds(key.since)),
        exp=None if key.until is None else math.ceil(_seconds(key.until)),
        revoked=None
        if key.compromised is None
        else Revoked(revoked_at=math.floor(_seconds(key.compromised))),
    )


def key_of(jwk: Jwk) -> PublishedKey:
    """The key that is published so. Raises `Corrupt` (`keys.malformed`)."""
    try:
        key = PublishedKey(
            public_key=from_base64url(jwk.x),
            since=_instant(jwk.iat),
            until=_instant(jwk.exp),
            compromised=None if jwk.revoked is None else _instant(jwk.revoked.revoked_at),
        )
    except (Corrupt, ValueError):
        raise malformed() from None
    if jwk.kid not in {None, key.key_id}:
        raise malformed()
    return key


def write_key_set(keys: Iterable[PublishedKey]) -> bytes:
    """The text of a JWK Set, with its line feed."""
    encoded = msgspec.json.encode(JwkSet(keys=tuple(map(jwk_of, keys))))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def read_key_set(text: bytes) -> KeyRing:
    """The keys of a JWK Set, of which there must be one. Raises `Corrupt` (`keys.malformed`)."""
    try:
        read = msgspec.convert(parse_json(text, limits=DOCUMENT_LIMITS), type=JwkSet)
    except (Refused, msgspec.ValidationError):
        raise malformed() from None
    if not read.keys:
        raise malformed()
    return KeyRing(map(key_of, read.keys))


def to_base64url(raw: bytes) -> str:
    """As JOSE writes bytes: without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes again. Raises `ValueError` for anything that is not written so."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("no base64url") from error
    if to_base64url(raw) != text:
        raise ValueError("no base64url")
    return raw


def malformed() -> Corrupt:
    """What a set gets that is none."""
    return Corrupt(
        "keys.malformed",
        "This is no JWK Set of Ed25519 keys with the ids that receipts give them.",
        next_step="Ask for the file that amends keys export writes, and take it as it is.",
    )


def _seconds(instant: datetime) -> float:
    return (instant - EPOCH) / timedelta(seconds=1)


def _instant(seconds: int | None) -> datetime | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= _LATEST:
        raise ValueError("outside of the calendar")
    return EPOCH + timedelta(seconds=seconds)
