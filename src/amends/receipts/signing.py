"""Signing chain heads with Ed25519, and the public keys that check them (RC-2).

Signing is deterministic: one key and one hash give one signature. A ring holds every public key
that ever signed, since receipts outlive the keys; the key in use is only one of them. A key has a
span in which it signed, and somebody may say of it that from some instant on others had it too.

libsodium signs and OpenSSL confirms, so that no receipt rests on one implementation alone.

Deliberately not here: making keys, key files, their published form (`keyset`), and deciding when to
rotate.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NoReturn, Protocol, Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_seed_keypair

from amends.contracts.errors import Corrupt, Misuse

SIGNATURE_TAG: Final = b"amends-receipt-signature-v1\n"
KEY_LENGTH: Final = 32
"""Bytes of a raw Ed25519 key, private and public alike."""

SLACK: Final = timedelta(minutes=5)
"""How far a receipt's time may lie outside its key's span: a step is dated before it is signed."""


class Signer(Protocol):
    """Whatever holds a private key, or several of them one after the other."""

    def held(self) -> "Signer":
        """The signer of this moment, whose key does not change any more while it is used."""
        ...

    @property
    def key_id(self) -> str:
        """Names the public key, as `key_id_of` does."""
        ...

    @property
    def public_key(self) -> bytes:
        """The raw public key."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`: 64 bytes, always the same for the same data."""
        ...


class Ed25519Signer:
    """A signer whose private key lives in this process; it can be neither printed nor pickled.

    Raises `Corrupt` (`receipt.key_malformed`) for anything but 32 raw bytes.
    """

    __slots__ = ("_key", "key_id", "public_key")

    def __init__(self, private_key: bytes) -> None:
        public_key, self._key = crypto_sign_seed_keypair(_require_length(private_key))
        self.public_key: Final[bytes] = public_key
        """The raw public key, for publishing and for a `KeyRing`."""
        self.key_id: Final = key_id_of(self.public_key)

    @property
    def ring(self) -> "KeyRing":
        """Its public key alone."""
        return KeyRing([self.public_key])

    def held(self) -> Self:
        """Itself; see `Signer`."""
        return self

    def private_bytes(self) -> bytes:
        """The raw private key, for the file that keeps it and for nothing else."""
        return self._key[:KEY_LENGTH]

    def sign(self, data: bytes) -> bytes:
        """Sign `data`; see `Signer`."""
        return crypto_sign(data, self._key)[:crypto_sign_BYTES]

    def __repr__(self) -> str:
        return f"Ed25519Signer(key_id={self.key_id!r})"

    def __reduce__(self) -> NoReturn:
        raise Misuse("misuse.signer_pickled", "A signer holds a private key and stays here.")


class PublishedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key with what is said of it.

    It signed from `since` to `until`; without them, from the beginning and until now. From
    `compromised` on, somebody else may have had the private key.

    Raises `Corrupt` (`receipt.key_malformed`) for a key that is not 32 raw bytes.
    """

    public_key: bytes
    since: datetime | None = None
    until: datetime | None = None
    compromised: datetime | None = None

    def __post_init__(self) -> None:
        _require_length(self.public_key)

    @property
    def key_id(self) -> str:
        """See `key_id_of`."""
        return key_id_of(self.public_key)

    def spans(self, at: datetime) -> bool:
        """Whether an instant lies in the span in which it signed, give or take a few minutes."""
        early = self.since is not None and at < self.since - SLACK
        late = self.until is not None and at > self.until + SLACK
        return not (early or late)


class KeyRing:
    """Public keys by their ids; immutable. A raw key stands for one without a span.

    Iterating gives the raw keys; `published` gives them with what is said of them.

    Raises `Corrupt` (`receipt.key_malformed`) for a key that is not 32 raw bytes.
    """

    __slots__ = ("_checking", "_keys")

    def __init__(self, public_keys: Iterable[bytes | PublishedKey] = ()) -> None:
        keys = (
            key if isinstance(key, PublishedKey) else PublishedKey(public_key=key)
            for key in public_keys
        )
        self._keys: Mapping[str, PublishedKey] = MappingProxyType({key.key_id: key for key in keys})
        self._checking: Mapping[str, Ed25519PublicKey] = MappingProxyType(
            {
                key_id: Ed25519PublicKey.from_public_bytes(key.public_key)
                for key_id, key in self._keys.items()
            }
        )

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._keys

    def __iter__(self) -> Iterator[bytes]:
        return (key.public_key for key in self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def published(self) -> tuple[PublishedKey, ...]:
        """The keys, in the order in which they were given."""
        return tuple(self._keys.values())

    def get(self, key_id: str) -> PublishedKey | None:
        """The key of this id, if it is here."""
        return self._keys.get(key_id)

    def confirms(self, key_id: str, data: bytes, signature: str) -> bool:
        """Whether `signature`, in lower-case hex, is that key's over `data`; no if unknown."""
        key = self._checking.get(key_id)
        if key is None:
            return False
        try:
            raw = bytes.fromhex(signature)
            if raw.hex() != signature:
                return False
            key.verify(raw, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def key_id_of(public_key: bytes) -> str:
    """The first 16 hex digits of the SHA-256 of a raw public key."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def signed_bytes(receipt_hash: str) -> bytes:
    """What a head's signature covers: a tag of its own and the 32 bytes of the hash."""
    return SIGNATURE_TAG + bytes.fromhex(receipt_hash)


def _require_length(key: bytes) -> bytes:
    if len(key) != KEY_LENGTH:
        raise Corrupt(
            "receipt.key_malformed",
            f"A raw Ed25519 key has {KEY_LENGTH} bytes.",
            details={"length": len(key)},
            next_step="Restore the key from its backup; receipts signed with it need it.",
        )
    return key
