"""Recovery over a store on a server: at a pace, in turns, past what always fails, and woken."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.enums import Status
from amends.contracts.ids import TenantId
from amends.contracts.notices import Notice
from amends.recovery.notifying import Notifier
from amends.recovery.pacing import Pace
from amends.recovery.sweeper import Sweeper
from amends.stores.postgres import open_postgres
from amends.testing.clock import FixedClock
from amends.testing.pgbouncer import PgBouncer
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.tcp_proxy import TcpProxy
from amends.testing.workbench import ALICE, Workbench
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action, ask, claim

CHANNEL: Final = "amends_news"
OTHER: Final = replace(ALICE, tenant=TenantId("other"))


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    database = postgres_server.lend()
    yield database
    postgres_server.take_back(database)


# ── after an outage ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.fault(25, 27)
async def test_after_an_outage_each_tenant_is_looked_up_at_its_own_pace(database: Database) -> None:
    """One bucket for each provider and tenant: a long backlog floods nobody, and delays nobody."""
    whose: list[str] = []

    async def looked_up(attempt: Attempt) -> object:
        whose.append(attempt.tenant)
        return DONE

    desk = Desk([UNSURE], reconcile=[looked_up])
    async with Workbench(served=[desk.served()], database=database.url) as bench:
        for _ in range(9):
            await ask(bench, action())
        for _ in range(2):
            await ask(bench, action(), principal=OTHER)
        bench.wait(5)
        sweeper = Sweeper(bench.engine, batch=4, pace=Pace(burst=3, per_s=2))
        first = (await sweeper.sweep()).reconciled
        assert first <= 4
        assert "other" in whose
        found = [first]
        for _ in range(8):
            found.append((await sweeper.sweep()).reconciled)
            bench.wait(1)
        assert sum(found) == 11
        assert max(found) <= 4


@pytest.mark.fault(26)
async def test_what_always_fails_is_left_alone_and_keeps_nobody_from_being_found(
    database: Database,
) -> None:
    async def mixed(attempt: Attempt) -> object:
        if attempt.transaction_id == "txn_poison":
            raise RuntimeError("always")
        return DONE

    desk = Desk([UNSURE], reconcile=[mixed])
    async with Workbench(served=[desk.served()], database=database.url) as bench:
        for name in ("poison", "one", "two"):
            await ask(bench, action(transaction=f"txn_{name}"))
        for seconds in (5, 600, 3_600, 7_200, 86_400, 86_400, 86_400, 86_400):
            bench.wait(seconds)
            await bench.sweep()
        poison = await bench.record("txn_poison")
        assert poison.status is Status.OUTCOME_UNKNOWN
        for name in ("txn_one", "txn_two"):
            assert (await bench.record(name)).status is Status.RECONCILED


@pytest.mark.fault(26)
async def test_a_row_that_cannot_be_read_keeps_no_lapsed_lease_waiting(
    database: Database, postgres_server: PostgresServer
) -> None:
    async with Workbench(served=[Desk().served()], database=database.url) as bench:
        for name in ("poison", "fine"):
            await claim(bench, action(transaction=f"txn_{name}"))

        async def spoil(connection: Any) -> None:
            await connection.execute(
                "UPDATE amends.transactions SET body = '{' WHERE id = 'txn_poison'"
            )

        await asyncio.to_thread(postgres_server.ask, database.superuser_url, spoil)
        bench.wait(36)
        sweeper = Sweeper(bench.engine, batch=1)
        assert (await sweeper.sweep()).lapsed == 1
        assert (await sweeper.sweep()).total == 0
        assert (await bench.record("txn_fine")).status is Status.OUTCOME_UNKNOWN


# ── woken ────────────────────────────────────────────────────────────────────────────────────────


class Ear:
    """A channel that remembers when it was told."""

    name = "ear"

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def tell(self, notice: Notice) -> None:
        self.told.set()


@asynccontextmanager
async def noticing(url: str, poll_s: float) -> AsyncIterator[Ear]:
    """Notices of a store are passed on by a replica of their own while the block lasts."""
    store, ear = await open_postgres(url), Ear()
    running = asyncio.create_task(Notifier(store, ear, poll_s=poll_s).run())
    await asyncio.sleep(0.5)  # until it listens
    try:
        yield ear
    finally:
        running.cancel()
        await asyncio.wait([running])
        await store.close()


def guarded(database: Database) -> Workbench:
    served = Desk().served(approval=ApprovalPolicy(reason="Two people look at payments."))
    return Workbench(served=[served], database=database.url, clock=FixedClock(datetime.now(UTC)))


@pytest.mark.rule("AP-3")
async def test_people_are_told_of_a_request_as_soon_as_another_replica_has_made_it(
    database: Database,
) -> None:
    async with guarded(database) as bench, noticing(database.url, poll_s=60) as ear:
        await ask(bench, action())
        await asyncio.wait_for(ear.told.wait(), 10)


@pytest.mark.rule("AP-3")
async def test_where_the_word_is_lost_people_are_told_at_the_next_poll(
    database: Database, postgres_server: PostgresServer
) -> None:
    async with (
        TcpProxy(postgres_server.port) as proxy,
        guarded(database) as bench,
        noticing(proxy.beside(database.url), poll_s=1.5) as ear,
    ):
        proxy.cut_all()
        await ask(bench, action())
        await asyncio.wait_for(ear.told.wait(), 20)


@pytest.mark.rule("AP-3")
async def test_behind_a_pooler_people_are_told_at_the_next_poll(
    database: Database, pgbouncer: PgBouncer
) -> None:
    pooled = pgbouncer.before(database.url)
    async with guarded(database) as bench, noticing(pooled, poll_s=1) as ear:
        await ask(bench, action())
        await asyncio.wait_for(ear.told.wait(), 20)


async def test_what_listeners_hear_holds_nothing_of_anybody(database: Database) -> None:
    heard: list[object] = []

    def hear(_connection: object, _pid: int, channel: str, payload: object) -> None:
        heard.append((channel, payload))

    connection = await asyncpg.connect(database.url)
    try:
        async with guarded(database) as bench:
            await connection.add_listener(CHANNEL, hear)
            await ask(bench, action())
            await asyncio.sleep(0.5)
    finally:
        await connection.close()
    assert set(heard) == {(CHANNEL, "")}
