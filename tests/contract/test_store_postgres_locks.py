"""What a batch that is decided holds until its end, and what ends it: never a limit of the role."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import pytest

from amends.contracts.documents import TransactionRecord
from amends.stores.port import ChangeSet, Guard, Insert, Replace
from amends.stores.postgres import open_postgres
from amends.stores.postgres.session import named
from amends.stores.postgres.statements import begin, probe
from amends.stores.postgres.writes import prepare
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import TENANT, a_transaction, changed, links, tail_of
from tests.contract.test_store_postgres_commits import found
from tests.contract.test_store_postgres_demands import ask

WAITING: Final = (
    "SELECT count(*) = $1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)
AN_INSERT: Final = (
    "BEGIN; INSERT INTO amends.transactions (tenant, id, revision, created_at, updated_at, body,"
    " written_at, written_by) SELECT '{tenant}', '{id}', 1, now(), now(), '', now(),"
    " gen_random_uuid()"
)


@asynccontextmanager
async def superusers(bench: PostgresBench) -> AsyncIterator[tuple[Any, Any]]:
    """One that holds, and one that looks on."""
    holder, watcher = [await asyncpg.connect(bench.database.superuser_url) for _ in range(2)]
    try:
        yield holder, watcher
    finally:
        await holder.close()
        await watcher.close()


async def waiting(watcher: Any, count: int) -> None:
    await found(lambda: watcher.fetchval(WAITING, count))


async def test_what_a_verdict_stands_on_is_locked_until_the_end_of_the_transaction(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), Insert(a_transaction("1")), Insert(a_transaction("2")))
        guard = Guard(TransactionRecord, TENANT, "txn_1", 1)
        asked = probe(*named([prepare(ChangeSet(changes=(guard,)))]), None)
        async with superusers(bench) as (deciding, other):
            await deciding.execute(begin([TENANT]))
            await deciding.fetch(asked.sql, *asked.values)
            free = "SELECT id FROM amends.transactions FOR NO KEY UPDATE SKIP LOCKED"
            assert [row[0] for row in await other.fetch(free)] == ["txn_2"]
            await deciding.execute("ROLLBACK")
            assert len(await other.fetch(free)) == 2


async def test_what_has_to_stay_absent_is_inserted_by_nobody_until_the_end(
    postgres_server: PostgresServer,
) -> None:
    """Also not by a batch that is written at once, and so takes no turn."""
    async with PostgresBench(postgres_server) as bench:
        one, other = await bench.open(), await bench.open()
        async with superusers(bench) as (holder, watcher):
            await holder.execute(AN_INSERT.format(tenant=TENANT, id="txn_held"))
            absent = Guard(TransactionRecord, TENANT, "txn_absent", 0)
            first = asyncio.ensure_future(commit(one, absent, Insert(a_transaction("held"))))
            await waiting(watcher, 1)
            inserts = (Insert(a_transaction("absent")), links(name="absent"))
            second = asyncio.ensure_future(commit(other, *inserts))
            await waiting(watcher, 2)
            assert not first.done()
            assert not second.done()
            await holder.execute("ROLLBACK")
            await asyncio.gather(first, second)
        assert len((await one.list(TransactionRecord, TENANT)).items) == 2


LIMITS: Final = {
    "statement_timeout": ("50ms", "0"),
    "lock_timeout": ("0", "2s"),
    "idle_in_transaction_session_timeout": ("0", "10s"),
}


async def test_a_transaction_has_limits_of_its_own_and_not_those_of_the_role(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await bench.open()
        theirs = {name: there for name, (there, _) in LIMITS.items()}
        connection = await asyncpg.connect(bench.database.url, server_settings=theirs)
        try:
            await connection.execute(begin([TENANT]))
            said = {name: await connection.fetchval(f"SHOW {name}") for name in LIMITS}
            assert said == {name: ours for name, (_, ours) in LIMITS.items()}
            await connection.execute("SELECT pg_sleep(0.1)")
            await connection.execute("ROLLBACK")
        finally:
            await connection.close()


@pytest.mark.parametrize("receipts", [True, False])
async def test_a_batch_that_takes_longer_than_the_role_may_is_written_all_the_same(
    postgres_server: PostgresServer, *, receipts: bool
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), Insert(a_transaction()), links())
        where = f"DATABASE {bench.database.name}"
        ask(bench.database, postgres_server, f"ALTER {where} SET statement_timeout = '300ms'")
        try:
            store = await open_postgres(bench.database.url)
            async with superusers(bench) as (holder, watcher):
                await holder.execute("SET statement_timeout = 0")
                await holder.execute("BEGIN; SELECT 1 FROM amends.transactions FOR UPDATE")
                more = (links(1, tail=tail_of(links())),) if receipts else ()
                writing = asyncio.ensure_future(
                    commit(store, Replace(changed(a_transaction())), *more)
                )
                await waiting(watcher, 1)
                await asyncio.sleep(0.4)
                await waiting(watcher, 1)
                await holder.execute("COMMIT")
                await writing
            await store.close()
        finally:
            ask(bench.database, postgres_server, f"ALTER {where} RESET statement_timeout")
