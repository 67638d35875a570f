"""Outputs as they are stored: whatever is wrong with one, nothing raises."""

import dataclasses
import math
from decimal import Decimal

import pytest

from amends.contracts import limits
from amends.contracts.canonical import digest, digest_bytes
from amends.contracts.json_types import Json
from amends.contracts.secrets import Credential, Secret
from amends.transactions.outputs import NOT_STORABLE, SCHEMA_MISMATCH, store_output
from amends.transactions.settlement import NO_OUTPUT, StoredOutput


def anything(_: Json) -> bool:
    return True


def nothing(_: Json) -> bool:
    return False


def stars(_: Json) -> Json:
    return "***"


def broken(_: Json) -> bool:
    raise RuntimeError("a schema that fails")


@dataclasses.dataclass
class Receipt:
    id: str


NESTED: object = "leaf"
for _ in range(1000):
    NESTED = [NESTED]


def test_an_output_is_kept_as_its_canonical_text_with_the_hash_of_just_that() -> None:
    stored = store_output({"b": 1.0, "a": "é"}, redact=None, fits=anything)
    text = '{"a":"é","b":1}'
    assert stored == StoredOutput(output=stored.output, output_hash=digest_bytes(text.encode()))
    assert stored.output == text


@pytest.mark.rule("TX-SETTLE-5")
def test_an_output_that_does_not_fit_is_kept_and_marked() -> None:
    stored = store_output([1], redact=None, fits=nothing)
    assert (stored.output, stored.invalid, stored.redacted) == ("[1]", SCHEMA_MISMATCH, False)


@pytest.mark.rule("TX-SETTLE-5")
@pytest.mark.parametrize(
    "output",
    [
        math.nan,
        math.inf,
        2**53,
        "\ud800",
        {"\udc00": 1},
        {1: "a"},
        b"bytes",
        {1, 2},
        Decimal("0.10"),
        Receipt("ch_1"),
        object(),
        NESTED,
        "x" * (limits.OUTPUT_BYTES + 1),
    ],
)
def test_an_output_that_is_no_json_is_not_kept_and_marked(output: object) -> None:
    stored = store_output(output, redact=None, fits=anything)
    assert stored == StoredOutput(invalid=NOT_STORABLE)


@pytest.mark.rule("TX-SETTLE-5")
def test_an_output_that_is_too_large_once_it_is_written_keeps_its_hash() -> None:
    large = "é" * (limits.OUTPUT_BYTES - 2)
    stored = store_output(large, redact=None, fits=anything)
    assert stored == StoredOutput(output_hash=digest(large), invalid=NOT_STORABLE)


@pytest.mark.rule("RD-1")
@pytest.mark.parametrize(("fits", "invalid"), [(anything, None), (nothing, SCHEMA_MISMATCH)])
def test_with_redaction_only_the_redacted_form_and_the_hash_of_the_whole_remain(
    fits: object, invalid: str | None
) -> None:
    secret = {"card": "4242"}
    check = anything if fits is anything else nothing
    stored = store_output(secret, redact=stars, fits=check)
    assert stored == StoredOutput(
        output=stored.output, output_hash=digest({"card": "4242"}), redacted=True, invalid=invalid
    )
    assert stored.output == '"***"'


def broken_redactor(_: Json) -> Json:
    raise RuntimeError("a redactor that fails")


def redacting_into_no_json(_: Json) -> Json:
    return math.nan


@pytest.mark.rule("TX-SETTLE-5")
def test_a_schema_or_redactor_that_fails_costs_the_output_and_not_the_settlement() -> None:
    lost = StoredOutput(output_hash=digest([1]), invalid=NOT_STORABLE)
    assert store_output([1], redact=None, fits=broken) == lost
    assert store_output([1], redact=broken_redactor, fits=anything) == lost
    assert store_output([1], redact=redacting_into_no_json, fits=anything) == lost


@pytest.mark.rule("RD-2")
def test_an_echoed_credential_is_out_of_what_is_kept_and_hashed() -> None:
    credential = Credential(secret=Secret('sk_live"1234'))
    echo: Json = {"a": [1, None, 'is sk_live"1234.'], 'sk_live"1234': True}
    kept = {"a": [1, None, "is [redacted]."], "[redacted]": True}
    stored = store_output(echo, redact=None, fits=anything, credential=credential)
    assert stored == store_output(kept, redact=None, fits=anything)
    assert not stored.redacted


def test_a_word_is_no_credential_only_because_it_is_one_somewhere() -> None:
    told = {"mode": "test"}
    credential = Credential(secret=Secret("test"))
    stored = store_output(told, redact=None, fits=anything, credential=credential)
    assert stored == store_output(told, redact=None, fits=anything)


def test_no_output_is_no_fault() -> None:
    assert store_output(None, redact=None, fits=anything).output == "null"
    assert NO_OUTPUT.invalid is None
