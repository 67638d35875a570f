"""Sealing: numbers, links, hashes, and what a receipt has no place for."""

import hashlib
import typing
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import msgspec
import pytest
import rfc8785

from amends.contracts.errors import Misuse, Refused
from amends.contracts.evidence import Receipt, Step, Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.receipts.chain import CODE_WITHHELD, GENESIS, chain_of, receipt_hash, seal
from tests.unit.receipts.chains import BARE, CHAIN, FULL, RING, SIGNER, START, grown, step, tail_of


@pytest.mark.rule("RC-1")
def test_steps_become_numbered_receipts_that_name_the_one_before() -> None:
    receipts = seal(None, [step(1), step(2), step(3)], SIGNER)
    assert [receipt.number for receipt in receipts] == [1, 2, 3]
    assert [receipt.chain for receipt in receipts] == [CHAIN] * 3
    assert [receipt.previous for receipt in receipts] == [
        "0" * 64,
        receipts[0].hash,
        receipts[1].hash,
    ]
    assert [receipt.step for receipt in receipts] == [step(1), step(2), step(3)]


@pytest.mark.rule("RC-1")
def test_a_chain_goes_on_from_its_tail() -> None:
    (receipt,) = seal(Tail(7, "ab" * 32), [BARE], None)
    assert (receipt.number, receipt.previous) == (8, "ab" * 32)
    whole = seal(None, [step(n) for n in range(1, 6)], None)
    in_parts = grown([2, 1, 2], signer=None)
    assert list(whole) == in_parts


def test_no_steps_make_no_receipts() -> None:
    assert seal(None, [], SIGNER) == ()


def test_the_chain_is_named_after_the_transaction() -> None:
    assert chain_of(TransactionId("txn_9")) == "transaction:txn_9"


@pytest.mark.rule("RC-2")
def test_only_the_head_of_a_change_set_is_signed() -> None:
    receipts = seal(None, [step(1), step(2), step(3)], SIGNER)
    assert [receipt.signature is None for receipt in receipts] == [True, True, False]
    assert [receipt.key_id for receipt in receipts] == [None, None, SIGNER.key_id]
    assert all(receipt.signature is None for receipt in seal(None, [step(1)], None))


@pytest.mark.rule("RC-2")
def test_the_head_signature_covers_a_tag_and_the_hash() -> None:
    (receipt,) = seal(None, [FULL], SIGNER)
    covered = b"amends-receipt-signature-v1\n" + bytes.fromhex(receipt.hash)
    assert RING.confirms(SIGNER.key_id, covered, receipt.signature or "")


@pytest.mark.rule("RC-2")
def test_the_hash_is_sha256_over_the_tag_and_the_canonical_receipt() -> None:
    """Written out by hand, so that the format cannot change without this text changing."""
    (receipt,) = seal(None, [BARE], SIGNER)
    canonical = (
        '{"chain":"transaction:txn_1","number":1,"previous":"' + "0" * 64 + '","step":{'
        '"actor":{"id":"alice","kind":"user"},"at":"2025-03-01T12:00:00.120000Z",'
        '"tenant":"acme","transaction_id":"txn_1","type":"planned"}}'
    )
    text = "amends-receipt-v1\n" + canonical
    assert receipt.hash == hashlib.sha256(text.encode()).hexdigest()
    assert receipt.hash == receipt_hash(receipt)


@pytest.mark.rule("RC-2")
def test_the_full_receipt_agrees_with_the_reference() -> None:
    (receipt,) = seal(None, [FULL], SIGNER)
    plain = msgspec.to_builtins(receipt)
    covered = {key: plain[key] for key in ("chain", "number", "previous", "step")}
    text = b"amends-receipt-v1\n" + rfc8785.dumps(covered)
    assert receipt.hash == hashlib.sha256(text).hexdigest()


@pytest.mark.rule("RC-2")
@pytest.mark.case("JRN-06")
@pytest.mark.parametrize("microsecond", [0, 1, 120_000, 999_999])
def test_a_receipt_keeps_its_hash_through_storage(microsecond: int) -> None:
    at = START.replace(microsecond=microsecond)
    receipts = seal(None, [msgspec.structs.replace(FULL, at=at), BARE], SIGNER)
    for receipt in receipts:
        for stored in (
            msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt),
            msgspec.msgpack.decode(msgspec.msgpack.encode(receipt), type=Receipt),
        ):
            assert stored == receipt
            assert receipt_hash(stored) == receipt.hash


@pytest.mark.case("JRN-06")
def test_an_instant_has_one_hash_in_whatever_zone_it_was_read() -> None:
    elsewhere = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
    (here,) = seal(None, [FULL], SIGNER)
    (there,) = seal(None, [msgspec.structs.replace(FULL, at=elsewhere)], SIGNER)
    assert there.hash == here.hash
    assert there.step.at.tzinfo is UTC


def test_a_naive_time_is_refused() -> None:
    naive = datetime(2025, 3, 1)  # noqa: DTZ001 - naive on purpose
    with pytest.raises(Refused) as refused:
        seal(None, [msgspec.structs.replace(BARE, at=naive)], None)
    assert refused.value.code == "input.invalid_time"


def test_a_member_that_says_nothing_does_not_count_into_the_hash() -> None:
    """So a later version may add members; an empty text does say something."""

    class Later(Step, frozen=True, kw_only=True):
        invented: str | None = None
        more: dict[str, str] = msgspec.field(default_factory=dict)

    later = msgspec.convert(msgspec.to_builtins(BARE), Later)
    (receipt,) = seal(None, [BARE], None)
    assert receipt_hash(msgspec.structs.replace(receipt, step=later)) == receipt.hash
    told = msgspec.structs.replace(later, invented="")
    assert receipt_hash(msgspec.structs.replace(receipt, step=told)) != receipt.hash


@pytest.mark.parametrize(
    "other", [{"tenant": TenantId("b")}, {"transaction_id": TransactionId("t")}]
)
def test_steps_of_two_transactions_are_not_chained_together(other: dict[str, str]) -> None:
    with pytest.raises(Misuse) as misused:
        seal(None, [BARE, msgspec.structs.replace(BARE, **other)], None)
    assert misused.value.code == "misuse.receipt_steps_mixed"


# ── nothing raw ──────────────────────────────────────────────────────────────────────────────────


def leaf_types(annotation: object) -> set[object]:
    """Every type that can be reached from an annotation, records taken apart."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        hints = typing.get_type_hints(annotation)
        return {leaf for hint in hints.values() for leaf in leaf_types(hint)}
    inner = typing.get_args(annotation)
    if inner:
        return {leaf for part in inner for leaf in leaf_types(part)}
    return {getattr(annotation, "__supertype__", annotation)}


@pytest.mark.rule("RC-4")
def test_no_place_in_a_receipt_takes_more_than_names_numbers_and_times() -> None:
    leaves = leaf_types(Receipt)
    enums = {leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, StrEnum)}
    assert leaves - enums == {str, int, datetime, type(None)}


@pytest.mark.rule("RC-4")
def test_every_text_in_a_receipt_is_an_id_a_code_or_a_digest() -> None:
    """A new free text has to be added here, and then somebody asks what may stand in it."""
    texts = {
        name
        for record in (Step, PrincipalRef, ProviderOperation)
        for name, hint in record.__annotations__.items()
        if str in leaf_types(typing.get_type_hints(record)[name]) and hint is not None
    }
    assert texts == {
        *("tenant", "transaction_id", "action_id", "capability_id", "plan_id", "approval_id"),
        *("fence", "code", "hashes", "id", "actor", "operation"),
        *("provider", "operation_id", "request_id"),
    }


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize("code", ["the CANARY of a provider", "CANARY\n", "C" * 129, "", "é"])
def test_a_code_that_is_a_text_is_withheld(code: str) -> None:
    (receipt,) = seal(None, [msgspec.structs.replace(FULL, code=code)], SIGNER)
    assert receipt.step.code == CODE_WITHHELD
    assert receipt.hash == receipt_hash(receipt)


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize(
    "hashes", [{"input": "CANARY"}, {"CANARY": "ab" * 32}, {"input": "AB" * 32}, {"input": ""}]
)
def test_what_is_no_digest_does_not_pass_for_one(hashes: dict[str, str]) -> None:
    with pytest.raises(Misuse) as misused:
        seal(None, [msgspec.structs.replace(FULL, hashes=hashes)], SIGNER)
    assert misused.value.code == "misuse.receipt_hashes"
    assert "CANARY" not in str(misused.value)


def test_the_tail_of_a_chain_is_its_last_receipt() -> None:
    receipts = grown([1, 2])
    assert tail_of(receipts) == Tail(3, receipts[2].hash)
    assert receipts[0].previous == GENESIS
