"""Reading what providers answer without losing a digit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from amends.connectors.http.reading import (
    Unreadable,
    as_id,
    at,
    pointer_fault,
    read_json,
    same,
    step,
)
from amends.contracts.json_types import Json


@pytest.mark.case("CAN-11")
@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("9007199254740991", 9007199254740991),
        ("9007199254740993", "9007199254740993"),
        ("-9007199254740993", "-9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("1" * 5000, "1" * 5000),
        ("9007199254740993.0", "9007199254740993.0"),
        ("1e20", "1e20"),
        ("1e400", "1e400"),
        ("1e999999999999999999", "1e999999999999999999"),
        ("0e9999999999999999999", "0e9999999999999999999"),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ("78.43", 78.43),
        ("10.00", 10.0),
        ("-0.0", -0.0),
        ("NaN", "NaN"),
    ],
)
def test_a_number_is_kept_as_text_where_a_double_would_change_it(literal: str, value: Json) -> None:
    read = read_json(f'{{"id": {literal}}}'.encode())
    assert read == {"id": value}
    assert isinstance(read, dict)
    assert type(read["id"]) is type(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.text()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False, width=32).filter(
            lambda number: abs(number) < 2**53
        ),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_a_double_can_hold_reads_as_any_reader_would(value: object) -> None:
    assert read_json(msgspec.json.encode(value)) == value


@pytest.mark.parametrize("body", [b"", b"  \r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf "])
def test_no_body_is_no_value_rather_than_a_fault(body: bytes) -> None:
    assert read_json(body) is UNSET


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_json(b"\xef\xbb\xbf[1]") == [1]


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        (b"<html>", "not_json"),
        (b'{"a": 1', "not_json"),
        (b"{} {}", "not_json"),
        (b'"\xff"', "not_json"),
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b"[" * 100_000, "too_deep"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_unreadable(body: bytes, flaw: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_json(body)
    assert caught.value.flaw == flaw


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a": [{"b/c": 1, "~": None}]}),
        ("/a/0/b~1c", 1),
        ("/a/0/~0", None),
        ("/a/1", UNSET),
        ("/a/00", UNSET),
        ("/a/-1", UNSET),
        ("/a/٠", UNSET),
        ("/a/0/b~1c/d", UNSET),
        ("/z", UNSET),
        ("/", UNSET),
    ],
)
def test_a_pointer_leads_to_a_value_or_nowhere(pointer: str, value: object) -> None:
    assert at({"a": [{"b/c": 1, "~": None}]}, pointer) == value


@pytest.mark.parametrize("pointer", ["a", "a/b", "/a~", "/a~2"])
def test_a_text_that_is_no_pointer_is_a_fault(pointer: str) -> None:
    assert pointer_fault(pointer) is not None
    assert pointer_fault("/a~0~1/0") is None


def test_a_step_from_what_has_no_parts_leads_nowhere() -> None:
    assert step(UNSET, "a") is UNSET
    assert step("text", "0") is UNSET


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", "x"),
        ("", None),
        (7, "7"),
        (0, "0"),
        (True, None),
        (1.5, None),
        (None, None),
        ([], None),
    ],
)
def test_an_id_is_text_or_a_whole_number(value: Json, expected: str | None) -> None:
    assert as_id(value) == expected


@pytest.mark.parametrize(
    ("expected", "found", "agree"),
    [
        (500, 500, True),
        (500, 500.0, True),
        (500, "500", True),
        ("500", 500, True),
        ("9007199254740993", "9007199254740993", True),
        (500, "500.0", False),
        (5, 50, False),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        ("", "", False),
        ("a", UNSET, False),
        (0, UNSET, False),
        (None, None, True),
        (None, UNSET, False),
        ({"a": 1}, {"a": 1}, True),
        ("eur", "EUR", False),
    ],
)
def test_two_values_say_the_same_or_they_do_not(expected: Json, found: object, agree: bool) -> None:
    assert same(expected, found) is agree  # type: ignore[arg-type]  # UNSET is one of the cases
