"""The four files of a TLS channel: what is read of them, and what is refused."""

import os
import ssl
from pathlib import Path
from typing import Final

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from amends.contracts.errors import Unavailable
from amends.protocol.introduction import fingerprint_of
from amends.transports.tls_files import TlsFiles, read_identity
from tests.unit.transports.certificates import HOST, SECRET, STRANGER, WORKER, files

CONNECTS: Final = ssl.Purpose.SERVER_AUTH
LISTENS: Final = ssl.Purpose.CLIENT_AUTH


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize("purpose", [CONNECTS, LISTENS])
def test_only_tls_1_3_and_only_pins_are_trusted(tmp_path: Path, purpose: ssl.Purpose) -> None:
    identity = read_identity(files(tmp_path, HOST, WORKER, STRANGER), purpose)
    context = identity.context
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname
    assert context.options & ssl.OP_NO_TICKET
    assert context.num_tickets == 0 or purpose is CONNECTS
    assert identity.own == fingerprint_of(HOST.der)
    assert identity.pins == {fingerprint_of(WORKER.der), fingerprint_of(STRANGER.der)}
    assert set(context.get_ca_certs(binary_form=True)) <= {WORKER.der, STRANGER.der}


def test_an_identity_shows_nothing_of_its_secret(tmp_path: Path) -> None:
    assert SECRET not in repr(read_identity(files(tmp_path, HOST, WORKER), CONNECTS))


def refused(told: TlsFiles) -> tuple[str, object]:
    with pytest.raises(Unavailable) as caught:
        read_identity(told, CONNECTS)
    return caught.value.code, caught.value.details["file"]


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize("name", ["private_key", "secret"])
@pytest.mark.parametrize("fault", ["group", "world", "link", "two names", "missing", "folder"])
def test_a_secret_that_others_can_get_at_is_refused(tmp_path: Path, name: str, fault: str) -> None:
    told = files(tmp_path, HOST, WORKER)
    path = tmp_path / name
    match fault:
        case "group":
            path.chmod(0o640)
        case "world":
            path.chmod(0o604)
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case "two names":
            os.link(path, tmp_path / "second")
        case "missing":
            path.unlink()
        case _:
            path.unlink()
            path.mkdir(mode=0o700)
    assert refused(told) == ("channel.secret_unsafe", name)


if os.geteuid() == 0:  # only root can give a file away

    def test_a_secret_of_another_user_is_refused(tmp_path: Path) -> None:
        told = files(tmp_path, HOST, WORKER)
        os.chown(told.secret, 1, 1)
        assert refused(told) == ("channel.secret_unsafe", "secret")


UNUSABLE: Final = {
    "a short secret": ("secret", "5e" * 31),
    "a secret that is no hex": ("secret", "zz" * 32),
    "a secret of zeros": ("secret", "00" * 32),
    "no peers": ("peers", ""),
    "peers that are none": (
        "peers",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
    ),
    "peers that are no text": ("peers", "\xff"),
    "no certificate": ("certificate", "nothing"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_what_cannot_be_used_is_named(tmp_path: Path, fault: str) -> None:
    name, text = UNUSABLE[fault]
    told = files(tmp_path, HOST, WORKER)
    (tmp_path / name).write_text(text)
    assert refused(told) == ("channel.identity_unusable", name)


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    told = files(tmp_path, HOST, WORKER)
    Path(told.peers).unlink()
    assert refused(told) == ("channel.identity_unusable", "peers")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    told = files(tmp_path / "host", HOST, WORKER)
    other = files(tmp_path / "other", STRANGER, WORKER)
    mixed = msgspec.structs.replace(told, private_key=other.private_key)
    assert refused(mixed) == ("channel.identity_unusable", "private_key")


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    told = files(tmp_path, HOST, WORKER)
    Path(told.private_key).write_bytes(
        HOST.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    assert refused(told) == ("channel.identity_unusable", "private_key")
