"""What became of a lost COMMIT, asked of a real server about transactions that are made here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg
import pytest
from msgspec.structs import replace

from amends.stores.port import ChangeSet, Insert, Replace
from amends.stores.postgres.address import Address, address_of
from amends.stores.postgres.connection import check_timeline
from amends.stores.postgres.statements import WRITE, begin, write
from amends.stores.postgres.truth import Fate, Sent, commit, find_out
from amends.stores.postgres.verdicts import Effects
from amends.stores.postgres.writes import Prepared, prepare
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_contract_trial import commit as commit_set
from amends.testing.store_documents import TENANT, a_transaction, changed, links, tail_of
from tests.contract.test_store_postgres_commits import found

REPLACED: Final = prepare(ChangeSet(changes=(Replace(changed(a_transaction())),)))
WITH_RECEIPT: Final = prepare(
    ChangeSet(changes=(Replace(changed(a_transaction())), links(1, tail=tail_of(links()))))
)
OVER: Final = ChangeSet(changes=(Replace(changed(changed(a_transaction()))),))
THERE: Final = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)"
WAITS: Final = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"


class Lost:
    """A connection whose answers are not heard, one that asks, and one that looks on."""

    def __init__(self, bench: PostgresBench, address: Address, *connections: Any) -> None:
        self.bench = bench
        self.address = address
        self.gone, self.asking, self.other = connections

    async def sent(self, prepared: Prepared, token: UUID, xact: str) -> Sent:
        """What is known of a transaction of the connection that is lost."""
        standing = await check_timeline(self.asking)
        effects = Effects({}, [], {})
        effects.add(prepared.steps, {})
        pid, began = await self.other.fetchrow(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = $1",
            self.gone.get_server_pid(),
        )
        timeline, tenants = standing.timeline, frozenset([TENANT])
        return Sent(token, xact, pid, None if xact else began, timeline, tenants, effects)

    async def in_mid_air(self, prepared: Prepared = REPLACED) -> Sent:
        """A transaction that has written, and waits for its client."""
        token = uuid4()
        await self.gone.execute(begin([TENANT]))
        values = write([TENANT], token, prepared.rows, prepared.receipts, now=None)
        at, xact, *_ = await self.gone.fetchrow(WRITE, *values)
        assert at is not None
        return await self.sent(prepared, token, xact)

    async def find(self, sent: Sent) -> tuple[Fate, datetime | None]:
        return await find_out(self.asking, sent, self.address)

    async def is_there(self, sent: Sent) -> bool:
        return bool(await self.asking.fetchval(THERE, sent.pid))


@asynccontextmanager
async def lost(server: PostgresServer) -> AsyncIterator[Lost]:
    async with PostgresBench(server) as bench:
        await commit_set(await bench.open(), Insert(a_transaction()), links())
        role, superuser = bench.database.url, bench.database.superuser_url
        connections = [await asyncpg.connect(url) for url in (role, role, superuser)]
        try:
            yield Lost(bench, address_of(role), *connections)
        finally:
            for one in connections:
                one.terminate()


@pytest.mark.fault(16)
@pytest.mark.case("DBC-03")
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_what_was_written_over_since_is_known_by_its_number_on_its_own_timeline_only(
    postgres_server: PostgresServer, end: str
) -> None:
    async with lost(postgres_server) as on:
        sent = await on.in_mid_air()
        await on.gone.execute(end)
        store = await on.bench.open()
        if end == "ROLLBACK":
            await commit_set(store, Replace(changed(a_transaction())))
        await store.commit(OVER)
        expected = Fate.COMMITTED if end == "COMMIT" else Fate.NEVER
        assert await on.find(sent) == (expected, None)
        assert await on.find(replace(sent, timeline=sent.timeline + 1)) == (Fate.UNKNOWN, None)


@pytest.mark.fault(16)
async def test_a_number_that_this_server_never_gave_out_says_nothing(
    postgres_server: PostgresServer,
) -> None:
    async with lost(postgres_server) as on:
        sent = await on.in_mid_air()
        await on.gone.execute("COMMIT")
        await (await on.bench.open()).commit(OVER)
        later = await on.sent(REPLACED, sent.token, "9" * 15)
        assert await on.find(later) == (Fate.UNKNOWN, None)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-03")
async def test_a_transaction_that_waits_for_its_client_is_ended_before_it_is_called_never(
    postgres_server: PostgresServer,
) -> None:
    async with lost(postgres_server) as on:
        sent = await on.in_mid_air()
        assert await on.find(sent) == (Fate.NEVER, None)
        assert not await on.is_there(sent)


async def test_a_process_that_has_another_transaction_by_now_is_left_alone(
    postgres_server: PostgresServer,
) -> None:
    async with lost(postgres_server) as on:
        sent = await on.in_mid_air()
        held = await asyncpg.connect(on.bench.database.url)
        await held.execute("BEGIN")
        other = await held.fetchval("SELECT pg_current_xact_id()::text")
        mixed = await on.sent(REPLACED, sent.token, other)
        assert await on.find(mixed) == (Fate.UNKNOWN, None)
        assert await on.is_there(sent)
        held.terminate()


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-03")
async def test_a_lone_statement_is_called_never_only_once_its_process_is_gone(
    postgres_server: PostgresServer,
) -> None:
    """It waits for a row, and would go on as soon as it has it."""
    async with lost(postgres_server) as on:
        await on.other.execute("BEGIN; SELECT 1 FROM amends.transactions FOR UPDATE")
        token = uuid4()
        values = write([TENANT], token, WITH_RECEIPT.rows, WITH_RECEIPT.receipts, now=None)
        sent = await on.sent(WITH_RECEIPT, token, "")
        waiting = asyncio.ensure_future(on.gone.fetchrow(WRITE, *values))
        await found(lambda: on.asking.fetchval(WAITS, sent.pid))
        assert await on.find(sent) == (Fate.NEVER, None)
        assert not await on.is_there(sent)
        await on.other.execute("COMMIT")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await waiting


async def test_a_process_of_the_same_number_that_began_at_another_time_is_left_alone(
    postgres_server: PostgresServer,
) -> None:
    async with lost(postgres_server) as on:
        sent = await on.sent(WITH_RECEIPT, uuid4(), "")
        began = await on.other.fetchval("SELECT $1::timestamptz - interval '1 h'", sent.began)
        assert await on.find(replace(sent, began=began)) == (Fate.NEVER, None)
        assert await on.is_there(sent)


@pytest.mark.fault(16)
@pytest.mark.case("DBC-03")
@pytest.mark.parametrize("mine", [True, False])
async def test_a_receipt_in_its_place_counts_only_with_the_transactions_token(
    postgres_server: PostgresServer, *, mine: bool
) -> None:
    async with lost(postgres_server) as on:
        written = await on.in_mid_air(WITH_RECEIPT)
        await on.gone.execute("COMMIT")
        sent = await on.sent(WITH_RECEIPT, written.token if mine else uuid4(), "")
        said = "SELECT confirmed_at FROM amends.store"
        before = await on.other.fetchval(said)
        fate, at = await on.find(sent)
        assert fate is (Fate.COMMITTED if mine else Fate.NEVER)
        assert (at is not None) is mine
        # What is there is confirmed by a commit that waits for what every commit waits for.
        assert (await on.other.fetchval(said) > before) is mine


async def test_a_commit_that_the_server_answers_with_rollback_is_not_taken_for_durable(
    postgres_server: PostgresServer,
) -> None:
    async with lost(postgres_server) as on:
        await on.gone.execute("BEGIN")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await on.gone.execute("SELECT 1 / 0")
        assert not await commit(on.gone)
        await on.gone.execute("BEGIN")
        assert await commit(on.gone)
