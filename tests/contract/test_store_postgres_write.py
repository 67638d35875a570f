"""`amends.write` as a server carries it out: all of a batch or nothing, for whom it names only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import asyncpg
import pytest

from amends.contracts.ids import TenantId
from amends.stores.port import Append, Change, ChangeSet, Guard, Insert, Replace
from amends.stores.postgres.function import FEED_LOCK
from amends.stores.postgres.statements import WRITE, write
from amends.stores.postgres.writes import prepare
from amends.stores.shapes import SHAPES
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_transaction,
    changed,
    links,
    one_of_each,
    tail_of,
)
from tests.contract.test_store_postgres_commits import found
from tests.contract.test_store_postgres_demands import ask

LOCKED: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


class Raw:
    """A connection as stores have them, and another one that holds rows and looks on."""

    def __init__(self, bench: PostgresBench, connection: Any, other: Any) -> None:
        self.bench = bench
        self.connection = connection
        self.other = other

    async def write(
        self,
        *changes: Change,
        tenant: TenantId = TENANT,
        not_after: datetime | None = None,
        now: datetime | None = None,
    ) -> Any:
        """When it was written; none if it was not."""
        prepared = prepare(ChangeSet(changes=changes))
        values = write(
            [tenant], uuid4(), prepared.rows, prepared.receipts, now=now, not_after=not_after
        )
        return (await self.connection.fetchrow(WRITE, *values))[0]

    async def counts(self, *tables: str) -> list[int]:
        """How many rows there are, as a superuser sees it."""
        return [await self.other.fetchval(f"SELECT count(*) FROM amends.{one}") for one in tables]

    async def hold_rows(self) -> None:
        """Hold every transaction's row, until `let_go`."""
        await self.other.execute("BEGIN; SELECT 1 FROM amends.transactions FOR UPDATE")

    async def let_go(self, after_s: float) -> None:
        """Wait until somebody waits for the rows, and then so long."""
        await found(lambda: self.other.fetchval(LOCKED))
        await asyncio.sleep(after_s)
        await self.other.execute("COMMIT")


@asynccontextmanager
async def raw(server: PostgresServer) -> AsyncIterator[Raw]:
    async with PostgresBench(server) as bench:
        await commit(await bench.open(), Insert(a_transaction()), links())
        connection = await asyncpg.connect(bench.database.url)
        other = await asyncpg.connect(bench.database.superuser_url)
        try:
            yield Raw(bench, connection, other)
        finally:
            await connection.close()
            await other.close()


AFTER: Final = links(1, tail=tail_of(links()))
STALE: Final[dict[str, tuple[Change, ...]]] = {
    "another revision": (Replace(changed(changed(a_transaction()))), AFTER),
    "a row that is there": (Insert(a_transaction()), AFTER),
    "a guard": (Guard(type(a_transaction()), TENANT, "txn_1", 2), AFTER),
    "the chain's number": (links(),),
    "the chain's end": (Append(TENANT, AFTER.chain, 1, links(2, code="x").receipts[1:]),),
}


@pytest.mark.parametrize("stale", STALE)
async def test_if_anything_is_not_as_it_was_taken_to_be_nothing_of_a_batch_is_kept(
    postgres_server: PostgresServer, stale: str
) -> None:
    async with raw(postgres_server) as on:
        before = await on.other.fetchrow("SELECT revision, written_by FROM amends.transactions")
        fresh = (Insert(a_transaction("new")), links(name="new"))
        assert await on.write(*STALE[stale], *fresh) is None
        after = await on.other.fetchrow("SELECT revision, written_by FROM amends.transactions")
        assert after == before
        assert await on.counts("transactions", "receipts") == [1, 1]
        assert await on.write(*fresh, Replace(changed(a_transaction())), AFTER) is not None
        assert await on.counts("transactions", "receipts") == [2, 3]


async def test_it_writes_for_the_tenants_that_it_names_and_for_nobody_afterwards(
    postgres_server: PostgresServer,
) -> None:
    async with raw(postgres_server) as on:
        assert await on.write(Insert(a_transaction("new")), links(name="new")) is not None
        assert await on.connection.fetchval("SELECT count(*) FROM amends.transactions") == 0
        mine = (Replace(changed(a_transaction())), AFTER)
        assert await on.write(*mine, tenant=OTHER_TENANT) is None
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await on.write(Insert(a_transaction("newer")), tenant=OTHER_TENANT)
        guard = Guard(type(a_transaction()), TENANT, "txn_1", 1)
        theirs = links(name="x", tenant=OTHER_TENANT)
        assert await on.write(guard, theirs, tenant=OTHER_TENANT) is None


async def test_nothing_is_written_that_was_held_up_for_longer_than_a_second(
    postgres_server: PostgresServer,
) -> None:
    """Otherwise a lease would count from before the wait."""
    async with raw(postgres_server) as on:
        for held_s, written in ((0.1, True), (1.1, False)):
            await on.hold_rows()
            name = str(held_s)
            guard = Guard(type(a_transaction()), TENANT, "txn_1", 1)
            both = (guard, Insert(a_transaction(name)), links(name=name))
            writing = asyncio.ensure_future(on.write(*both))
            await on.let_go(held_s)
            assert (await writing is not None) is written


async def test_nothing_is_written_once_its_time_has_come_also_where_that_is_while_it_waits(
    postgres_server: PostgresServer,
) -> None:
    async with raw(postgres_server) as on:
        now = await on.other.fetchval("SELECT clock_timestamp()")
        new = (Insert(a_transaction("new")), links(name="new"))
        assert await on.write(*new, not_after=now) is None
        assert await on.write(*new, now=now, not_after=now) is None
        await on.hold_rows()
        guard = Guard(type(a_transaction()), TENANT, "txn_1", 1)
        now = await on.other.fetchval("SELECT clock_timestamp()")
        soon = now + timedelta(seconds=0.5)
        writing = asyncio.ensure_future(on.write(guard, *new, not_after=soon))
        await on.let_go(0.6)
        assert await writing is None
        later = now + timedelta(seconds=1)
        assert await on.write(*new, now=now, not_after=later) == now


async def test_a_guard_keeps_its_row_as_it_is_until_the_end_of_the_transaction(
    postgres_server: PostgresServer,
) -> None:
    async with raw(postgres_server) as on:
        await on.connection.execute("BEGIN")
        guard = Guard(type(a_transaction()), TENANT, "txn_1", 1)
        assert await on.write(guard, links(name="new")) is not None
        free = "SELECT 1 FROM amends.transactions FOR NO KEY UPDATE SKIP LOCKED"
        assert await on.other.fetch(free) == []
        await on.connection.execute("ROLLBACK")
        assert len(await on.other.fetch(free)) == 1


async def test_followers_of_the_feed_can_see_that_somebody_has_a_position(
    postgres_server: PostgresServer,
) -> None:
    async with raw(postgres_server) as on:
        await on.connection.execute("BEGIN")
        assert await on.write(links(name="new")) is not None
        free = f"SELECT pg_try_advisory_lock({FEED_LOCK})"
        assert not await on.other.fetchval(free)
        await on.connection.execute("ROLLBACK")
        assert await on.other.fetchval(free)


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("receipts", [True, False])
async def test_a_commit_that_waits_for_no_standby_takes_back_that_all_did(
    postgres_server: PostgresServer, *, receipts: bool
) -> None:
    """However often this store has written before that they do not: another one said they do."""
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        for name in ("a", "b"):
            ask(bench.database, postgres_server, "UPDATE amends.store SET synchronous = true")
            more = (links(name=name),) if receipts else ()
            await commit(store, Insert(a_transaction(name)), *more)
            connection = await asyncpg.connect(bench.database.url)
            assert await connection.fetchval("SELECT synchronous FROM amends.store") is False
            await connection.close()


async def test_every_kind_of_document_is_known_to_the_function_with_all_its_columns(
    postgres_server: PostgresServer,
) -> None:
    """One that has a table is written by it, replaced by it, and read back as it was."""
    async with raw(postgres_server) as on:
        source = await on.other.fetchval("SELECT prosrc FROM pg_proc WHERE proname = 'write'")
        for shape in SHAPES.values():
            for kind in ("insert", "replace", "guard"):
                assert f"WHEN '{kind} {shape.table}' THEN" in source, shape.table
        for number, one in enumerate(one_of_each("new")):
            shape = SHAPES[type(one)]
            changes: tuple[Insert | Replace, ...] = (Insert(one), Replace(changed(one)))
            for turn, change in enumerate(changes):
                chain = links(name=f"{number}_{turn}")
                assert await on.write(change, chain) is not None
            columns = ", ".join(shape.columns)
            sql = f"SELECT {columns} FROM amends.{shape.table} WHERE id = $1"
            row = await on.other.fetchrow(sql, shape.id_of(one))
            assert tuple(row) == shape.values(changed(one))
