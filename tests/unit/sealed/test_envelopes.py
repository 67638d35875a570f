"""Envelopes: whatever is changed, moved or cut is refused with a code of its own."""

import json
import pickle
from typing import Final

import msgspec
import pytest

from amends.contracts.errors import AmendsError
from amends.sealed.envelopes import (
    NOTHING,
    Place,
    _Envelope6,
    _tag_6,
    seal,
    seal_5,
    unseal,
)
from amends.sealed.keys import KeyRing
from amends.testing.refusals import refused_with
from tests.unit.sealed.stage import KEYS, PLACE, SECRET

NONCE: Final = bytes(range(12))
PLAIN: Final = seal(PLACE, KEYS, SECRET, revision=3, previous=NOTHING, fence=2)
HIDDEN: Final = seal(PLACE, KEYS, SECRET, revision=3, previous=NOTHING, fence=2, nonce=NONCE)
OLD: Final = seal_5(PLACE, KEYS, SECRET, revision=3)
ALL: Final = [PLAIN, HIDDEN, OLD]
NAMES: Final = ["plain", "encrypted", "version 5"]


@pytest.mark.rule("ST-1", "ST-5")
@pytest.mark.parametrize("data", ALL, ids=NAMES)
def test_what_was_sealed_is_opened(data: bytes) -> None:
    snapshot = unseal(PLACE, KEYS, data)
    assert (snapshot.payload, snapshot.revision) == (SECRET, 3)
    assert snapshot.fence == (0 if data is OLD else 2)
    assert "nobody" not in repr(snapshot)


@pytest.mark.rule("ST-5")
def test_an_encrypted_record_shows_nothing_of_its_payload() -> None:
    body = json.loads(HIDDEN)["payload"]
    assert body != json.loads(PLAIN)["payload"]
    assert len(body) > len(json.loads(PLAIN)["payload"])


ANY_REFUSAL: Final = r"sealed\.(malformed|tampered|key_unknown|format_unknown)"


@pytest.mark.fault(34)
@pytest.mark.rule("ST-1")
@pytest.mark.parametrize("data", ALL, ids=NAMES)
def test_every_altered_byte_is_refused_with_a_code(data: bytes) -> None:
    for at in range(len(data)):
        for flip in (1, 0x20, 0x80):
            altered = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            with pytest.raises(AmendsError, match=ANY_REFUSAL):
                unseal(PLACE, KEYS, altered)


@pytest.mark.rule("ST-1")
@pytest.mark.parametrize("data", ALL, ids=NAMES)
def test_every_cut_and_every_addition_is_refused(data: bytes) -> None:
    for cut in (*(data[:at] for at in range(len(data))), data + b" ", b"[" * 9_000):
        with refused_with("sealed.malformed"):
            unseal(PLACE, KEYS, cut)


@pytest.mark.rule("ST-1")
@pytest.mark.parametrize("place", [Place("worker-journal", "other"), Place("other", PLACE.name)])
def test_a_record_that_was_moved_is_refused(place: Place) -> None:
    for data in (PLAIN, HIDDEN):
        with refused_with("sealed.transplanted"):
            unseal(place, KEYS, data)
    with refused_with("sealed.tampered"):
        unseal(place, KEYS, OLD)


@pytest.mark.parametrize(
    ("member", "value", "code"),
    [
        ("revision", 4, "sealed.tampered"),
        ("revision", 0, "sealed.malformed"),
        ("revision", 2**63, "sealed.malformed"),
        ("fence", 3, "sealed.tampered"),
        ("previous", "1" * 64, "sealed.tampered"),
        ("nonce", NONCE.hex(), "sealed.tampered"),
        ("name", "other", "sealed.tampered"),
        ("payload", "AAAA", "sealed.tampered"),
        ("payload", "AAAB=", "sealed.malformed"),
        ("payload", "AB==", "sealed.malformed"),
        ("key_id", "storage-v9", "sealed.key_unknown"),
        ("format_version", 3, "sealed.format_unknown"),
        ("auth_tag", "0" * 64, "sealed.tampered"),
    ],
)
def test_a_member_that_was_rewritten_is_refused(member: str, value: object, code: str) -> None:
    changed = json.dumps({**json.loads(PLAIN), member: value}, separators=(",", ":"))
    with refused_with(code):
        unseal(PLACE, KEYS, changed.encode())


def test_a_body_that_does_not_decrypt_is_refused() -> None:
    """Only whoever has the key could have sealed it so."""
    short = seal(PLACE, KEYS, b"", revision=1, previous=NOTHING, fence=1)
    envelope = msgspec.json.decode(short, type=_Envelope6)
    for nonce in (NONCE.hex(), "zz"):
        forged = msgspec.structs.replace(envelope, nonce=nonce)
        tag = _tag_6(KEYS.key("storage-v1"), forged)
        data = msgspec.json.encode(msgspec.structs.replace(forged, auth_tag=tag))
        with refused_with("sealed.tampered"):
            unseal(PLACE, KEYS, data)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────

NEW_KEY: Final = b"\x08" * 32


@pytest.mark.rule("ST-4")
def test_a_key_is_rotated_without_a_pause() -> None:
    before = KEYS
    both = before.adding("storage-v2", NEW_KEY)
    assert unseal(PLACE, both, PLAIN).payload == SECRET
    after = both.sealing_with("storage-v2")
    new = seal(PLACE, after, SECRET, revision=4, previous=NOTHING, fence=2)
    assert unseal(PLACE, both, new).payload == SECRET
    assert unseal(PLACE, after, PLAIN).payload == SECRET
    with refused_with("sealed.key_unknown"):
        unseal(PLACE, after.without("storage-v1"), PLAIN)
    with refused_with("sealed.key_unknown"):
        unseal(PLACE, before, new)


@pytest.mark.rule("ST-4")
def test_the_same_id_with_another_key_opens_nothing() -> None:
    for data in ALL:
        with refused_with("sealed.tampered"):
            unseal(PLACE, KeyRing("storage-v1", {"storage-v1": NEW_KEY}), data)


def test_the_active_key_stays_on_its_ring() -> None:
    with refused_with("sealed.key_in_use"):
        KEYS.without("storage-v1")


@pytest.mark.parametrize(
    ("active", "keys"),
    [
        ("storage-v1", {}),
        ("storage-v1", {"storage-v1": b"short"}),
        ("storage-v1", {"storage-v1": bytes(32)}),
        ("No Token", {"No Token": NEW_KEY}),
    ],
)
def test_a_ring_that_could_not_seal_is_refused(active: str, keys: dict[str, bytes]) -> None:
    with refused_with("sealed.key_malformed"):
        KeyRing(active, keys)


def test_a_ring_shows_and_gives_away_no_key() -> None:
    assert repr(KEYS) == "KeyRing(active='storage-v1', keys=['storage-v1'])"
    with refused_with("misuse.key_ring_pickled"):
        pickle.dumps(KEYS)
