"""The PostgreSQL store beside many others: tenants, its schema, batches, the feed, and news."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import asyncpg
import pytest

from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.errors import Corrupt, Misuse
from amends.contracts.ids import TenantId
from amends.stores.port import (
    Accepted,
    Change,
    ChangeSet,
    Due,
    FeedEntry,
    Guard,
    Insert,
    Lost,
    Replace,
    Store,
)
from amends.stores.postgres import open_postgres
from amends.stores.postgres.migrations import MIGRATIONS, migrate
from amends.stores.postgres.session import named
from amends.stores.postgres.statements import WRITE, begin, probe, write
from amends.stores.postgres.writes import prepare
from amends.stores.schema_steps import Migration
from amends.stores.shapes import SHAPES
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_transaction,
    an_action,
    an_approval,
    changed,
    links,
    one_of_each,
    tail_of,
)
from amends.testing.tcp_proxy import TcpProxy
from tests.contract.test_store_postgres_demands import ask

UNIQUE: Final = {"transactions_by_id", "actions_by_id", "receipts_by_chain"}
_FOUND_IN: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'amends'::regnamespace"
    " AND relname NOT IN ('store', 'store_pkey') AND pg_stat_get_xact_tuples_returned(oid) > 0"
)
"""Where this transaction has found rows: in tables from end to end, or in indexes."""

TABLES: Final = (*[shape.table for shape in SHAPES.values()], "receipts")
NEXT: Final = MIGRATIONS[-1].number + 1
BOOKED: Final = Migration(NEXT, "a second step", "CREATE TABLE amends.later (a int)")


# ── tenants ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_query_without_a_tenant_sees_nothing_whoever_owns_the_tables(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), *[Insert(one) for one in one_of_each()], links())
        connection = await asyncpg.connect(bench.database.url)
        try:
            for table in TABLES:
                assert await connection.fetchval(f"SELECT count(*) FROM amends.{table}") == 0
            for tenant, seen in ((OTHER_TENANT, 0), (TENANT, 1)):
                await connection.execute(begin([tenant]))
                counts = [
                    await connection.fetchval(f"SELECT count(*) FROM amends.{table}")
                    for table in TABLES
                ]
                assert counts == [seen] * len(TABLES)
                await connection.execute("COMMIT")
            assert await connection.fetchval("SELECT count(*) FROM amends.transactions") == 0
        finally:
            await connection.close()


async def test_a_transaction_writes_no_tenant_that_it_did_not_name(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), Insert(a_transaction()), links())
        connection = await asyncpg.connect(bench.database.url)
        try:
            await connection.execute(begin([OTHER_TENANT]))
            for table in ("transactions", "receipts"):
                assert (
                    await connection.execute(f"UPDATE amends.{table} SET body = ''") == "UPDATE 0"
                )
                assert await connection.execute(f"DELETE FROM amends.{table}") == "DELETE 0"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(
                    "INSERT INTO amends.receipts VALUES (99, $1, 'c', 1, '', '', now(), $2)",
                    TENANT,
                    "0" * 32,
                )
        finally:
            await connection.close()


async def test_the_upkeep_of_every_tenant_reads_and_never_writes(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), Insert(a_transaction()))
        connection = await asyncpg.connect(bench.database.url)
        try:
            await connection.execute("SET amends.upkeep = 'every tenant'")
            assert await connection.fetchval("SELECT count(*) FROM amends.transactions") == 1
            said = await connection.execute("UPDATE amends.transactions SET body = ''")
            assert said == "UPDATE 0"
        finally:
            await connection.close()


async def test_a_tenant_that_is_no_identifier_is_misuse_and_reaches_no_statement(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        for tenant in ("it's", "a\x1fb", "a\\b", "a\nb"):
            record = a_transaction(tenant=TenantId(tenant))
            error = await error_of(store.commit(ChangeSet(changes=(Insert(record),))))
            assert isinstance(error, Misuse)
            assert error.code == "store.malformed_change"
            assert await store.get(TransactionRecord, TenantId(tenant), "txn_1") is None


# ── the schema ───────────────────────────────────────────────────────────────────────────────────


async def schema_of(url: str, steps: tuple[Migration, ...]) -> None:
    connection = await asyncpg.connect(url)
    try:
        await migrate(connection, steps)
    finally:
        await connection.close()


async def test_many_that_open_a_new_database_at_once_make_one_schema(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.lend()
    ask(database, postgres_server, "DROP SCHEMA IF EXISTS amends CASCADE")
    stores = await asyncio.gather(*(open_postgres(database.url) for _ in range(12)))
    lineages = {await store.lineage() for store in stores}
    assert len(lineages) == 1
    for store in stores:
        await store.close()
    postgres_server.take_back(database)


@pytest.mark.fault(64)
async def test_a_step_that_was_cut_off_leaves_nothing_and_is_begun_anew(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.lend()
    ask(database, postgres_server, "DROP SCHEMA IF EXISTS amends CASCADE")
    broken = Migration(NEXT, BOOKED.name, BOOKED.sql + "; SELECT 1/0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await schema_of(database.url, (*MIGRATIONS, broken))
    await (await open_postgres(database.url)).close()
    await schema_of(database.url, (*MIGRATIONS, BOOKED))
    ask(database, postgres_server, "SELECT * FROM amends.later")
    error = await error_of(open_postgres(database.url))
    assert error.code == "store.schema_too_new"
    ask(database, postgres_server, "DROP SCHEMA amends CASCADE")
    postgres_server.take_back(database)


@pytest.mark.fault(64)
async def test_replicas_that_are_open_go_on_while_a_later_step_is_taken(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.lend()
    ask(database, postgres_server, "DROP SCHEMA IF EXISTS amends CASCADE")
    store = await open_postgres(database.url)
    wider = Migration(NEXT, "wider", "ALTER TABLE amends.transactions ADD COLUMN later text")
    inserts = [
        asyncio.ensure_future(commit(store, Insert(a_transaction(str(number)))))
        for number in range(30)
    ]
    await schema_of(database.url, (*MIGRATIONS, wider))
    await asyncio.gather(*inserts)
    await commit(store, Insert(a_transaction("after")))
    assert len((await store.list(TransactionRecord, TENANT)).items) == 31
    await store.close()
    ask(database, postgres_server, "DROP SCHEMA amends CASCADE")
    postgres_server.take_back(database)


async def test_a_schema_that_is_not_ours_or_was_changed_is_refused_as_it_is(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.lend()
    ask(database, postgres_server, "DROP SCHEMA IF EXISTS amends CASCADE; CREATE SCHEMA amends")
    assert (await error_of(open_postgres(database.url))).code == "store.foreign_file"
    ask(database, postgres_server, "DROP SCHEMA amends CASCADE")
    await (await open_postgres(database.url)).close()
    ask(database, postgres_server, "UPDATE amends.migrations SET checksum = 'x'")
    error = await error_of(open_postgres(database.url))
    assert isinstance(error, Corrupt)
    assert error.code == "store.schema_changed"
    ask(database, postgres_server, "DROP SCHEMA amends CASCADE")
    postgres_server.take_back(database)


# ── beside many others ───────────────────────────────────────────────────────────────────────────


async def raced(stores: Sequence[Store], sets: Sequence[tuple[Change, ...]]) -> list[Any]:
    calls = [
        stores[place % len(stores)].commit(ChangeSet(changes=changes))
        for place, changes in enumerate(sets)
    ]
    return list(await asyncio.gather(*calls))


async def test_two_that_each_write_only_while_the_other_has_not_never_both_write(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        stores = [await bench.open(), await bench.open()]
        for number in range(40):
            here, there = f"a{number}", f"b{number}"
            answers = await raced(
                stores,
                [
                    (absent(here), Insert(a_transaction(there))),
                    (absent(there), Insert(a_transaction(here))),
                ],
            )
            assert sum(isinstance(answer, Accepted) for answer in answers) == 1


async def test_a_guard_holds_until_the_change_set_is_durable(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        stores = [await bench.open(), await bench.open()]
        for number in range(40):
            one, two = a_transaction(f"a{number}"), a_transaction(f"b{number}")
            await commit(stores[0], Insert(one), Insert(two))
            answers = await raced(
                stores,
                [
                    (
                        Guard(TransactionRecord, TENANT, one.transaction_id, 1),
                        Replace(changed(two)),
                    ),
                    (
                        Guard(TransactionRecord, TENANT, two.transaction_id, 1),
                        Replace(changed(one)),
                    ),
                ],
            )
            assert sum(isinstance(answer, Accepted) for answer in answers) == 1


async def test_batches_that_touch_the_same_things_in_any_order_all_end(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        stores = [await bench.open() for _ in range(4)]
        for turn in range(8):
            names = [str(number) for number in range(20)]
            sets: list[tuple[Change, ...]] = []
            for place in range(8):
                order = names if (place + turn) % 2 else names[::-1]
                inserts = [Insert(a_transaction(f"{turn}_{name}")) for name in order]
                sets.append((*inserts, Insert(an_action(f"{turn}_{place}"))))
            answers = await raced(stores, sets)
            assert sum(isinstance(answer, Accepted) for answer in answers) == 1
            assert all(isinstance(answer, Accepted | Lost) for answer in answers)


async def test_a_follower_of_the_feed_misses_nothing_while_many_write(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        stores = [await bench.open() for _ in range(4)]
        follower = await bench.open()
        seen: list[FeedEntry] = []
        writing = asyncio.gather(
            *(
                commit(stores[number % 4], links(1 + number % 3, name=str(number)))
                for number in range(300)
            )
        )
        while True:
            over = writing.done()
            after = seen[-1].position if seen else 0
            seen += await follower.feed(after=after, limit=50)
            if over and seen and not await follower.feed(after=seen[-1].position):
                break
        await writing
        assert seen == list(await follower.feed(limit=1_000))
        assert len(seen) == sum(1 + number % 3 for number in range(300))


async def test_a_writer_that_stands_still_keeps_back_the_feed_and_nothing_of_it_is_skipped(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        await commit(store, links(name="a"))
        connection = await asyncpg.connect(bench.database.url)
        try:
            await connection.execute(begin([TENANT]))
            await connection.execute("SELECT pg_advisory_xact_lock_shared($1)", 0x416D6E64_00000002)
            await connection.execute(
                "INSERT INTO amends.receipts SELECT nextval('amends.receipts_position'), tenant,"
                " 'transaction:txn_slow', 1, hash, body, now(), written_by FROM amends.receipts"
            )
            await commit(store, links(name="b"))
            assert [one.position for one in await store.feed()] == [1]
            await connection.execute("ROLLBACK")
        finally:
            await connection.close()
        assert [one.position for one in await store.feed()] == [1, 3]


@pytest.mark.fault(27)
async def test_a_tenant_with_a_long_backlog_keeps_no_other_waiting(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        backlog = [Insert(a_transaction(str(n)), Due(after_ms=n)) for n in range(60)]
        await commit(store, *backlog)
        for tenant in ("b", "c"):
            record = a_transaction(tenant=TenantId(tenant))
            await commit(store, Insert(record, Due(after_ms=1_000)))
        bench.clock.step(2_000)
        due = [one.document.tenant for one in await store.due(TransactionRecord, 6)]
        assert due == [TENANT] * 4 + ["b", "c"]
        assert len(await store.due(TransactionRecord, 100)) == 62
        assert await store.due(ActionDocument, 5) == []


async def test_without_a_clock_of_its_own_the_servers_time_counts(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        store = await open_postgres(bench.database.url)
        before = await store.now()
        answer = await commit(store, Insert(a_transaction(), Due(after_ms=0)))
        found = await store.get(TransactionRecord, TENANT, "txn_1")
        assert found is not None
        assert answer.at == found.due_at
        assert before < answer.at < found.read_at
        assert len(await store.due(TransactionRecord, 1)) == 1
        await store.close()


async def test_who_waits_for_a_decision_hears_of_it_from_any_process(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        waiting, deciding = await bench.open(), await bench.open()
        request = an_approval()
        await commit(deciding, Insert(request))
        hearing = [asyncio.ensure_future(waiting.news(30)) for _ in range(3)]
        for _ in range(100):
            await asyncio.sleep(0.05)
            following = changed(request, frozen=None)
            await commit(deciding, Replace(following))
            request = following
            if all(one.done() for one in hearing):
                break
        await asyncio.wait_for(asyncio.gather(*hearing), 1)
        await commit(deciding, Insert(a_transaction()))
        started = asyncio.get_running_loop().time()
        await waiting.news(0.2)
        assert asyncio.get_running_loop().time() - started >= 0.19


async def test_a_listener_that_lost_its_server_only_waits_and_listens_again(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench, TcpProxy(postgres_server.port) as proxy:
        store = await open_postgres(proxy.beside(bench.database.url))
        await store.news(0.1)
        proxy.cut_all()
        proxy.refusing = True
        await store.news(0.1)
        proxy.refusing = False
        await store.news(0.1)
        await store.close()


async def test_a_batch_reaches_every_row_through_its_unique_index(
    postgres_server: PostgresServer,
) -> None:
    """Once there is more than a page of rows; nothing has been analysed."""
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        names = [str(number) for number in range(1_000)]
        for there in (
            [Insert(a_transaction(name)) for name in names],
            [Insert(an_action(name)) for name in names],
            [links(name=name) for name in names],
        ):
            await commit(store, *there)
        joint = links(1, tail=tail_of(links()))
        written = (Replace(changed(a_transaction())), Replace(changed(an_action())), joint)
        guard = Guard(TransactionRecord, TENANT, "txn_2", 1)
        prepared = prepare(ChangeSet(changes=(*written, guard)))
        asked = probe(*named([prepared]), None)
        writing = write([TENANT], uuid4(), prepared.rows, prepared.receipts, now=None)
        connection = await asyncpg.connect(bench.database.url)
        try:
            await connection.execute(begin([TENANT, OTHER_TENANT], replan=True))
            plan = await connection.fetch(f"EXPLAIN {asked.sql}", *asked.values)
            text = "\n".join(row[0] for row in plan)
            assert set(re.findall(r"using (\w+) on", text)) == UNIQUE
            assert "Seq Scan" not in text
            await connection.execute("ROLLBACK")
            await connection.execute("BEGIN")
            [[at, *_]] = await connection.fetch(WRITE, *writing)
            assert at is not None
            assert {row[0] for row in await connection.fetch(_FOUND_IN)} == UNIQUE
        finally:
            await connection.close()


def absent(name: str) -> Guard:
    return Guard(TransactionRecord, TENANT, f"txn_{name}", 0)
