"""Amounts: what is one, what is none, and where a pointer leads."""

from decimal import Decimal

import pytest

from amends.contracts.json_types import Json
from amends.governance.amounts import amount_of, pointed_at


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0, "0"),
        (12, "12"),
        (0.1, "0.1"),
        (12.5, "12.5"),
        (1e3, "1000"),
        ("12", "12"),
        ("0.10", "0.10"),
        ("1000000000000000", "1000000000000000"),
        (10**15, "1000000000000000"),
        (1e-9, "0.000000001"),
    ],
)
def test_numbers_and_texts_of_digits_are_exact_amounts(value: object, amount: str) -> None:
    assert amount_of(value) == Decimal(amount)


@pytest.mark.rule("PO-1")
@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        -1,
        -0.5,
        10**15 + 1,
        float("nan"),
        float("inf"),
        0.1 + 0.2,
        "",
        "1e3",
        "-1",
        "+1",
        " 1",
        "1,5",
        "١",
        "0.0000000001",
        "9" * 17,
        [1],
        {"amount": 1},
        b"1",
    ],
)
def test_everything_else_is_none(value: object) -> None:
    assert amount_of(value) is None


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("/a", 1), ("/b/0", 2), ("/b/1/c", 3), ("/d~1e", 4), ("/f~0g", 5), ("/", 6)],
)
def test_a_pointer_leads_to_a_value(pointer: str, found: int) -> None:
    value: Json = {"a": 1, "b": [2, {"c": 3}], "d/e": 4, "f~g": 5, "": 6}
    assert pointed_at(pointer, value) == found


@pytest.mark.parametrize("pointer", ["/x", "/a/b", "/b/-", "/b/01", "/b/7", "/b/x"])
def test_a_pointer_to_nothing_is_told(pointer: str) -> None:
    with pytest.raises(LookupError):
        pointed_at(pointer, {"a": 1, "b": [2]})
