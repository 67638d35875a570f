"""Version 6 records: a header of six bytes, and behind it a greeting or sealed bytes (FR-5).

| bytes | what |
| --- | --- |
| 1 | the version, 6 |
| 1 | the kind, which says who sent it |
| 4 | how many bytes follow, big-endian, at most 1 MiB |

Sealed records are ChaCha20-Poly1305. The nonce is the record's number in its direction, which is
nowhere on the wire, and the associated data is the header and the session id: a record that is
repeated, moved, left out, sent back or taken from another session does not open. Each direction has
its own key.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from amends.contracts.codes import coded
from amends.protocol.breaking import ChannelBroken
from amends.protocol.versions import MAX_FRAME, Role, Version

HEADER: Final = Struct(">BBI")
TAG_LENGTH: Final = 16


class Kind(IntEnum):
    """What a record is and who sends it."""

    HOST_HELLO = 1
    WORKER_HELLO = 2
    HOST_SEALED = 3
    WORKER_SEALED = 4


class Record(NamedTuple):
    """One whole record, header included as it came."""

    header: bytes
    body: bytes


class Keys(NamedTuple):
    """The key of each direction."""

    host: bytes
    worker: bytes

    def __repr__(self) -> str:
        return "Keys(***)"


def hello_kind(sender: Role) -> Kind:
    """The kind of a greeting."""
    return Kind.HOST_HELLO if sender is Role.HOST else Kind.WORKER_HELLO


def sealed_kind(sender: Role) -> Kind:
    """The kind of everything after the greetings."""
    return Kind.HOST_SEALED if sender is Role.HOST else Kind.WORKER_SEALED


def header_of(kind: Kind, length: int) -> bytes:
    """The six bytes before a body of this length."""
    return HEADER.pack(Version.SEALED, kind, length)


def take_record(buffer: bytearray, kind: Kind) -> Record | None:
    """Take the first whole record out of the buffer, or None if it is not there yet.

    Raises `ChannelBroken` as soon as the header shows that it is not of this kind or too large, so
    that nobody can make a session wait for what it will never take.
    """
    if len(buffer) < HEADER.size:
        return None
    version, found, length = HEADER.unpack_from(buffer)
    if version != Version.SEALED or found != kind:
        raise ChannelBroken("channel.malformed")
    if length > MAX_FRAME:
        raise ChannelBroken("channel.too_large")
    end = HEADER.size + length
    if len(buffer) < end:
        return None
    record = Record(bytes(buffer[: HEADER.size]), bytes(buffer[HEADER.size : end]))
    del buffer[:end]
    return record


class RecordCodec:
    """Seals what one role sends, and opens what the other sends."""

    __slots__ = ("_opener", "_received", "_role", "_sealer", "_sent", "_session_id")

    def __init__(self, keys: Keys, session_id: str, role: Role) -> None:
        mine, theirs = (keys.host, keys.worker) if role is Role.HOST else (keys.worker, keys.host)
        self._role = role
        self._session_id = session_id.encode()
        self._sealer = ChaCha20Poly1305(mine)
        self._opener = ChaCha20Poly1305(theirs)
        self._sent = self._received = 0

    def seal(self, message: bytes) -> bytes:
        """The record around a message, with the next number.

        Raises `Refused` (`worker.frame_too_large`), and then the number is not used.
        """
        length = len(message) + TAG_LENGTH
        if length > MAX_FRAME:
            raise coded("worker.frame_too_large")
        self._sent += 1
        header = header_of(sealed_kind(self._role), length)
        nonce = self._sent.to_bytes(12, "big")
        return header + self._sealer.encrypt(nonce, message, header + self._session_id)

    def open(self, buffer: bytearray) -> bytes | None:
        """Take the first whole record out of the buffer and return its message, or None.

        Raises `ChannelBroken`.
        """
        record = take_record(buffer, sealed_kind(self._role.other))
        if record is None:
            return None
        nonce = (self._received + 1).to_bytes(12, "big")
        try:
            message = self._opener.decrypt(nonce, record.body, record.header + self._session_id)
        except InvalidTag:
            raise ChannelBroken("channel.not_authentic") from None
        self._received += 1
        return message
