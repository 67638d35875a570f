"""How often the server is asked: what the latency of one caller is made of.

A proxy counts what a client says; the answers are waited for each time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from amends import Amends, Principal, capability
from amends.contracts.documents import TransactionRecord
from amends.stores.port import ChangeSet, Insert, Lost
from amends.stores.postgres import PostgresStore, open_postgres
from amends.stores.postgres.server_time import CARRIED_S
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import TENANT, a_transaction, links
from amends.testing.tcp_proxy import TcpProxy

AN_EXECUTE = 2
"""The claim and the settlement."""


@asynccontextmanager
async def beside(server: PostgresServer) -> AsyncIterator[tuple[TcpProxy, PostgresStore]]:
    async with PostgresBench(server) as bench, TcpProxy(server.port) as proxy:
        store = await open_postgres(proxy.beside(bench.database.url), writers=1)
        await commit(store, Insert(a_transaction("first")), links(name="first"))
        yield proxy, store
        await store.close()


async def test_an_execute_asks_the_server_twice(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    @capability("trips.nothing", input_schema={"type": "object"}, risk="low")
    async def nothing(order: object, attempt: object) -> dict[str, object]:
        return {"id": "op_1"}

    async with PostgresBench(postgres_server) as bench, TcpProxy(postgres_server.port) as proxy:
        url = f"{proxy.beside(bench.database.url)}?folder={tmp_path}"
        principal = Principal.named("trips")
        async with Amends.open(url, [nothing], principal=principal, recover=False) as amends:
            counts = []
            for number in range(4):
                before = proxy.asked
                await amends.execute(nothing, {"n": number}, idempotency_key=f"k{number:031}")
                counts.append(proxy.asked - before)
    # The first one connects, and the clocks of a busy machine may ask once more.
    assert min(counts[1:]) == AN_EXECUTE


async def test_a_change_set_with_a_receipt_is_one_question_and_one_that_loses_a_few_more(
    postgres_server: PostgresServer,
) -> None:
    async with beside(postgres_server) as (proxy, store):
        before = proxy.asked
        await commit(store, Insert(a_transaction()), links())
        assert proxy.asked == before + 1
        lost = await store.commit(ChangeSet(changes=(Insert(a_transaction()), links(name="2"))))
        assert isinstance(lost, Lost)
        assert proxy.asked - before > 2


async def test_a_batch_is_one_question_as_well(postgres_server: PostgresServer) -> None:
    async with beside(postgres_server) as (proxy, store):
        before = proxy.asked
        await asyncio.gather(
            *(commit(store, Insert(a_transaction(f"{n}")), links(name=f"{n}")) for n in range(9))
        )
        assert proxy.asked == before + 1


@pytest.mark.fault(18)
async def test_the_time_is_asked_for_once_a_second_and_after_a_connection_was_lost(
    postgres_server: PostgresServer,
) -> None:
    async with beside(postgres_server) as (proxy, store):
        for _ in range(2):  # the first time it connects
            await asyncio.sleep(CARRIED_S * 1.1)
            before = proxy.asked
            told = await store.now()
        assert proxy.asked == before + 1
        first, latest = await store.now(), await store.by_now()
        assert proxy.asked == before + 1
        assert told <= first <= latest
        proxy.cut_all()
        assert await store.get(TransactionRecord, TENANT, "txn_first") is not None
        before = proxy.asked
        assert await store.now() > first
        assert proxy.asked > before
