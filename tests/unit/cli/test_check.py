"""`amends check`: every fault and every risk of an app, and what keeps them from failing it."""

from typing import Final

import pytest

from amends.cli import exits
from tests.unit.cli.shell import Shell

APP: Final = "tests.unit.cli.kept:"


def test_an_app_without_faults_and_risks_passes(shell: Shell) -> None:
    said = shell("check", f"{APP}careful")
    assert said.code == exits.OK
    assert said.out == "Capabilities: 1. Nothing is wrong or risky in them.\n"
    assert shell.json("check", f"{APP}careful").data["findings"] == []
    assert not shell.database.exists()


def test_risks_fail_it_and_each_says_why_and_what_to_do(shell: Shell) -> None:
    said = shell.json("check", f"{APP}careless")
    assert (said.code, said.error) == (exits.FAILED, "check.risks")
    found = {one["code"]: one for one in said.json["data"]["findings"]}
    assert found["financial_unapproved"]["accepted"]
    assert not found["retry_safety_unknown"]["accepted"]
    assert found["outcome_cannot_be_found"]["capability_id"] == "notes.pay"
    text = shell("check", f"{APP}careless").out
    assert "risk     notes.pay  retry_safety_unknown" in text
    assert "Declare retry_safety; unsafe is an answer too." in text
    assert "accepted notes.pay  financial_unapproved" in text


def test_each_risk_is_silenced_by_its_code_or_for_one_capability_alone(shell: Shell) -> None:
    silence = ("--silence", "retry_safety_unknown")
    one = ("--silence", "notes.pay:outcome_cannot_be_found")
    said = shell.json("check", f"{APP}careless", *silence, *one)
    assert said.code == exits.OK
    assert said.data["risks"] == 0
    other = ("--silence", "notes.read:outcome_cannot_be_found")
    assert shell.json("check", f"{APP}careless", *silence, *other).error == "check.risks"


@pytest.mark.parametrize("code", ["retri_safety", "notes.pay:retri_safety"])
def test_what_is_silenced_has_to_be_a_risk_that_there_is(shell: Shell, code: str) -> None:
    said = shell.json("check", f"{APP}careless", "--silence", code)
    assert (said.code, said.error) == (exits.OF_FAMILY["misuse"], "cli.risk_unknown")


def test_an_accepted_risk_that_there_is_not_is_a_risk_itself(shell: Shell) -> None:
    said = shell.json("check", f"{APP}typing_error")
    assert said.error == "check.risks"
    assert [one["code"] for one in said.json["data"]["findings"]] == ["accepted_unknown"]


def test_every_fault_is_told_at_once_and_none_can_be_silenced(shell: Shell) -> None:
    said = shell.json("check", f"{APP}broken")
    assert (said.code, said.error) == (exits.OF_FAMILY["misuse"], "check.faults")
    faults = [one for one in said.json["data"]["findings"] if one["weight"] == "fault"]
    found = {(one["capability_id"], one["code"]) for one in faults}
    assert {
        ("notes.bare", "contract_missing"),
        ("notes.read", "id_twice"),
        ("notes.typed", "capability.invalid"),
        ("notes.send", "compensation_unavailable"),
    } <= found
    assert shell.json("check", f"{APP}broken", "--silence", "horizon_missing").error == (
        "check.faults"
    )


def test_an_app_that_cannot_be_loaded_is_said_as_everywhere(shell: Shell) -> None:
    assert shell.json("check", "nowhere").error == "cli.place_invalid"
