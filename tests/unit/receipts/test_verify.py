"""Every kind of fault, at its exact place and alone; and chains that have none."""

from collections.abc import Callable

import msgspec
import pytest

from amends.contracts.evidence import Receipt, ReceiptType, Step, Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.chain import receipt_hash, seal
from amends.receipts.signing import KeyRing, signed_bytes
from amends.receipts.verify import UNDER_WAY, Fault, FaultCode, Verification, verify_chain
from tests.unit.receipts.chains import (
    CHAIN,
    OTHER_SIGNER,
    RING,
    SIGNER,
    grown,
    step,
    tail_of,
)

Faults = list[tuple[str, int]]


def faults(
    receipts: list[Receipt],
    keys: KeyRing = RING,
    *,
    head: Tail | None = None,
    chain: str | None = None,
) -> Faults:
    found = verify_chain(receipts, keys, expected_head=head, chain=chain)
    assert found.ok is not bool(found.findings)
    assert (found.head is None) is bool(found.findings)
    return [(fault.code.value, fault.position) for fault in found.findings]


def changed(receipts: list[Receipt], position: int, **values: object) -> list[Receipt]:
    """A copy in which one receipt has other values; its hash stays what it was."""
    copy = list(receipts)
    copy[position] = msgspec.structs.replace(copy[position], **values)
    return copy


def rehashed(receipt: Receipt) -> Receipt:
    return msgspec.structs.replace(receipt, hash=receipt_hash(receipt))


def signed(receipt: Receipt) -> Receipt:
    signature = SIGNER.sign(signed_bytes(receipt.hash)).hex()
    return msgspec.structs.replace(receipt, key_id=SIGNER.key_id, signature=signature)


@pytest.mark.rule("RC-1", "RC-2")
@pytest.mark.parametrize("sizes", [[1], [3], [1, 1, 1], [2, 5, 1]])
def test_a_chain_as_it_was_sealed_has_no_faults(sizes: list[int]) -> None:
    receipts = grown(sizes)
    found = verify_chain(receipts, RING, expected_head=tail_of(receipts), chain=CHAIN)
    assert found == Verification((), tail_of(receipts))
    assert found.ok


def test_an_empty_chain_is_a_fault_of_its_own() -> None:
    assert faults([]) == [("receipt.empty", 0)]
    assert faults([], head=Tail(3, "ab" * 32), chain=CHAIN) == [("receipt.empty", 0)]


@pytest.mark.case("JRN-07")
@pytest.mark.parametrize("position", range(5))
def test_an_altered_receipt_is_named_and_no_other(position: int) -> None:
    altered = msgspec.structs.replace(step(position + 1), attempt=9)
    assert faults(changed(grown([2, 3]), position, step=altered)) == [
        ("receipt.hash_mismatch", position)
    ]


@pytest.mark.case("JRN-07")
@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize(
    "values",
    [
        {"hash": "ab" * 32},
        {"hash": ""},
        {"previous": "ab" * 32},
        {"number": 99},
        {"number": 1_000_000_000_000},
        {"number": 2**60},
        {"chain": "transaction:txn_2"},
        {"chain": "\ud800"},
    ],
)
def test_an_altered_place_is_no_more_than_an_altered_receipt(
    position: int, values: dict[str, object]
) -> None:
    assert faults(changed(grown([2, 3]), position, **values)) == [
        ("receipt.hash_mismatch", position)
    ]


def test_a_receipt_without_canonical_form_cannot_pass_with_an_empty_hash() -> None:
    assert faults(changed(grown([3]), 1, chain="\ud800", hash="")) == [
        ("receipt.hash_mismatch", 1),
        ("receipt.broken_link", 2),
    ]


def test_a_step_without_canonical_form_is_an_altered_receipt_and_no_crash() -> None:
    receipts = grown([3])
    step = msgspec.structs.replace(receipts[1].step, code="\ud800")
    assert faults(changed(receipts, 1, step=step)) == [("receipt.hash_mismatch", 1)]


def test_a_receipt_of_another_tenant_in_the_same_chain_is_foreign() -> None:
    one, two = grown([1, 1])
    step = msgspec.structs.replace(two.step, tenant=TenantId("globex"))
    theirs = seal(tail_of([one]), [step], SIGNER)
    assert faults([one, *theirs]) == [("receipt.foreign", 1)]


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("position", range(4))
def test_an_altered_receipt_with_a_new_hash_breaks_the_next_link(position: int) -> None:
    receipts = grown([5])
    forged = rehashed(
        msgspec.structs.replace(receipts[position], step=msgspec.structs.replace(step(9)))
    )
    receipts[position] = forged
    assert faults(receipts) == [("receipt.broken_link", position + 1)]


@pytest.mark.rule("RC-2")
def test_a_chain_rewritten_to_its_end_fails_at_the_signature() -> None:
    receipts = grown([2, 3])
    rewritten = [*receipts[:1], *seal(tail_of(receipts[:1]), [step(8)] * 4, None)]
    rewritten[-1] = msgspec.structs.replace(
        rewritten[-1], key_id=SIGNER.key_id, signature=receipts[-1].signature
    )
    assert faults(rewritten) == [("receipt.signature_invalid", 4)]
    assert faults(rewritten, head=tail_of(receipts)) == [
        ("receipt.signature_invalid", 4),
        ("receipt.fork", 4),
    ]


def test_a_first_receipt_that_follows_something_is_a_broken_link() -> None:
    first = msgspec.structs.replace(grown([1])[0], previous="ab" * 32)
    assert faults([signed(rehashed(first))]) == [("receipt.broken_link", 0)]


@pytest.mark.rule("RC-1")
@pytest.mark.case("JRN-07")
@pytest.mark.parametrize("position", range(4))
def test_a_dropped_receipt_is_a_gap_where_the_next_one_stands(position: int) -> None:
    receipts = grown([2, 3])
    del receipts[position]
    assert faults(receipts) == [("receipt.gap", position)]


def test_two_gaps_are_two_faults() -> None:
    receipts = grown([9])
    assert faults([receipts[n] for n in (0, 3, 4, 7, 8)]) == [
        ("receipt.gap", 1),
        ("receipt.gap", 3),
    ]


@pytest.mark.rule("RC-1")
@pytest.mark.parametrize("position", range(4))
def test_two_receipts_that_changed_places_are_reordered(position: int) -> None:
    receipts = grown([5])
    receipts[position : position + 2] = reversed(receipts[position : position + 2])
    assert faults(receipts) == [("receipt.reordered", position + 1)]


def test_a_receipt_numbered_before_the_first_is_out_of_order() -> None:
    receipts = grown([2])
    early = rehashed(msgspec.structs.replace(receipts[0], number=0))
    assert faults([early, *receipts]) == [("receipt.reordered", 0)]


@pytest.mark.rule("RC-1")
@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("distance", [1, 2])
def test_a_repeated_receipt_is_a_duplicate(position: int, distance: int) -> None:
    receipts = grown([5])
    place = min(position + distance, 5)
    receipts.insert(place, receipts[position])
    assert faults(receipts) == [("receipt.duplicate", place)]


@pytest.mark.rule("RC-1")
@pytest.mark.case("JRN-07")
def test_two_receipts_after_the_same_one_are_a_fork_and_not_an_alteration() -> None:
    receipts = grown([3])
    (other,) = seal(tail_of(receipts), [step(8)], SIGNER)
    assert faults([*grown([3, 1]), other]) == [("receipt.fork", 4)]


def test_an_altered_copy_beside_its_original_is_only_altered() -> None:
    receipts = grown([3])
    copy = msgspec.structs.replace(receipts[1], step=step(8))
    assert faults([*receipts[:2], copy, receipts[2]]) == [("receipt.hash_mismatch", 2)]


def of_another(values: dict[str, str]) -> Receipt:
    first: Step = msgspec.structs.replace(step(1), **values)
    return seal(None, [first], SIGNER)[0]


def misplaced() -> Receipt:
    """A receipt that names this chain and tells of another transaction."""
    (receipt,) = seal(None, [msgspec.structs.replace(step(1), transaction_id="txn_2")], SIGNER)
    return signed(rehashed(msgspec.structs.replace(receipt, chain=CHAIN)))


@pytest.mark.rule("RC-1")
@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize(
    "make",
    [
        lambda: of_another({"transaction_id": TransactionId("txn_2")}),
        lambda: of_another({"tenant": TenantId("other")}),
        misplaced,
    ],
)
@pytest.mark.parametrize("chain", [None, CHAIN])
def test_a_receipt_of_another_chain_is_foreign(
    position: int, make: Callable[[], Receipt], chain: str | None
) -> None:
    receipts = grown([3])
    receipts.insert(position, make())
    assert faults(receipts, chain=chain) == [("receipt.foreign", position)]


def test_a_whole_chain_in_place_of_another_is_foreign() -> None:
    receipts = grown([2])
    assert faults(receipts, chain="transaction:txn_2", head=Tail(1, "ab" * 32)) == [
        ("receipt.foreign", 0),
        ("receipt.foreign", 1),
        ("receipt.cut_tail", 2),
    ]


@pytest.mark.rule("RC-2")
def test_the_head_must_be_signed_when_keys_are_given() -> None:
    receipts = grown([3], signer=None)
    assert faults(receipts) == [("receipt.signature_missing", 2)]
    assert faults(receipts, KeyRing()) == []


@pytest.mark.rule("RC-2")
def test_a_tail_cut_inside_a_change_set_leaves_no_signed_head() -> None:
    assert faults(grown([2, 3])[:4]) == [("receipt.signature_missing", 3)]


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("keys", [KeyRing([OTHER_SIGNER.public_key]), KeyRing()])
def test_a_signature_that_nobody_can_check_is_no_signature(keys: KeyRing) -> None:
    assert faults(grown([2, 1]), keys) == [("receipt.key_unknown", 1), ("receipt.key_unknown", 2)]


@pytest.mark.rule("RC-2")
def test_a_chain_that_was_signed_by_two_keys_needs_both() -> None:
    receipts = grown([2])
    receipts += seal(tail_of(receipts), [step(3)], OTHER_SIGNER)
    assert faults(receipts, KeyRing([*RING, OTHER_SIGNER.public_key])) == []
    assert faults(receipts) == [("receipt.key_unknown", 2)]


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"signature": "00" * 64}, "receipt.signature_invalid"),
        ({"signature": "short"}, "receipt.signature_invalid"),
        ({"signature": None}, "receipt.signature_missing"),
        ({"signature": None, "key_id": None}, "receipt.signature_missing"),
        ({"key_id": None}, "receipt.key_unknown"),
        ({"key_id": "0" * 16}, "receipt.key_unknown"),
        ({"key_id": OTHER_SIGNER.key_id}, "receipt.signature_invalid"),
    ],
)
def test_a_changed_signature_is_found(values: dict[str, str | None], code: str) -> None:
    ring = KeyRing([*RING, OTHER_SIGNER.public_key])
    assert faults(changed(grown([2, 2]), 3, **values), ring) == [(code, 3)]


@pytest.mark.rule("RC-2")
@pytest.mark.case("JRN-07")
@pytest.mark.parametrize("left", [1, 2, 3])
def test_a_cut_tail_is_found_against_a_kept_head(left: int) -> None:
    receipts = grown([1, 1, 1, 1])
    assert faults(receipts[:left]) == []
    assert faults(receipts[:left], head=tail_of(receipts)) == [("receipt.cut_tail", left)]


@pytest.mark.rule("RC-2")
def test_a_chain_may_have_grown_past_a_kept_head_but_leads_through_it() -> None:
    receipts = grown([2, 2])
    assert faults(receipts, head=tail_of(receipts[:2])) == []
    assert faults(receipts, head=Tail(2, "ab" * 32)) == [("receipt.fork", 1)]


def test_a_kept_head_says_nothing_about_an_altered_receipt() -> None:
    receipts = grown([3])
    altered = changed(receipts, 1, hash="ab" * 32)
    assert faults(altered, head=tail_of(receipts[:2])) == [("receipt.hash_mismatch", 1)]


def test_findings_are_in_the_order_of_the_receipts() -> None:
    receipts = changed(grown([1, 1, 1, 1]), 3, signature="00" * 64)
    del receipts[1]
    receipts[0] = msgspec.structs.replace(receipts[0], hash="")
    assert verify_chain(receipts, RING, expected_head=Tail(9, "")).findings == (
        Fault(FaultCode.HASH_MISMATCH, 0),
        Fault(FaultCode.GAP, 1),
        Fault(FaultCode.SIGNATURE_INVALID, 2),
        Fault(FaultCode.CUT_TAIL, 3),
    )


@pytest.mark.rule("RC-2")
@pytest.mark.parametrize("type_", sorted(UNDER_WAY))
def test_the_start_of_an_attempt_stands_unsigned_until_the_settlement_signs(
    type_: ReceiptType,
) -> None:
    settled = grown([2])
    started = msgspec.structs.replace(step(2), type=type_)
    under_way = [*settled, *seal(tail_of(settled), [started], None)]
    assert faults(under_way) == []
    ended = [*under_way, *seal(tail_of(under_way), [step(3)], None)]
    assert faults(ended) == [("receipt.signature_missing", 3)]
