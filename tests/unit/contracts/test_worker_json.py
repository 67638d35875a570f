"""The worker protocol's canonical JSON: what it writes, and what it refuses before it recurses."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from amends.contracts.errors import Refused
from amends.contracts.worker_json import MAX_BYTES, float_text, read_json, write_json

VECTORS: Final = Path(__file__).parents[2] / "vectors"
RECORDED: Final[Any] = json.loads((VECTORS / "worker-v5-recorded.json").read_text("utf-8"))
COMPUTED: Final[Any] = json.loads((VECTORS / "worker-v5.json").read_text("utf-8"))
NUMBERS: Final = RECORDED["number_vectors"]
BEYOND_64_BITS: Final = {"[18446744073709551616]", "[-9223372036854775809]"}


def rewritten(text: str) -> str:
    return write_json(read_json(text.encode())).decode()


def code_of_reading(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        read_json(data)
    return caught.value.code


def code_of_writing(value: object) -> str:
    with pytest.raises(Refused) as caught:
        write_json(value)
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "canonical"),
    [(one["input"], one["canonical"]) for one in NUMBERS if "canonical" in one],
)
def test_a_recorded_number_has_its_recorded_text(text: str, canonical: str) -> None:
    """But for integers beyond 64 bits, which the other side rounds and GR-ID-1 refuses."""
    if text in BEYOND_64_BITS:
        assert code_of_reading(text.encode()) == "input.integer_beyond_64_bits"
    else:
        assert rewritten(text) == canonical


@pytest.mark.parametrize("text", [one["input"] for one in NUMBERS if "error" in one])
def test_what_the_other_side_cannot_read_is_refused(text: str) -> None:
    assert code_of_reading(text.encode()) in {"input.malformed", "input.not_a_number"}


@pytest.mark.parametrize("one", COMPUTED["canonical_json"], ids=lambda one: one["canonical"][:12])
def test_a_computed_value_has_its_canonical_text(one: dict[str, str]) -> None:
    assert rewritten(one["json"]) == one["canonical"]


@pytest.mark.parametrize(("name", "verdict"), RECORDED["depth_vectors"].items())
def test_depth_counts_scalars_as_recorded(name: str, verdict: str) -> None:
    count = int(name[:2])
    text = "[" * count + ("1" if name.endswith("scalar") else "") + "]" * count
    try:
        answer = "ok" if rewritten(text) else ""
    except Refused as refusal:
        answer = refusal.code
    assert answer == ("ok" if verdict == "ok" else "input.too_deep")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.00001, "0.00001"),
        (-0.000011, "-0.000011"),
        (9.9e-6, "9.9e-6"),
        (1e15, "1000000000000000.0"),
        (-1e16, "-1e+16"),
        (5e-324, "5e-324"),
    ],
)
def test_floats_change_to_exponents_where_the_protocol_does(number: float, text: str) -> None:
    assert float_text(number) == text


def test_one_and_one_point_zero_stay_two_values() -> None:
    assert rewritten("[1,1.0,-0,true]") == "[1,1.0,-0.0,true]"


def test_keys_are_sorted_by_code_point_and_not_by_utf_16() -> None:
    assert rewritten('{"\U0001f600":1,"\uffff":2}') == '{"\uffff":2,"\U0001f600":1}'


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":1}', "input.duplicate_key"),
        (b'[{"b":{"a":1,"a":2}}]', "input.duplicate_key"),
        (b"[NaN]", "input.not_a_number"),
        (b"[-Infinity]", "input.not_a_number"),
        (b"[1e999]", "input.not_a_number"),
        (b'["\\ud800"]', "input.lone_surrogate"),
        (b'{"\\udc00":1}', "input.lone_surrogate"),
        (b"[" + b"9" * 5000 + b"]", "input.integer_beyond_64_bits"),
        (b"[18446744073709551616]", "input.integer_beyond_64_bits"),
        (b"[" * 20_000 + b"]" * 20_000, "input.too_deep"),
        (b'"' + b"x" * MAX_BYTES + b'"', "input.too_large"),
        (b"[\xff]", "input.not_utf8"),
        (b"\xef\xbb\xbf[]", "input.not_utf8"),
        (b"[1] [2]", "input.malformed"),
        (b"", "input.malformed"),
    ],
)
def test_text_that_two_readers_could_understand_in_two_ways_is_refused(
    data: bytes, code: str
) -> None:
    assert code_of_reading(data) == code


def test_a_whole_character_written_as_two_escapes_is_taken() -> None:
    assert rewritten('["\\ud83d\\ude00"]') == '["\U0001f600"]'


class Sly(str):
    """A subclass, which may say one thing and encode another."""


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("text", "input.not_a_container"),
        (1, "input.not_a_container"),
        ([float("nan")], "input.not_a_number"),
        ([2**64], "input.integer_beyond_64_bits"),
        ([-(2**63) - 1], "input.integer_beyond_64_bits"),
        (["\ud800"], "input.lone_surrogate"),
        ([("a",)], "input.unsupported_type"),
        ([Sly("a")], "input.unsupported_type"),
        ({1: "a"}, "input.unsupported_type"),
        (["x" * MAX_BYTES], "input.too_large"),
        (["\u00e9" * (MAX_BYTES // 2)], "input.too_large"),
    ],
)
def test_a_python_value_without_one_text_is_refused(value: object, code: str) -> None:
    assert code_of_writing(value) == code


def test_a_value_that_unfolds_without_end_is_stopped_by_its_size() -> None:
    value: list[object] = ["leaf"]
    for _ in range(30):
        value = [value, value, value, value]
    assert code_of_writing(value) == "input.too_large"


def test_a_value_that_holds_itself_is_too_deep() -> None:
    value: list[object] = []
    value.append(value)
    assert code_of_writing(value) == "input.too_deep"


def test_empty_containers_and_every_scalar_are_written() -> None:
    text = '{"a":[],"b":{},"c":[null,true,false,"x",1,1.5]}'
    assert rewritten(text) == text
