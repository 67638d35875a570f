"""Key rings for sealed records: one active key, several readable ones (ST-4).

Rotation takes no pause: put the new key on every ring as readable, then make it active; take the
old one off once nothing is sealed with it any more. Keys are neither printed nor pickled.

Deliberately not here: where keys come from.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from amends.contracts.codes import coded
from amends.contracts.errors import Misuse, Refused
from amends.contracts.worker_identity import check_token

KEY_BYTES: Final = 32


class KeyRing:
    """Immutable. Raises `Misuse` (`sealed.key_malformed`) when built wrongly."""

    __slots__ = ("_keys", "active")

    def __init__(self, active: str, keys: Mapping[str, bytes]) -> None:
        for key_id, key in keys.items():
            _check(key_id, key)
        if active not in keys:
            raise coded("sealed.key_malformed")
        self.active: Final = active
        """The id of the key that seals."""
        self._keys: Mapping[str, bytes] = MappingProxyType(dict(keys))

    def key(self, key_id: str) -> bytes:
        """The key of this id. Raises `Unavailable` (`sealed.key_unknown`)."""
        key = self._keys.get(key_id)
        if key is None:
            raise coded("sealed.key_unknown")
        return key

    def adding(self, key_id: str, key: bytes) -> "KeyRing":
        """A ring that can also read this key."""
        return KeyRing(self.active, {**self._keys, key_id: key})

    def sealing_with(self, key_id: str) -> "KeyRing":
        """A ring with another active key. Raises `Misuse` (`sealed.key_malformed`)."""
        return KeyRing(key_id, self._keys)

    def without(self, key_id: str) -> "KeyRing":
        """A ring that can no longer read this key. Raises `Misuse` (`sealed.key_in_use`)."""
        if key_id == self.active:
            raise coded("sealed.key_in_use")
        return KeyRing(self.active, {one: key for one, key in self._keys.items() if one != key_id})

    def __repr__(self) -> str:
        return f"KeyRing(active={self.active!r}, keys={sorted(self._keys)!r})"

    def __reduce__(self) -> NoReturn:
        raise Misuse("misuse.key_ring_pickled", "A key ring holds keys and stays here.")


def _check(key_id: str, key: bytes) -> None:
    try:
        check_token(key_id, "key_id")
    except Refused:
        raise coded("sealed.key_malformed") from None
    if len(key) != KEY_BYTES or not any(key):
        raise coded("sealed.key_malformed")
