"""Proofs: what one shows to whoever kept a checkpoint, and each way in which one fails."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from amends.contracts.evidence import Tail
from amends.contracts.ids import TransactionId
from amends.receipts.bundle import Inclusion
from amends.receipts.checkpoint import LogFault, read_note
from amends.receipts.keyset import Jwk, jwk_of
from amends.receipts.merkle import Tree
from amends.receipts.proof import (
    PROOF_BEGINS,
    PROOF_FORMAT,
    HeadFault,
    Proof,
    check_proof,
    keys_of,
    read_proof,
    write_proof,
)
from amends.receipts.signing import KeyRing, PublishedKey
from amends.testing.refusals import refused_with
from tests.unit.receipts import logs
from tests.unit.receipts.chains import SIGNER

pytestmark = pytest.mark.rule("RC-3")
KEYS = KeyRing([SIGNER.public_key])
NAME = TransactionId("txn_2")
HEAD = Tail(3, logs.CHAINS["txn_2"][2].hash)


def proof(**changes: object) -> Proof:
    """That the second and third receipts of a transaction are in the log."""
    told = Proof(
        format=PROOF_FORMAT,
        store=logs.LINEAGE,
        keys=(jwk_of(PublishedKey(public_key=SIGNER.public_key)),),
        tenant=logs.TENANT,
        transaction_id=NAME,
        receipts=tuple(Tail(one.number, one.hash) for one in logs.CHAINS["txn_2"][1:]),
        checkpoints=logs.published(6, 9),
        inclusions=(logs.inclusion("txn_2", 2, 6), logs.inclusion("txn_2", 3, 9)),
    )
    return replace(told, **changes)


def found(told: Proof, *sizes: int, keys: KeyRing = KEYS) -> list[tuple[str, int]]:
    checked = check_proof(told, keys, {}, tuple(map(logs.kept, sizes)))
    return [(one.code.value, one.size) for one in checked.log.findings]


def test_a_proof_holds_for_whoever_kept_one_of_its_checkpoints() -> None:
    told = read_proof(write_proof(proof()))
    assert told == proof()
    assert write_proof(told).startswith(PROOF_BEGINS)
    assert keys_of(told).get(SIGNER.key_id) is not None
    checked = check_proof(told, KEYS, {NAME: HEAD}, (logs.kept(6),))
    assert (checked.heads, checked.log.findings) == ((), ())
    assert [size for size, _ in checked.log.checkpoints] == [6, 9]


OTHER = Tree(logs.leaves(logs.LOG[::-1]))
MOVED: list[tuple[str, Callable[[], Proof], tuple[str, int]]] = [
    (
        "a receipt of another hash",
        lambda: proof(receipts=(proof().receipts[0], Tail(3, "ab" * 32))),
        ("checkpoint.proof_invalid", 9),
    ),
    (
        "a receipt whose hash is none",
        lambda: proof(receipts=(proof().receipts[0], Tail(3, "no hash"))),
        ("checkpoint.proof_invalid", 9),
    ),
    (
        "a path of another receipt",
        lambda: proof(inclusions=(proof().inclusions[0], elsewhere())),
        ("checkpoint.proof_invalid", 9),
    ),
    (
        "a path to a checkpoint that is not there",
        lambda: proof(checkpoints=logs.published(6)),
        ("checkpoint.proof_invalid", 9),
    ),
    (
        "checkpoints that do not go on from one another",
        lambda: proof(checkpoints=(logs.published(6)[0], *logs.published(9))),
        ("checkpoint.inconsistent", 9),
    ),
    ("another store", lambda: proof(store="0198bb"), ("checkpoint.foreign", 6)),
]


def elsewhere() -> Inclusion:
    return replace(logs.inclusion("txn_3", 3, 9), number=3)


@pytest.mark.parametrize(("told", "fault"), [row[1:] for row in MOVED], ids=[r[0] for r in MOVED])
def test_a_proof_that_was_changed_does_not_hold(
    told: Callable[[], Proof], fault: tuple[str, int]
) -> None:
    assert found(told())[0] == fault


def test_a_kept_checkpoint_has_to_be_led_through_and_to_tell_of_the_same_history() -> None:
    assert found(proof(), 3) == [(LogFault.UNPROVEN, 3)]
    other = read_note(logs.note(9, tree=OTHER))
    checked = check_proof(proof(), KEYS, {}, (other,))
    assert [one.code for one in checked.log.findings] == [LogFault.INCONSISTENT]


def test_a_proof_of_another_key_is_told_and_without_keys_nobody_asks() -> None:
    foreign = KeyRing([b"\x09" * 32])
    assert {code for code, _ in found(proof(), keys=foreign)} == {"checkpoint.key_unknown"}
    assert found(proof(), 9, keys=KeyRing()) == []


@pytest.mark.parametrize(
    ("name", "head", "fault"),
    [
        (NAME, Tail(2, logs.CHAINS["txn_2"][1].hash), None),
        (NAME, Tail(3, "cd" * 32), HeadFault.DIFFERS),
        (NAME, Tail(1, logs.CHAINS["txn_2"][0].hash), HeadFault.UNCOVERED),
        (TransactionId("txn_3"), HEAD, HeadFault.UNMATCHED),
    ],
)
def test_a_kept_head_is_one_of_those_that_are_proved(
    name: TransactionId, head: Tail, fault: HeadFault | None
) -> None:
    checked = check_proof(proof(), KEYS, {name: head}, ())
    assert checked.heads == (() if fault is None else (fault,))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        PROOF_BEGINS,
        write_proof(proof())[:-3],
        write_proof(proof()).removesuffix(b"\n"),
        write_proof(proof()) + b"\n",
        write_proof(proof()).replace(b'"store":', b'"store": '),
        write_proof(proof()).replace(b'"tenant":', b'"more":1,"tenant":'),
        write_proof(proof(receipts=proof().receipts[1:])),
        write_proof(proof(receipts=(), inclusions=())),
        b"[" * 100_000,
    ],
)
def test_what_prove_would_not_have_written_is_no_proof(raw: bytes) -> None:
    with refused_with("proof.malformed"):
        read_proof(raw)


def test_a_format_of_another_version_and_keys_that_are_none_are_told() -> None:
    with refused_with("proof.unknown_format"):
        read_proof(write_proof(proof(format="amends-proof-2")))
    with refused_with("proof.malformed"):
        keys_of(proof(keys=(Jwk(kty="OKP", crv="Ed25519", x="none"),)))
