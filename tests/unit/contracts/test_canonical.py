"""The canonical form, its fast road, and the digests over it."""

import hashlib
import struct
from collections import UserDict
from decimal import Decimal

import msgspec
import pytest
import rfc8785

from amends.contracts.admission import DEPTH_CEILING
from amends.contracts.canonical import (
    canonical_bytes,
    digest,
    digest_bytes,
    domain_digest,
    normalise,
    parts_digest,
)
from amends.contracts.errors import Misuse, Refused
from amends.contracts.json_types import Json
from amends.contracts.parsing import JsonLimits, parse_json


def refusal_of(value: Json) -> Refused:
    with pytest.raises(Refused) as caught:
        canonical_bytes(value)
    return caught.value


def nested(depth: int) -> Json:
    value: Json = "leaf"
    for _ in range(depth):
        value = [value]
    return value


class TestNumbers:
    @pytest.mark.parametrize(
        ("bits", "text"),
        [
            ("0000000000000000", "0"),
            ("8000000000000000", "0"),
            ("0000000000000001", "5e-324"),
            ("8000000000000001", "-5e-324"),
            ("7fefffffffffffff", "1.7976931348623157e+308"),
            ("ffefffffffffffff", "-1.7976931348623157e+308"),
            ("433fffffffffffff", "9007199254740991"),
            ("44b52d02c7e14af5", "9.999999999999997e+22"),
            ("44b52d02c7e14af6", "1e+23"),
            ("44b52d02c7e14af7", "1.0000000000000001e+23"),
            ("444b1ae4d6e2ef50", "1e+21"),
            ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
            ("3eb0c6f7a0b5ed8d", "0.000001"),
            ("41b3de4355555553", "333333333.3333332"),
            ("41b3de4355555554", "333333333.33333325"),
            ("41b3de4355555557", "333333333.33333343"),
            ("becbf647612f3696", "-0.0000033333333333333333"),
        ],
    )
    def test_a_double_is_written_as_the_standard_writes_it(self, bits: str, text: str) -> None:
        (number,) = struct.unpack(">d", bytes.fromhex(bits))
        assert canonical_bytes(number) == text.encode()

    @pytest.mark.case("CAN-02")
    @pytest.mark.parametrize(
        ("one", "other"), [(1, 1.0), (0, -0.0), (100, 1e2), (-5, -5.0), (2**53 - 1, 2.0**53 - 1)]
    )
    def test_two_spellings_of_one_number_are_one_value(self, one: Json, other: Json) -> None:
        assert canonical_bytes({"n": [one]}) == canonical_bytes({"n": [other]})

    @pytest.mark.case("CAN-02")
    @pytest.mark.parametrize(
        ("one", "other"),
        [(0.1 + 0.2, 0.3), (True, 1), (False, 0), (True, 1.0), ("1", 1), (0, None)],
    )
    def test_different_values_have_different_forms(self, one: Json, other: Json) -> None:
        assert canonical_bytes({"n": [one]}) != canonical_bytes({"n": [other]})
        assert digest(one) != digest(other)

    @pytest.mark.parametrize("number", [2**53, -(2**53), 2.0**53, -1e20, 10**400])
    def test_an_integer_that_could_not_be_read_back_is_refused(self, number: Json) -> None:
        error = refusal_of({"a": [number]})
        assert (error.code, error.details) == ("input.integer_too_large", {"path": "/a/0"})


class TestText:
    def test_both_roads_write_and_sort_every_character_of_one_unit_alike(self) -> None:
        characters = [chr(point) for point in (*range(0xD800), *range(0xE000, 0x10000))]
        values: list[Json] = ["".join(characters), dict.fromkeys(characters, 0)]
        for value in values:
            fast = msgspec.json.encode(value, order="sorted")
            assert canonical_bytes(value) == fast == rfc8785.dumps(value)

    def test_keys_are_sorted_by_utf16_units(self) -> None:
        value: Json = {"\ufb33": 1, "😀": 2, "€": 3, "\r": 4, "1": 5, "\x80": 6, "ö": 7}
        form = canonical_bytes(value)
        assert form == '{"\\r":4,"1":5,"\x80":6,"ö":7,"€":3,"😀":2,"\ufb33":1}'.encode()

    @pytest.mark.case("CAN-05")
    @pytest.mark.parametrize(
        ("one", "other"),
        [("Caf\u00e9", "Cafe\u0301"), ("1", "\uff11"), ("ab", "a\u200db"), ("a", "a "), ("a", "A")],
    )
    def test_texts_that_look_alike_are_hashed_exactly_as_given(self, one: str, other: str) -> None:
        assert digest({"name": one}) != digest({"name": other})
        for text in (one, other):
            assert parse_json(normalise({text: text})) == {text: text}

    @pytest.mark.case("CAN-06")
    @pytest.mark.parametrize("value", [["\ud800"], {"\ud83d": 1}, [1.5, "\udc00\ud800"]])
    def test_half_a_surrogate_pair_is_refused(self, value: Json) -> None:
        assert refusal_of(value).code == "input.lone_surrogate"


class TestShape:
    def test_the_standards_own_example(self) -> None:
        text = (
            '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
            ' "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
            ' "literals": [null, true, false]}'
        )
        assert (
            canonical_bytes(parse_json(text))
            == (
                '{"literals":[null,true,false],'
                '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
                '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
            ).encode()
        )

    def test_the_order_of_keys_does_not_matter(self) -> None:
        assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})

    @pytest.mark.case("BIG-01")
    @pytest.mark.parametrize("leaf_road", ["plain", "reference"])
    def test_depth_is_bounded_by_number_not_by_the_stack(self, leaf_road: str) -> None:
        extra: Json = 1 if leaf_road == "plain" else 1.5
        assert canonical_bytes([extra, nested(DEPTH_CEILING - 1)])
        for depth in (DEPTH_CEILING, 500, 20_000):
            assert refusal_of([extra, nested(depth)]).code == "input.too_deep"

    def test_a_value_that_contains_itself_is_refused(self) -> None:
        loop: list[Json] = []
        loop.extend([loop, loop])
        assert refusal_of(loop).code == "input.too_deep"

    @pytest.mark.case("CAN-03")
    @pytest.mark.parametrize(
        "value", [Decimal("0.10"), b"a", {1}, {1: "a"}, UserDict(), float("nan"), [object()]]
    )
    def test_what_only_claims_to_be_json_is_refused(self, value: object) -> None:
        code = refusal_of(value).code  # type: ignore[arg-type]  # the claim is the point
        assert code in {"input.unsupported_type", "input.not_a_number"}

    @pytest.mark.case("CAN-03")
    def test_a_tuple_has_the_form_of_its_array(self) -> None:
        assert normalise({"a": (1, (2,))}) == b'{"a":[1,[2]]}'


class TestNormalise:
    @pytest.mark.rule("TX-PLAN-3")
    @pytest.mark.case("CAN-02")
    def test_the_input_hash_is_one_for_all_spellings_and_bound_to_the_capability(self) -> None:
        texts = ('{"amount": 1, "to": {"b": 2, "a": 1e2}}', '{"to":{"a":100,"b":2.0},"amount":1.0}')
        stored = {normalise(parse_json(text)) for text in texts}
        assert stored == {b'{"amount":1,"to":{"a":100,"b":2}}'}
        (input_bytes,) = stored
        hashes = {
            digest({"capability_id": "pay", "input": parse_json(data)})
            for data in (*texts, input_bytes)
        }
        envelope = b'{"capability_id":"pay","input":' + input_bytes + b"}"
        assert hashes == {hashlib.sha256(envelope).hexdigest()}
        assert digest({"capability_id": "refund", "input": parse_json(input_bytes)}) not in hashes

    @pytest.mark.rule("TX-PLAN-3")
    def test_the_stored_bytes_do_not_follow_the_callers_value(self) -> None:
        value = {"lines": [{"qty": 1.0}]}
        stored = normalise(value)
        value["lines"][0]["qty"] = 2.0
        assert parse_json(stored) == {"lines": [{"qty": 1}]}

    def test_the_size_of_the_bytes_is_held_exactly(self) -> None:
        value = ["\x00\x00", 123456]
        size = len(canonical_bytes(["\x00\x00", 123456]))
        assert len(normalise(value, limits=JsonLimits(max_bytes=size))) == size
        with pytest.raises(Refused) as caught:
            normalise(value, limits=JsonLimits(max_bytes=size - 1))
        assert caught.value.code == "input.too_large"
        assert caught.value.details == {"limit": size - 1}

    def test_an_input_as_deep_as_allowed_still_fits_into_its_documents(self) -> None:
        value = nested(JsonLimits().max_depth)
        assert normalise(value)
        assert digest({"capability_id": "pay", "input": value})


class TestDigests:
    def test_a_digest_is_sha256_over_the_canonical_bytes(self) -> None:
        assert digest({"b": 1.0, "a": []}) == hashlib.sha256(b'{"a":[],"b":1}').hexdigest()
        assert digest_bytes(b"") == hashlib.sha256(b"").hexdigest()

    def test_a_domain_digest_puts_the_tag_on_a_line_of_its_own(self) -> None:
        expected = hashlib.sha256(b'amends receipt v1\n{"a":1}').hexdigest()
        assert domain_digest("amends receipt v1", {"a": 1.0}) == expected

    def test_the_same_value_under_another_tag_is_another_digest(self) -> None:
        digests = {domain_digest(tag, "x") for tag in ("plan", "receipt", 'plan"')} | {digest("x")}
        assert len(digests) == 4

    @pytest.mark.parametrize("tag", ["", "a\nb", "réceipt", "\x00"])
    def test_a_tag_that_could_blur_the_border_is_refused(self, tag: str) -> None:
        with pytest.raises(Misuse) as caught:
            domain_digest(tag, {})
        assert caught.value.code == "misuse.digest_tag"


@pytest.mark.parametrize("parts", [("a", "b"), ("é", "\U0001f600", "\x00\n"), ()])
def test_a_digest_of_parts_is_the_digest_of_their_list(parts: tuple[str, ...]) -> None:
    assert parts_digest("tag-v1", *parts) == domain_digest("tag-v1", list(parts))


def test_parts_that_are_no_text_are_refused_as_everywhere() -> None:
    with pytest.raises(Refused) as caught:
        parts_digest("tag-v1", "\ud800")
    assert caught.value.code == "input.lone_surrogate"
