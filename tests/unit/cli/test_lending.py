"""Delegations and notices from the command line."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.cli import acting, exits
from amends.cli.lending import state_of
from amends.cli.options import Options
from amends.contracts.delegations import Delegation
from amends.contracts.enums import PrincipalKind
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.principals import PrincipalRef
from amends.testing.store_documents import a_delegation
from tests.unit.cli.shell import Shell


def waiting(shell: Shell) -> tuple[str, str]:
    """A commit of a risky plan by Alice, and the request that it waits for."""
    ids = ("--transaction-id", "t1")
    assert shell.as_("alice", "plan", "payments.wire", "--input", '{"amount": 5}', *ids).code == 0
    said = shell.as_("alice", "commit", "t1", "--yes")
    assert said.error == "approval.required"
    return said.json["data"]["action_id"], said.json["data"]["approval_id"]


def lent(shell: Shell, *more: str) -> str:
    """Bob's word, lent to Eve."""
    made = shell.as_("bob", "delegate", "eve", "--reason", "on leave", *more).data
    assert (made["state"], made["delegate"]["id"]) == ("lent", "eve")
    id_: str = made["delegation_id"]
    return id_


def on_paper(shell: Shell, who: str, *tokens: str) -> str:
    return shell(*tokens, "--principals", str(shell.principals), "--as", who).out


@pytest.mark.rule("AP-1", "AP-3")
def test_a_lent_word_is_shown_used_and_taken_back(shell: Shell) -> None:
    action, approval = waiting(shell)
    id_ = lent(shell, "--capability", "payments.*", "--max-risk", "high", "--hours", "2")
    shown = on_paper(shell, "eve", "approvals", approval)
    assert f"  amends approve {approval} --under {id_} --principals" in shown
    assert "  decide  " in on_paper(shell, "eve", "approvals")
    (item,) = shell.as_("eve", "approvals").data["items"]
    assert (item["you_may_decide"], item["you_may_decide_under"]) == (False, [id_])
    assert shell.as_("eve", "approve", approval).error == "approval.not_allowed"
    assert shell.as_("eve", "approve", approval, "--under", id_).data["status"] == "approved"
    assert "eve by the word of bob approved" in on_paper(shell, "bob", "approvals", approval)
    assert shell.as_("bob", "revoke", id_, "--reason", "back").data["state"] == "revoked"
    refused = shell.as_("alice", "resume", action, "--yes")
    assert refused.error == "approval.no_longer_granted"


@pytest.mark.rule("AP-1")
def test_delegations_are_listed_for_those_they_concern(shell: Shell) -> None:
    shell.planned("t")
    nobody = "Nobody has lent a word to you, and you have lent yours to nobody.\n"
    assert on_paper(shell, "bob", "delegations") == nobody
    id_ = lent(shell)
    table = on_paper(shell, "eve", "delegations").splitlines()
    assert table[0].split() == [
        *("DELEGATION", "STATE", "WORD", "OF", "LENT", "TO", "FOR", "UP", "TO", "ENDS")
    ]
    assert table[1].split()[:6] == [id_, "lent", "bob", "eve", "*", "critical"]
    assert on_paper(shell, "alice", "delegations") == nobody
    told = on_paper(shell, "olga", "revoke", id_, "--reason", "not needed")
    for line in (
        f"{id_}  revoked",
        "  word of     bob",
        "because     on leave",
        "olga  not needed",
    ):
        assert line in told
    assert shell.as_("eve", "revoke", id_).error == "delegation.not_allowed"


def test_an_operator_lends_the_word_of_somebody_who_is_away(shell: Shell) -> None:
    _, approval = waiting(shell)
    made = shell.as_("olga", "delegate", "eve", "--on-behalf-of", "bob").data
    assert (made["delegator"]["id"], made["made_by"]["id"]) == ("bob", "olga")
    under = ("--under", made["delegation_id"])
    assert shell.as_("eve", "deny", approval, *under).data["status"] == "denied"
    assert shell.as_("eve", "delegate", "alice", "--on-behalf-of", "bob").error == (
        "delegation.not_allowed"
    )
    assert shell.as_("bob", "delegate", "unheard-of").error == "identity.principal_unknown"
    assert shell.as_("bob", "delegate", "eve", "--hours", "-1").error == "input.invalid_value"


@pytest.mark.rule("AP-4", "AP-5")
def test_an_approver_who_is_struck_off_the_file_has_not_approved(shell: Shell) -> None:
    action, approval = waiting(shell)
    assert shell.as_("bob", "approve", approval).data["status"] == "approved"
    listing = shell.principals.read_text()
    shell.principals.write_text(listing.replace('"amends:approve"', '"nothing"'))
    assert shell.as_("alice", "resume", action, "--yes").error == "approval.no_longer_granted"
    shell.principals.write_text(listing)
    assert shell.as_("alice", "resume", action, "--yes").data["status"] == "committed"


@pytest.mark.rule("AP-1")
@pytest.mark.parametrize(
    "change",
    [
        ('id = "bob"', 'id = "bob"\nperson = "alice"'),
        ("[[principals]]", "one_voice_per_os_user = true\n[[principals]]"),
    ],
)
def test_a_second_account_is_no_second_person(shell: Shell, change: tuple[str, str]) -> None:
    shell.principals.write_text(shell.principals.read_text().replace(*change, 1))
    _, approval = waiting(shell)
    assert shell.as_("bob", "approve", approval).error == "approval.separation_of_duties"


def test_the_file_says_what_principals_hold_now_and_local_users_need_no_entry(
    shell: Shell,
) -> None:
    source = acting.FilePrincipals(shell.principals)
    tenant, user = TenantId("default"), PrincipalKind.USER

    def found(id_: str, where: TenantId = tenant, kind: PrincipalKind = user) -> object:
        principal = source.principal(where, PrincipalRef(PrincipalId(id_), kind))
        return principal and (principal.id, principal.scopes)

    assert found("bob") == ("bob", ("amends:approve",))
    assert found("local:me") == ("local:me", ("*",))
    assert found("stranger", TenantId("elsewhere")) == ("stranger", ("*",))
    for none in (
        found("nobody-listed"),
        found("bob", TenantId("elsewhere")),
        found("bob", kind=PrincipalKind.OPERATOR),
        found("local:me", TenantId("elsewhere")),
        found("local:me", kind=PrincipalKind.SERVICE),
    ):
        assert none is None
    shell.principals.write_text('[[principals]]\nid = "local:me"\nkind = "operator"\n')
    assert found("local:me") is None


def test_a_login_is_one_voice_where_the_file_says_so(shell: Shell) -> None:
    shell.principals.write_text(
        'one_voice_per_os_user = true\n[[principals]]\nid = "a"\nos_users = ["*"]\nperson = "b"\n'
    )
    who = acting.caller(Options(principals=shell.principals, as_="a")).principal
    assert who.persons == ("b", acting.local_id(acting.os_user()))


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "lent"),
        ({"ends_at": datetime.now(UTC)}, "ended"),
        ({"starts_at": datetime.now(UTC) + timedelta(days=2)}, "to come"),
        ({"revoked_at": datetime.now(UTC)}, "revoked"),
    ],
)
def test_where_a_delegation_stands(change: dict[str, object], state: str) -> None:
    now = datetime.now(UTC)
    delegation: Delegation = replace(a_delegation(at=now - timedelta(hours=1)), **change)
    assert state_of(delegation, now + timedelta(seconds=1)) == state


# ── notices ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("AP-3")
def test_what_waits_is_told_once_and_remembered(shell: Shell) -> None:
    _, approval = waiting(shell)
    link = ("--link", "https://desk.example/{approval_id}")
    told = shell("notify", "--log", *link)
    (notice,) = [json.loads(line) for line in told.err.splitlines() if line.startswith("{")]
    assert notice["link"] == f"https://desk.example/{approval}"
    assert told.out == "stderr: told.\n"
    again = shell.json("notify", "--log", *link)
    assert "{" not in again.err
    assert again.data == {"channels": [{"channel": "stderr", "failures": 0, "given_up": 0}]}


@pytest.mark.rule("AP-3")
def test_a_command_is_given_the_notice_and_one_that_fails_is_tried_again(
    shell: Shell, tmp_path: Path
) -> None:
    _, approval = waiting(shell)
    failed = shell("notify", "--command", f"{sys.executable} -c 'raise SystemExit(1)'")
    assert failed.out == "command: failed tries: 1; it is tried again.\n"
    assert failed.code == exits.OF_FAMILY["unavailable"]
    assert "[notices.not_taken]" in failed.err
    assert shell.json("notify", "--command", "'").error == "notices.command_invalid"
    assert shell.json("notify").error == "cli.usage"
    assert shell.json("notify", "--webhook", "https://x.example/").error == (
        "notices.secret_invalid"
    )
    assert approval


@pytest.mark.rule("AP-3")
def test_following_goes_on_until_it_is_stopped(shell: Shell) -> None:
    waiting(shell)
    said = shell("notify", "--follow", "--command", "sh -c 'kill -INT $PPID'")
    assert "command: told." in said.out
