"""Canonical form and strict parsing, held against the reference and against other parsers."""

import json
from collections.abc import Iterator

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from amends.contracts.canonical import canonical_bytes, normalise
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json
from amends.contracts.parsing import DOCUMENT_LIMITS, JsonLimits, admit_value, parse_json

THOROUGH = settings(max_examples=10 * settings().max_examples)
"""Two thousand examples in the profile for CI."""

SAFE = 2**53 - 1
characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=8)
edgy_texts = st.text(
    st.sampled_from('"\\/[]{}:,\b\f\n\x00\x1f\x7f\u2028é€😀\ufb33\ue000a1'), max_size=8
)
one_unit_texts = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-SAFE, SAFE)
floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not SAFE < abs(number) < 1e21
)


def documents(
    leaves: st.SearchStrategy[Json], keys: st.SearchStrategy[str]
) -> st.SearchStrategy[Json]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=8,
    )


plain_leaves = st.none() | st.booleans() | integers | one_unit_texts
plain = documents(plain_leaves, one_unit_texts)
anything = documents(plain_leaves | floats | texts | edgy_texts, texts | edgy_texts)


def depth_of(value: Json) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def containers_of(value: Json) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers_of(part)


def refusal_of(text: str) -> str | None:
    try:
        parse_json(text)
    except Refused as error:
        return error.code
    return None


@THOROUGH
@given(anything)
def test_the_canonical_form_is_the_references(value: Json) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@THOROUGH
@given(plain)
def test_both_roads_lead_to_the_same_bytes_where_the_fast_one_is_taken(value: Json) -> None:
    """The fast road is the encoder's own output, so it is compared without our choice between."""
    fast = msgspec.json.encode(value, order="sorted")
    assert fast == rfc8785.dumps(value) == canonical_bytes(value)


@given(anything)
def test_the_canonical_form_is_read_back_and_is_its_own_canonical_form(value: Json) -> None:
    form = normalise(value)
    again = parse_json(form)
    assert again == value
    assert normalise(again) == form


@given(anything)
def test_the_order_of_keys_never_matters(value: Json) -> None:
    assert canonical_bytes(reordered(value)) == canonical_bytes(value)


def reordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(anything, st.booleans(), st.sampled_from([None, 1]))
def test_valid_text_is_read_as_the_standard_parser_reads_it(
    value: Json, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    expected = repr(json.loads(text))
    assert repr(parse_json(text)) == repr(parse_json(text.encode())) == expected


SCRAPS = st.sampled_from('"\\/[]{}:,.-+eE0123456789 \n\tutrfalsn\x00\ufeff') | st.sampled_from(
    ["NaN", "Infinity", "\\ud800", "\\u0061", "//", '"a":1,', "1e999", "9" * 20]
)


@THOROUGH
@given(anything, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), SCRAPS), max_size=4))
def test_damaged_text_is_refused_by_code_or_read_as_two_other_parsers_read_it(
    value: Json, damages: list[tuple[float, int, str]]
) -> None:
    text = json.dumps(value)
    for place, removed, scrap in damages:
        at = int(place * len(text))
        text = text[:at] + scrap + text[at + removed :]
    code = refusal_of(text)
    if code is None:
        assert parse_json(text) == json.loads(text) == msgspec.json.decode(text)
    if code == "input.malformed":
        assert not reads(text)


def reads(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


@given(st.lists(st.tuples(texts | edgy_texts, integers), min_size=1, max_size=5), st.data())
def test_a_repeated_key_never_passes(pairs: list[tuple[str, int]], data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(pairs))
    members = [f"{json.dumps(key)}:{number}" for key, number in [*pairs, again]]
    assert refusal_of(f'[{{"x":{{{",".join(members)}}}}}]') == "input.duplicate_key"


@given(anything)
def test_nesting_is_measured_exactly_whatever_the_strings_hold(value: Json) -> None:
    text, depth = json.dumps(value), depth_of(value)
    assert parse_json(text, limits=JsonLimits(max_depth=depth)) == value
    if depth:
        shallower = JsonLimits(max_depth=depth - 1)
        with pytest.raises(Refused, match="too_deep"):
            parse_json(text, limits=shallower)
        with pytest.raises(Refused, match="too_deep"):
            admit_value(value, limits=shallower)


@given(anything)
def test_an_admitted_value_is_equal_and_shares_no_container(value: Json) -> None:
    taken = admit_value(value)
    assert repr(taken) == repr(value)
    assert not {*containers_of(taken)} & {*containers_of(value)}


@given(anything)
def test_a_text_that_fits_is_never_refused_for_the_size_of_its_value(value: Json) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    limits = JsonLimits(max_bytes=len(text.encode()), max_depth=DOCUMENT_LIMITS.max_depth)
    assert parse_json(text, limits=limits) == value
