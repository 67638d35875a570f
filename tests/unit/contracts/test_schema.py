"""Schemas: closed, compiled once, and silent about the values they refuse."""

import json
import socket
import time

import pytest

from amends.contracts.canonical import normalise
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json
from amends.contracts.parsing import parse_json
from amends.contracts.schema import FINDINGS, Finding, Schema, compile_schema, refuse_mismatch

PAYMENT: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 1},
        "currency": {"enum": ["EUR", "JPY", "BHD"]},
        "memo": {"type": "string", "maxLength": 5},
        "payer": {"$ref": "#/$defs/person"},
        "a/b~c": {"type": "null"},
    },
    "required": ["amount", "currency"],
    "additionalProperties": False,
    "$defs": {"person": {"properties": {"name": {"type": "string"}}}},
}


def refusal_of(schema: Json) -> Refused:
    with pytest.raises(Refused) as caught:
        compile_schema(schema)
    return caught.value


def findings(schema: Json, value: Json) -> list[tuple[str, str, str]]:
    found = compile_schema(schema).check(value)
    return sorted((one.pointer, one.keyword, one.expected) for one in found)


def test_a_value_that_fits_has_no_findings() -> None:
    schema = compile_schema(PAYMENT)
    value: Json = {"amount": 7843, "currency": "EUR", "payer": {"name": "Ada"}}
    assert schema.fits(value)
    assert schema.check(value) == ()


def test_a_finding_tells_place_keyword_and_what_the_schema_asks_for() -> None:
    value: Json = {"amount": 0, "memo": "too long", "payer": {"name": 5}, "a/b~c": 1}
    assert not compile_schema(PAYMENT).fits(value)
    assert findings(PAYMENT, value) == [
        ("", "required", "the property currency"),
        ("/amount", "minimum", "a number of at least 1"),
        ("/a~1b~0c", "type", "a value of type null"),
        ("/memo", "maxLength", "at most 5 characters"),
        ("/payer/name", "type", "a value of type string"),
    ]


@pytest.mark.parametrize(
    ("schema", "value", "pointer", "keyword", "expected"),
    [
        ({"type": ["integer", "null"]}, "C", "", "type", "a value of type null or integer"),
        ({"const": {"a": 1}}, "C", "", "const", 'exactly {"a":1}'),
        ({"const": "x{}y"}, "C", "", "const", "exactly x{}y"),
        ({"enum": [1, 2]}, 3, "", "enum", "one of [1,2]"),
        ({"enum": ["a", "b"]}, "C", "", "enum", "one of a or b"),
        ({"pattern": "^[a-z]{2}$"}, "C", "", "pattern", "text that matches ^[a-z]{2}$"),
        ({"format": "email"}, "C", "", "format", "text in the format email"),
        ({"multipleOf": 5}, 7, "", "multipleOf", "a multiple of 5"),
        ({"exclusiveMaximum": 2.5}, 3, "", "exclusiveMaximum", "a number less than 2.5"),
        ({"uniqueItems": True}, [1, 1], "", "uniqueItems", "items that are all different"),
        ({"items": False}, ["C"], "/0", "falseSchema", "nothing here"),
        ({"contains": {"type": "null"}}, ["C"], "", "contains", "an item of the kind asked for"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "", "required", "the property b"),
        (
            {"oneOf": [{"type": "string"}, {"minLength": 0}]},
            "C",
            "",
            "oneOf",
            "a value that fits exactly one of the alternatives",
        ),
        (
            {"anyOf": [{"type": "null"}]},
            "C",
            "",
            "anyOf",
            "a value that fits at least one of the alternatives",
        ),
        (
            {"propertyNames": {"maxLength": 1}},
            {"CC": 1},
            "",
            "propertyNames",
            "property names of the kind asked for",
        ),
        (
            {"unevaluatedItems": False},
            ["C"],
            "",
            "unevaluatedItems",
            "no items beyond those declared",
        ),
        ({"pattern": "a{99999}{99999}"}, "C", "", "pattern", "text that matches a{99999}{99999}"),
    ],
)
def test_each_keyword_says_what_it_asks_for(
    schema: Json, value: Json, pointer: str, keyword: str, expected: str
) -> None:
    assert findings(schema, value) == [(pointer, keyword, expected)]


def test_a_keyword_without_a_sentence_of_its_own_has_a_general_one() -> None:
    schema: Json = {"contentEncoding": "base64", "type": "string"}
    found = compile_schema(schema).check(5)
    assert [one.keyword for one in found] == ["type"]
    strange = Schema(Unusual(), frozenset())  # type: ignore[arg-type]  # a keyword yet unknown
    assert strange.check(5) == (Finding("", "someday", "a value that fits this keyword"),)


class Unusual:
    """A validator that finds a fault against a keyword of tomorrow."""

    name = "someday"
    value = "CANARY"
    instance_path: tuple[str | int, ...] = ()

    @property
    def kind(self) -> "Unusual":
        return self

    def is_valid(self, value: Json) -> bool:
        return False

    def iter_errors(self, value: Json) -> list["Unusual"]:
        return [self]


@pytest.mark.case("SEC-02")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "CANARY"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": "CANARY", "password": "CANARY"}),
        ({"additionalProperties": False}, {"CANARY": "CANARY"}),
        ({"additionalProperties": {"type": "integer"}}, {"CANARY": {"CANARY": "CANARY"}}),
        ({"patternProperties": {"^C": {"type": "integer"}}}, {"CANARY": ["CANARY"]}),
        ({"unevaluatedProperties": False}, {"CANARY": 1}),
        ({"propertyNames": {"pattern": "^a"}}, {"CANARY": 1}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": "CANARY"}),
        ({"not": {"type": "string"}}, "CANARY"),
        ({"anyOf": [{"type": "null"}, {"minLength": 99}]}, "CANARY"),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "CANARY"),
        ({"enum": ["x"]}, "CANARY"),
        ({"const": 1}, ["CANARY"]),
        ({"contains": {"type": "null"}}, ["CANARY"]),
        ({"uniqueItems": True}, ["CANARY", "CANARY"]),
        ({"format": "uri"}, "CANARY CANARY"),
        ({"if": {"type": "string"}, "then": {"maxLength": 2}}, "CANARY"),
        ({"maxItems": 1}, ["CANARY"] * 3000),
    ],
)
def test_no_mismatch_repeats_a_value_or_an_undeclared_key(schema: Json, value: Json) -> None:
    found = compile_schema(schema).check(value)
    refused = refuse_mismatch(found)
    assert found
    assert "CANARY" not in repr(found)
    assert "CANARY" not in f"{refused} {dict(refused.details)}"
    assert refused.__cause__ is None
    assert refused.__context__ is None


@pytest.mark.case("SEC-02")
def test_a_key_that_the_schema_does_not_name_is_a_star_in_the_pointer() -> None:
    schema: Json = {
        "properties": {"rates": {"additionalProperties": {"items": {"type": "integer"}}}}
    }
    value: Json = {"rates": {"CANARY": [1, "CANARY"]}}
    assert findings(schema, value) == [("/rates/*/1", "type", "a value of type integer")]


def test_the_refusal_names_the_first_place_and_lists_the_others() -> None:
    found = compile_schema({"items": {"type": "null"}}).check([1, None, 2])
    refused = refuse_mismatch(found, code="output.schema_mismatch", subject="output")
    assert refused.code == "output.schema_mismatch"
    assert "The output does not fit its schema at /0: expected a value of type null" in str(refused)
    assert refused.details["findings"] == [
        {"path": "/0", "keyword": "type", "expected": "a value of type null"},
        {"path": "/2", "keyword": "type", "expected": "a value of type null"},
    ]
    assert "at its root" in refuse_mismatch((Finding("", "type", "x"),)).message
    assert refuse_mismatch(()).code == "input.schema_mismatch"


def test_a_flood_of_faults_is_neither_listed_nor_slow() -> None:
    schema = compile_schema({"items": {"type": "string"}})
    assert len(schema.check([1] * 1000)) == FINDINGS
    start = time.perf_counter()
    assert len(schema.check([1] * 500_000)) == 1
    assert time.perf_counter() - start < 2


def test_a_long_demand_is_cut() -> None:
    (finding,) = compile_schema({"enum": ["x" * 500]}).check(1)
    assert len(finding.expected) < 220
    assert finding.expected.endswith("…")


def test_the_schema_knows_every_key_that_it_names() -> None:
    schema = compile_schema(
        {
            "properties": {"a": {"items": {"properties": {"b": {}}}}, "properties": {}},
            "required": ["c"],
            "dependentRequired": {"d": ["a"]},
            "anyOf": [{"properties": {"e": {}}}],
            "$defs": {"not_a_key": {"properties": {"f": {}}}},
            "examples": [{"properties": {"no": 1}}],
        }
    )
    assert schema.known_keys == {"a", "b", "properties", "c", "d", "e", "f"}
    assert compile_schema(True).known_keys == frozenset()


@pytest.mark.rule("TX-CONTRACT-2")
@pytest.mark.parametrize(
    ("schema", "path", "keyword"),
    [
        ([], "", "type"),
        (None, "", "type"),
        ({"type": "whole number"}, "/type", "anyOf"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern", "format"),
        ({"$ref": "#/$defs/none"}, "", "$ref"),
        ({"$ref": 5}, "/$ref", "type"),
        ({"$schema": 5}, "/$schema", "type"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: Json, path: str, keyword: str) -> None:
    refused = refusal_of(schema)
    assert refused.code == "schema.invalid"
    assert dict(refused.details) == {"path": path, "keyword": keyword}


def test_a_schema_that_is_no_json_or_too_deep_is_refused() -> None:
    assert refusal_of({"default": float("nan")}).code == "schema.invalid"
    deep: Json = {}
    for _ in range(100):
        deep = {"items": deep}
    assert refusal_of(deep).code == "schema.invalid"


def test_a_schema_does_not_change_when_its_source_does() -> None:
    source: dict[str, Json] = {"type": "integer"}
    schema = compile_schema(source)
    source["type"] = "string"
    assert schema.fits(5)


REMOTE = "http://127.0.0.1:9/x.json"


@pytest.mark.rule("TX-CONTRACT-2")
@pytest.mark.parametrize(
    ("schema", "path", "keyword"),
    [
        ({"$ref": REMOTE}, "", "$ref"),
        ({"$ref": "other.json#/a"}, "", "$ref"),
        ({"$ref": "file:///etc/passwd"}, "", "$ref"),
        ({"$id": "http://host/a", "$ref": "b"}, "", "$ref"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "", "$schema"),
        ({"$schema": REMOTE}, "", "$schema"),
        ({"$dynamicRef": f"{REMOTE}#a"}, "", "$dynamicRef"),
        ({"$recursiveRef": REMOTE}, "", "$recursiveRef"),
        ({"properties": {"const": {"$ref": REMOTE}}}, "/properties/const", "$ref"),
        ({"anyOf": [{}, {"$ref": REMOTE}]}, "/anyOf/1", "$ref"),
        ({"$defs": {"a": {"items": {"$ref": REMOTE}}}}, "/$defs/a/items", "$ref"),
        ({"unknown": {"$ref": REMOTE}}, "/unknown", "$ref"),
        ({"$defs": {"a": {"$schema": REMOTE}}}, "/$defs/a", "$schema"),
    ],
)
def test_a_schema_that_refers_to_another_document_is_refused(
    schema: Json, path: str, keyword: str
) -> None:
    refused = refusal_of(schema)
    assert refused.code == "schema.remote_reference"
    assert dict(refused.details) == {"path": path, "keyword": keyword}


def test_a_reference_hidden_in_data_is_not_fetched_either() -> None:
    """Data is no schema, until a reference points into it; then the offline compiler refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = f"http://127.0.0.1:{server.getsockname()[1]}/x.json"
        server.settimeout(0.05)
        schema: Json = {"$ref": "#/const", "const": {"$ref": remote}}
        assert refusal_of(schema).code == "schema.invalid"
        with pytest.raises(TimeoutError):
            server.accept()


def test_local_references_anchors_and_the_draft_itself_are_understood() -> None:
    assert compile_schema({"const": {"$ref": REMOTE}}).fits({"$ref": REMOTE})
    assert compile_schema({"properties": {"$ref": {"type": "string"}}}).fits({"$ref": "x"})
    anchored = compile_schema({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}})
    assert not anchored.fits(1)
    draft = compile_schema({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert not draft.fits({"type": "whole number"})
    endless = compile_schema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    )
    assert endless.fits(1)


AMOUNT: Json = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "exponent": {"enum": [0, 2, 3]}},
    "required": ["amount", "exponent"],
    "additionalProperties": False,
}


@pytest.mark.case("AMT-01")
@pytest.mark.parametrize("text", ["78.43", "19.99", "8.165", "1e-9", '"10.00"', "1.234", "-0.5"])
def test_an_amount_that_is_no_integer_in_minor_units_is_refused(text: str) -> None:
    value = parse_json(f'{{"amount": {text}, "exponent": 2}}')
    assert compile_schema(AMOUNT).check(value) == (
        Finding("/amount", "type", "a value of type integer"),
    )


@pytest.mark.case("AMT-01")
@pytest.mark.parametrize(
    ("text", "exponent", "amount"),
    [
        ("7843", 2, 7843),
        ("600", 0, 600),
        ("1234", 3, 1234),
        ("-500", 2, -500),
        ("-0", 2, 0),
        ("-0.0", 2, 0),
        ("600.0", 0, 600),
        ("6e2", 0, 600),
    ],
)
def test_an_amount_is_the_one_integer_that_its_canonical_form_says(
    text: str, exponent: int, amount: int
) -> None:
    """`600.0` is an integer to JSON Schema, and after admission it is written `600`."""
    admitted = parse_json(normalise(parse_json(f'{{"amount": {text}, "exponent": {exponent}}}')))
    assert compile_schema(AMOUNT).fits(admitted)
    assert json.dumps(admitted) == f'{{"amount": {amount}, "exponent": {exponent}}}'
