"""How a session with a worker on another machine begins: its name is sent, its key derived (FR-3).

A pipe can carry a key because nobody else has an end of it. Over a network the key is sent nowhere:
both machines hold one secret, which a person put there, and derive from it the key of this session
with these two certificates. Another name, another certificate on either side, another version: each
gives another key, and the greetings fail.

The introduction says the name and nothing secret. Version 6 only.

Deliberately not here: where the secret lies, and TLS.
"""

from hashlib import sha256
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from amends.contracts.codes import coded
from amends.contracts.errors import Refused
from amends.contracts.worker_identity import check_token, framed
from amends.protocol.bootstrap import KEY_LENGTH, Bootstrap, SessionKey
from amends.protocol.versions import Version

MAGIC: Final = b"AMNDTLS1"
HEAD: Final = len(MAGIC) + 1
"""Bytes before the name; the last of them is its length."""

_INFO: Final = b"amends-remote-worker-key-v6"


class Certificates(NamedTuple):
    """Both ends of a channel, by the SHA-256 of their certificates."""

    host: bytes
    worker: bytes


def introduce(session_id: str) -> bytes:
    """What the host sends first. Raises `Refused` (`worker.token_invalid`)."""
    name = check_token(session_id, "session_id").encode()
    return MAGIC + bytes((len(name),)) + name


def name_length(head: bytes) -> int:
    """How long the name behind this head is.

    Raises `PeerViolation` (`channel.bootstrap_malformed`).
    """
    if len(head) != HEAD or not head.startswith(MAGIC) or not head[-1]:
        raise coded("channel.bootstrap_malformed")
    return head[-1]


def introduced(name: bytes) -> str:
    """The session's name. Raises `PeerViolation` (`channel.bootstrap_malformed`)."""
    try:
        return check_token(name.decode("ascii", "replace"), "session_id")
    except Refused:
        raise coded("channel.bootstrap_malformed") from None


def fingerprint_of(certificate: bytes) -> bytes:
    """What a certificate, in DER, is known by."""
    return sha256(certificate).digest()


def derive_session(secret: SessionKey, session_id: str, ends: Certificates) -> Bootstrap:
    """The session of this name between these two, as both sides derive it."""
    about = b"".join(map(framed, (session_id.encode(), ends.host, ends.worker)))
    derivation = HKDF(SHA256(), KEY_LENGTH, salt=None, info=_INFO + about)
    return Bootstrap(session_id, SessionKey(derivation.derive(secret.reveal())), Version.SEALED)
