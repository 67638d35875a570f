"""The bootstrap preamble and its key."""

import copy
import pickle

import pytest

from amends.contracts.errors import Misuse, PeerViolation, Refused
from amends.protocol.bootstrap import MAGIC, Bootstrap, SessionKey, read_bootstrap
from amends.protocol.records import Keys
from amends.protocol.versions import Version
from tests.unit.protocol.pair import KEY, bootstrap

PREAMBLE = bootstrap(Version.LINES).preamble()
NAME = len(MAGIC) + 2


@pytest.mark.rule("FR-3", "FR-4")
@pytest.mark.parametrize(("version", "byte"), [(Version.LINES, 1), (Version.SEALED, 2)])
def test_the_version_byte_pins_the_codec(version: Version, byte: int) -> None:
    sent = bootstrap(version)
    assert sent.preamble()[len(MAGIC)] == byte
    assert read_bootstrap(sent.preamble()) == sent


def test_version_6_is_the_default() -> None:
    assert Bootstrap("s", KEY).version is Version.SEALED


@pytest.mark.rule("FR-3")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        PREAMBLE[:-1],
        PREAMBLE + b"\x00",
        b"X" + PREAMBLE[1:],
        PREAMBLE[: len(MAGIC)] + b"\x03" + PREAMBLE[len(MAGIC) + 1 :],
        PREAMBLE[: NAME - 1] + b"\x00" + KEY.reveal(),
        PREAMBLE[:NAME] + PREAMBLE[NAME:].replace(b"session", b"SESSION"),
        PREAMBLE[:NAME] + b"\xff" + PREAMBLE[NAME + 1 :],
        PREAMBLE[:-32] + bytes(32),
    ],
)
def test_anything_else_than_a_whole_preamble_is_refused(data: bytes) -> None:
    with pytest.raises(PeerViolation) as caught:
        read_bootstrap(data)
    assert caught.value.code == "channel.bootstrap_malformed"


@pytest.mark.rule("FR-3")
@pytest.mark.parametrize("value", [b"", b"k" * 31, bytes(32)])
def test_a_key_is_32_bytes_and_not_all_zero(value: bytes) -> None:
    with pytest.raises(Misuse):
        SessionKey(value)


def test_a_session_has_a_name_that_is_a_token() -> None:
    with pytest.raises(Refused):
        Bootstrap("Not A Token", KEY).preamble()


def test_a_key_shows_nothing_and_is_not_stored() -> None:
    shown = repr(KEY) + repr(bootstrap()) + str(KEY) + repr(Keys(KEY.reveal(), KEY.reveal()))
    assert "\\x01" not in shown
    assert KEY.reveal().hex() not in shown
    for keep in (pickle.dumps, copy.copy, copy.deepcopy, hash):
        with pytest.raises((Misuse, TypeError)):
            keep(KEY)


def test_keys_are_equal_by_their_bytes() -> None:
    assert SessionKey(b"k" * 32) == SessionKey(b"k" * 32)
    assert SessionKey(b"k" * 32) != SessionKey(b"l" * 32)
    assert SessionKey(b"k" * 32) != b"k" * 32
