"""How a session with a worker on another machine begins."""

from typing import Final

import pytest

from amends.contracts.errors import PeerViolation, Refused
from amends.protocol.bootstrap import SessionKey
from amends.protocol.introduction import (
    HEAD,
    Certificates,
    derive_session,
    fingerprint_of,
    introduce,
    introduced,
    name_length,
)
from amends.protocol.versions import Version

SECRET: Final = SessionKey(b"\x07" * 32)
ENDS: Final = Certificates(host=fingerprint_of(b"host"), worker=fingerprint_of(b"worker"))


@pytest.mark.rule("FR-3", "INT-5")
def test_the_name_passes_and_nothing_secret() -> None:
    sent = introduce("session-1")
    assert name_length(sent[:HEAD]) == len("session-1")
    assert introduced(sent[HEAD:]) == "session-1"
    derived = derive_session(SECRET, "session-1", ENDS)
    assert derived.version is Version.SEALED
    assert derived == derive_session(SECRET, "session-1", ENDS)
    assert SECRET.reveal() not in sent
    assert derived.key.reveal() not in sent


OTHERS: Final = {
    "secret": (SessionKey(b"\x08" * 32), "session-1", ENDS),
    "name": (SECRET, "session-2", ENDS),
    "host": (SECRET, "session-1", ENDS._replace(host=fingerprint_of(b"other"))),
    "worker": (SECRET, "session-1", ENDS._replace(worker=fingerprint_of(b"other"))),
    "sides": (SECRET, "session-1", Certificates(host=ENDS.worker, worker=ENDS.host)),
}


@pytest.mark.rule("FR-3", "INT-5")
@pytest.mark.parametrize("what", OTHERS)
def test_whatever_differs_gives_another_key(what: str) -> None:
    key = derive_session(SECRET, "session-1", ENDS).key
    assert derive_session(*OTHERS[what]).key != key
    assert key != SECRET


@pytest.mark.parametrize("name", ["", "Session", "a" * 129, "s\n"])
def test_a_name_that_is_no_token_is_not_sent(name: str) -> None:
    with pytest.raises(Refused):
        introduce(name)


@pytest.mark.parametrize("head", [b"", b"AMNDTLS1", b"AMNDTLS1\x00", b"SPLPBOOT\x05", b"GET / HT"])
def test_a_head_of_another_kind_is_refused(head: bytes) -> None:
    with pytest.raises(PeerViolation, match="bootstrap_malformed"):
        name_length(head)


@pytest.mark.parametrize("name", [b"", b"\xff", b"Session", b"a b"])
def test_a_name_of_another_kind_is_refused(name: bytes) -> None:
    with pytest.raises(PeerViolation, match="bootstrap_malformed"):
        introduced(name)
