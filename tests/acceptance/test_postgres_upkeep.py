"""A store on a server, as its operator meets it: checked, failed over, and taken up again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from amends.cli.main import run
from amends.stores.postgres.migrations import MIGRATIONS
from amends.testing.errands import Commit, Plan, run_errand
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.refusals import refused_with
from amends.testing.till import Setup, open_till
from tests.acceptance.children import stored

STEPS: Final = [step.number for step in MIGRATIONS]


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    database = postgres_server.lend()
    yield database
    postgres_server.take_back(database)


@pytest.fixture
def setup(database: Database, tmp_path: Path) -> Setup:
    return Setup(store=f"{database.url}?folder={tmp_path}", ledger=str(tmp_path / "provider.jsonl"))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """What a command answers: its exit code and its document."""
    code = run([*words, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, {**(answer.get("data") or {}), "error": answer.get("error")}


def do(server: PostgresServer, database: Database, sql: str) -> None:
    async def execute(connection: Any) -> None:
        await connection.execute(sql)

    server.ask(database.superuser_url, execute)


async def work(setup: Setup) -> None:
    async with open_till(setup) as till:
        for number in (1, 2):
            plan = Plan(action_id=f"act_plan_{number}", transaction_id=f"txn_{number}")
            await run_errand(till, plan)
        await run_errand(till, Commit(action_id="act_commit", plan_id="plan:txn_1"))


def levels(answer: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["level"] for check in answer["checks"]}


async def open_once(setup: Setup) -> None:
    async with open_till(setup):
        pass


@pytest.mark.fault(18)
@pytest.mark.rule("TX-LEASE-3")
def test_a_store_whose_server_failed_over_is_refused_until_what_is_open_was_frozen(
    setup: Setup,
    database: Database,
    postgres_server: PostgresServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asyncio.run(work(setup))
    code, answer = said(capsys, "doctor", "--store", setup.store)
    assert code == 0, answer
    assert {"server", "schema", "timeline", "tenants", "key", "rows"} <= levels(answer).keys()
    assert set(levels(answer).values()) == {"ok"}

    do(postgres_server, database, "UPDATE amends.store SET timeline = 77, synchronous = false")
    with refused_with("store.timeline_changed"):
        asyncio.run(open_once(setup))
    code, answer = said(capsys, "doctor", "--store", setup.store)
    assert code != 0
    assert levels(answer)["timeline"] == "fault"

    code, answer = said(capsys, "restore", "--yes", "--store", setup.store)
    assert code == 0, answer
    assert answer["lineage"] != answer["from_lineage"]
    frozen = [one["transaction_id"] for one in answer["frozen"]["records"]]
    assert frozen == ["txn_2"]

    async def afterwards() -> None:
        async with open_till(setup) as till:
            found = await stored(till, "txn_2")
            assert found is not None
            assert found.document.frozen == "restored"
            refused = await run_errand(till, Commit(action_id="act_2", plan_id="plan:txn_2"))
            assert refused.code == "transaction.frozen"
            ended = await stored(till, "txn_1")
            assert ended is not None
            assert ended.document.frozen is None

    asyncio.run(afterwards())
    code, answer = said(capsys, "doctor", "--store", setup.store)
    assert (code, levels(answer)["timeline"]) == (0, "ok")


async def test_a_role_that_sees_every_tenant_is_a_fault_and_where_it_is_allowed_a_warning(
    setup: Setup, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await work(setup)
    there = f"{database.superuser_url}?folder={tmp_path}"
    code, answer = await asyncio.to_thread(said, capsys, "doctor", "--store", there)
    assert (code != 0, levels(answer)["server"]) == (True, "fault")
    assert "store.role_bypasses_tenants" in str(answer["checks"])
    allowed = f"{there}&dangerously_allow_bypassing_tenants=true"
    code, answer = await asyncio.to_thread(said, capsys, "doctor", "--store", allowed)
    assert (code, levels(answer)["tenants"]) == (0, "warn")


async def test_nothing_is_frozen_under_those_who_still_use_it(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_till(setup):
        code, answer = await asyncio.to_thread(
            said, capsys, "restore", "--yes", "--store", setup.store
        )
    assert code != 0
    assert answer["error"]["code"] == "restore.store_in_use"


def test_a_schema_is_brought_up_to_date_and_an_empty_database_is_no_store(
    setup: Setup,
    database: Database,
    postgres_server: PostgresServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    do(postgres_server, database, "DROP SCHEMA IF EXISTS amends CASCADE")
    code, answer = said(capsys, "migrate", "--dry-run", "--store", setup.store)
    assert (code, answer["missing"], answer["taken"]) == (0, STEPS, [])
    code, answer = said(capsys, "migrate", "--store", setup.store)
    assert (code, answer["taken"]) == (0, STEPS)
    code, answer = said(capsys, "migrate", "--store", setup.store)
    assert (code, answer["missing"]) == (0, [])


@pytest.mark.parametrize("words", [("backup", "b.db"), ("restore", "b.db")])
def test_what_the_servers_own_tools_do_is_refused_and_they_are_named(
    setup: Setup, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = (
        said(capsys, *words, "--yes", "--store", setup.store)
        if words[0] == "restore"
        else said(capsys, *words, "--store", setup.store)
    )
    assert code != 0
    assert answer["error"]["code"] == "store.on_a_server"
    assert "pg_basebackup" in answer["error"]["next_step"]
