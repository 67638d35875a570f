"""Version 5 frames: one line of JSON each, with a number and a keyed hash (FR-1, FR-4).

The hash covers the sender, so a frame that is sent back fails. We authenticate the bytes of the
message as they came, before anything of them is parsed, and take a line only in the one form in
which it is written: no spaces, the fields in their order, the tag in lower case. Every writer of
version 5 that we know of writes so; the form is our strict subset of it.

A refused frame advances nothing.
"""

import hmac
import re
from typing import Final

from blake3 import blake3

from amends.contracts.codes import coded
from amends.contracts.worker_identity import PREFIX
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.breaking import ChannelBroken
from amends.protocol.versions import MAX_FRAME, Role, Version

DOMAIN: Final = f"{PREFIX}-worker-auth-v5"
_LINE: Final = re.compile(
    rb'\{"sequence":(?P<sequence>[1-9][0-9]{0,18}),"message":(?P<message>\{.*\}),'
    rb'"auth_tag":"(?P<tag>[0-9a-f]{64})"\}',
    re.DOTALL,
)


class LineCodec:
    """Seals what one role sends, and opens what the other sends."""

    __slots__ = ("_bootstrap", "_received", "_role", "_scanned", "_sent")

    def __init__(self, bootstrap: Bootstrap, role: Role) -> None:
        self._bootstrap = bootstrap
        self._role = role
        self._sent = self._received = 0
        self._scanned = 0

    def seal(self, message: bytes) -> bytes:
        """The frame around a message, with the next number.

        Raises `Refused` (`worker.frame_too_large`), and then the number is not used.
        """
        sequence = self._sent + 1
        tag = self._tag(self._role, sequence, message)
        line = b'{"sequence":%d,"message":%b,"auth_tag":"%b"}' % (sequence, message, tag)
        if len(line) > MAX_FRAME:
            raise coded("worker.frame_too_large")
        self._sent = sequence
        return line + b"\n"

    def open(self, buffer: bytearray) -> bytes | None:
        """Take the first whole frame out of the buffer and return its message, or None.

        Raises `ChannelBroken`.
        """
        end = buffer.find(b"\n", self._scanned)
        if max(end, len(buffer) if end < 0 else 0) > MAX_FRAME:
            raise ChannelBroken("channel.too_large")
        if end < 0:
            self._scanned = len(buffer)
            return None
        message = self._opened(bytes(buffer[:end]))
        del buffer[: end + 1]
        self._scanned = 0
        return message

    def _opened(self, line: bytes) -> bytes:
        found = _LINE.fullmatch(line)
        if found is None:
            raise ChannelBroken("channel.malformed")
        sequence, message = int(found["sequence"]), found["message"]
        if not hmac.compare_digest(self._tag(self._role.other, sequence, message), found["tag"]):
            raise ChannelBroken("channel.not_authentic")
        if sequence != self._received + 1:
            raise ChannelBroken("channel.out_of_sequence")
        self._received = sequence
        return message

    def _tag(self, sender: Role, sequence: int, message: bytes) -> bytes:
        hasher = blake3(key=self._bootstrap.key.reveal())
        hasher.update(
            f'{{"domain":"{DOMAIN}","protocol_version":{Version.LINES.value},'
            f'"sender":"{sender.value}","sequence":{sequence},'
            f'"session_id":"{self._bootstrap.session_id}","message":'.encode()
        )
        hasher.update(message)
        hasher.update(b"}")
        return hasher.hexdigest().encode()
