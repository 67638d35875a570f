"""Certificates and files for both ends of a TLS channel; no test in here."""

import datetime
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from amends.transports.tls_files import TlsFiles

DAY: Final = datetime.timedelta(days=1)
SECRET: Final = "5e" * 32


class Party(NamedTuple):
    """Somebody with a key and a certificate."""

    key: Ed25519PrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)


def party(
    name: str,
    *,
    signer: Party | None = None,
    key: Ed25519PrivateKey | None = None,
    days: int = 1,
    signs: bool = False,
) -> Party:
    """A party with a certificate of its own, or one that another signed."""
    own = key or Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
        .sign((signer or Party(own, None)).key, None)  # type: ignore[arg-type]  # its key is used
    )
    return Party(own, made)


HOST: Final = party("host")
WORKER: Final = party("worker")
STRANGER: Final = party("stranger")


def files(folder: Path, own: Party, *peers: Party, secret: str = SECRET) -> TlsFiles:
    """The four files of one side, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        "certificate": own.pem,
        "private_key": own.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
        "peers": "".join(peer.pem for peer in peers),
        "secret": secret + "\n",
    }
    for name, text in written.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o600)
    return TlsFiles(**{name: str(folder / name) for name in written})


def server_context(folder: Path, own: Party, *, alpn: str | None) -> ssl.SSLContext:
    """A server of some other make, which asks for no certificate."""
    made = files(folder, own, own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.private_key)
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    return context
