"""What the page on PostgreSQL tells to type, typed: the role, the backup, and going on after it."""

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from amends.cli.main import run
from amends.stores.postgres.address import address_of
from amends.testing.errands import Commit, Execute, Plan, run_errand
from amends.testing.pgbouncer import SETTINGS
from amends.testing.postgres_server import PostgresServer
from amends.testing.till import Setup, open_till

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/run-on-postgresql.md"
BLOCK: Final = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS: Final = [(found["kind"], found["text"]) for found in BLOCK.finditer(PAGE.read_text())]


def typed(kind: str, word: str) -> str:
    """The one block of this kind in which the word stands."""
    (text,) = [text for found, text in BLOCKS if found == kind and word in text]
    return text


def statements(word: str) -> list[str]:
    return [one.strip() for one in typed("sql", word).split(";") if one.strip()]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def said_by(server: PostgresServer, role: str, database: str, *asked: str) -> list[Any]:
    async def ask(connection: Any) -> list[Any]:
        return [await connection.fetchval(sql) for sql in asked]

    return server.ask(server.url_of(role, database), ask)


def setup_of(server: PostgresServer, folder: Path) -> Setup:
    url = server.url_of("amends_shop", "shop")
    return Setup(store=f"{url}?folder={folder}", ledger=str(folder / "provider.jsonl"))


@pytest.mark.rule("TX-LEASE-3")
async def test_role_standby_and_restore_go_as_the_page_says(
    server: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said_by(server, "postgres", "postgres", *statements("CREATE ROLE"))
    said_by(server, "postgres", "postgres", "CREATE ROLE replicator LOGIN REPLICATION")
    setup = setup_of(server, tmp_path)
    async with open_till(setup) as till:
        for number in (1, 2):
            plan = Plan(action_id=f"act_plan_{number}", transaction_id=f"txn_{number}")
            await run_errand(till, plan)
        await run_errand(till, Commit(action_id="act_1", plan_id="plan:txn_1"))
    assert await typed_in(["doctor", "--store", setup.store]) == 0
    (rows,) = said_by(server, "amends_shop", "shop", "SELECT count(*) FROM amends.transactions")
    assert rows == 0  # it has named no tenant

    copy = PostgresServer()
    try:
        copied(server, copy, tmp_path)
        said_by(server, "postgres", "postgres", *statements("ALTER SYSTEM"))
        asked = "SELECT setting FROM pg_file_settings WHERE name = 'synchronous_standby_names'"
        assert said_by(server, "postgres", "postgres", asked) == ["db2"]
        (copy.data / "standby.signal").unlink()  # what was copied, as a backup that is restored
        server.stop()
        copy.start()
        restored = setup_of(copy, tmp_path)
        capsys.readouterr()
        words = shlex.split(typed("shell", "amends restore").replace("$AMENDS_STORE", "STORE"))
        words[words.index("STORE")] = restored.store
        assert await typed_in(words[1:]) == 0
        assert "txn_2" in capsys.readouterr().out
        async with open_till(restored) as till:
            late = await run_errand(till, Commit(action_id="act_2", plan_id="plan:txn_2"))
            assert late.code == "transaction.frozen"
            again = await run_errand(till, Execute(action_id="act_3", transaction_id="txn_3"))
            assert again.code is None
    finally:
        copy.remove()


def copied(server: PostgresServer, copy: PostgresServer, tmp_path: Path) -> None:
    """With the page's own command, but for where the two are."""
    command = typed("shell", "pg_basebackup").replace("\\\n", " ")
    command = command.replace("host=db1", f"host=127.0.0.1 port={server.port}")
    program, *words = shlex.split(command)
    words = [f"--pgdata={copy.data}" if one.startswith("--pgdata") else one for one in words]
    copy.adopt()
    copy.run(program, *words)


async def typed_in(words: list[str]) -> int:
    """The exit code of a command, which runs beside this loop."""
    return await asyncio.to_thread(run, words)


def test_the_pooler_of_the_page_is_set_as_the_one_of_the_tests() -> None:
    told = dict(re.findall(r"^(\w+) = (.*)$", typed("ini", "[pgbouncer]"), re.MULTILINE))
    for name in ("pool_mode", "default_pool_size", "server_login_retry"):
        assert told[name] == SETTINGS[name]


def test_every_unit_and_url_names_what_the_code_knows() -> None:
    unit = typed("ini", "[Service]")
    assert "TimeoutStopSec=30" in unit
    urls = re.findall(r"postgresql://\S+?(?=')", "".join(text for _, text in BLOCKS))
    assert len(urls) == 3
    pooled = [address_of(url).pooled for url in urls]
    assert pooled == [False, False, True]
    assert all("folder" not in address_of(url).dsn for url in urls)
