"""Committing all open plans: what is listed is what is claimed, and what is left out says why."""

import pytest

from tests.unit.cli import shop
from tests.unit.cli.shell import Shell


def listed(shell: Shell, *more: str) -> dict[str, list[str]]:
    """What a bulk commit did, by transaction."""
    data = shell.json("commit", "--all", "--yes", *more).json["data"]
    return {
        part: [one["transaction_id"] for one in data[part]]
        for part in ("results", "refused", "not_begun", "skipped")
    }


NOTHING: dict[str, list[str]] = {"results": [], "refused": [], "not_begun": [], "skipped": []}


def test_all_open_plans_are_committed_oldest_first(shell: Shell) -> None:
    for number in range(3):
        shell.planned(f"t{number}")
    assert listed(shell) == NOTHING | {"results": ["t0", "t1", "t2"]}
    assert len(shop.books()) == 3
    assert listed(shell) == NOTHING | {"skipped": ["t2", "t1", "t0"]}
    assert len(shop.books()) == 3


def test_what_will_be_claimed_is_listed_before_anybody_says_yes(shell: Shell) -> None:
    shell.planned("t1")
    shell.planned("t2")
    shell.json("withdraw", "t2", "--yes")
    shell.types("n\n")
    said = shell("commit", "--all")
    assert (said.code, shop.books()) == (3, [])
    assert "To commit: 1\n  plan:t1  payments.charge\n" in said.err
    assert "Skipped: 1\n  plan:t2  transaction.plan_withdrawn\n" in said.err
    shell.types("y\n")
    done = shell("commit", "--all")
    assert (done.code, len(shop.books())) == (0, 1)
    assert done.out == "plan:t1  committed  It is done: the effect is there.\n"


def test_a_request_and_a_capability_narrow_it_down(shell: Shell) -> None:
    shell.planned("t1", 5, "--metadata", "ticket=42")
    shell.planned("t2", 5, "--metadata", "ticket=43")
    shell.json("dry-run", "payments.charge", "--input", '{"amount": 5}')
    assert listed(shell, "--capability", "payments.wire") == NOTHING
    assert listed(shell, "--request", "ticket=42") == NOTHING | {"results": ["t1"]}
    assert listed(shell, "--request", "ticket=42") == NOTHING | {"skipped": ["t1"]}
    assert len(shop.books()) == 1


def test_the_plans_of_others_are_not_meant(shell: Shell) -> None:
    shell.planned("t1")
    assert listed(shell, "--principals", str(shell.principals), "--as", "olga") == NOTHING
    nobody = shell("commit", "--all", "--principals", str(shell.principals), "--as", "olga")
    assert (nobody.code, nobody.out) == (0, "There is no plan of yours to commit.\n")


def test_after_a_failure_the_rest_stays_planned_unless_told_otherwise(shell: Shell) -> None:
    for number, amount in enumerate((5, shop.DECLINED, 6)):
        shell.planned(f"t{number}", amount)
    said = shell("commit", "--all", "--yes")
    assert said.code == 6
    assert "plan:t1  failed  It failed, and nothing happened." in said.out
    assert "plan:t2  not begun" in said.out
    assert listed(shell) == NOTHING | {"results": ["t2"], "skipped": ["t1", "t0"]}


def test_what_nobody_knows_is_told_before_what_failed(shell: Shell) -> None:
    for number, amount in enumerate((shop.DECLINED, shop.BREAKS, 6)):
        shell.planned(f"t{number}", amount)
    said = shell.json("commit", "--all", "--yes", "--keep-going")
    assert (said.code, said.error) == (5, "transaction.outcome_unknown")
    results = [one["status"] for one in said.json["data"]["results"]]
    assert results == ["failed", "outcome_unknown", "committed"]


def test_a_plan_that_waits_for_an_approval_does_not_hold_up_the_rest(shell: Shell) -> None:
    order = ("--input", '{"amount": 5}')
    shell.json("plan", "payments.wire", *order, "--transaction-id", "risky")
    shell.planned("t1")
    said = shell.json("commit", "--all", "--yes")
    assert (said.code, said.error) == (3, "approval.required")
    waits, done = said.json["data"]["results"]
    assert (waits["status"], done["status"]) == ("requires_human", "committed")
    again = shell.json("commit", "--all", "--yes").json["data"]["results"]
    assert [one["approval_id"] for one in again] == [waits["approval_id"]]
    shell.as_("bob", "approve", waits["approval_id"])
    assert listed(shell) == NOTHING | {"results": ["risky"], "skipped": ["t1"]}


def test_a_plan_whose_input_was_not_kept_or_whose_app_is_gone_is_left_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.json("plan", "parcels.send", "--input", "{}", "--transaction-id", "secret")
    shell.planned("t1")
    monkeypatch.setenv("AMENDS_APP", "tests.unit.cli.shop:send")
    skipped = shell.json("commit", "--all", "--yes").data["skipped"]
    assert {one["transaction_id"]: one["code"] for one in skipped} == {
        "secret": "action.input_required",
        "t1": "capability.not_found",
    }
    assert skipped[0]["message"]


def test_a_plan_that_has_expired_is_left_out(shell: Shell) -> None:
    ids = ("--transaction-id", "old")
    shell.json(
        "plan", "payments.brief", "--input", "{}", *ids, "--app", "tests.unit.cli.shop:brief"
    )
    skipped = shell.json("commit", "--all", "--yes").data["skipped"]
    assert [one["code"] for one in skipped] == ["transaction.plan_expired"]


def test_one_that_is_refused_on_the_way_is_told_with_its_code(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its app has changed since it was planned: the input does not fit any more."""
    shell.planned("t1")
    monkeypatch.setenv("AMENDS_APP", "tests.unit.cli.shop:changed_charge")
    said = shell.json("commit", "--all", "--yes")
    assert (said.code, said.error) == (3, "input.schema_mismatch")
    [refused] = said.json["data"]["refused"]
    assert (refused["plan_id"], refused["error"]["code"]) == ("plan:t1", "input.schema_mismatch")
    assert "plan:t1  refused  [input.schema_mismatch]" in shell("commit", "--all", "--yes").out
