"""The preamble that gives a worker its session: name, key, and version of the protocol (FR-3).

It comes over a private one-way pipe and nowhere else. The key shows nothing of itself, cannot be
stored, and is compared in constant time. Drawing it is the caller's work.
"""

import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.worker_identity import check_token
from amends.protocol.versions import Version

MAGIC: Final = b"SPLPBOOT"
KEY_LENGTH: Final = 32
_BYTE_OF: Final[Mapping[Version, int]] = MappingProxyType({Version.LINES: 1, Version.SEALED: 2})
_VERSION_OF: Final[Mapping[int, Version]] = MappingProxyType(
    {byte: version for version, byte in _BYTE_OF.items()}
)
_HEAD: Final = len(MAGIC) + 2


class SessionKey:
    """32 secret bytes of one session. Raises `Misuse` (`misuse.channel_secret`) for a bad key."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) != KEY_LENGTH or not any(value):
            raise coded("misuse.channel_secret")
        self._value = bytes(value)

    def reveal(self) -> bytes:
        """The bytes, for the codec and the pipe."""
        return self._value

    def __repr__(self) -> str:
        return "SessionKey(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionKey) and hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # a hash would let keys land in sets and logs

    def __reduce__(self) -> NoReturn:
        raise coded("misuse.channel_secret")


class Bootstrap(NamedTuple):
    """What both sides know before the first byte passes between them."""

    session_id: str
    key: SessionKey
    version: Version = Version.SEALED

    def preamble(self) -> bytes:
        """What the host writes into the pipe. Raises `Refused` (`worker.token_invalid`)."""
        name = check_token(self.session_id, "session_id").encode()
        return MAGIC + bytes((_BYTE_OF[self.version], len(name))) + name + self.key.reveal()


def read_bootstrap(data: bytes) -> Bootstrap:
    """Read everything that came through the pipe.

    Raises `PeerViolation` (`channel.bootstrap_malformed`), whatever is wrong with it.
    """
    version = _VERSION_OF.get(data[len(MAGIC)]) if len(data) > _HEAD else None
    if version is None or not data.startswith(MAGIC):
        raise coded("channel.bootstrap_malformed")
    end = _HEAD + data[_HEAD - 1]
    name, key = data[_HEAD:end].decode("ascii", "replace"), data[end:]
    if len(key) != KEY_LENGTH or not any(key):
        raise coded("channel.bootstrap_malformed")
    try:
        return Bootstrap(check_token(name, "session_id"), SessionKey(key), version)
    except Refused:
        raise coded("channel.bootstrap_malformed") from None
