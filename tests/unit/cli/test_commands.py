"""Each command over a store: what it does, what it says, and with which exit code."""

import asyncio
import json
import threading
from datetime import UTC, datetime
from typing import Final, get_args

import pytest

from amends import Amends, Principal
from amends.cli.commands.listing import StatusName
from amends.contracts.enums import Status
from amends.stores.port import Stored
from tests.unit.cli import shop
from tests.unit.cli.shell import Shell

ORDER: Final = '{"amount": 5}'


# ── planning and committing ──────────────────────────────────────────────────────────────────────


def test_a_plan_is_committed_once_and_the_effect_is_shown(shell: Shell) -> None:
    plan = shell.json("plan", "payments.charge", "--input", ORDER, "--plan-id", "p1").data
    assert (plan["status"], plan["plan_id"], plan["output"]) == ("planned", "p1", None)
    done = shell.json("commit", "p1", "--yes").data
    assert (done["status"], done["verdict"]) == ("committed", "committed")
    assert done["output"] == {"charge": "ch-5"}
    assert done["provider_operation"]["operation_id"] == "ch-5"
    again = shell.json("commit", "p1", "--yes")
    assert (again.code, again.error) == (4, "transaction.plan_not_committable")
    assert len(shop.books()) == 1


def test_the_same_commit_is_answered_and_not_repeated(shell: Shell) -> None:
    shell.planned("t1")
    first = shell.json("commit", "t1", "--yes", "--action-id", "act-1").data
    again = shell.json("commit", "t1", "--yes", "--action-id", "act-1").data
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["output"] == first["output"]
    assert len(shop.books()) == 1


def test_a_person_reads_what_happened_and_what_can_be_typed_next(shell: Shell) -> None:
    plan = shell("plan", "payments.charge", "--input", ORDER, "--transaction-id", "t1")
    assert plan.code == 0
    assert plan.out.startswith("planned  It is planned. Nothing has happened yet.\n")
    assert "  amends commit plan:t1  Commit the plan before it expires.\n" in plan.out
    done = shell("commit", "plan:t1", "--yes")
    assert done.out.startswith("committed  It is done: the effect is there.\n")
    assert "  provider    shop ch-5\n" in done.out
    assert '  output      {"charge":"ch-5"}\n' in done.out
    assert "  amends compensate t1 --input '{…}'" in done.out


def test_next_commands_repeat_the_options_that_were_given(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMENDS_APP")
    monkeypatch.delenv("AMENDS_STORE")
    given = ("--app", "tests.unit.cli.shop:make", "--store", "sqlite:///other.db")
    ids = ("--transaction-id", "t1")
    plan = shell("plan", "payments.charge", "--input", ORDER, *ids, *given)
    command = "amends commit plan:t1 --app tests.unit.cli.shop:make --store sqlite:///other.db"
    assert command in plan.out
    settings = ("--settings", "tests.unit.cli.shop:settings", "--as", "alice")
    who = ("--principals", str(shell.principals))
    dry = shell.json("dry-run", "payments.charge", "--input", ORDER, *given, *settings, *who).data
    [step] = dry["next"]
    assert step["command"].endswith(
        "--app tests.unit.cli.shop:make --settings tests.unit.cli.shop:settings "
        f"--store sqlite:///other.db --principals {shell.principals} --as alice"
    )


def test_a_store_url_that_may_hold_a_password_is_not_repeated() -> None:
    from amends.cli.options import Options

    assert "secret" not in Options(store="postgresql://me:secret@host/db").again()


def test_a_dry_run_asks_nobody_and_does_nothing(shell: Shell) -> None:
    dry = shell.json("dry-run", "payments.wire", "--input", ORDER).data
    assert (dry["status"], dry["approval_id"]) == ("dry_run_completed", None)
    assert dry["output"]["approval_required"] is True
    assert shop.books() == []


def test_a_commit_without_a_plan_that_is_there_is_refused(shell: Shell) -> None:
    shell.done("t1")
    for name in ("no-such-plan", "t1"):
        refused = shell.json("commit", name, "--yes")
        assert (refused.code, refused.error) == (3, "transaction.plan_not_found")


# ── how it ends ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-2")
@pytest.mark.parametrize(
    ("amount", "code", "error", "says"),
    [
        (shop.BREAKS, 5, "transaction.outcome_unknown", "it may have happened"),
        (shop.EXITS, 5, "transaction.outcome_unknown", "it may have happened"),
        (shop.DECLINED, 6, "card_declined", "nothing happened"),
        (shop.PARTLY, 6, "half_paid", "a part of the effect is there"),
    ],
)
def test_the_exit_code_says_what_is_known_of_the_effect(
    shell: Shell, amount: int, code: int, error: str, says: str
) -> None:
    shell.planned("t1", amount)
    said = shell.json("commit", "t1", "--yes")
    assert (said.code, said.error) == (code, error)
    assert said.json["data"]["transaction_id"] == "t1"
    assert says in said.json["data"]["says"]


def test_an_unknown_outcome_is_told_as_unknown_and_never_repeated(shell: Shell) -> None:
    order = json.dumps({"amount": shop.BREAKS})
    ids = ("--transaction-id", "t1", "--action-id", "act-1")
    said = shell("execute", "payments.charge", "--input", order, *ids, "--yes")
    assert said.code == 5
    assert "Nobody knows yet: it may have happened. Do not repeat it." in said.out
    assert "  amends reconcile t1 " in said.out
    again = shell.json("execute", "payments.charge", "--input", order, *ids, "--yes")
    assert (again.code, again.error) == (5, "transaction.reconciliation_required")
    assert again.json["error"]["next_step"].endswith("Type: amends tx show t1")
    assert len(shop.books()) == 1


def test_a_compensation_is_a_second_effect_under_its_own_action(shell: Shell) -> None:
    shell.done("t1")
    back = shell.json("compensate", "t1", "--input", '"broken"', "--yes").data
    assert (back["status"], back["output"]) == ("compensated", {"refund": "broken"})
    assert back["transaction_id"] != "t1"
    again = shell.json("compensate", "t1", "--input", '"broken"', "--yes")
    assert (again.code, again.error) == (4, "transaction.compensation_exists")
    assert [line.split()[0] for line in shop.books()] == ["charge", "refund"]


def test_an_absent_capability_is_refused_before_anybody_is_asked(shell: Shell) -> None:
    for command in ("plan", "dry-run", "execute"):
        assert shell.json(command, "no.such").error == "capability.not_found"
        assert "Did you mean payments.charge?" in shell(command, "payment.chrge").err


# ── asking first ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("CLI-3")
@pytest.mark.parametrize(
    ("command", "promise"),
    [
        (("commit", "planned"), "stopping this command does not take anything back"),
        (("execute", "payments.charge", "--input", ORDER), "is as certain as"),
        (("compensate", "done", "--input", '"x"'), "It does not erase the first one"),
        (("cancel", "waiting"), "this is only a request"),
        (("withdraw", "planned"), "What was committed before is not undone"),
    ],
)
def test_a_destructive_command_says_what_it_does_not_guarantee_and_needs_a_yes(
    shell: Shell, command: tuple[str, ...], promise: str
) -> None:
    shell.planned("planned")
    shell.done("done")
    shell.json("execute", "payments.wire", "--input", ORDER, "--transaction-id", "waiting", "--yes")
    before = (shell.json("tx", "list").data, shop.books())
    alone = shell.json(*command)
    assert (alone.code, alone.error) == (2, "cli.confirmation_required")
    assert promise in alone.err
    shell.types("n\n")
    refused = shell.json(*command)
    assert (refused.code, refused.error) == (3, "cli.not_confirmed")
    shell.types("")
    assert shell.json(*command).error == "cli.not_confirmed"
    assert (shell.json("tx", "list").data, shop.books()) == before
    shell.types("Yes\n")
    confirmed = shell.json(*command)
    assert (confirmed.code, promise in confirmed.err) == (0, True)


def test_what_can_no_longer_be_claimed_is_answered_without_asking(shell: Shell) -> None:
    shell.planned("t1")
    shell.json("commit", "t1", "--yes")
    assert shell.json("commit", "t1").error == "transaction.plan_not_committable"


# ── cancelling and withdrawing ───────────────────────────────────────────────────────────────────


def test_a_withdrawn_plan_cannot_be_committed(shell: Shell) -> None:
    shell.planned("t1")
    assert shell.json("withdraw", "plan:t1", "--yes").data["status"] == "cancelled"
    again = shell.json("commit", "t1", "--yes")
    assert (again.code, again.error) == (4, "transaction.plan_not_committable")
    assert shop.books() == []


def test_an_action_that_waits_is_cancelled_and_its_plan_is_not(shell: Shell) -> None:
    shell.json("plan", "payments.wire", "--input", ORDER, "--transaction-id", "t1")
    waits = shell.json("commit", "t1", "--yes").json["data"]
    cancelled = shell.json("cancel", waits["action_id"], "--yes", "--reason", "a mistake").data
    assert cancelled["status"] == "planned"
    assert cancelled["says"] == "It is cancelled. The plan itself can still be committed."
    shell.json("execute", "payments.wire", "--input", ORDER, "--yes", "--transaction-id", "t2")
    gone = shell.json("cancel", "t2", "--yes").data
    assert (gone["status"], gone["next"]) == ("cancelled", [])


def test_what_has_ended_is_not_called_cancelled(shell: Shell) -> None:
    shell.done("t1")
    late = shell.json("cancel", "t1", "--yes")
    assert (late.code, late.error) == (4, "cli.not_cancelled")
    assert late.json["data"]["status"] == "committed"
    shell.done("t2", shop.BREAKS)
    unknown = shell.json("cancel", "t2", "--yes")
    assert (unknown.code, unknown.error) == (5, "transaction.outcome_unknown")


# ── approvals ────────────────────────────────────────────────────────────────────────────────────


def waiting(shell: Shell, transaction_id: str = "t1") -> tuple[str, str]:
    """A commit of a risky plan by alice, and the request that it waits for."""
    ids = ("--transaction-id", transaction_id)
    assert shell.as_("alice", "plan", "payments.wire", "--input", ORDER, *ids).code == 0
    said = shell.as_("alice", "commit", transaction_id, "--yes")
    assert (said.code, said.error) == (3, "approval.required")
    return said.json["data"]["action_id"], said.json["data"]["approval_id"]


def test_a_commit_waits_for_somebody_else_and_goes_on_under_its_own_action(shell: Shell) -> None:
    action, approval = waiting(shell)
    own = shell.as_("alice", "approve", approval)
    assert (own.code, own.error) == (3, "approval.separation_of_duties")
    assert "--principals" in own.json["error"]["next_step"]
    approved = shell.as_("bob", "approve", approval, "--reason", "seen").data
    assert (approved["state"], shop.books()) == ("approved", [])
    done = shell.as_("alice", "commit", "t1", "--yes").data
    assert (done["status"], done["action_id"]) == ("committed", action)
    assert len(shop.books()) == 1
    assert shell.as_("bob", "approvals", approval).data["state"] == "consumed"


def test_a_second_commit_of_a_waiting_plan_asks_nobody_again(shell: Shell) -> None:
    action, approval = waiting(shell)
    again = shell.as_("alice", "commit", "t1", "--yes").json["data"]
    assert (again["action_id"], again["approval_id"]) == (action, approval)
    assert len(shell.as_("bob", "approvals").data["items"]) == 1


def test_resume_goes_on_with_what_was_approved_and_says_no_to_what_was_denied(
    shell: Shell,
) -> None:
    action, approval = waiting(shell)
    shell.as_("bob", "approve", approval)
    assert shell.as_("alice", "resume", action, "--yes").data["status"] == "committed"
    assert shell.as_("alice", "resume", action).data["replayed"] is True
    other, request = waiting(shell, "t2")
    shell.as_("bob", "deny", request, "--reason", "too much")
    denied = shell.as_("alice", "resume", other, "--yes")
    assert (denied.code, denied.error) == (3, "approval.denied")


def test_an_approval_is_taken_back_before_it_is_used(shell: Shell) -> None:
    action, approval = waiting(shell)
    shell.as_("bob", "approve", approval)
    assert shell.as_("bob", "revoke", approval).data["state"] == "revoked"
    assert shell.as_("alice", "resume", action, "--yes").error == "approval.revoked"
    assert shop.books() == []


def test_a_decision_on_a_request_that_changed_is_stale(shell: Shell) -> None:
    _, approval = waiting(shell)
    stale = shell.as_("bob", "approve", approval, "--revision", "7")
    assert (stale.code, stale.error) == (4, "approval.stale")
    fresh = shell.as_("bob", "approve", approval, "--revision", "1", "--evidence", "ticket=7")
    assert fresh.data["decisions"][0]["evidence"] == {"ticket": "7"}


def test_waiting_requests_are_seen_by_who_asked_and_by_who_may_decide(shell: Shell) -> None:
    _, approval = waiting(shell)
    for who, may in (("alice", False), ("bob", True), ("olga", True)):
        [item] = shell.as_(who, "approvals").data["items"]
        assert (item["approval_id"], item["you_may_decide"]) == (approval, may)
    for who in ("eve", "stranger"):
        assert shell.as_(who, "approvals").data["items"] == []
        assert shell.as_(who, "approvals", approval).error == "approval.not_found"
    assert shell.json("approvals", "no-such-request").error == "approval.not_found"


def test_an_approver_reads_exactly_what_would_run_and_who_asked(shell: Shell) -> None:
    _, approval = waiting(shell)
    who = ("--principals", str(shell.principals), "--as", "bob")
    listed = shell("approvals", *who).out
    assert listed.splitlines()[0].split() == [
        *("APPROVAL", "STATE", "RISK", "FROM", "CAPABILITY", "EXPIRES")
    ]
    assert f"{approval}  decide  high  alice  payments.wire" in listed
    shown = shell("approvals", approval, *who).out
    assert '  input       {"amount":5,"currency":"eur"}\n' in shown
    assert "  asked by    alice (user)\n" in shown
    assert "  needs       an approver of the tenant\n" in shown
    assert f"  amends approve {approval} --principals" in shown
    shell("approve", approval, "--reason", "looks good", *who)
    after = shell("approvals", approval, *who).out
    assert "bob approved  looks good" in after
    mine = shell("approvals", approval, "--principals", str(shell.principals), "--as", "alice").out
    assert "It is approved. It runs when its requester goes on." in mine
    assert "  amends resume act_" in mine


def test_the_list_of_requests_has_pages_and_an_end(shell: Shell) -> None:
    shell.planned("t")
    assert shell("approvals").out == "Nothing waits for an approval.\n"
    approvals = [waiting(shell, f"t{number}")[1] for number in range(3)]
    first = shell.as_("bob", "approvals", "--limit", "2").data
    rest = shell.as_("bob", "approvals", "--after", first["next"]).data
    listed = [item["approval_id"] for item in [*first["items"], *rest["items"]]]
    assert listed == approvals[::-1]
    who = ("--principals", str(shell.principals), "--as", "bob")
    assert f"More: amends approvals --after {first['next']} " in shell(
        "approvals", "--limit", "2", *who
    ).out.replace("\n", " ")
    shell.as_("bob", "deny", approvals[0])
    assert len(shell.as_("bob", "approvals").data["items"]) == 2
    assert len(shell.as_("bob", "approvals", "--all").data["items"]) == 3


def test_waiting_for_an_approval_goes_on_by_itself_or_leaves_the_request_standing(
    shell: Shell,
) -> None:
    action, approval = waiting(shell)
    impatient = shell.as_("alice", "resume", action, "--yes", "--wait", "0.05")
    assert (impatient.code, impatient.error) == (3, "approval.required")
    assert f"amends approve {approval}" in impatient.err
    shell.as_("bob", "approve", approval)
    ids = ("--transaction-id", "t2", "--approval", "--yes", "--wait", "0.05")
    waits = shell.as_("alice", "execute", "payments.charge", "--input", ORDER, *ids)
    assert waits.error == "approval.required"


def test_an_approval_that_comes_in_time_is_used_by_the_command_that_waits(shell: Shell) -> None:
    """Bob approves in the very process, as soon as there is something to approve."""
    url = f"sqlite:///{shell.database}"
    bob = Principal.named("bob", scopes=["amends:approve"])

    async def approve() -> None:
        async with Amends.open(url, principal=bob, recover=False) as amends:
            while not (page := await amends.approvals()).items:  # noqa: ASYNC110  # a file tells
                await asyncio.sleep(0.02)
            [item] = page.items
            assert isinstance(item, Stored)
            await amends.approve(item.document.approval_id)

    shell.planned("t1")
    other = threading.Thread(target=lambda: asyncio.run(approve()))
    other.start()
    ids = ("--yes", "--wait", "20")
    done = shell.json("execute", "payments.wire", "--input", ORDER, *ids)
    other.join()
    assert (done.data["status"], len(shop.books())) == ("committed", 1)


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


def test_the_list_filters_pages_and_ends(shell: Shell) -> None:
    for number in range(3):
        shell.planned(f"t{number}")
    shell.done("done")
    listed = shell.json("tx", "list", "--limit", "2").data
    assert [item["transaction_id"] for item in listed["items"]] == ["done", "t2"]
    rest = shell.json("tx", "list", "--after", listed["next"]).data
    assert [item["transaction_id"] for item in rest["items"]] == ["t1", "t0"]
    only = shell.json("tx", "list", "--status", "committed").data["items"]
    assert [item["transaction_id"] for item in only] == ["done"]
    none = shell("tx", "list", "--capability", "payments.wire")
    assert none.out == "There are no such transactions.\n"
    lines = shell("tx", "list", "--limit", "2", "--utc").out.splitlines()
    assert lines[0].split() == ["TRANSACTION", "STATUS", "UPDATED", "CAPABILITY"]
    assert lines[1].split()[:2] == ["done", "committed"]
    assert lines[1].split()[3].endswith("Z")
    assert lines[-1] == f"More: amends tx list --after {listed['next']}"


def test_every_durable_status_can_be_listed() -> None:
    assert get_args(StatusName) == tuple(status.value for status in Status)


@pytest.mark.parametrize("name", ["t1", "plan:t1", "act-plan"])
def test_a_transaction_is_shown_by_any_of_its_ids(shell: Shell, name: str) -> None:
    shell.planned("t1", 5, "--action-id", "act-plan", "--metadata", "ticket=42")
    shell.json("commit", "t1", "--yes")
    view = shell.json("tx", "show", name, "--result").data
    assert view["result"]["transaction_id"] == "t1"
    assert view["plan"]["snapshot"]["input"] == {"amount": 5, "currency": "eur"}
    steps = [receipt["step"]["type"] for receipt in view["receipts"]]
    assert steps[0] == "planned"
    assert steps[-1] == "committed"


def test_the_timeline_tells_who_did_what_when_and_what_the_gates_said(shell: Shell) -> None:
    shell.planned("t1", 5, "--metadata", "ticket=42", "--action-id", "act-plan")
    shell.json("commit", "t1", "--yes")
    shown = shell("tx", "show", "t1", "--utc").out
    assert shown.startswith("t1  committed\nIt is done: the effect is there.\n")
    [started] = [line for line in shown.splitlines() if "commit_started" in line]
    assert started.split()[1].endswith("Z")
    assert "attempt 1" in started
    assert "shop ch-5" in shown
    assert "  ✓ policy      allowed by declaration  builtin.allow" in shown
    assert "  attempts    1\n" in shown
    other = shell("tx", "show", "act-plan", "--by", "action").out
    assert "  metadata    ticket=42\n" in other
    assert shell.json("tx", "show", "t1", "--by", "plan").error == "transaction.not_found"


def test_a_refused_request_says_which_gate_said_no(shell: Shell) -> None:
    ids = ("--action-id", "act-1")
    assert shell.json("plan", "payments.charge", "--input", "{}", *ids).code == 3
    data = shell.json("tx", "show", "act-1").data
    assert data["refusals"][0]["code"] == "input.schema_mismatch"
    shown = shell("tx", "show", "act-1").out
    assert "Nothing has happened." in shown
    assert "  ✓ capability" in shown
    assert "  ✗ schema" in shown
    assert shell.json("tx", "show", "no-such").error == "transaction.not_found"


def test_what_another_tenant_owns_does_not_exist(shell: Shell) -> None:
    shell.planned("t1")
    assert shell.as_("stranger", "tx", "show", "t1").error == "transaction.not_found"
    assert shell.as_("stranger", "tx", "list").data["items"] == []
    assert shell.as_("bob", "tx", "show", "t1").error == "transaction.not_found"
    assert shell.as_("olga", "tx", "show", "t1").code == 0


def test_watching_what_has_ended_ends_at_once_with_its_code(shell: Shell) -> None:
    shell.done("t1")
    watched = shell("tx", "watch", "t1")
    assert watched.code == 0
    lines = watched.out.splitlines()
    assert [line.split()[2] for line in lines[:2]] == ["execution_started", "provider_accepted"]
    assert "committed  It is done: the effect is there." in lines
    shell.done("t2", shop.DECLINED)
    failed = shell.json("tx", "watch", "t2")
    assert (failed.code, failed.error) == (6, "card_declined")


def test_watching_with_recovery_finds_out_what_happened(shell: Shell) -> None:
    shell.done("t1", shop.LATER)
    watched = shell.json("tx", "watch", "t1", "--recover")
    assert watched.data["result"]["status"] == "reconciled"
    assert len(shop.books()) == 1


# ── finding out ──────────────────────────────────────────────────────────────────────────────────


def test_a_look_up_waits_until_it_is_due_if_told_to(shell: Shell) -> None:
    shell.done("t1", shop.BREAKS)
    early = shell.json("reconcile", "t1")
    assert (early.code, early.error) == (3, "transaction.reconcile_not_due")
    assert "--wait" in early.json["error"]["next_step"]
    short = shell.json("reconcile", "t1", "--wait", "0.1")
    assert short.error == "transaction.reconcile_not_due"
    shell.done("t2", shop.LATER)
    found = shell.json("reconcile", "t2", "--wait", "20").data
    assert (found["status"], found["verdict"]) == ("reconciled", "committed")
    assert found["says"] == "It has been found out: the effect is there."
    again = shell.json("reconcile", "t2")
    assert (again.code, again.error) == (4, "transaction.reconcile_state_invalid")


def test_an_operator_insists_and_supplies_what_is_known(shell: Shell) -> None:
    shell.done("t1", shop.BREAKS)
    given = ("--provider", "shop", "--operation-id", "ch-13", "--cursor", "page-2")
    denied = shell.json("reconcile", "t1", "--insist", *given)
    assert denied.error == "transaction.provider_operation_not_accepted"
    assert "operator" in denied.json["error"]["next_step"]
    found = shell.as_("olga", "reconcile", "t1", "--insist", *given).data
    assert found["provider_operation"]["operation_id"] == "ch-13"


def test_one_round_looks_after_what_is_due(shell: Shell) -> None:
    shell.done("t1")
    assert shell.json("reconcile", "--due").data["reconciled"] == 0
    assert shell("reconcile", "--due").out == "Looked after 0.\n"


def test_an_operator_settles_by_hand_with_evidence(shell: Shell) -> None:
    shell.done("t1", shop.BREAKS)
    words = ("--reference", "ticket 7", "--note", "it is on the statement")
    denied = shell.json("settle", "t1", "committed", *words, "--yes")
    assert (denied.code, denied.error) == (3, "transaction.settle_not_allowed")
    assert 'kind = "operator"' in denied.json["error"]["next_step"]
    alone = shell.as_("olga", "settle", "t1", "committed", *words)
    assert alone.error == "cli.confirmation_required"
    assert "The provider is not asked" in alone.err
    stale = shell.as_("olga", "settle", "t1", "committed", *words, "--yes", "--revision", "1")
    assert (stale.code, stale.error) == (4, "transaction.revision_conflict")
    settled = shell.as_("olga", "settle", "t1", "committed", *words, "--yes").data
    assert (settled["status"], settled["verdict"]) == ("reconciled", "committed")
    shown = shell("tx", "show", "t1").out
    assert "olga ruled committed: it is on the statement (ticket 7)" in shown


def test_absence_is_ruled_only_with_the_risk_accepted(shell: Shell) -> None:
    shell.done("t1", shop.BREAKS)
    words = ("--reference", "r", "--note", "n", "--yes")
    refused = shell.as_("olga", "settle", "t1", "not_committed", *words)
    assert refused.error == "transaction.settle_risk_not_accepted"
    ruled = shell.as_("olga", "settle", "t1", "not_committed", *words, "--accept-risk").data
    assert ruled["says"] == "It has been found out: nothing happened."


def test_only_operators_release_and_only_what_is_frozen(shell: Shell) -> None:
    shell.planned("t1")
    denied = shell.json("release", "t1", "--yes")
    assert (denied.code, denied.error) == (3, "transaction.release_not_allowed")
    thawed = shell.as_("olga", "release", "t1", "--yes")
    assert (thawed.code, thawed.error) == (4, "transaction.not_frozen")
    assert "What the lost store knew" in thawed.err


# ── the store and the app ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command",
    [
        ("tx", "list"),
        ("tx", "show", "t1"),
        ("tx", "watch", "t1"),
        ("commit", "t1"),
        ("commit", "--all"),
        ("approve", "a1"),
        ("approvals",),
        ("reconcile", "t1"),
        ("withdraw", "t1"),
    ],
)
def test_looking_makes_no_store(shell: Shell, command: tuple[str, ...]) -> None:
    said = shell.json(*command)
    assert (said.code, said.error) == (8, "store.not_found")
    assert not shell.database.exists()
    assert shell.json(*command, "--store", "nonsense").error == "store.url_unknown"


def test_a_store_in_memory_is_there_and_empty(shell: Shell) -> None:
    assert shell.json("tx", "list", "--store", "memory:").data["items"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "x"),
        ("dry-run", "x"),
        ("execute", "x"),
        ("commit", "x"),
        ("resume", "x"),
        ("reconcile", "x"),
        ("compensate", "x"),
        ("tx", "watch", "x", "--recover"),
    ],
)
def test_what_carries_something_out_needs_an_app(
    shell: Shell, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.planned("x")
    monkeypatch.delenv("AMENDS_APP")
    said = shell.json(*command)
    assert (said.code, said.error) == (2, "cli.app_required")


def test_looking_needs_no_app_and_shows_no_values_without_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.done("t1")
    monkeypatch.delenv("AMENDS_APP")
    view = shell.json("tx", "show", "t1", "--result").data
    assert view["result"]["output"] == "[not shown: name the app that declares it with --app]"
    assert shell.json("tx", "list").code == 0


@pytest.mark.parametrize(
    "command",
    [("commit",), ("commit", "x", "--all"), ("commit", "--all", "--wait", "1"), ("reconcile",),
     ("commit", "x", "--keep-going"), ("commit", "x", "--capability", "c"),
     ("reconcile", "x", "--due"), ("reconcile", "x", "--provider", "p")],
)  # fmt: skip
def test_a_command_that_contradicts_itself_is_refused(
    shell: Shell, command: tuple[str, ...]
) -> None:
    shell.planned("x")
    said = shell.json(*command)
    assert (said.code, said.error) == (2, "cli.usage")


@pytest.mark.parametrize("name", ["-x", "a b", "../x", "x\n", "é", "x" * 200])
@pytest.mark.parametrize(
    "command", [("tx", "show"), ("commit",), ("approve",), ("cancel",), ("plan",), ("resume",)]
)
def test_what_is_no_id_is_refused_before_anything_is_opened(
    shell: Shell, command: tuple[str, ...], name: str
) -> None:
    said = shell(*command, "--json", "--", name)
    assert (said.code, said.error) == (3, "input.invalid_id")
    assert name not in said.err
    assert not shell.database.exists()


def test_times_are_shown_in_the_zone_that_was_asked_for(shell: Shell) -> None:
    shell.done("t1")
    utc = shell("tx", "show", "t1", "--utc").out
    assert f"{datetime.now(UTC):%Y-%m-%d %H}" in utc
