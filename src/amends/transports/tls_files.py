"""What one side of a TLS channel is known by, and whom it knows: four files (INT-5).

    certificate    its own, in PEM
    private_key    of that certificate, in PEM, not encrypted
    peers          the certificates of the other side that are taken, in PEM: the pins
    secret         64 hex digits that both machines hold

A pin is a whole certificate. There is no authority, no name of a machine and no revocation list:
who is not in `peers` is a stranger, and who is taken out of it is one from the next connection on.
Two certificates in it let the other side change from one to the other.

The key and the secret are plain files of this user, with mode 0600 or 0400; links are not followed.
"""

import os
import ssl
import stat
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.protocol.bootstrap import SessionKey
from amends.protocol.introduction import fingerprint_of

ALPN: Final = "amends-worker-6"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LARGEST: Final = 256 * 1024


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of the four files. They are read anew for each connection."""

    certificate: str
    private_key: str
    peers: str
    secret: str


class TlsIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The four files as they were read."""

    context: ssl.SSLContext
    own: bytes
    pins: frozenset[bytes]
    secret: SessionKey

    def __repr__(self) -> str:
        return f"TlsIdentity({self.own.hex()}, pins={len(self.pins)})"


def read_identity(files: TlsFiles, purpose: ssl.Purpose) -> TlsIdentity:
    """Read the four files, for the end that connects (`SERVER_AUTH`) or listens (`CLIENT_AUTH`).

    Raises `Unavailable`: `channel.secret_unsafe`, `channel.identity_unusable`, naming the file.
    """
    secret = _secret(files.secret)
    _private(files.private_key)
    own, peers = _certificates(files.certificate), _certificates(files.peers)
    return TlsIdentity(
        context=_context(files, purpose, peers),
        own=fingerprint_of(own[0]),
        pins=frozenset(map(fingerprint_of, peers)),
        secret=secret,
    )


def _context(files: TlsFiles, purpose: ssl.Purpose, peers: list[bytes]) -> ssl.SSLContext:
    """TLS 1.3 and nothing else; no tickets, so no resumption and no early data."""
    listens = purpose is ssl.Purpose.CLIENT_AUTH
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    if listens:
        context.num_tickets = 0
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cadata=b"".join(peers))
        context.load_cert_chain(files.certificate, files.private_key, password=lambda: b"")
    except (OSError, ValueError):
        raise _unusable(files.private_key) from None
    return context


def _certificates(path: str) -> list[bytes]:
    """Every certificate of a file, in DER; one at least."""
    try:
        found = load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError):
        raise _unusable(path) from None
    return [one.public_bytes(Encoding.DER) for one in found]


def _secret(path: str) -> SessionKey:
    digits = _private(path)
    try:
        return SessionKey(bytes.fromhex(digits.decode("ascii").strip()))
    except (ValueError, AmendsError):
        raise _unusable(path) from None


def _private(path: str) -> bytes:
    """What a file of this user alone holds. Raises `Unavailable` (`channel.secret_unsafe`)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if not plain or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
                raise coded("channel.secret_unsafe", {"file": Path(path).name})
            return file.read(_LARGEST)
    except OSError:
        raise coded("channel.secret_unsafe", {"file": Path(path).name}) from None


def _unusable(path: str) -> AmendsError:
    return coded("channel.identity_unusable", {"file": Path(path).name})
