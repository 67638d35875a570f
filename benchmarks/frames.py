"""Sealing and opening one record of version 6, beside the bare cipher over the same bytes."""

import time
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from amends.protocol.records import Keys, RecordCodec
from amends.protocol.versions import Role

COUNT: Final = 20_000
KEYS: Final = Keys(bytes(range(32)), bytes(range(1, 33)))
ASSOCIATED: Final = b"header" + b"session-1"


def sealed(size: int) -> float:
    """Microseconds to seal a message of this size on one side and open it on the other."""
    host = RecordCodec(KEYS, "session-1", Role.HOST)
    worker = RecordCodec(KEYS, "session-1", Role.WORKER)
    message = bytes(size)
    return _each(lambda: worker.open(bytearray(host.seal(message))))


def cipher(size: int) -> float:
    """Microseconds to encrypt and decrypt as many bytes, and nothing else."""
    aead = ChaCha20Poly1305(KEYS.host)
    nonce, message = bytes(12), bytes(size)
    return _each(lambda: aead.decrypt(nonce, aead.encrypt(nonce, message, ASSOCIATED), ASSOCIATED))


def _each(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(COUNT):
        call()
    return (time.perf_counter() - started) / COUNT * 1e6
