"""Both sides with their anchors on a PostgreSQL server: a worker, its host, its commands."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from amends.contracts.worker_payload import Succeeded
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.ledger.plans import make_plan
from amends.sealed.vault import Vault
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.refusals import refused_with
from amends.wiring.anchors import anchor_place
from amends.wiring.hosts import Ledgers, child_worker, worker_command
from amends.wiring.workers import WorkerPlace
from tests.unit.worker.stage import GRANT, INPUT, INTENT, PLAN, SCOPE

ROOT: Final = Path(__file__).parents[2]
SCHEMAS: Final = ("release_worker", "release_host")
ADAPTERS: Final = "tests.acceptance.worker_adapters:release"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    lent = postgres_server.lend()
    yield lent

    async def drop(connection: Any) -> None:
        for schema in SCHEMAS:
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    postgres_server.ask(lent.superuser_url, drop)
    postgres_server.take_back(lent)


def environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    ours = {"AMENDS_TEST_EFFECTS": str(folder / "effects"), "AMENDS_TEST_HANG": ""}
    return {**os.environ, "PYTHONPATH": paths, **ours}


def amends(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "amends", "worker", *arguments],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.rule("ST-2", "WS-1", "HL-3")
async def test_both_sides_keep_their_floors_on_a_server_and_an_old_folder_is_refused(
    database: Database, tmp_path: Path
) -> None:
    theirs, ours = (f"{database.url}?schema={schema}" for schema in SCHEMAS)
    place = WorkerPlace(directory=tmp_path / "state", scope=SCOPE, anchor=anchor_place(theirs))
    begin = ("init", "--state", str(place.directory), "--scope", SCOPE, "--anchor", theirs)
    assert amends(tmp_path, *begin).returncode == 0
    assert not (place.directory / "anchor.db").exists()
    copy = tmp_path / "copy"
    with closing(Ledgers.make(tmp_path / "host", anchor=anchor_place(ours))) as ledgers:
        ledgers.create("release-42", PLAN)
        workflow = await Workflow.open(
            PLAN,
            ledgers.opener("release-42"),
            Verifiers(grant=lambda _: True, action=lambda _: True),
            clock=lambda: datetime.now(UTC),
        )
        key = await workflow.record(INTENT)
        shutil.copytree(place.directory, copy)
        async with child_worker(
            worker_command(ADAPTERS, place),
            [GRANT],
            tenant_scope=SCOPE,
            environment=environment(tmp_path),
            open_limit_s=30.0,
        ) as channel:
            assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
    assert (tmp_path / "effects").read_text().split() == [key]
    shutil.rmtree(place.directory)
    copy.rename(place.directory)
    ruling = ("--who", "olga", "--why", "compared", "--evidence", "ticket 7")
    refused = amends(tmp_path, "release", *begin[1:], *ruling)
    assert "sealed.rolled_back" in refused.stdout + refused.stderr
    shutil.rmtree(place.directory)
    begun_anew = amends(tmp_path, *begin)
    assert "sealed.initialised" in begun_anew.stdout + begun_anew.stderr


@pytest.mark.rule("ST-2", "ST-3")
def test_an_operator_accepts_a_server_that_was_restored(
    database: Database, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = f"{database.url}?schema=release_host"
    plan = make_plan([("publish", "let release = true")])
    with closing(Ledgers.make(tmp_path / "host", anchor=anchor_place(url))) as ledgers:
        ledgers.create("release-42", plan)

    async def restore(connection: Any) -> None:
        await connection.execute("UPDATE release_host.server SET timeline = timeline - 1")

    postgres_server.ask(database.superuser_url, restore)
    with refused_with("sealed.anchor_restored"):
        Ledgers.open(tmp_path / "host", anchor=anchor_place(url))
    told = ("--who", "olga", "--why", "failed over")
    assert amends(tmp_path, "accept-anchor", url, *told).returncode == 0
    with closing(Ledgers.open(tmp_path / "host", anchor=anchor_place(url))) as ledgers:
        assert isinstance(ledgers.opener("release-42")(), Vault)


def test_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    url = "postgresql://role:s3cret@host/db"
    place = ("--state", str(tmp_path / "state"), "--scope", SCOPE, "--anchor", url)
    refused = amends(tmp_path, "init", *place)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert "sealed.anchor_url" in said
    assert "s3cret" not in said
    assert not (tmp_path / "state").exists()
