"""Published keys: a JWK Set that others can pin, read back as it was written and no other way."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from amends.receipts.keyset import (
    from_base64url,
    jwk_of,
    key_of,
    read_key_set,
    to_base64url,
    write_key_set,
)
from amends.receipts.signing import PublishedKey, key_id_of
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import OTHER_SIGNER, SIGNER, START

pytestmark = pytest.mark.rule("RC-2")

OLD: Final = PublishedKey(
    public_key=OTHER_SIGNER.public_key,
    since=START,
    until=START + timedelta(days=1),
    compromised=START + timedelta(hours=2),
)
NEW: Final = PublishedKey(public_key=SIGNER.public_key)
RFC_8037: Final = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
"""The public key of the example in RFC 8037, appendix A."""


def written() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(write_key_set([OLD, NEW]))
    return document


def test_a_key_is_published_as_other_tools_know_it() -> None:
    old, new = written()["keys"]
    assert new == {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": to_base64url(SIGNER.public_key),
        "kid": SIGNER.key_id,
        "use": "sig",
        "alg": "EdDSA",
    }
    assert old["revoked"] == {"revoked_at": 1740837600, "reason": "compromised"}
    assert (old["iat"], old["exp"]) == (1740830400, 1740916801)


def test_a_set_is_read_back_with_its_spans_widened_to_whole_seconds() -> None:
    ring = read_key_set(write_key_set([OLD, NEW]))
    old, new = ring.published
    assert new == NEW
    assert old.since == START.replace(microsecond=0)
    assert old.until == (START + timedelta(days=1, seconds=1)).replace(microsecond=0)
    assert old.compromised == (START + timedelta(hours=2)).replace(microsecond=0)
    assert all(key_of(jwk_of(key)) == key for key in ring.published)


def test_a_set_of_somebody_elses_making_is_read() -> None:
    text = json.dumps(
        {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": RFC_8037, "more": 1}], "n": 2}
    )
    (key,) = read_key_set(text.encode()).published
    assert key.key_id == key_id_of(from_base64url(RFC_8037))


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "EC"},
        {"crv": "X25519"},
        {"x": "AAAA"},
        {"x": "*" * 43},
        {"x": RFC_8037[:-1] + "p"},
        {"x": RFC_8037 + "=="},
        {"kid": "0" * 16},
        {"iat": -1},
        {"exp": 10**12},
        {"exp": "soon"},
        {"revoked": {}},
        {"revoked": {"revoked_at": 10**12}},
    ],
)
def test_a_key_that_is_none_is_refused(change: dict[str, object]) -> None:
    document = written()
    document["keys"][0] |= change
    with refused_with("keys.malformed"):
        read_key_set(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys":[]}', b"\xff", b'{"keys":1}'])
def test_a_set_that_is_none_is_refused(text: bytes) -> None:
    with refused_with("keys.malformed"):
        read_key_set(text)


def test_a_private_part_is_passed_over() -> None:
    document = written()
    document["keys"][0]["d"] = to_base64url(bytes(32))
    ring = read_key_set(json.dumps(document).encode())
    assert len(ring) == 2
    assert b'"d"' not in write_key_set(ring.published)


def test_the_last_second_of_the_calendar_can_be_published() -> None:
    far = PublishedKey(public_key=SIGNER.public_key, until=datetime(9999, 12, 31, tzinfo=UTC))
    assert read_key_set(write_key_set([far])).published == (far,)
