"""Strict parsing of text, and admission of Python values: each refusal, its code and its place."""

import json
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest

from amends.contracts.admission import DEPTH_CEILING, Fault
from amends.contracts.errors import Misuse, Refused
from amends.contracts.parsing import (
    DOCUMENT_LIMITS,
    INPUT_LIMITS,
    JsonLimits,
    admit_value,
    parse_json,
)

CANARY = "canary-4711"


def refused_text(data: bytes | str, limits: JsonLimits = INPUT_LIMITS) -> Refused:
    with pytest.raises(Refused) as caught:
        parse_json(data, limits=limits)
    return caught.value


def refused_value(value: object, limits: JsonLimits = INPUT_LIMITS) -> Refused:
    with pytest.raises(Refused) as caught:
        admit_value(value, limits=limits)
    return caught.value


def nested(depth: int) -> object:
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


class TestReading:
    def test_a_document_is_read_as_the_standard_parser_reads_it(self) -> None:
        text = ' {"a": [1, -0, 2.5, 1e3, true, null], "é": {"😀": "\\u00e9\\n"}}\n'
        assert repr(parse_json(text)) == repr(json.loads(text))

    @pytest.mark.parametrize("text", ["0", '""', "true", "null", "[]", "{}", "-1.5e-3"])
    def test_any_json_value_may_stand_alone(self, text: str) -> None:
        assert repr(parse_json(text.encode())) == repr(json.loads(text))

    def test_true_stays_apart_from_one(self) -> None:
        assert repr(parse_json("[true, 1, 1.0]")) == "[True, 1, 1.0]"


class TestDuplicateKeys:
    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ('{"a": 1, "a": 1}', "/a"),
            ('{"x": [0, {"b": 1, "c": 2, "b": 3}]}', "/x/1/b"),
            ('{"a": 1, "\\u0061": 2}', "/a"),
            ('{"": 1, "": 2}', "/"),
            ('{"p/q~r": {"s": 1, "s": 2}}', "/p~1q~0r/s"),
        ],
    )
    def test_a_duplicate_key_is_refused_with_its_path(self, text: str, path: str) -> None:
        error = refused_text(text)
        assert (error.code, error.details) == ("input.duplicate_key", {"path": path})

    def test_keys_that_only_look_alike_are_two_keys(self) -> None:
        assert parse_json('{"Caf\\u00e9": 1, "Cafe\\u0301": 2}') == {"Café": 1, "Cafe\u0301": 2}


class TestNumbers:
    @pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
    def test_what_is_no_finite_number_is_refused_with_its_path(self, literal: str) -> None:
        error = refused_text(f'{{"a": [0, {literal}]}}')
        assert (error.code, error.details) == ("input.not_a_number", {"path": "/a/1"})

    @pytest.mark.parametrize("number", [2**53 - 1, -(2**53 - 1), 0])
    def test_integers_within_two_to_the_53_are_taken(self, number: int) -> None:
        assert parse_json(str(number)) == admit_value(number) == number

    @pytest.mark.parametrize(
        "literal", [str(2**53), str(-(2**53)), "9007199254740992.0", "1e16", "-1e20"]
    )
    def test_larger_integers_must_be_strings_however_they_are_written(self, literal: str) -> None:
        for error in (refused_text(f"[{literal}]"), refused_value([json.loads(literal)])):
            assert (error.code, error.details) == ("input.integer_too_large", {"path": "/0"})

    def test_a_float_whose_canonical_form_keeps_its_exponent_is_taken(self) -> None:
        assert parse_json("1e21") == 1e21

    @pytest.mark.case("CAN-10")
    @pytest.mark.parametrize("sign", ["", "-"])
    def test_a_literal_of_thousands_of_digits_is_refused_and_raises_nothing_else(
        self, sign: str
    ) -> None:
        error = refused_text(f'{{"n": {sign}{"7" * 5000}}}')
        assert (error.code, error.details) == ("input.integer_too_large", {"path": "/n"})
        assert "7777" not in str(error)

    @pytest.mark.case("CAN-10")
    def test_a_python_integer_of_thousands_of_digits_is_refused_too(self) -> None:
        assert refused_value({"n": 10**5000}).code == "input.integer_too_large"


class TestSurrogates:
    @pytest.mark.case("CAN-06")
    @pytest.mark.parametrize("half", ["\\ud800", "\\udc00\\ud800", "ok \\uDFFF"])
    def test_half_a_pair_is_refused_as_value_and_as_key(self, half: str) -> None:
        value = refused_text(f'{{"a": ["{half}"]}}')
        assert (value.code, value.details) == ("input.lone_surrogate", {"path": "/a/0"})
        key = refused_text(f'{{"a": {{"{half}": 1}}}}')
        assert (key.code, key.details) == ("input.lone_surrogate", {"path": "/a"})

    @pytest.mark.case("CAN-06")
    def test_a_whole_pair_is_one_character(self) -> None:
        assert parse_json('{"\\ud83c\\udf78": "\\ud83c\\udf78"}') == {"🍸": "🍸"}

    @pytest.mark.case("CAN-06")
    def test_half_a_pair_in_a_python_value_is_refused_as_value_and_as_key(self) -> None:
        assert refused_value(["\ud800"]).details == {"path": "/0"}
        assert refused_value({"a": {"\udc00": 1}}).details == {"path": "/a"}

    def test_half_a_pair_in_the_text_itself_is_refused_by_offset(self) -> None:
        error = refused_text('["\ud800"]')
        assert (error.code, error.details) == ("input.lone_surrogate", {"offset": 2})

    def test_a_repeated_key_with_half_a_pair_can_still_be_printed(self) -> None:
        error = refused_text('{"\\ud800": 1, "\\ud800": 2}')
        assert error.details == {"path": "/\\ud800"}
        assert str(error).encode("ascii")


class TestDepth:
    @pytest.mark.case("BIG-01")
    @pytest.mark.parametrize(
        "text",
        [
            "[" * 20_000 + "]" * 20_000,
            "[" * 20_000,
            '{"a":' * 20_000 + "1" + "}" * 20_000,
            '{"capability_id": "pay", "input": ' + "[" * 20_000 + "]" * 20_000 + "}",
        ],
        ids=["arrays", "never closed", "objects", "in an envelope"],
    )
    def test_thousands_of_brackets_are_refused_by_a_limit_of_our_own(self, text: str) -> None:
        error = refused_text(text)
        assert (error.code, error.details) == ("input.too_deep", {"limit": 64})

    @pytest.mark.case("BIG-01")
    @pytest.mark.parametrize("limits", [INPUT_LIMITS, DOCUMENT_LIMITS, JsonLimits(max_depth=0)])
    def test_the_limit_itself_is_allowed_and_one_more_is_not(self, limits: JsonLimits) -> None:
        fits, too_deep = nested(limits.max_depth), nested(limits.max_depth + 1)
        assert parse_json(json.dumps(fits), limits=limits) == fits
        assert admit_value(fits, limits=limits) == fits
        assert refused_text(json.dumps(too_deep), limits).code == "input.too_deep"
        assert refused_value(too_deep, limits).code == "input.too_deep"

    def test_brackets_side_by_side_are_not_deep(self) -> None:
        wide = [[[]], {"a": []}] * 100
        assert parse_json(json.dumps(wide)) == wide

    @pytest.mark.parametrize("noise", ["[" * 100, '"' + "[" * 100, "\\" * 3 + '"[' * 100, "\\"])
    def test_brackets_within_strings_do_not_count(self, noise: str) -> None:
        value = {noise: [noise, [noise]], "more": ["["] * 100}
        assert parse_json(json.dumps(value), limits=JsonLimits(max_depth=3)) == value

    def test_a_string_does_not_hide_the_brackets_after_it(self) -> None:
        for prefix in ('"\\\\"', '"\\\\\\""', '"a"'):
            assert refused_text(f"[{prefix},{'[' * 64}").code == "input.too_deep"

    def test_limits_that_would_endanger_the_stack_cannot_be_made(self) -> None:
        with pytest.raises(Misuse) as caught:
            JsonLimits(max_depth=DEPTH_CEILING + 1)
        assert caught.value.code == "misuse.json_limits"


class TestSize:
    def test_the_limit_counts_bytes_and_is_inclusive(self) -> None:
        limits = JsonLimits(max_bytes=6)
        assert parse_json('"éé"', limits=limits) == parse_json('"éé"'.encode(), limits=limits)
        for data in ('"ééa"', '"ééa"'.encode()):
            error = refused_text(data, limits)
            assert (error.code, error.details) == ("input.too_large", {"limit": 6})

    def test_a_text_within_the_limit_is_never_too_large_as_a_value(self) -> None:
        for text in ('["a",1,[],{"b":""}]', '"abcd"', "[[[]]]", '{"":0}'):
            assert parse_json(text, limits=JsonLimits(max_bytes=len(text))) == json.loads(text)


class TestSyntaxAndEncoding:
    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", "{", "[1,]", '{"a":1,}', "[1 2]", '{"a" 1}', "{a:1}", "{1:2}", "'a'"),
            *("01", "+1", ".5", "1.", "1e", "0x1", "-", "--1", "1_0", "٣", "nan", "tru", "None"),
            *('"a', '"\\x41"', '"\\u12"', '"\\u12g4"', '"a\nb"', '"\x00"', '"\\', "[1]]", "1 1"),
            *("[1]//x", "/**/1", "undefined", "\x0b1", "\xa01"),
        ],
    )
    def test_what_is_not_json_is_refused_with_an_offset(self, text: str) -> None:
        error = refused_text(text)
        assert error.code == "input.malformed"
        assert set(error.details) == {"offset"}

    @pytest.mark.parametrize(
        ("data", "offset"),
        [
            (b"\xef\xbb\xbf{}", 0),
            ("\ufeff{}", 0),
            ("[1]".encode("utf-16"), 0),
            (b'"\xe9"', 1),
            (b'"\xc0\xaf"', 1),
            (b'"\xed\xa0\x80"', 1),
        ],
        ids=["mark", "mark in text", "utf-16", "latin-1", "overlong", "encoded surrogate"],
    )
    def test_what_is_not_plain_utf8_is_refused(self, data: bytes | str, offset: int) -> None:
        error = refused_text(data)
        assert (error.code, error.details) == ("input.not_utf8", {"offset": offset})


class TestDiscretion:
    @pytest.mark.parametrize(
        "text",
        [
            f'{{"a": "{CANARY}", "b": NaN}}',
            f'{{"a": "{CANARY}", "a": "{CANARY}"}}',
            f'["{CANARY}", {"9" * 30}]',
            f'["{CANARY}\\ud800"]',
            f'["{CANARY}"',
            f'["{CANARY}\ud800"]',
            f'{"[" * 65}"{CANARY}"{"]" * 65}',
        ],
    )
    def test_a_refusal_carries_neither_values_nor_the_foreign_exception(self, text: str) -> None:
        error = refused_text(text)
        assert CANARY not in f"{error}{error.details}{error.next_step}"
        assert error.__cause__ is None
        assert error.__suppress_context__
        assert error.next_step

    def test_the_path_is_short_and_printable_whatever_the_keys_are(self) -> None:
        error = refused_value({"a\n\x1b[31m": {"k" * 5000: float("nan")}})
        path = error.details["path"]
        assert isinstance(path, str)
        assert path.startswith("/a\\n\\x1b[31m/kkk")
        assert path.endswith("k…")
        assert len(path) == 257

    def test_a_path_of_just_the_limit_is_not_cut(self) -> None:
        assert refused_value({"k" * 255: float("nan")}).details["path"] == "/" + "k" * 255


class Level(IntEnum):
    HIGH = 1


class Colour(StrEnum):
    RED = "red"


class Narrow(float):
    """Like numpy.float64: a float by descent, with a text of its own."""


class LoudText(str):
    """Like a markup string."""


class Record(dict[str, object]):
    """Like an ordered or default dict."""


@dataclass
class Order:
    amount: int


Pair = namedtuple("Pair", ["left", "right"])


class TestPythonValues:
    @pytest.mark.case("CAN-03")
    @pytest.mark.parametrize(
        "value",
        [
            *(Decimal("0.10"), Narrow(0.1), Level.HIGH, Colour.RED, LoudText("a"), b"a"),
            *(datetime(2024, 1, 1, tzinfo=UTC), {1}, frozenset(), Order(1), Pair(1, 2), Record()),
            *(MappingProxyType({}), bytearray(b"a"), 1j, object(), ..., range(2), int),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_type_that_is_not_exactly_json_is_refused_with_path_and_type(
        self, value: object
    ) -> None:
        error = refused_value({"a": [None, value]})
        assert error.code == "input.unsupported_type"
        assert error.details == {"path": "/a/1", "type": type(value).__qualname__}

    @pytest.mark.case("CAN-03")
    @pytest.mark.parametrize("key", [1, True, None, 1.5, b"a", LoudText("a"), Colour.RED, (1, 2)])
    def test_a_key_that_is_no_plain_string_is_refused(self, key: object) -> None:
        error = refused_value({"a": {"fine": 1, key: 2}})
        assert error.code == "input.unsupported_type"
        assert error.details == {"path": "/a", "key_type": type(key).__qualname__}

    @pytest.mark.case("CAN-03")
    def test_a_tuple_is_the_array_it_is_written_as(self) -> None:
        assert admit_value({"a": (1, ("b",))}) == {"a": [1, ["b"]]}

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
    def test_a_float_that_is_no_number_is_refused_with_its_path(self, number: float) -> None:
        error = refused_value([[number]])
        assert (error.code, error.details) == ("input.not_a_number", {"path": "/0/0"})

    def test_a_value_at_the_root_has_no_path(self) -> None:
        assert refused_value({1}).details == {"type": "set"}

    def test_the_snapshot_does_not_follow_its_owner(self) -> None:
        line, tags = {"qty": 1}, ["a"]
        value: dict[str, object] = {"lines": [line], "tags": tags}
        taken = admit_value(value)
        line["qty"] = 2
        tags.append("b")
        value["more"] = []
        assert taken == {"lines": [{"qty": 1}], "tags": ["a"]}

    def test_admission_leaves_the_owners_value_as_it_was(self) -> None:
        inner = (1, 2)
        value = {"a": [inner]}
        admit_value(value)
        assert value["a"][0] is inner

    def test_a_part_used_twice_becomes_two_parts(self) -> None:
        part = {"n": [1]}
        taken = admit_value([part, part])
        assert isinstance(taken, list)
        assert taken[0] == taken[1]
        assert taken[0] is not taken[1]

    def test_a_value_that_contains_itself_is_too_deep(self) -> None:
        array: list[object] = []
        array.extend([array] * 10)
        record: dict[str, object] = {}
        record["again"] = record
        for loop in (array, record):
            assert refused_value(loop).code == "input.too_deep"

    @pytest.mark.parametrize("leaf", ["", "boom", 1, []])
    def test_a_small_value_that_unfolds_into_a_large_one_is_too_large(self, leaf: object) -> None:
        bomb = leaf
        for _ in range(14):
            bomb = [bomb, bomb]
        error = refused_value(bomb, JsonLimits(max_bytes=10_000))
        assert (error.code, error.details["limit"]) == ("input.too_large", 10_000)

    def test_one_long_string_used_often_is_too_large(self) -> None:
        assert refused_value(["x" * 1000] * 1000, JsonLimits(max_bytes=100_000)).code == (
            "input.too_large"
        )

    def test_a_fault_smuggled_in_is_a_refusal_like_any_other(self) -> None:
        error = refused_value([Fault("input.malformed")])
        assert (error.code, error.details) == ("input.malformed", {"path": "/0"})
