"""No position hides a canary from the redactor, and nothing it is given makes it raise."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.canonical import canonical_bytes
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.redaction import (
    DETAIL_ENTRIES,
    MESSAGE_LENGTH,
    Redactor,
    redacted_error,
    redacted_form,
)
from amends.contracts.sensitive import scrub

CANARY = "CANARY"
KNOWN = frozenset({"amount", "memo", "lines", "note"})

plain_keys = st.sampled_from(sorted(KNOWN)) | st.text("abc_~/* ", max_size=4)
plain_leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab \n\x00é", max_size=6)


def carrying(*carriers: str) -> st.SearchStrategy[str]:
    """Texts with a canary somewhere, in one of the forms that carry it."""
    return st.builds(
        lambda before, carrier, after: f"{before} {carrier} {after}",
        st.text("ab,", max_size=4),
        st.sampled_from(carriers),
        st.text("ab,", max_size=4),
    )


def trees(keys: st.SearchStrategy[str], leaves: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


bare = st.just(CANARY) | carrying(CANARY)
looking = carrying(
    f"sk_live_{CANARY}",
    f"sk_test_{CANARY}",
    f"Bearer {CANARY}12",
    f"password={CANARY}",
    f'"api_key": "{CANARY}"',
    f"https://user:{CANARY}@host/path",
    f"-----BEGIN PRIVATE KEY-----{CANARY}-----END PRIVATE KEY-----",
)
anything: st.SearchStrategy[object] = st.recursive(
    plain_leaves
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=4)
    | st.integers()
    | st.floats()
    | st.binary(max_size=4)
    | st.just(datetime(2025, 1, 1, tzinfo=UTC))
    | st.just(Decimal("1.5"))
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.rule("RD-1")
@pytest.mark.case("SEC-01")
@given(trees(plain_keys | bare, plain_leaves | bare))
def test_no_position_carries_a_canary_through_the_redacted_form(value: Json) -> None:
    form = redacted_form(value, KNOWN)
    assert CANARY not in json.dumps(form)
    assert shape_of(form) == shape_of(value)


@pytest.mark.rule("RD-2")
@given(trees(plain_keys | looking, plain_leaves | looking))
def test_no_position_carries_what_looks_like_a_secret_through_the_redactor(value: Json) -> None:
    shown = Redactor().json(value)
    assert CANARY not in json.dumps(shown)
    if isinstance(value, dict):
        assert isinstance(shown, dict)
        assert len(shown) == len(value)


@pytest.mark.rule("RD-2")
@given(trees(plain_keys, plain_leaves), st.data())
def test_a_declared_pointer_hides_its_place_and_leaves_the_rest(
    value: Json, data: st.DataObject
) -> None:
    holder: Json = {"root": value}
    # A key that is spelt like the wildcard hides its neighbours too, which is no fault.
    named = [path for path in places(holder) if "*" not in path]
    path = data.draw(st.sampled_from(named))
    planted = replaced(holder, path, CANARY)
    pointer = "".join(f"/{token}" for token in map(escaped, path))
    shown = Redactor((pointer,)).json(planted)
    assert CANARY not in json.dumps(shown)
    assert replaced(shown, path, CANARY) == planted


@pytest.mark.rule("RD-2")
@given(st.dictionaries(plain_keys, anything, max_size=DETAIL_ENTRIES), st.text(), st.text())
def test_every_error_can_be_stored_and_logged(
    details: dict[str, object], code: str, message: str
) -> None:
    error = ErrorInfo(
        code=code,
        message=message,
        details=details,  # type: ignore[arg-type]  # foreign details may be anything
    )
    for shown in (Redactor().error(error), redacted_error(error)):
        stored = canonical_bytes(msgspec.to_builtins(shown))
        assert msgspec.json.decode(stored, type=ErrorInfo) == shown
        assert len(shown.message) <= MESSAGE_LENGTH
        assert shown.message.isprintable() or not shown.message.isascii()
        assert Redactor().error(shown) == shown


@given(anything)
def test_whatever_is_shown_can_be_stored(value: object) -> None:
    shown = Redactor(("/*/a", "/0")).json(value)  # type: ignore[arg-type]  # foreign values too
    assert canonical_bytes(shown)


@given(trees(plain_keys, plain_leaves))
def test_json_without_secrets_is_shown_as_it_is(value: Json) -> None:
    assert Redactor().json(value) == value


@given(st.text() | looking)
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def shape_of(value: Json) -> object:
    """Nesting and numbers of members, in order."""
    if isinstance(value, dict):
        return {"members": [shape_of(item) for item in value.values()]}
    return [shape_of(item) for item in value] if isinstance(value, list) else None


def places(value: Json) -> list[tuple[str, ...]]:
    """The path of every member and item."""
    members: list[tuple[str, Json]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = [(str(place), item) for place, item in enumerate(value)]
    return [
        path
        for step, item in members
        for path in [(step,), *((step, *rest) for rest in places(item))]
    ]


def replaced(value: Json, path: tuple[str, ...], by: Json) -> Json:
    if not path:
        return by
    if isinstance(value, dict):
        return {**value, path[0]: replaced(value[path[0]], path[1:], by)}
    assert isinstance(value, list)
    place = int(path[0])
    return [*value[:place], replaced(value[place], path[1:], by), *value[place + 1 :]]


def escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
