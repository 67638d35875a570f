"""The command line over a store on a server: evidence, keys, keeping, people, and waiting."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from amends.app.amends import Amends
from amends.cli import exits
from amends.contracts.ids import TransactionId
from amends.contracts.times import format_instant
from amends.receipts.bundle import Bundle
from amends.recovery.checkpointing import Checkpointer
from amends.stores.postgres.function import FEED_LOCK
from amends.stores.postgres.survey import PostgresSurvey
from amends.testing.invariants import canary_absent
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE
from amends.wiring.bundling import Chosen, bundle_of
from amends.wiring.places import OnServer, existing_place
from amends.wiring.surveying import survey_of
from tests.unit.cli.shell import Shell
from tests.unit.runtime.desk import DONE, Desk
from tests.unit.wiring.store_files import ORDER

CANARY: Final = "kanarienvogel-7319"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    database = postgres_server.lend()
    yield database
    postgres_server.take_back(database)


@pytest.fixture
def url(database: Database, tmp_path: Path) -> str:
    return f"{database.url}?folder={tmp_path}"


@pytest.fixture
def shell(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("AMENDS_STORE", url)
    return shell


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Two transactions that are done, a checkpoint that was handed out, and the pinned keys."""
    assert shell.done("txn_done").code == exits.OK
    assert shell.done("txn_more").code == exits.OK
    assert shell.json("checkpoint", "--out", "kept.txt").data["size"] == receipts_of(shell)
    assert shell.json("keys", "export", "--out", "keys.json").code == exits.OK
    return shell


def store_of(shell: Shell) -> str:
    import os

    return os.environ["AMENDS_STORE"]


def receipts_of(shell: Shell) -> int:
    with survey_of(existing_place(store_of(shell))) as survey, survey.logbook() as book:
        return book.count()


def do(server: PostgresServer, database: Database, *lines: str) -> list[Any]:
    """What the last of these lines of SQL gives, for the superuser."""

    async def execute(connection: Any) -> list[Any]:
        found: list[Any] = []
        for line in lines:
            found = await connection.fetch(line)
        return found

    return server.ask(database.superuser_url, execute)


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("RC-3")
def test_evidence_is_checked_where_it_lies_exported_and_proved_as_from_a_file(
    filled: Shell,
) -> None:
    pinned = ("--keys", "keys.json", "--checkpoint", "kept.txt")
    here = filled.json("verify", "--store", store_of(filled), *pinned).data
    assert (here["chains"], here["receipts"]) == (2, receipts_of(filled))
    assert [one["size"] for one in here["checkpoints"]] == [receipts_of(filled)]
    whole = filled.json("export", "--all", "--out", "all.bundle").data
    assert (whole["chains"], whole["checkpoints"]) == (2, 1)
    there = filled.json("verify", "all.bundle", *pinned).data
    assert there["heads"] == here["heads"]
    assert filled.json("export", "txn_done", "--out", "one.bundle").code == exits.OK
    one = filled.json("verify", "one.bundle", *pinned).data
    assert [head["transaction_id"] for head in one["heads"]] == ["txn_done"]
    assert filled.json("prove", "txn_more", "--out", "more.proof").code == exits.OK
    proved = filled.json("verify", "more.proof", *pinned).data
    assert (proved["keys"], proved["transaction_id"]) == ("given", "txn_more")
    assert filled.json("verify", "txn_done", "--store", store_of(filled)).data["chains"] == 1
    for tokens in (("verify", "txn_no", "--store", store_of(filled)), ("prove", "txn_no")):
        assert filled.json(*tokens).error == "transaction.not_found"


def test_what_is_exported_can_be_chosen_by_time(
    filled: Shell, database: Database, postgres_server: PostgresServer
) -> None:
    only = Chosen(transactions=(TransactionId("txn_more"),))
    (chain,) = Bundle(bundle_of(OnServer(store_of(filled)), only)).chains()
    first = format_instant(chain.receipts[0].step.at)
    later = filled.json("export", "--all", "--since", first, "--out", "later.bundle").data
    assert later["chains"] == 1
    assert filled.json("export", "--all", "--until", first, "--out", "e.bundle").data["chains"] == 1
    both = ("--since", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")
    assert filled.json("export", "--all", *both, "--out", "both.bundle").data["chains"] == 2
    damage = "UPDATE amends.receipts SET body = '{' WHERE chain = 'transaction:txn_done'"
    do(postgres_server, database, damage + " AND number = 1")
    found = filled.json("export", "--all", "--since", first, "--out", "more.bundle")
    assert found.error == "store.receipt_corrupt"


@pytest.mark.parametrize(
    ("spoiled", "code"),
    [
        (
            "UPDATE amends.receipts SET body = replace(body, '\"revision\":2', '\"revision\":1')"
            " WHERE chain = 'transaction:txn_done'",
            "receipt.hash_mismatch",
        ),
        (
            "DELETE FROM amends.receipts WHERE chain = 'transaction:txn_done' AND number ="
            " (SELECT max(number) FROM amends.receipts WHERE chain = 'transaction:txn_done')",
            "receipt.cut_tail",
        ),
        ("DELETE FROM amends.receipts WHERE chain = 'transaction:txn_done'", "receipt.empty"),
    ],
)
@pytest.mark.rule("RC-1")
def test_whoever_changes_receipts_on_the_server_is_found_out(
    filled: Shell, spoiled: str, code: str, database: Database, postgres_server: PostgresServer
) -> None:
    do(postgres_server, database, spoiled)
    said = filled.json("verify", "--store", store_of(filled))
    assert said.code != exits.OK
    assert code in {one["code"] for one in said.json["data"]["faults"]}
    log = {one["code"] for one in said.json["data"]["faults"] if "size" in one}
    assert bool(log) == spoiled.startswith("DELETE")


def test_a_log_that_is_still_written_ends_where_its_order_is_settled(
    filled: Shell, url: str, database: Database, postgres_server: PostgresServer
) -> None:
    """A proof over what was committed early would be refuted by the next checkpoint."""
    sizes: list[int] = []

    def survey() -> None:
        with PostgresSurvey(url) as survey, survey.logbook() as book:
            entries = [one.position for one in book.entries()]
            assert entries == sorted(entries)
            sizes.append(len(entries))

    async def hold(connection: Any) -> float:
        before = receipts_of_now
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock_shared({FEED_LOCK})")
            await connection.execute("SELECT nextval('amends.receipts_position')")
            asking = threading.Thread(target=survey)
            asking.start()
            began = time.monotonic()
            await asyncio.sleep(0.3)
            assert sizes == []
        asking.join(10)
        assert sizes == [before]
        return time.monotonic() - began

    receipts_of_now = receipts_of(filled)
    postgres_server.ask(database.superuser_url, hold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amends.stores.postgres.survey._PATIENCE_TIMES", 2)

        async def stand(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute(f"SELECT pg_advisory_xact_lock_shared({FEED_LOCK})")
                with refused_with("store.unavailable"):
                    await asyncio.to_thread(survey)

        postgres_server.ask(database.superuser_url, stand)


def test_what_is_added_while_a_bundle_is_written_is_not_in_it(filled: Shell, url: str) -> None:
    lines = bundle_of(OnServer(url), Chosen())
    first = next(lines)
    assert filled.done("txn_third").code == exits.OK
    Path("held.bundle").write_bytes(b"".join([first, *lines]))
    pinned = ("--keys", "keys.json", "--checkpoint", "kept.txt")
    assert filled.json("verify", "held.bundle", *pinned).data["chains"] == 2
    later = Chosen(transactions=(TransactionId("txn_third"),))
    assert len(list(Bundle(bundle_of(OnServer(url), later)).chains())) == 1


@pytest.mark.rule("RC-3")
def test_checkpoints_that_replicas_make_while_they_all_write_are_of_one_log(shell: Shell) -> None:
    """The order of the feed is what it was when somebody first saw it, whoever commits when."""

    async def replica(number: int) -> None:
        async with Amends.open(store_of(shell), [Desk((DONE,)).served()], recover=False) as amends:
            runtime = amends._runtime
            store = runtime.engine.environment.store
            keeper = Checkpointer(store, runtime.signer, lambda: runtime.keys)
            for turn in range(4):
                ids = [f"txn_{number}_{turn}_{one}" for one in range(4)]
                doing = [amends.execute(CHARGE, ORDER, transaction_id=one) for one in ids]
                await asyncio.gather(*doing, keeper.make())

    async def replicas() -> None:
        await asyncio.gather(*map(replica, range(3)))

    asyncio.run(replicas())
    assert shell.json("checkpoint").data["size"] == receipts_of(shell)
    found = shell.json("verify", "--store", store_of(shell)).data
    assert (found["chains"], found["faults"]) == (48, [])
    assert len(found["checkpoints"]) > 1


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_keys_are_rotated_and_given_up_on_one_machine_and_none_is_made_on_another(
    filled: Shell, database: Database
) -> None:
    (first,) = filled.json("keys", "list").data["keys"]
    rotated = filled.json("keys", "rotate").data["keys"]
    assert len(rotated) == 2
    assert rotated[0]["key_id"] == first["key_id"]
    assert "every machine" not in filled("keys", "list").out
    assert "every machine" in filled("keys", "rotate").out
    assert filled.done("txn_third").code == exits.OK
    assert filled.json("checkpoint").code == exits.OK  # of the new key, which covers the old one's
    since = "2100-01-01T00:00:00Z"
    told = filled.json("keys", "compromised", first["key_id"], "--since", since).data["keys"]
    assert told[0]["compromised"] is not None
    assert filled.json("verify", "--store", store_of(filled)).data["chains"] == 3
    elsewhere = filled.folder / "elsewhere"
    elsewhere.mkdir()
    bare = f"{database.url}?folder={elsewhere}"
    assert filled.json("checkpoint", "--store", bare).error == "key.missing"
    assert filled.json("keys", "list", "--store", bare).error == "key.unavailable"
    found = {
        one["name"]: one for one in filled.json("doctor", "--store", bare).json["data"]["checks"]
    }
    assert (found["key"]["level"], found["folder"]["level"]) == ("fault", "ok")
    assert "folder=" in found["key"]["todo"]
    assert str(elsewhere) in found["folder"]["says"]
    assert found["checkpoint"]["level"] == "ok"
    assert list(elsewhere.iterdir()) == []
    here = {one["name"]: one["level"] for one in filled.json("doctor").data["checks"]}
    assert here["key"] == "ok"


# ── keeping and forgetting, people, waiting ──────────────────────────────────────────────────────


def test_what_is_due_is_forgotten_once_nothing_holds_it_and_what_is_left_is_said(
    shell: Shell, database: Database, postgres_server: PostgresServer
) -> None:
    shell.monkeypatch.setenv("AMENDS_APP", "tests.unit.cli.kept:capabilities")
    note = f'{{"text": "{CANARY}"}}'
    ids = ("--transaction-id", "t1", "--action-id", "a1", "--yes")
    assert shell.json("execute", "notes.write", "--input", note, *ids).code == exits.OK
    assert shell.as_("olga", "hold", "place", "a1", "--reason", "case 7").data["placed"] is True
    kept = shell.as_("olga", "retention", "run", "--yes").data
    assert (kept["forgotten"], [one["reason"] for one in kept["kept"]]) == ([], ["held"])
    lift = ("hold", "lift", "t1", "--reason", "over", "--yes")
    assert shell.as_("olga", *lift).data["placed"] is False
    done = shell.as_("olga", "retention", "run", "--yes").data
    assert (done["forgotten"], done["compacted"]) == (["t1"], False)
    assert "VACUUM" in done["left"]
    again = shell(
        "retention", "run", "--yes", "--principals", str(shell.principals), "--as", "olga"
    )
    assert "VACUUM" in again.out
    assert shell.as_("olga", "retention", "run", "--dry-run").data["left"] is None
    tables = "SELECT string_agg(body, '') FROM (SELECT body FROM amends.{}) AS t"
    for table in ("actions", "transactions", "receipts"):
        [(text,)] = do(postgres_server, database, tables.format(table))
        assert canary_absent(CANARY, text.encode()) == []
    assert shell.json("verify", "--store", store_of(shell)).code == exits.OK


@pytest.mark.rule("AP-1")
def test_a_word_is_lent_and_used_and_people_are_told(shell: Shell) -> None:
    ids = ("--transaction-id", "t1")
    assert shell.as_("alice", "plan", "payments.wire", "--input", '{"amount": 5}', *ids).code == 0
    waits = shell.as_("alice", "commit", "t1", "--yes")
    assert waits.error == "approval.required"
    action, approval = waits.json["data"]["action_id"], waits.json["data"]["approval_id"]
    assert approval in shell("notify", "--log").err
    lend = ("delegate", "eve", "--reason", "on leave", "--capability", "payments.*")
    lent = shell.as_("bob", *lend, "--max-risk", "high", "--hours", "2").data["delegation_id"]
    assert shell.as_("eve", "approve", approval).error == "approval.not_allowed"
    assert shell.as_("eve", "approve", approval, "--under", lent).data["status"] == "approved"
    assert shell.as_("alice", "resume", action, "--yes").code == exits.OK
    assert shell.as_("bob", "revoke", lent, "--reason", "back").data["state"] == "revoked"
    watched = shell.json("tx", "watch", "t1").data
    assert watched["result"]["status"] == "committed"


def test_looking_makes_no_store(
    shell: Shell, database: Database, postgres_server: PostgresServer
) -> None:
    do(postgres_server, database, "DROP SCHEMA IF EXISTS amends CASCADE")
    for tokens in (
        ("tx", "list"),
        ("verify", "--store", store_of(shell)),
        ("export", "--all", "--out", "b"),
    ):
        assert shell.json(*tokens).error == "store.not_found"
    [(there,)] = do(postgres_server, database, "SELECT to_regnamespace('amends') IS NOT NULL")
    assert there is False
