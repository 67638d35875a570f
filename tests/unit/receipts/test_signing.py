"""Keys: deterministic, named after themselves, and private ones stay inside."""

import copy
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.errors import Corrupt, Misuse
from amends.receipts.signing import Ed25519Signer, KeyRing, PublishedKey, Signer, key_id_of
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import OTHER_SIGNER, SIGNER

# RFC 8032, section 7.1, test 2.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


@pytest.mark.rule("RC-2")
def test_signatures_are_those_of_the_standard_and_always_the_same() -> None:
    signer = Ed25519Signer(SECRET)
    assert signer.public_key.hex() == PUBLIC
    assert signer.sign(b"\x72").hex() == SIGNATURE
    assert Ed25519Signer(SECRET).sign(b"\x72").hex() == SIGNATURE


@pytest.mark.rule("RC-2")
@given(secret=st.binary(min_size=32, max_size=32), data=st.binary(max_size=200))
def test_two_implementations_sign_alike_and_confirm_each_other(secret: bytes, data: bytes) -> None:
    signer, other = Ed25519Signer(secret), Ed25519PrivateKey.from_private_bytes(secret)
    assert signer.public_key == other.public_key().public_bytes_raw()
    assert signer.sign(data) == other.sign(data)
    assert KeyRing([signer.public_key]).confirms(signer.key_id, data, signer.sign(data).hex())


def test_a_key_is_named_after_its_public_half() -> None:
    signer: Signer = SIGNER
    assert signer.key_id == key_id_of(SIGNER.public_key)
    assert len(signer.key_id) == 16
    assert signer.key_id != OTHER_SIGNER.key_id


def test_a_private_key_is_neither_printed_nor_pickled() -> None:
    signer = Ed25519Signer(SECRET)
    assert repr(signer) == f"Ed25519Signer(key_id={signer.key_id!r})"
    assert SECRET.hex() not in repr(signer)
    for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(Misuse) as misused:
            refuse(signer)
        assert misused.value.code == "misuse.signer_pickled"


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    for read in (Ed25519Signer, lambda key: KeyRing([key])):
        with pytest.raises(Corrupt) as corrupt:
            read(bytes(length))
        assert corrupt.value.code == "receipt.key_malformed"


def test_a_ring_confirms_what_its_keys_signed_and_nothing_else() -> None:
    ring = KeyRing([bytes.fromhex(PUBLIC)])
    key_id = key_id_of(bytes.fromhex(PUBLIC))
    assert ring.confirms(key_id, b"\x72", SIGNATURE)
    assert not ring.confirms(key_id, b"\x73", SIGNATURE)
    assert not ring.confirms(key_id, b"\x72", "00" * 64)
    assert not ring.confirms(SIGNER.key_id, b"\x72", SIGNATURE)


@pytest.mark.parametrize(
    "spelling", [SIGNATURE.upper(), f" {SIGNATURE}", f"{SIGNATURE}\n", SIGNATURE[:-2], "", "xyz"]
)
def test_a_signature_has_one_spelling(spelling: str) -> None:
    ring = KeyRing([bytes.fromhex(PUBLIC)])
    assert not ring.confirms(key_id_of(bytes.fromhex(PUBLIC)), b"\x72", spelling)


def test_bytes_that_are_no_point_of_the_curve_confirm_nothing() -> None:
    nonsense = b"\xff" * 32
    assert not KeyRing([nonsense]).confirms(key_id_of(nonsense), b"\x72", SIGNATURE)


def test_a_ring_grows_by_making_a_new_one() -> None:
    ring = KeyRing([SIGNER.public_key, SIGNER.public_key])
    grown = KeyRing([*ring, OTHER_SIGNER.public_key])
    assert (len(KeyRing()), len(ring), len(grown)) == (0, 1, 2)
    assert OTHER_SIGNER.key_id in grown
    assert OTHER_SIGNER.key_id not in ring


@pytest.mark.rule("RC-2")
def test_a_signer_brings_its_own_ring_and_stands_for_itself() -> None:
    assert SIGNER.held() is SIGNER
    assert list(SIGNER.ring) == [SIGNER.public_key]
    assert SIGNER.ring.get(SIGNER.key_id) == PublishedKey(public_key=SIGNER.public_key)
    assert SIGNER.ring.get("0" * 16) is None


@pytest.mark.rule("RC-2")
def test_a_published_key_is_checked_like_any_other() -> None:
    with refused_with("receipt.key_malformed"):
        PublishedKey(public_key=b"short")


def test_a_signer_made_of_its_own_private_bytes_is_the_same_signer() -> None:
    signer = Ed25519Signer(bytes(range(32)))
    assert signer.private_bytes() == bytes(range(32))
    assert Ed25519Signer(signer.private_bytes()).key_id == signer.key_id
