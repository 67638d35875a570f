"""COMMIT whose answer is lost: what was written is found again, and nothing is written twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import Unavailable
from amends.stores.port import Accepted, ChangeSet, Insert, Loss, Lost, Replace
from amends.stores.postgres import PostgresStore, open_postgres
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import (
    TENANT,
    a_transaction,
    chain_named,
    changed,
    links,
    tail_of,
)
from amends.testing.tcp_proxy import Cut, TcpProxy

CUTS = (Cut.BEFORE_COMMIT, Cut.AFTER_COMMIT)


class Stage:
    """A bench, a proxy in front of its server, and a store that goes through it."""

    def __init__(self, bench: PostgresBench, proxy: TcpProxy, store: PostgresStore) -> None:
        self.bench = bench
        self.proxy = proxy
        self.store = store

    async def record(self, name: str = "1") -> TransactionRecord | None:
        """A record, as somebody else reads it."""
        store = await self.bench.open()
        found = await store.get(TransactionRecord, TENANT, f"txn_{name}")
        return None if found is None else found.document

    async def confirmations(self) -> Any:
        """When a commit was last confirmed by another one."""

        async def ask(connection: Any) -> Any:
            return await connection.fetchval("SELECT confirmed_at FROM amends.store")

        return await asyncio.to_thread(
            self.bench.server.ask, self.bench.database.superuser_url, ask
        )


@asynccontextmanager
async def stage(server: PostgresServer, patience_s: float = 10) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        bench = await stack.enter_async_context(PostgresBench(server))
        proxy = await stack.enter_async_context(TcpProxy(server.port))
        store = await open_postgres(proxy.beside(bench.database.url), patience_s=patience_s)
        stack.push_async_callback(store.close)
        yield Stage(bench, proxy, store)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-03")
@pytest.mark.parametrize("cut", CUTS)
async def test_an_insert_whose_commit_is_cut_is_accepted_and_there_once(
    postgres_server: PostgresServer, cut: Cut
) -> None:
    async with stage(postgres_server) as on:
        before = await on.confirmations()
        on.proxy.cut_next(cut)
        await commit(on.store, Insert(a_transaction()), links(2))
        assert on.proxy.cuts == 1
        assert await on.record() == a_transaction()
        assert len(await on.store.receipts(TENANT, chain_named("1"))) == 2
        assert (await on.confirmations() > before) is (cut is Cut.AFTER_COMMIT)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-02")
@pytest.mark.parametrize("cuts", [(*CUTS, *CUTS), CUTS[::-1], (Cut.BEFORE_COMMIT,) * 3])
async def test_a_replacement_moves_one_revision_however_often_its_commit_is_cut(
    postgres_server: PostgresServer, cuts: tuple[Cut, ...]
) -> None:
    async with stage(postgres_server) as on:
        record = a_transaction()
        await commit(on.store, Insert(record))
        on.proxy.cut_next(*cuts)
        await commit(on.store, Replace(changed(record)))
        assert on.proxy.cuts == len(cuts)  # those that look a COMMIT up are cut as well
        assert await on.record() == changed(record)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01")
@pytest.mark.parametrize("cut", CUTS)
async def test_each_change_set_of_a_batch_keeps_its_verdict_when_the_commit_is_cut(
    postgres_server: PostgresServer, cut: Cut
) -> None:
    async with stage(postgres_server) as on:
        await commit(on.store, Insert(a_transaction("there")))
        on.proxy.cut_next(cut)
        sets = (
            Insert(a_transaction("a")),
            Insert(a_transaction("there")),
            Insert(a_transaction("a")),
            Replace(changed(a_transaction("a"))),
        )
        answers = await asyncio.gather(
            *(on.store.commit(ChangeSet(changes=(one,))) for one in sets)
        )
        short = [one if isinstance(one, Lost) else True for one in answers]
        assert short == [True, Lost(0, Loss.EXISTS), Lost(0, Loss.EXISTS), True]
        assert await on.record("a") == changed(a_transaction("a"))


@pytest.mark.case("DBC-03")
async def test_a_commit_that_never_arrived_loses_to_whoever_was_faster_meanwhile(
    postgres_server: PostgresServer,
) -> None:
    async with stage(postgres_server) as on:
        record = a_transaction()
        await commit(on.store, Insert(record))
        on.proxy.cut_next(Cut.BEFORE_COMMIT)
        on.proxy.refusing = True
        waiting = asyncio.ensure_future(
            on.store.commit(ChangeSet(changes=(Replace(changed(record)),)))
        )
        await _eventually(lambda: on.proxy.cuts)
        faster = await on.bench.open()
        await commit(faster, Replace(changed(record, attention="faster")))
        on.proxy.refusing = False
        assert await waiting == Lost(0, Loss.REVISION)
        found = await on.record()
        assert found is not None
        assert found.attention == "faster"


@pytest.mark.fault(16)
@pytest.mark.case("DBC-03")
async def test_the_very_same_written_by_another_is_not_taken_for_what_never_arrived(
    postgres_server: PostgresServer,
) -> None:
    async with stage(postgres_server) as on:
        same = ChangeSet(changes=(Insert(a_transaction()), links(2)))
        on.proxy.cut_next(Cut.BEFORE_COMMIT)
        on.proxy.refusing = True
        waiting = asyncio.ensure_future(on.store.commit(same))
        await _eventually(lambda: on.proxy.cuts)
        assert isinstance(await (await on.bench.open()).commit(same), Accepted)
        on.proxy.refusing = False
        assert await waiting == Lost(0, Loss.EXISTS)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01")
@pytest.mark.parametrize("cut", CUTS)
async def test_a_commit_that_cannot_be_looked_up_is_unknown_and_said_to_be(
    postgres_server: PostgresServer, cut: Cut
) -> None:
    async with stage(postgres_server, patience_s=0.3) as on:
        on.proxy.cut_next(cut)
        on.proxy.refusing = True
        error = await error_of(on.store.commit(ChangeSet(changes=(Insert(a_transaction()),))))
        assert isinstance(error, Unavailable)
        assert error.code == "store.commit_unknown"
        on.proxy.refusing = False
        applied = await on.record() is not None
        assert applied is (cut is Cut.AFTER_COMMIT)


async def test_what_others_have_written_over_since_is_still_known_to_have_been_committed(
    postgres_server: PostgresServer,
) -> None:
    async with stage(postgres_server) as on:
        record = a_transaction()
        await commit(on.store, Insert(record))
        on.proxy.cut_next(Cut.AFTER_COMMIT)
        on.proxy.refusing = True
        waiting = asyncio.ensure_future(
            on.store.commit(ChangeSet(changes=(Replace(changed(record)),)))
        )
        await _eventually(lambda: on.proxy.cuts)
        other = await on.bench.open()
        for _ in range(100):
            answer = await other.commit(ChangeSet(changes=(Replace(changed(changed(record))),)))
            if isinstance(answer, Accepted):
                break
            await asyncio.sleep(0.01)
        on.proxy.refusing = False
        assert isinstance(await waiting, Accepted)
        assert await on.record() == changed(changed(record))


@pytest.mark.case("DBC-05")
async def test_a_connection_that_was_cut_is_never_used_again_and_nothing_acknowledged_is_lost(
    postgres_server: PostgresServer,
) -> None:
    async with stage(postgres_server) as on:
        accepted = []
        for number in range(40):
            if number % 4 == 0:
                on.proxy.cut_next(CUTS[number // 4 % 2])
            if number % 7 == 0:
                on.proxy.cut_all()
            record = a_transaction(str(number))
            answer = await on.store.commit(ChangeSet(changes=(Insert(record),)))
            assert isinstance(answer, Accepted)
            accepted.append(record.transaction_id)
        page = await (await on.bench.open()).list(TransactionRecord, TENANT, limit=100)
        assert len(page.items) == len(accepted) == 40


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-03")
async def test_a_statement_that_still_runs_when_it_is_looked_up_is_ended_and_never_carried_out(
    postgres_server: PostgresServer,
) -> None:
    """It waits for a row that somebody holds while its client goes away."""
    async with stage(postgres_server) as on:
        record = a_transaction()
        await commit(on.store, Insert(record), links())
        holder, watcher = [await asyncpg.connect(on.bench.database.superuser_url) for _ in range(2)]
        try:
            await holder.execute("BEGIN; SELECT 1 FROM amends.transactions FOR UPDATE")
            again = links(1, tail=tail_of(links()))
            changes = (Replace(changed(record)), again)
            waiting = asyncio.ensure_future(on.store.commit(ChangeSet(changes=changes)))
            waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            lost = await found(lambda: watcher.fetchval(waits))
            on.proxy.cut_all()
            gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)"
            await found(lambda: watcher.fetchval(gone, lost))
            assert not waiting.done()
            await holder.execute("COMMIT")
        finally:
            await holder.close()
            await watcher.close()
        assert isinstance(await waiting, Accepted)
        assert await on.record() == changed(record)
        assert len(await on.store.receipts(TENANT, chain_named("1"))) == 2


async def found(ask: Callable[[], Awaitable[object]]) -> object:
    """What it says once that is something."""
    for _ in range(1000):
        if said := await ask():
            return said
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def _eventually(holds: Callable[[], object]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")
