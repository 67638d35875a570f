"""Identifiers: what is well-formed, what merely looks so, and how ids are made."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts import limits
from amends.contracts.ids import (
    TransactionId,
    check_identifier,
    check_opaque,
    check_plan_id,
    default_plan_id,
    uuid7_hex,
)
from amends.testing.refusals import refused_with

GOOD = ["a", "A1", "txn_0", "plan:txn_1", "a.b-c:d_e", "0", "x" * limits.ID_LENGTH]
BAD = [
    "",
    " ",
    "a b",
    " a",
    "a ",
    "a\n",
    "\na",
    "-rf",
    ".hidden",
    "..",
    ":a",
    "_a",
    "a/b",
    "a\\b",
    "..%2Fetc",
    "a%00",
    "a\x00b",
    "Café",
    "Cafe\u0301",
    "ａｂｃ",
    "a\u200db",
    "аdmin",
    "a\u2215b",
    "1٢",
    "a'b",
    'a"b',
    "a%",
    "a;b",
    "\ud800",
    "x" * (limits.ID_LENGTH + 1),
]
NO_TEXT: list[object] = [None, 1, True, b"a", ["a"], {"a": 1}]


@pytest.mark.parametrize("value", GOOD)
def test_a_plain_identifier_comes_back_as_it_is(value: str) -> None:
    assert check_identifier(value, "action_id") is value


@pytest.mark.case("CAN-05")
@pytest.mark.parametrize("value", [*BAD, *NO_TEXT])
def test_whatever_could_be_mistaken_for_something_else_is_no_identifier(value: object) -> None:
    """Look-alikes, options, paths, log lines, wildcards, and two forms of one word."""
    with refused_with("input.invalid_id") as caught:
        check_identifier(value, "action_id")
    assert caught.error.details == {"field": "action_id", "max_length": limits.ID_LENGTH}
    if isinstance(value, str) and len(value) > 2:
        assert value not in str(caught.error)


@pytest.mark.parametrize("value", ["alice@example.org", "svc+eu@host", "a@b"])
def test_a_principal_may_be_named_by_an_address_and_nothing_else_may(value: str) -> None:
    assert check_identifier(value, "principal_id") == value
    with refused_with("input.invalid_id"):
        check_identifier(value, "action_id")


@pytest.mark.parametrize("value", [value for value in BAD if "@" not in value])
def test_a_principal_is_held_to_the_same_form_otherwise(value: str) -> None:
    with refused_with("input.invalid_id"):
        check_identifier(value, "principal_id")


def test_a_field_may_be_shorter() -> None:
    assert check_identifier("abc", "transaction_id", length=3) == "abc"
    with refused_with("input.invalid_id") as caught:
        check_identifier("abcd", "transaction_id", length=3)
    assert caught.error.details["max_length"] == 3


# ── plan ids ─────────────────────────────────────────────────────────────────────────────────────

ONE, OTHER = TransactionId("txn_1"), TransactionId("txn_2")


def test_the_longest_transaction_id_leaves_room_for_its_derived_plan_id() -> None:
    longest = TransactionId("t" * limits.TRANSACTION_ID_LENGTH)
    assert check_plan_id(default_plan_id(longest), longest) == f"plan:{longest}"


@pytest.mark.parametrize("chosen", ["mine", "plan", "planx:txn_2", "PLAN:txn_2", "plan:txn_1"])
def test_a_plan_id_may_be_chosen_or_be_the_transactions_own(chosen: str) -> None:
    assert check_plan_id(chosen, ONE) == chosen


@pytest.mark.parametrize("crafted", ["plan:txn_2", "plan:", "plan:txn_10", "plan:plan:txn_1"])
def test_a_chosen_plan_id_cannot_take_the_place_of_anothers_derived_one(crafted: str) -> None:
    with refused_with("input.invalid_id"):
        check_plan_id(crafted, ONE)


@pytest.mark.parametrize("value", BAD)
def test_a_plan_id_is_an_identifier(value: str) -> None:
    with refused_with("input.invalid_id"):
        check_plan_id(value, OTHER)


# ── opaque strings ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["ch_1", "9007199254740993", "a/b?c=d", "Ünïcode", " ch_1 "])
def test_a_foreign_id_stays_exactly_as_it_was_given(value: str) -> None:
    assert check_opaque(value, "operation_id", length=32) is value


@pytest.mark.parametrize(
    "value",
    ["", "  ", "\u00a0", "a\nb", "a\x00", "a\x7f", "a\x1bb", "\udc00", "x" * 33, *NO_TEXT],
)
def test_a_foreign_id_is_text_that_can_be_stored_and_shown(value: object) -> None:
    with refused_with("input.invalid_id") as caught:
        check_opaque(value, "operation_id", length=32)
    assert caught.error.details == {"field": "operation_id", "max_length": 32}


# ── generated ids ────────────────────────────────────────────────────────────────────────────────

times = st.integers(0, 2**48 - 1)
random_bytes = st.binary(min_size=10, max_size=16)


@given(times, random_bytes)
def test_a_generated_id_is_a_uuid_of_version_7_that_tells_its_time(
    unix_ms: int, chance: bytes
) -> None:
    made = uuid7_hex(unix_ms, chance)
    read = uuid.UUID(made)
    assert (read.version, read.variant, len(made)) == (7, uuid.RFC_4122, 32)
    assert read.int >> 80 == unix_ms
    assert check_identifier(f"act_{made}", "action_id")


@given(times, times, random_bytes, random_bytes)
def test_generated_ids_sort_by_their_time(
    one: int, other: int, chance: bytes, other_chance: bytes
) -> None:
    if one < other:
        assert uuid7_hex(one, chance) < uuid7_hex(other, other_chance)


def test_the_example_of_the_standard_is_made_of_its_parts() -> None:
    """RFC 9562, appendix A.6: 017F22E2-79B0-7CC3-98C4-DC0C0C07398F."""
    chance = (0xCC3 << 62 | 0x18C4_DC0C_0C07_398F).to_bytes(10, "big")
    assert uuid7_hex(0x017F_22E2_79B0, chance) == "017f22e279b07cc398c4dc0c0c07398f"


@given(times, random_bytes, st.integers(0, 73))
def test_every_one_of_the_74_random_bits_counts(unix_ms: int, chance: bytes, bit: int) -> None:
    flipped = (int.from_bytes(chance[:10], "big") ^ 1 << bit).to_bytes(10, "big")
    assert uuid7_hex(unix_ms, flipped) != uuid7_hex(unix_ms, chance)
