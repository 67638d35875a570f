"""Rules on the command line: checking a file, explaining what it decides, and obeying it."""

from pathlib import Path

import pytest

from amends.cli import exits
from tests.unit.cli import shop
from tests.unit.cli.shell import Shell

ORDER = '{"amount": 5}'
RULES = """
version: 1
rules:
  - id: people
    match: {capability: "*", kind: [user, operator]}
    when: input.amount < 100
    effect: allow
  - id: guests
    match: {role: guest}
    effect: deny
  - id: short
    plan_ttl: 60s
    freeze: governance
  - id: few
    match: {mode: execute}
    limits: {count: 1, within: 1h, per: tenant}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(RULES)
    return path


def test_a_command_obeys_the_rules_that_are_named(shell: Shell, rules: Path) -> None:
    done = shell.json(
        "execute", "payments.charge", "--input", ORDER, "--yes", "--policy", str(rules)
    )
    assert done.data["status"] == "committed"
    refused = shell.json(
        "execute", "payments.charge", "--input", ORDER, "--yes", "--policy", str(rules)
    )
    assert (refused.code, refused.error) == (3, "policy.limit_exceeded")
    assert len(shop.books()) == 1


def test_next_commands_repeat_the_rules_that_were_named(shell: Shell, rules: Path) -> None:
    plan = shell("plan", "payments.charge", "--input", ORDER, "--policy", str(rules))
    assert f"--policy {rules}" in plan.out


@pytest.mark.rule("PO-3")
def test_a_file_without_faults_is_told_with_its_revision(shell: Shell, rules: Path) -> None:
    data = shell.json("policy", "check", str(rules)).data
    assert (data["rules"], data["faults"], data["odd"]) == (4, [], [])
    assert data["revision"].startswith("rules-")
    told = shell("policy", "check", str(rules))
    assert (told.code, told.out) == (0, f"4 rules, of revision {data['revision']}.\n")


@pytest.mark.rule("PO-2")
def test_every_fault_is_listed_with_line_and_rule(shell: Shell, rules: Path) -> None:
    rules.write_text("version: 1\nrules:\n  - {id: one, effect: alow}\n  - {effect: deny}\n")
    said = shell.json("policy", "check", str(rules))
    assert (said.code, said.error) == (2, "policy.file_invalid")
    told = shell("policy", "check", str(rules))
    assert told.out.splitlines() == [
        "fault line 3, rule one: effect has to be one of: allow, deny, require_approval",
        "fault line 4: a rule needs id",
    ]


def test_a_file_that_is_not_there_is_no_list_of_faults(shell: Shell, tmp_path: Path) -> None:
    said = shell.json("policy", "check", str(tmp_path / "none.yaml"))
    assert (said.code, said.error) == (2, "policy.file_unreadable")


@pytest.mark.rule("PO-3")
def test_what_is_odd_ends_with_one_and_compares_with_the_app(shell: Shell, rules: Path) -> None:
    rules.write_text(
        "version: 1\nrules:\n  - {id: one, match: {capability: payments.chrage}, effect: allow}\n"
    )
    said = shell.json("policy", "check", str(rules))
    assert (said.code, said.error) == (exits.FAILED, "policy.odd")
    told = shell("policy", "check", str(rules))
    assert "odd   line 3, rule one: The app has no capability payments.chrage." in told.out
    assert "No rule allows payments.charge, so it is denied to everybody." in told.out


@pytest.mark.rule("PO-3")
def test_a_supposed_request_is_explained_rule_by_rule(shell: Shell, rules: Path) -> None:
    asked = ("policy", "explain", "--capability", "payments.charge", "--policy", str(rules))
    data = shell.json(*asked, "--input", ORDER).data
    [now] = data["now"]
    assert now["decision"]["verdict"] == "allow"
    assert [(one["id"], one["says"]) for one in now["rules"]] == [
        ("few", "fits"),
        ("guests", "another role"),
        ("people", "fits"),
        ("short", "fits"),
    ]
    told = shell(*asked, "--input", '{"amount": 500}', "--mode", "plan", "--role", "guest").out
    assert "  decide      deny\n" in told
    assert "  by          guests\n" in told
    assert "its condition does not hold" in told
    restricted = shell(*asked, "--input", ORDER).out
    assert "  freeze      governance\n" in restricted
    assert "  plans live  60 s at most\n" in restricted
    assert "  takes       1 of 1 in 3600 s, tenant [few]\n" in restricted


@pytest.mark.rule("PO-3")
def test_a_stored_request_is_explained_as_it_was_and_as_it_would_be(
    shell: Shell, rules: Path
) -> None:
    done = shell.json(
        *("execute", "payments.charge", "--input", ORDER, "--yes", "--action-id", "act-1"),
        *("--policy", str(rules)),
    )
    assert done.code == 0
    rules.write_text("version: 1\nrules:\n  - {id: never, effect: deny}\n")
    data = shell.json("policy", "explain", "act-1", "--policy", str(rules)).data
    assert data["then"][-1]["rules"] == ["people"]
    assert data["now"][0]["decision"]["rules"] == ["never"]
    told = shell("policy", "explain", "act-1", "--policy", str(rules)).out
    assert "people" in told
    assert "Roles and groups are not kept" in told


def test_a_stored_requesters_roles_are_those_of_now(shell: Shell, rules: Path) -> None:
    done = shell.as_(
        *("alice", "execute", "payments.charge", "--input", ORDER, "--yes"),
        *("--action-id", "act-1", "--policy", str(rules)),
    )
    assert done.code == 0
    listed = shell.principals.read_text()
    shell.principals.write_text(listed.replace('id = "alice"', 'id = "alice"\nroles = ["guest"]'))
    said = shell.as_("alice", "policy", "explain", "act-1", "--policy", str(rules))
    assert said.data["now"][0]["decision"]["rules"] == ["guests"]


def test_a_stored_request_of_another_tenant_is_not_explained(shell: Shell) -> None:
    shell("execute", "payments.charge", "--input", ORDER, "--yes", "--action-id", "act-1")
    said = shell.as_("stranger", "policy", "explain", "act-1")
    assert (said.code, said.error) == (3, "transaction.not_found")


def test_without_rules_the_declaration_is_explained(shell: Shell) -> None:
    data = shell.json(
        "policy", "explain", "--capability", "payments.charge", "--mode", "compensate"
    ).data
    assert [one["rules"] for one in data["now"]] == [[]] * len(data["now"])


@pytest.mark.parametrize("asked", [(), ("act-1", "--capability", "payments.charge")])
def test_either_an_action_or_a_supposition_is_explained(
    shell: Shell, asked: tuple[str, ...]
) -> None:
    shell.planned("t1")
    said = shell.json("policy", "explain", *asked)
    assert (said.code, said.error) == (2, "cli.supposition_invalid")


def test_a_doctor_checks_the_rules_too(shell: Shell, rules: Path) -> None:
    shell.planned("t1")
    rules.chmod(0o600)
    told = shell("doctor", "--policy", str(rules))
    assert "4 rules, of revision rules-" in told.out
    assert "Other users can write" not in told.out
    rules.chmod(0o666)
    assert "Other users can write policy.yaml" in shell("doctor", "--policy", str(rules)).out
    rules.write_text("version: 2\n")
    said = shell.json("doctor", "--policy", str(rules))
    assert (said.code, said.error) == (exits.FAILED, "doctor.faults")
