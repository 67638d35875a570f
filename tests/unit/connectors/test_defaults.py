"""The defaults of a type become part of an input before it is hashed."""

import msgspec
import pytest

from amends.connectors.defaults import has_defaults, with_defaults
from amends.connectors.inputs import input_type
from amends.contracts.json_types import Json


class Money(msgspec.Struct, forbid_unknown_fields=True):
    amount: int
    currency: str = "EUR"


class Card(msgspec.Struct, tag="card"):
    number: str
    fee: Money = msgspec.field(default_factory=lambda: Money(1))


class Bank(msgspec.Struct, tag="bank"):
    iban: str
    urgent: bool = False


class Payment(msgspec.Struct, omit_defaults=True):
    total: Money
    by: Card | Bank | None = None
    parts: list[Money] = []
    named: dict[str, Money] = {}
    next: "Payment | None" = None


FILLED: list[tuple[Json, Json]] = [
    (
        {"total": {"amount": 5}},
        {
            "total": {"amount": 5, "currency": "EUR"},
            "by": None,
            "parts": [],
            "named": {},
            "next": None,
        },
    ),
    (
        {
            "total": {"amount": 5, "currency": "USD"},
            "by": {"type": "bank", "iban": "X"},
            "parts": [{"amount": 1}, {"amount": 2, "currency": "CHF"}],
            "named": {"tip": {"amount": 3}},
            "next": {"total": {"amount": 4}, "by": None, "parts": [], "named": {}, "next": None},
        },
        {
            "total": {"amount": 5, "currency": "USD"},
            "by": {"type": "bank", "iban": "X", "urgent": False},
            "parts": [{"amount": 1, "currency": "EUR"}, {"amount": 2, "currency": "CHF"}],
            "named": {"tip": {"amount": 3, "currency": "EUR"}},
            "next": {
                "total": {"amount": 4, "currency": "EUR"},
                "by": None,
                "parts": [],
                "named": {},
                "next": None,
            },
        },
    ),
]


@pytest.mark.case("APR-02")
@pytest.mark.parametrize(("given", "whole"), FILLED)
def test_what_a_type_adds_is_added_at_every_depth_and_what_is_given_stays(
    given: Json, whole: Json
) -> None:
    declared = input_type(Payment)
    assert declared.encode(given) == whole
    assert declared.decode(whole) == declared.decode(given)


def test_a_value_that_would_be_another_one_each_time_is_not_added() -> None:
    declared = input_type(Card)
    assert declared.encode({"type": "card", "number": "4"}) == {"type": "card", "number": "4"}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
        {"$ref": "#/$defs/C"},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "additionalProperties": False},
        {"anyOf": "?"},
        {"type": "array", "items": {"type": "object", "properties": {"a": {"default": 1}}}},
    ],
)
def test_where_it_is_not_plain_what_is_meant_nothing_is_added(schema: dict[str, Json]) -> None:
    record: Json = {"type": "object", "properties": {"a": {"default": 1}}}
    document: dict[str, Json] = {**schema, "$defs": {"A": record, "B": record}}
    assert with_defaults(document, {"b": {"c": []}}) == {"b": {"c": []}}


def test_a_record_is_told_from_others_by_its_constants() -> None:
    def record(kind: Json, default: Json) -> Json:
        return {"type": "object", "properties": {"kind": kind, "a": {"default": default}}}

    document: dict[str, Json] = {
        "oneOf": [record({"const": "x"}, 1), record({"enum": ["y", "z"]}, 2), {"type": "array"}]
    }
    assert with_defaults(document, {"kind": "x"}) == {"kind": "x", "a": 1}
    assert with_defaults(document, {"kind": "z"}) == {"kind": "z", "a": 2}
    assert with_defaults(document, {"kind": "?"}) == {"kind": "?"}


def test_a_schema_without_defaults_is_known_for_one() -> None:
    assert has_defaults(input_type(Payment).schema)
    assert has_defaults({"anyOf": [{"default": None}]})
    assert not has_defaults({"anyOf": [{"type": "null"}, True]})
