"""One redactor: what it hides, what it must not touch, and that it never raises."""

import base64
from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePath

import pytest

from amends.contracts.canonical import canonical_bytes
from amends.contracts.enums import ErrorCategory
from amends.contracts.errors import Refused
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.redaction import (
    CUT,
    DETAIL_ENTRIES,
    DETAIL_LENGTH,
    MESSAGE_LENGTH,
    REDACTED,
    Redactor,
    hidden_text,
    kept_text,
    redacted_error,
    redacted_form,
)
from amends.contracts.secrets import Secret


@pytest.mark.rule("RD-2")
def test_values_under_sensitive_names_are_hidden_whatever_they_are() -> None:
    value: Json = {
        "password": "CANARY",
        "nested": [{"API-Key": {"deep": ["CANARY"]}}],
        "pin": None,
        "amount": 100,
    }
    assert Redactor().json(value) == {
        "password": REDACTED,
        "nested": [{"API-Key": REDACTED}],
        "pin": REDACTED,
        "amount": 100,
    }


@pytest.mark.rule("RD-2")
def test_declared_pointers_reach_members_items_and_escaped_keys() -> None:
    redactor = Redactor(("/tax", "/lines/*/note", "/lines/1", "/a~1b/m~0n", "/any/*/*/x"))
    value: Json = {
        "tax": {"id": "CANARY"},
        "lines": [{"note": "CANARY", "n": 1}, "CANARY", {"n": 3}],
        "a/b": {"m~n": "CANARY", "else": 1},
        "any": {"p": {"q": {"x": "CANARY", "y": 2}}},
        "other": {"tax": 5},
    }
    assert redactor.json(value) == {
        "tax": REDACTED,
        "lines": [{"note": REDACTED, "n": 1}, REDACTED, {"n": 3}],
        "a/b": {"m~n": REDACTED, "else": 1},
        "any": {"p": {"q": {"x": REDACTED, "y": 2}}},
        "other": {"tax": 5},
    }


@pytest.mark.rule("RD-2")
def test_the_empty_pointer_hides_the_whole_value() -> None:
    assert Redactor(("",)).json({"a": 1}) == REDACTED


@pytest.mark.parametrize("pointer", ["tax", "#/tax", "/a~", "/a~2"])
def test_a_pointer_that_is_none_is_refused(pointer: str) -> None:
    with pytest.raises(Refused) as refused:
        Redactor((pointer,))
    assert refused.value.code == "redaction.pointer_invalid"


@pytest.mark.rule("RD-2")
def test_a_secret_in_a_key_is_hidden_without_losing_an_entry() -> None:
    value: Json = {"sk_live_CANARY": 1, "[key 2]": 2, "sk_live_CANARY2": 3, "plain": 4}
    assert Redactor().json(value) == {"[key 0]": 1, "[key 1]": 2, "[key 2]": 3, "plain": 4}


def test_admitted_json_without_secrets_comes_back_equal() -> None:
    value: Json = {
        "text": "line\nbreak\ttab \x00 nul \u202e bidi é 漢",
        "numbers": [0, -1, 1.5, 2**53 - 1, True, False, None],
        "empty": [{}, [], ""],
    }
    shown = Redactor(("/elsewhere",)).json(value)
    assert canonical_bytes(shown) == canonical_bytes(value)


def test_a_value_that_contains_itself_is_cut() -> None:
    value: list[Json] = []
    value.append(value)
    shown = Redactor().json(value)
    assert CUT in str(shown)


class Colour(StrEnum):
    RED = "red"


def test_what_is_no_json_is_named_by_its_type_and_never_raises() -> None:
    value: dict[object, object] = {
        "nan": float("nan"),
        "huge": 10**5000,
        "large": 1e17,
        "bytes": b"CANARY",
        "path": PurePath("CANARY"),
        "decimal": Decimal("1.10"),
        "tuple": (1, Colour.RED),
        "mapping": OrderedDict(a=1),
        "half": "x\ud800",
        7: "seven",
        "half\ud800": 1,
        10**5000: 2,
    }
    shown = Redactor(("/7",)).json(value)  # type: ignore[arg-type]  # not JSON is the point
    assert shown == {
        "nan": "[float]",
        "huge": "[int]",
        "large": "[float]",
        "bytes": "[bytes]",
        "path": f"[{type(PurePath()).__name__}]",
        "decimal": "[Decimal]",
        "tuple": [1, "red"],
        "mapping": {"a": 1},
        "half": "x\\ud800",
        "[key 9]": "seven",
        "[key 10]": 1,
        "[key 11]": 2,
    }
    assert canonical_bytes(shown)


@pytest.mark.rule("RD-2")
@pytest.mark.case("SEC-03")
def test_a_credential_in_use_is_found_however_a_message_quotes_it() -> None:
    for credential in ("tok-CANARY\n", "tok-CANARYü", "tok-\"CANARY'"):
        redactor = Redactor(secrets=(Secret(credential),))
        for text in (
            f"bad header {credential!r}",
            f"bad header {credential.encode()!r}",
            f"bad header {credential}",
            f"bad header {credential.strip()} end",
        ):
            assert "CANARY" not in redactor.text(text)
            assert "CANARY" not in str(redactor.json({"m": [text], credential: 1}))


def test_a_credential_too_short_to_tell_from_words_is_not_looked_for() -> None:
    assert Redactor(secrets=(Secret("a"), Secret(""))).text("a b") == "a b"


@pytest.mark.rule("RD-2")
def test_text_is_one_line_whose_control_characters_are_escaped() -> None:
    shown = Redactor().text("a\nb\x00c\x1b[31m\u202ed\ud83d \x85 é\u2028")
    assert shown == "a\\nb\\x00c\\x1b[31m\\u202ed\\ud83d \\x85 é\\u2028"


@pytest.mark.rule("RD-2")
def test_an_error_is_scrubbed_escaped_and_keeps_what_rules_read() -> None:
    error = ErrorInfo(
        code="card.declined\n",
        message="refused: password=CANARY\x00",
        category=ErrorCategory.TEMPORARY,
        retryable=True,
        details={
            "side_effects_committed": True,
            "retry_after_ms": 5000,
            "header": "Bearer CANARYCANARY",
            "token": "CANARY",
            "body": {"note": "line\n"},
        },
    )
    assert Redactor(("/body/note",)).error(error) == ErrorInfo(
        code="card.declined\\n",
        message=f"refused: password={REDACTED}",
        category=ErrorCategory.TEMPORARY,
        retryable=True,
        details={
            "side_effects_committed": True,
            "retry_after_ms": 5000,
            "header": f"Bearer {REDACTED}",
            "token": REDACTED,
            "body": {"note": REDACTED},
        },
    )


def test_a_long_message_is_cut_after_it_is_scrubbed() -> None:
    edge = "x" * (MESSAGE_LENGTH - 10) + " sk_live_CANARY" + "Y" * 50
    message = Redactor().error(ErrorInfo(code="c", message=edge)).message
    assert len(message) == MESSAGE_LENGTH
    assert message.endswith("…")
    assert "sk_live" not in message


def test_an_endless_message_is_cut_between_words_before_it_is_scrubbed() -> None:
    key = "-----BEGIN PRIVATE KEY-----" + "Y" * 8000 + "-----END PRIVATE KEY----- "
    message = key + "http://user:" + "CANARY" * 50 + "@host"
    shown = Redactor().error(ErrorInfo(code="c", message=message)).message
    assert shown == f"{REDACTED} {CUT}"


def test_a_long_detail_cannot_push_out_a_telling_one() -> None:
    details: dict[str, Json] = {
        "long": ["x" * 300] * 100,
        "wide": {f"key {place}": place for place in range(1000)},
        "many": [[0]] * 10_000,
        "letters": "y" * 100_000,
        "full": ["z" * 400, "z" * 400, "z" * 223, {"a": 1}],
        "deep": _nested(40),
        "side_effects_committed": True,
    }
    shown = Redactor().error(ErrorInfo(code="c", details=details)).details
    assert shown["side_effects_committed"] is True
    assert shown["long"] == ["x" * 300] * 3 + [CUT, CUT]
    assert shown["full"] == ["z" * 400, "z" * 400, CUT, CUT]
    assert str(shown["wide"]).endswith(f"{CUT!r}}}")
    assert str(shown["many"]).endswith(f"{CUT!r}]")
    assert CUT in str(shown["deep"])
    assert len(canonical_bytes(shown)) < 8 * DETAIL_LENGTH


def test_only_so_many_details_are_kept() -> None:
    details: dict[str, Json] = {f"key {place}": place for place in range(DETAIL_ENTRIES + 5)}
    shown = Redactor().error(ErrorInfo(code="c", details=details)).details
    assert len(shown) == DETAIL_ENTRIES + 1
    assert shown[f"[key {DETAIL_ENTRIES}]"] == CUT


@pytest.mark.rule("RD-1")
@pytest.mark.case("SEC-01")
def test_the_redacted_form_keeps_the_shape_and_nothing_else() -> None:
    canary = "CANARY"
    value: Json = {
        "amount": 100,
        "ratio": 0.5,
        "memo": canary,
        "url": f"https://host/?q={canary}",
        "coded": base64.b64encode(canary.encode()).decode(),
        "nested": {"list": [canary, True, None], canary: {"x": canary}},
        "[key 0]": 1,
    }
    known = frozenset({"amount", "ratio", "memo", "url", "nested", "list", "[key 0]"})
    assert redacted_form(value, known) == {
        "amount": "[number]",
        "ratio": "[number]",
        "memo": "[string]",
        "url": "[string]",
        "[key 4]": "[string]",
        "nested": {"list": ["[string]", "[boolean]", "[null]"], "[key 1]": {"[key 0]": "[string]"}},
        "[key 6]": "[number]",
    }


def test_the_redacted_form_of_anything_is_bounded_and_never_raises() -> None:
    endless: list[Json] = []
    endless.append(endless)
    assert CUT in str(redacted_form(endless, frozenset()))
    strange: Json = {"a": (b"CANARY", 1)}  # type: ignore[dict-item]  # not JSON is the point
    assert redacted_form(strange, frozenset({"a"})) == {"a": ["[unknown]", "[number]"]}


@pytest.mark.rule("RD-1")
@pytest.mark.case("SEC-01")
def test_the_error_of_a_redacted_capability_keeps_only_what_rules_read() -> None:
    error = ErrorInfo(
        code="card.declined",
        message="CANARY was declined",
        retryable=True,
        details={
            "uncertain_outcome": True,
            "retry_after_ms": 10,
            "compensation_required": "CANARY",
            "CANARY": 1,
        },
    )
    assert redacted_error(error) == ErrorInfo(
        code="card.declined",
        message=REDACTED,
        retryable=True,
        details={"uncertain_outcome": True, "retry_after_ms": 10},
    )


def _nested(depth: int) -> Json:
    value: Json = "bottom"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.rule("RD-1")
def test_a_hidden_text_is_its_hash_and_nothing_else_and_is_hidden_once() -> None:
    said = "The customer has called.\nTwice."
    hidden = hidden_text(said)
    assert hidden.startswith("[redacted] sha256:")
    assert len(hidden) == len("[redacted] sha256:") + 64
    assert hidden_text(hidden) == hidden
    assert hidden_text(said) == hidden != hidden_text(said + " ")
    assert hidden_text("") == ""
    assert hidden_text(f"{hidden} and more") != f"{hidden} and more"


@pytest.mark.rule("RD-2")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("The books\nsay so: \u201cpaid\u201d.", "The books\nsay so: \u201cpaid\u201d."),
        ("api_key=abc123", "api_key=[redacted]"),
        ("", ""),
    ],
)
def test_what_people_write_is_kept_readable_without_secrets(said: str, kept: str) -> None:
    assert kept_text(said, hidden=False) == kept
    assert kept_text(said, hidden=True) == hidden_text(said)
