"""What is seldom met: rows that cannot be read, frozen records, other people's values, previews."""

import asyncio
import json
from typing import Final

import apsw
import pytest

from amends import Amends, Principal
from amends.app.amends import Opening
from amends.cli.acting import caller
from amends.cli.options import Options
from amends.contracts.documents import TransactionRecord
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import TenantId
from amends.wiring.opening import Settings
from tests.unit.cli import shop
from tests.unit.cli.shell import Shell

CANARY: Final = "canary-7f3a"


def damage(shell: Shell, table: str) -> None:
    """Make the newest row of a table unreadable."""
    connection = apsw.Connection(str(shell.database))
    connection.execute(
        f"UPDATE {table} SET body = 'no JSON' WHERE seq = (SELECT max(seq) FROM {table})"  # noqa: S608  # names of our own
    )
    connection.close()


def freeze(shell: Shell, transaction_id: str) -> None:
    """Freeze a record, as a restore does."""

    async def frozen() -> None:
        url = f"sqlite:///{shell.database}"
        opening = Opening(url, (), caller(Options()), Settings(recover=False))
        async with opening:
            engine = opening.runtime.engine
            stored = await engine.environment.store.get(
                TransactionRecord, TenantId("default"), transaction_id
            )
            assert stored is not None
            assert await engine.upkeep.freeze(stored, "store_restored") is not None

    asyncio.run(frozen())


# ── rows that cannot be read ─────────────────────────────────────────────────────────────────────


def test_a_transaction_that_cannot_be_read_is_listed_and_ends_nothing(shell: Shell) -> None:
    shell.planned("t1")
    shell.planned("t2")
    damage(shell, "transactions")
    data = shell.json("tx", "list").data
    assert [item["transaction_id"] for item in data["items"]] == ["t2", "t1"]
    assert data["items"][0]["unreadable"]
    assert "t2           unreadable  -" in shell("tx", "list").out
    said = shell.json("tx", "show", "t2")
    assert (said.code, said.error) == (9, "store.record_corrupt")
    assert [one["plan_id"] for one in shell.json("commit", "--all", "--yes").data["results"]] == [
        "plan:t1"
    ]


def test_a_request_that_cannot_be_read_is_listed_and_ends_nothing(shell: Shell) -> None:
    shell.json("execute", "payments.wire", "--input", '{"amount": 5}', "--yes")
    damage(shell, "approvals")
    [item] = shell.json("approvals").data["items"]
    assert item["unreadable"]
    assert "unreadable" in shell("approvals").out


# ── frozen records ───────────────────────────────────────────────────────────────────────────────


def test_a_frozen_plan_is_left_out_and_released_by_an_operator(shell: Shell) -> None:
    shell.planned("t1")
    freeze(shell, "t1")
    assert shell.json("tx", "list").data["items"][0]["frozen"] == "store_restored"
    assert "  frozen      store_restored\n" in shell("tx", "show", "t1").out
    skipped = shell.json("commit", "--all", "--yes").data["skipped"]
    assert [one["code"] for one in skipped] == ["transaction.frozen"]
    assert shell.json("tx", "watch", "t1").code == 0
    assert shell.as_("olga", "release", "t1", "--yes").data["status"] == "planned"
    assert shell.json("commit", "t1", "--yes").data["status"] == "committed"


# ── corrections ──────────────────────────────────────────────────────────────────────────────────


def contradict(shell: Shell, transaction_id: str) -> None:
    """The provider says that it never happened, after everybody knew that it had."""
    [key] = [line.split()[1] for line in shop.books()]

    async def told() -> None:
        url = f"sqlite:///{shell.database}"
        olga = Principal.named("olga", kind="operator")
        async with Amends.open(url, shop.capabilities, principal=olga, recover=False) as amends:
            event = ProviderEvent(
                provider="shop",
                event_id="evt_1",
                said=Said.NOT_APPLIED,
                provider_key=key,
            )
            await amends.evidence(event)

    asyncio.run(told())


def test_an_operator_rules_on_what_contradicts_a_record(shell: Shell) -> None:
    shell.done("t1")
    contradict(shell, "t1")
    back = ("compensate", "t1", "--input", '"x"', "--yes")
    assert shell.json(*back).error == "transaction.compensation_frozen"
    [correction] = shell.json("tx", "show", "t1").data["corrections"]
    words = ("rule", correction["correction_id"], "It is on the statement.")
    assert shell.json(*words, "--yes").error == "correction.ruling_not_allowed"
    assert shell.as_("olga", *words).error == "cli.confirmation_required"
    ruled = shell.as_("olga", *words, "--allow-compensation", "--yes").data
    assert ruled["ruling"] == "It is on the statement."
    assert shell.json(*back).data["status"] == "compensated"
    who = ("--principals", str(shell.principals), "--as", "olga", "--yes")
    assert "  ruling      Again.\n" in shell(*words[:2], "Again.", *who).out


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def test_what_a_capability_declares_secret_is_shown_to_nobody(shell: Shell) -> None:
    parcel = json.dumps({"address": "Here 1", "notes": {"door": CANARY}, "token": CANARY})
    ids = ("--transaction-id", "t1")
    said = [
        shell.json("plan", "parcels.label", "--input", parcel, *ids),
        shell.json("tx", "show", "t1"),
        shell("tx", "show", "t1"),
        shell.json("commit", "t1", "--yes"),
        shell.json("tx", "show", "t1", "--result"),
        shell("tx", "show", "t1", "--result"),
    ]
    assert all(one.code == 0 for one in said)
    assert CANARY not in "".join(one.out + one.err for one in said)
    assert said[1].data["plan"]["snapshot"]["input"]["address"] == "Here 1"
    assert said[3].data["output"]["address"] == "Here 1"


def test_a_plan_knows_what_is_secret_in_its_input_even_without_its_app(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = json.dumps({"address": "Here 1", "notes": {"door": CANARY}})
    shell.json("plan", "parcels.label", "--input", parcel, "--transaction-id", "t1")
    monkeypatch.delenv("AMENDS_APP")
    view = shell.json("tx", "show", "t1")
    assert view.data["plan"]["snapshot"]["input"]["address"] == "Here 1"
    assert CANARY not in view.out


def test_an_input_that_was_not_kept_has_to_be_given_again(shell: Shell) -> None:
    shell.json("plan", "parcels.send", "--input", "{}", "--transaction-id", "t1")
    assert "  input       [redacted]\n" in shell("tx", "show", "t1").out
    again = shell.json("commit", "t1", "--yes")
    assert (again.code, again.error) == (3, "action.input_required")
    assert "  input       [redacted]\n" in again.err
    assert shell.json("commit", "t1", "--yes", "--input", "{}").data["status"] == "committed"


# ── previews, policies and compensations that ask ────────────────────────────────────────────────


def test_a_preview_and_a_policy_are_shown_with_the_plan(shell: Shell) -> None:
    order = ("--input", '{"amount": 40}')
    shell.json("plan", "payments.checked", *order, "--transaction-id", "t1")
    waits = shell.json("commit", "t1", "--yes").json["data"]
    view = shell.json("tx", "show", "t1").data
    assert view["plan"]["validation"]["output"] == {"left": 60}
    assert view["approval"]["input"] == {"amount": 40, "currency": "eur"}
    shown = shell("approvals", waits["approval_id"]).out
    assert "  needs       olga\n" in shown
    assert "  because     It is a lot.\n" in shown
    assert "  evidence    ticket\n" in shown
    bare = shell.as_("olga", "approve", waits["approval_id"])
    assert (bare.code, bare.error) == (3, "approval.evidence_required")
    assert shell.as_("olga", "approve", waits["approval_id"], "--evidence", "ticket=7").code == 0
    done = shell.json("commit", "t1", "--yes").data
    back = shell.json("compensate", "t1", "--input", '{"amount": 1}', "--yes")
    assert (back.code, back.error) == (3, "approval.required")
    asked = shell("approvals", back.json["data"]["approval_id"]).out
    assert f"  offsets     {done['action_id']}\n" in asked
    assert "  needs       olga\n" in asked
    resumed = shell.json("resume", back.json["data"]["action_id"], "--yes")
    assert "It does not erase the first one" in resumed.err


def test_a_request_shows_on_whose_account_and_what_was_not_kept(shell: Shell) -> None:
    shell.principals.write_text(
        '[[principals]]\nid = "alice"\nos_users = ["*"]\nexternal_account = "acct_1"\n'
    )
    given = ("--input", "{}", "--yes", "--approval")
    waits = shell.as_("alice", "execute", "parcels.send", *given).json["data"]
    who = ("--principals", str(shell.principals), "--as", "alice")
    shown = shell("approvals", waits["approval_id"], *who).out
    assert "  account     acct_1\n" in shown
    assert "  input       [redacted] hash " in shown


def test_a_compensation_of_what_cannot_be_compensated_is_refused(shell: Shell) -> None:
    done = shell.json(
        "execute", "parcels.label", "--input", "{}", "--yes", "--transaction-id", "t1"
    )
    assert done.data["status"] == "committed"
    back = shell.json("compensate", "t1", "--yes")
    assert (back.code, back.error) == (3, "transaction.mode_not_supported")


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def test_a_look_up_waits_for_the_lease_of_who_is_at_it(shell: Shell) -> None:
    """A record that somebody owns is in progress; once the lease is over it is looked up."""
    owned(shell, "t1")
    busy = shell.json("reconcile", "t1")
    assert (busy.code, busy.error) == (4, "transaction.in_progress")
    assert "Its lease ends at" in busy.json["error"]["next_step"]
    short = shell.json("reconcile", "t1", "--wait", "0.1")
    assert short.error == "transaction.in_progress"
    found = shell.as_("olga", "reconcile", "t1", "--wait", "9", "--insist").data
    assert (found["status"], found["verdict"]) == ("reconciled", "committed")


def test_a_lapsed_lease_is_written_down_before_anybody_is_asked(shell: Shell) -> None:
    owned(shell, "t1")
    asyncio.run(asyncio.sleep(2.3))
    assert "Its process has gone" in shell("tx", "show", "t1").out
    lapsed = shell.json("reconcile", "t1")
    assert (lapsed.code, lapsed.error) == (5, "transaction.reconciliation_required")
    assert shell.json("tx", "list").data["items"][0]["status"] == "outcome_unknown"


def owned(shell: Shell, transaction_id: str) -> None:
    """A commit whose process has gone in the middle of it."""
    shell.planned(transaction_id, shop.FOREVER)

    async def left() -> None:
        url = f"sqlite:///{shell.database}"
        settings = Settings(recover=False, drain_ms=10, grace_ms=200)
        opening = Opening(url, (shop.hasty,), caller(Options()), settings)
        amends = await opening.__aenter__()
        commit = asyncio.ensure_future(amends.commit(f"plan:{transaction_id}"))
        while not shop.books():  # noqa: ASYNC110  # the provider's books are a file
            await asyncio.sleep(0.01)
        await opening.runtime.engine.environment.store.close()
        commit.cancel()

    asyncio.run(left())
