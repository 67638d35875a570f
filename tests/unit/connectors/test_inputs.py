"""Typed inputs: the schema that a declaration publishes, and the way there and back."""

import dataclasses
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from amends.connectors.inputs import input_type, output_schema, output_to_json
from amends.contracts import outcomes
from amends.contracts.errors import AmendsError, Misuse, Refused
from amends.contracts.json_types import Json
from amends.contracts.schema import compile_schema

CANARY = "canary-4111"
T = TypeVar("T")


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Address:
    street: str
    zip: str = ""


@dataclasses.dataclass
class Order:
    amount: int
    to: Address
    tags: set[str] = dataclasses.field(default_factory=set)
    colour: Colour | None = None

    def __post_init__(self) -> None:
        if self.amount == 13:
            raise ValueError(f"{self.to.street} - at `$.{self.to.street}`")
        if self.amount == 14:
            raise RuntimeError(f" - at `$.{self.to.street}`")


class Line(msgspec.Struct):
    sku: str
    at: datetime
    price: Decimal = Decimal("1.50")


class Node(msgspec.Struct):
    name: str
    children: list["Node"] = []


class Card(msgspec.Struct, tag="card"):
    number: str


class Bank(msgspec.Struct, tag="bank"):
    iban: str


class Box(msgspec.Struct, Generic[T]):
    value: T


class Loose(TypedDict):
    amount: int
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: int


class Empty(msgspec.Struct):
    pass


class Person(pydantic.BaseModel):
    name: str
    friends: list["Person"] = []


class Payment(pydantic.BaseModel):
    amount: int = pydantic.Field(alias="amountMinor", gt=0)
    payer: Person
    limits: dict[str, int] = {}

    @pydantic.computed_field  # type: ignore[prop-decorator]  # how pydantic wants it
    @property
    def double(self) -> int:
        return 2 * self.amount

    @pydantic.model_validator(mode="after")
    def _refuse(self) -> "Payment":
        if self.payer.name == "late":
            raise RuntimeError(self.payer.name)
        return self


class Tolerant(pydantic.BaseModel, extra="allow"):
    amount: int


@pydantic.dataclasses.dataclass
class Checked:
    amount: int


ORDER = {"amount": 5, "to": {"street": "Elm"}}
PAYMENT = {"amountMinor": 5, "payer": {"name": "Ann"}}

EXAMPLES = [
    (Order, ORDER),
    (Line, {"sku": "a", "at": "2026-01-01T00:00:00Z"}),
    (Node, {"name": "a", "children": [{"name": "b"}]}),
    (Box[int], {"value": 3}),
    (Loose, {"amount": 1}),
    (Pair, [1, 2]),
    (Empty, {}),
    (Card | Bank, {"type": "card", "number": "4"}),
    (list[Address], [{"street": "Elm"}]),
    (dict[str, int], {"a": 1}),
    (Annotated[int, msgspec.Meta(gt=0)], 4),
    (Literal["a", "b"], "a"),
    (int | None, None),
    (None, None),
    (Any, {"whatever": [1]}),
    (Payment, PAYMENT),
    (Person, {"name": "Ann", "friends": [{"name": "Bob"}]}),
    (Checked, {"amount": 2}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
]


def _refs(node: Json) -> set[str]:
    match node:
        case dict():
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*map(_refs, node.values()))  # type: ignore[return-value]  # strings
        case list():
            return set().union(*map(_refs, node))
        case _:
            return set()


def _accepts(schema: Json, value: Json) -> bool:
    return compile_schema(schema).fits(value)


@pytest.mark.parametrize(("declared", "value"), EXAMPLES)
def test_the_schema_accepts_what_decodes_and_what_was_decoded_encodes_to_it(
    declared: object, value: Json
) -> None:
    kind = input_type(declared)
    assert _accepts(kind.schema, value)
    again = kind.encode(kind.decode(value))
    assert _accepts(kind.schema, again)
    assert kind.decode(again) == kind.decode(value)


@pytest.mark.parametrize(("declared", "value"), EXAMPLES)
def test_every_reference_of_a_schema_stays_within_its_one_document(
    declared: object, value: Json
) -> None:
    schema = input_type(declared).schema
    assert isinstance(schema, dict)
    definitions = schema.get("$defs", {})
    assert isinstance(definitions, dict)
    assert _refs(schema) <= {f"#/$defs/{name}" for name in definitions}
    assert "$ref" not in schema


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Order, {**ORDER, "extra": 1}),
        (Order, {"amount": 5, "to": {"street": "Elm", "extra": 1}}),
        (Node, {"name": "a", "children": [{"name": "b", "extra": 1}]}),
        (Loose, {"amount": 1, "extra": 1}),
        (Empty, {"extra": 1}),
        (Card | Bank, {"type": "card", "number": "4", "extra": 1}),
        (Payment, {**PAYMENT, "extra": 1}),
        (Payment, {"amountMinor": 5, "payer": {"name": "Ann", "extra": 1}}),
        (Checked, {"amount": 2, "extra": 1}),
    ],
)
def test_a_field_that_a_record_does_not_name_is_refused_by_its_schema(
    declared: object, value: Json
) -> None:
    assert not _accepts(input_type(declared).schema, value)


def test_a_record_that_says_it_takes_unknown_fields_keeps_its_word() -> None:
    assert _accepts(input_type(Tolerant).schema, {"amount": 1, "extra": 1})


def test_a_mapping_is_not_taken_for_a_record() -> None:
    assert input_type(dict[str, int]).schema == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


def test_a_recursive_record_is_both_the_root_and_a_definition() -> None:
    schema = input_type(Node).schema
    assert isinstance(schema, dict)
    assert schema["title"] == "Node"
    assert schema["$defs"] == {"Node": {k: v for k, v in schema.items() if k != "$defs"}}


def test_an_explicit_schema_is_published_as_it_is_and_changes_no_more() -> None:
    declared: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    schema = input_type(declared).schema
    declared["properties"]["b"] = {}
    assert schema == {"type": "object", "properties": {"a": {}}}


@pytest.mark.case("CAN-03")
@pytest.mark.parametrize(
    ("declared", "value", "code"),
    [
        ({"type": "object"}, {"a": Decimal("0.10")}, "input.unsupported_type"),
        ({"type": "object"}, {"a": Level.HIGH}, "input.unsupported_type"),
        ({"type": "object"}, {1: "a"}, "input.unsupported_type"),
        ({"type": "object"}, Order(5, Address("Elm")), "input.unsupported_type"),
        (Order, {"amount": Decimal("5")}, "input.unsupported_type"),
        (Loose, {"amount": float("nan")}, "input.not_a_number"),
        (Loose, {"amount": 2**53}, "input.integer_too_large"),
        (Loose, {"amount": object()}, "input.not_convertible"),
        (Loose, {1: 2}, "input.unsupported_type"),
        (Payment, {"amountMinor": object()}, "input.unsupported_type"),
        (Payment, object(), "input.not_convertible"),
    ],
)
def test_a_python_value_without_one_wire_form_is_refused_on_the_way_out(
    declared: object, value: object, code: str
) -> None:
    with pytest.raises(Refused) as caught:
        input_type(declared).encode(value)
    assert caught.value.code == code


def test_an_instance_is_encoded_with_its_defaults_in_one_order() -> None:
    order = Order(5, Address("Elm"), {"b", "a", "c"}, Colour.RED)
    assert input_type(Order).encode(order) == {
        "amount": 5,
        "to": {"street": "Elm", "zip": ""},
        "tags": ["a", "b", "c"],
        "colour": "red",
    }


@pytest.mark.case("APR-02")
@pytest.mark.parametrize(("declared", "value"), EXAMPLES)
def test_json_in_the_place_of_an_instance_gets_the_defaults_of_its_type_and_nothing_else(
    declared: object, value: Json
) -> None:
    given = input_type(declared)
    whole = given.encode(value)
    assert given.decode(whole) == given.decode(value)
    assert given.encode(whole) == whole
    if not isinstance(declared, dict):
        assert given.encode(given.decode(value)) == whole, "an instance asks for the same"


def test_json_that_the_schema_refuses_is_left_for_it_to_refuse() -> None:
    for value in ({"amount": 5, "to": "Elm", "more": [1]}, [{"amount": 5}], "Elm", None):
        filled = input_type(Order).encode(value)
        with pytest.raises(Refused):
            input_type(Order).decode(filled)
    assert not _accepts(input_type(Order).schema, input_type(Order).encode(ORDER | {"more": 1}))


def test_an_instance_of_a_pydantic_model_leaves_its_computed_fields_out() -> None:
    payment = Payment(amountMinor=5, payer=Person(name="Ann"))
    assert input_type(Payment).encode(payment) == {
        "amountMinor": 5,
        "payer": {"name": "Ann", "friends": []},
        "limits": {},
    }


def test_what_has_a_wire_form_of_its_own_comes_back_as_its_type() -> None:
    line = input_type(Line).decode({"sku": "a", "at": "2026-01-01T00:00:00Z", "price": "0.10"})
    assert line == Line("a", datetime(2026, 1, 1, tzinfo=UTC), Decimal("0.10"))


@pytest.mark.case("SEC-02")
@pytest.mark.parametrize(
    ("declared", "value", "path"),
    [
        (Order, {"amount": CANARY, "to": {"street": "Elm"}}, "/amount"),
        (list[Address], [{"street": CANARY}, {"street": [CANARY]}], "/1/street"),
        (dict[str, Address], {CANARY: {"street": 1}}, "/*/street"),
        (Order, {**ORDER, "colour": CANARY}, "/colour"),
        (Literal["a"], CANARY, None),
        (Order, {"amount": 13, "to": {"street": CANARY}}, None),
        (Order, {"amount": 14, "to": {"street": CANARY}}, None),
        (Payment, {"amountMinor": CANARY, "payer": {"name": "Ann"}}, "/amountMinor"),
        (Payment, {"amountMinor": 5, "payer": {"name": [CANARY]}}, "/payer/name"),
        (Payment, {"amountMinor": 5, "payer": {"name": "late"}}, None),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place_and_never_shown(
    declared: object, value: Json, path: str | None
) -> None:
    with pytest.raises(Refused) as caught:
        input_type(declared).decode(value)
    refusal = caught.value
    assert (refusal.code, refusal.details.get("path")) == ("input.not_convertible", path)
    assert CANARY not in f"{refusal}{refusal.details}{refusal.args}"
    assert refusal.__cause__ is None


@pytest.mark.parametrize("declared", [complex, lambda: None, 5, {"type": {"object"}}])
def test_what_gives_no_schema_is_a_mistake_of_the_program(declared: object) -> None:
    with pytest.raises(Misuse) as caught:
        input_type(declared)
    assert caught.value.code == "connector.type_unsupported"


def test_a_pydantic_model_without_a_schema_is_a_mistake_of_the_program() -> None:
    class Opaque(pydantic.BaseModel, arbitrary_types_allowed=True):
        thing: AmendsError

    with pytest.raises(Misuse) as caught:
        input_type(Opaque)
    assert caught.value.code == "connector.type_unsupported"


def test_a_model_is_recognised_without_pydantic_being_imported_here() -> None:
    program = "import amends.connectors.function, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Loose, {"title": "Loose", "required": ["amount"], "type": "object"}),
        (Person, None),
        (dict[str, int], None),
    ],
)
def test_a_return_annotation_promises_a_schema_that_stays_open(
    annotation: object, schema: dict[str, Json] | None
) -> None:
    promised = output_schema(annotation)
    assert isinstance(promised, dict)
    assert promised.items() >= (schema or {}).items()
    assert promised.get("additionalProperties") is not False


@pytest.mark.parametrize(
    "annotation", [None, Any, complex, outcomes.Applied, outcomes.Outcome, dict | outcomes.Pending]
)
def test_a_return_annotation_that_says_nothing_of_the_output_promises_nothing(
    annotation: object,
) -> None:
    assert output_schema(annotation) is None


def test_an_output_is_reduced_to_builtin_types() -> None:
    output = {"order": Order(5, Address("Elm")), "who": [Person(name="Ann")], "at": Decimal("1.0")}
    assert output_to_json(output) == {
        "order": {"amount": 5, "to": {"street": "Elm", "zip": ""}, "tags": [], "colour": None},
        "who": [{"name": "Ann", "friends": []}],
        "at": "1.0",
    }


def test_an_output_of_another_type_is_refused_without_being_shown() -> None:
    with pytest.raises(Refused) as caught:
        output_to_json({"secret": CANARY, "x": object()})
    assert caught.value.code == "output.not_convertible"
    assert CANARY not in f"{caught.value}{caught.value.details}"
