"""Whatever is done to a chain is found; what nothing was done to is not suspected."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random

import msgspec
import pytest
import rfc8785
from hypothesis import assume, given
from hypothesis import strategies as st

from amends.contracts.enums import PrincipalKind, Status, Verdict
from amends.contracts.evidence import Receipt, ReceiptType, Step, Tail
from amends.contracts.json_types import JsonObject
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.receipts.chain import receipt_hash, seal
from amends.receipts.signing import Ed25519Signer, KeyRing
from amends.receipts.verify import Fault, FaultCode, examine, is_sound, verify_chain

SIGNER = Ed25519Signer(b"\x01" * 32)
RING = KeyRing([SIGNER.public_key])

names = st.text("abc_.:-", min_size=1, max_size=6)
foreign_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
hex_digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
instants = st.datetimes(
    datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)  # noqa: DTZ001 - bounds
)  # fmt: skip
counts = st.integers(0, 2**53 - 1)
operations = st.builds(ProviderOperation, foreign_texts, foreign_texts, st.none() | foreign_texts)


def steps_of(tenant: str, transaction_id: str) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        type=st.sampled_from(ReceiptType),
        tenant=st.just(tenant),
        transaction_id=st.just(transaction_id),
        at=instants,
        actor=st.builds(PrincipalRef, names, st.sampled_from(PrincipalKind)),
        action_id=st.none() | names,
        capability_id=st.none() | names,
        plan_id=st.none() | names,
        approval_id=st.none() | names,
        status=st.none() | st.sampled_from(Status),
        verdict=st.none() | st.sampled_from(Verdict),
        revision=st.none() | counts,
        attempt=st.none() | counts,
        fence=st.none() | names,
        code=st.none() | foreign_texts,
        hashes=st.dictionaries(st.sampled_from(["input", "output", "plan"]), hex_digests),
        operation=st.none() | operations,
    )


@st.composite
def chains(draw: st.DrawFn, min_size: int = 1) -> list[Receipt]:
    """A chain that grew by change sets of any sizes, each head signed."""
    steps = steps_of("acme", draw(names))
    receipts: list[Receipt] = []
    while len(receipts) < min_size or draw(st.booleans()):
        tail = Tail(receipts[-1].number, receipts[-1].hash) if receipts else None
        receipts += seal(tail, draw(st.lists(steps, min_size=1, max_size=3)), SIGNER)
    return receipts


def codes(receipts: list[Receipt], head: Tail | None = None) -> set[FaultCode]:
    found = verify_chain(receipts, RING, expected_head=head)
    return {fault.code for fault in found.findings}


def head_of(receipts: list[Receipt]) -> Tail:
    return Tail(receipts[-1].number, receipts[-1].hash)


@pytest.mark.rule("RC-1", "RC-2")
@given(chains())
def test_a_chain_that_nobody_touched_verifies(receipts: list[Receipt]) -> None:
    found = verify_chain(receipts, RING, expected_head=head_of(receipts))
    assert found.ok
    assert found.head == head_of(receipts)


@pytest.mark.rule("RC-2")
@pytest.mark.case("JRN-06")
@given(chains())
def test_a_stored_chain_verifies_as_well(receipts: list[Receipt]) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(receipts), type=list[Receipt])
    assert stored == receipts
    assert verify_chain(stored, RING, expected_head=head_of(receipts)).ok


@pytest.mark.rule("RC-2")
@given(chains())
def test_the_hash_agrees_with_the_reference_whatever_the_receipt_holds(
    receipts: list[Receipt],
) -> None:
    for receipt in receipts:
        plain = msgspec.to_builtins(receipt)
        covered = {name: plain[name] for name in ("chain", "number", "previous", "step")}
        text = b"amends-receipt-v1\n" + rfc8785.dumps(without_silent(covered))
        assert receipt.hash == hashlib.sha256(text).hexdigest() == receipt_hash(receipt)


def without_silent(members: JsonObject) -> JsonObject:
    kept = {
        name: without_silent(item) if isinstance(item, dict) else item
        for name, item in members.items()
    }
    return {name: item for name, item in kept.items() if item is not None and item != {}}


Path = tuple[str, ...]


def fields_of(record: msgspec.Struct, path: Path = ()) -> Iterator[Path]:
    for name in record.__struct_fields__:
        value = getattr(record, name)
        yield (*path, name)
        if isinstance(value, msgspec.Struct):
            yield from fields_of(value, (*path, name))


def with_field(record: msgspec.Struct, path: Path, value: object) -> msgspec.Struct:
    if len(path) > 1:
        value = with_field(getattr(record, path[0]), path[1:], value)
    return msgspec.structs.replace(record, **{path[0]: value})


def field(record: object, path: Path) -> object:
    for name in path:
        record = getattr(record, name)
    return record


def other_value(data: st.DataObject, value: object) -> object:
    """Another value that the same field could hold."""
    if isinstance(value, StrEnum):
        return data.draw(st.sampled_from(type(value)))
    if isinstance(value, str):
        return data.draw(st.sampled_from([f"{value}x", value[:-1], value.upper(), f" {value}", ""]))
    if isinstance(value, int):
        return data.draw(st.sampled_from([value + 1, value - 1, -value, 0, 2**63]))
    if isinstance(value, datetime):
        return value + timedelta(microseconds=data.draw(st.sampled_from([-1, 1, 10**6])))
    if isinstance(value, dict):
        return data.draw(st.dictionaries(names, hex_digests, max_size=2))
    if isinstance(value, msgspec.Struct):
        return None
    return data.draw(names | counts | st.just(""))


@pytest.mark.rule("RC-2")
@pytest.mark.case("JRN-07")
@given(chains(), st.data())
def test_any_change_of_any_field_is_found_where_it_was_made(
    receipts: list[Receipt], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(receipts) - 1))
    path = data.draw(st.sampled_from(list(fields_of(receipts[position]))))
    value = other_value(data, field(receipts[position], path))
    assume(value is not None or path != ("step",))
    assume(path != ("step", "actor") or value is not None)
    altered = with_field(receipts[position], path, value)
    assert isinstance(altered, Receipt)
    assume(altered != receipts[position])
    tampered = [*receipts[:position], altered, *receipts[position + 1 :]]
    found = verify_chain(tampered, RING, expected_head=head_of(receipts))
    assert [fault.position for fault in found.findings] == [position]


@pytest.mark.rule("RC-2")
@pytest.mark.case("JRN-07")
@given(chains(), st.data())
def test_any_flipped_bit_of_an_exported_chain_is_found(
    receipts: list[Receipt], data: st.DataObject
) -> None:
    """Every bit of the text counts: it no longer reads, or reads as the same, or is found."""
    text = bytearray(msgspec.json.encode(receipts))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = msgspec.json.decode(bytes(text), type=list[Receipt])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    found = verify_chain(read, RING, expected_head=head_of(receipts))
    assert found.ok is (read == receipts)


@pytest.mark.rule("RC-1")
@given(chains(min_size=2), st.data())
def test_a_dropped_receipt_is_found(receipts: list[Receipt], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(receipts) - 1))
    kept = [*receipts[:position], *receipts[position + 1 :]]
    wanted = FaultCode.GAP if position < len(kept) else FaultCode.CUT_TAIL
    assert wanted in codes(kept, head_of(receipts))


@pytest.mark.rule("RC-2")
@given(chains(min_size=2), st.data())
def test_every_cut_is_found_against_a_kept_head(
    receipts: list[Receipt], data: st.DataObject
) -> None:
    left = data.draw(st.integers(1, len(receipts) - 1))
    found = verify_chain(receipts[:left], RING, expected_head=head_of(receipts))
    assert Fault(FaultCode.CUT_TAIL, left) in found.findings


@pytest.mark.rule("RC-1")
@given(chains(min_size=2), st.randoms(use_true_random=False))
def test_any_other_order_is_found(receipts: list[Receipt], random: Random) -> None:
    shuffled = list(receipts)
    random.shuffle(shuffled)
    assume(shuffled != receipts)
    assert codes(shuffled, head_of(receipts)) == {FaultCode.REORDERED}


@pytest.mark.rule("RC-1")
@given(chains(), st.data())
def test_a_repeated_receipt_is_found(receipts: list[Receipt], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(receipts) - 1))
    place = data.draw(st.integers(position + 1, len(receipts)))
    repeated = [*receipts[:place], receipts[position], *receipts[place:]]
    found = verify_chain(repeated, RING, expected_head=head_of(receipts))
    assert found.findings == (Fault(FaultCode.DUPLICATE, place),)


@pytest.mark.rule("RC-1")
@given(chains(min_size=2), chains(), st.data())
def test_receipts_of_another_chain_are_found(
    receipts: list[Receipt], others: list[Receipt], data: st.DataObject
) -> None:
    chain = receipts[0].chain
    assume(others[0].chain != chain)
    place = data.draw(st.integers(0, len(receipts)))
    mixed = [*receipts[:place], *others, *receipts[place:]]
    found = verify_chain(mixed, RING, expected_head=head_of(receipts), chain=chain)
    assert found.findings == tuple(
        Fault(FaultCode.FOREIGN, place + more) for more in range(len(others))
    )


def _spoilt(receipts: list[Receipt], others: list[Receipt], data: st.DataObject) -> list[Receipt]:
    """A chain with something done to it, or nothing."""
    at = data.draw(st.integers(0, len(receipts) - 1))
    one = receipts[at]
    other = data.draw(
        st.sampled_from(
            [
                [one],
                [],
                [one, one],
                [others[0]],
                [msgspec.structs.replace(one, signature=None)],
                [msgspec.structs.replace(one, key_id=None)],
                [msgspec.structs.replace(one, key_id="0" * 16, signature="zz")],
                [msgspec.structs.replace(one, number=one.number + 1)],
                [msgspec.structs.replace(one, hash="0" * 64)],
            ]
        )
    )
    return [*receipts[:at], *other, *receipts[at + 1 :]] or [one]


@pytest.mark.rule("RC-1")
@given(chains(), chains(), st.data())
def test_the_one_pass_says_sound_exactly_where_nothing_is_to_be_found(
    receipts: list[Receipt], others: list[Receipt], data: st.DataObject
) -> None:
    spoilt = _spoilt(receipts, others, data)
    keys = data.draw(st.sampled_from([RING, KeyRing()]))
    head = data.draw(st.none() | st.builds(Tail, st.integers(1, 4), st.just(receipts[0].hash)))
    chain = data.draw(st.none() | st.just(receipts[0].chain))
    sound = is_sound(spoilt, keys, expected_head=head, chain=chain, pins=())
    found = examine(spoilt, keys, expected_head=head, chain=chain, pins=())
    assert sound == found.ok
    assert verify_chain(spoilt, keys, expected_head=head, chain=chain) == found
