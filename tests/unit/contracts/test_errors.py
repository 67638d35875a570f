"""Errors and codes: families, texts that help, and details that cannot be changed."""

import re

import pytest

from amends.contracts.codes import CODES, coded
from amends.contracts.errors import (
    FAMILIES,
    AmendsError,
    Conflict,
    OutcomeUnknown,
    Refused,
)


def test_every_family_stands_under_its_own_name() -> None:
    assert {name: kind.family for name, kind in FAMILIES.items()} == {n: n for n in FAMILIES}
    assert set(FAMILIES.values()) == set(AmendsError.__subclasses__())
    assert AmendsError.family not in FAMILIES


def test_an_error_is_one_line_with_code_what_happened_and_what_to_do() -> None:
    full = Refused("a.b", "It was refused.", next_step="Ask again.")
    assert str(full) == "[a.b] It was refused. Ask again."
    assert str(Refused("a.b", "It was refused.")) == "[a.b] It was refused."
    assert full.args == ("a.b", "It was refused.")


def test_the_details_are_a_copy_that_nobody_changes() -> None:
    given: dict[str, object] = {"status": "planned"}
    error = Refused("a.b", "No.", details={"status": "planned"})
    given["status"] = "changed"
    assert error.details == {"status": "planned"}
    with pytest.raises(TypeError):
        error.details["status"] = "changed"  # type: ignore[index]  # the refusal is the point
    assert Refused("a.b", "No.").details == {}
    assert Refused("a.b", "No.", details={}).details == {}


@pytest.mark.parametrize(("code", "entry"), list(CODES.items()))
def test_every_code_is_dotted_and_says_what_happened_and_what_to_do(
    code: str, entry: object
) -> None:
    listed = CODES[code]
    assert entry is listed
    assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", code)
    assert listed.family in FAMILIES.values()
    for text in (listed.message, listed.next_step):
        assert re.fullmatch(r"[A-Za-z].*\.", text)
        assert "\n" not in text
    assert len(listed.message) <= 120


@pytest.mark.parametrize("code", list(CODES))
def test_a_listed_code_becomes_an_error_of_its_family_with_its_texts(code: str) -> None:
    error = coded(code, {"status": "planned"})
    assert type(error) is CODES[code].family
    assert (error.code, error.message) == (code, CODES[code].message)
    assert (error.next_step, error.details) == (CODES[code].next_step, {"status": "planned"})
    assert coded(code, message="Otherwise.").message == "Otherwise."


def test_what_may_have_happened_is_told_apart_from_what_was_refused() -> None:
    for code in ("sla.timeout_exceeded", "transaction.reconciliation_required"):
        assert isinstance(coded(code), OutcomeUnknown)
        assert not CODES[code].retryable
    assert isinstance(coded("transaction.plan_already_claimed"), Conflict)
    assert not [code for code, entry in CODES.items() if entry.retryable and "unknown" in code]


def test_a_code_that_is_not_listed_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError):
        coded("no.such_code")
