"""Connections that are lent: one that ended in an error or in a transaction is never lent again."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from amends.stores.postgres.address import address_of
from amends.stores.postgres.connection import Connections, Terms
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer


async def _lend(connections: Connections, statement: str = "SELECT 1") -> Any:
    """The process behind a connection that ran this and was given back."""
    async with connections.lent() as connection:
        process = connection.get_server_pid()
        await connection.execute(statement)
    return process


async def _is_gone(bench: PostgresBench, process: int) -> bool:
    async def ask(connection: Any) -> Any:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
        return await connection.fetchval(asked, process)

    for _ in range(100):
        if not await asyncio.to_thread(bench.server.ask, bench.database.superuser_url, ask):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_a_connection_is_lent_again_unless_it_ended_in_an_error_or_in_a_transaction(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await bench.open()
        connections = Connections(Terms(address=address_of(bench.database.url)), 1)
        first = await _lend(connections)
        assert await _lend(connections) == first
        assert await _lend(connections, "BEGIN") == first
        second = await _lend(connections)
        assert second != first
        assert await _is_gone(bench, first)
        with pytest.raises(asyncpg.PostgresError):
            await _lend(connections, "SELECT 1 / 0")
        assert await _lend(connections) != second
        assert await _is_gone(bench, second)
        await connections.close()


@pytest.mark.fault(18)
async def test_the_servers_time_is_forgotten_with_a_connection_and_when_one_is_made(
    postgres_server: PostgresServer,
) -> None:
    """The next answer may come from another server."""
    async with PostgresBench(postgres_server) as bench:
        await bench.open()
        terms = Terms(address=address_of(bench.database.url))
        connections = Connections(terms, 2)

        def hear() -> None:
            terms.time.hear(datetime.now(UTC), terms.time.ticks())
            assert terms.time.carried() is not None

        await _lend(connections)
        hear()
        await _lend(connections)
        assert terms.time.carried() is not None
        async with connections.lent():
            await _lend(connections)  # a second one, which has to be made
            assert terms.time.carried() is None
        hear()
        with pytest.raises(asyncpg.PostgresError):
            await _lend(connections, "SELECT 1 / 0")
        assert terms.time.carried() is None
        await connections.close()


async def test_a_connection_whose_user_is_cancelled_is_ended(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await bench.open()
        connections = Connections(Terms(address=address_of(bench.database.url)), 1)
        first = await _lend(connections)
        asking = asyncio.ensure_future(_lend(connections, "BEGIN; SELECT pg_sleep(60)"))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await _lend(connections) != first
        await connections.close()
