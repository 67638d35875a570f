"""Signing chain heads with Ed25519, and the public keys that check them (RC-2).

Signing is deterministic: one key and one hash give one signature. A ring holds every public key
that ever signed, since receipts outlive the keys; the key in use is only one of them.

Deliberately not here: making keys, key files, and deciding when to rotate.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NoReturn, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from amends.contracts.errors import Corrupt, Misuse

SIGNATURE_TAG: Final = b"amends-receipt-signature-v1\n"
KEY_LENGTH: Final = 32
"""Bytes of a raw Ed25519 key, private and public alike."""

_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")


class Signer(Protocol):
    """Whatever holds a private key."""

    @property
    def key_id(self) -> str:
        """Names the public key, as `key_id_of` does."""
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
        self._key = Ed25519PrivateKey.from_private_bytes(_require_length(private_key))
        self.public_key: Final = self._key.public_key().public_bytes_raw()
        """The raw public key, for publishing and for a `KeyRing`."""
        self.key_id: Final = key_id_of(self.public_key)

    def sign(self, data: bytes) -> bytes:
        """Sign `data`; see `Signer`."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"Ed25519Signer(key_id={self.key_id!r})"

    def __reduce__(self) -> NoReturn:
        raise Misuse("misuse.signer_pickled", "A signer holds a private key and stays here.")


class KeyRing:
    """Public keys by their ids; immutable. Adding one makes a new ring: `KeyRing([*ring, key])`.

    Raises `Corrupt` (`receipt.key_malformed`) for a key that is not 32 raw bytes.
    """

    __slots__ = ("_keys",)

    def __init__(self, public_keys: Iterable[bytes] = ()) -> None:
        self._keys: Mapping[str, bytes] = MappingProxyType(
            {key_id_of(key): key for key in map(_require_length, public_keys)}
        )

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._keys

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def confirms(self, key_id: str, data: bytes, signature: str) -> bool:
        """Whether `signature`, in lower-case hex, is that key's over `data`; no if unknown."""
        key = self._keys.get(key_id)
        if key is None or not _SIGNATURE.fullmatch(signature):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature), data)
        except InvalidSignature:
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
