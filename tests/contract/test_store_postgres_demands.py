"""What the PostgreSQL store asks of its server, of its role, and of whoever opens it."""

import asyncio
from typing import Any

import pytest

from amends.contracts.documents import TransactionRecord
from amends.contracts.errors import AmendsError, Misuse, Unavailable
from amends.stores.port import Insert
from amends.stores.postgres import open_postgres
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import ROLE, Database, PostgresServer, run_apart
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import TENANT, a_transaction


def ask(database: Database, server: PostgresServer, sql: str) -> None:
    async def execute(connection: Any) -> None:
        await connection.execute(sql)

    server.ask(database.superuser_url, execute)


async def test_a_role_or_a_database_that_loses_commits_is_refused(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.lend()
    for where in (f"DATABASE {database.name}", "ROLE amends_app"):
        ask(database, postgres_server, f"ALTER {where} SET synchronous_commit = off")
        try:
            error = await error_of(open_postgres(database.url))
            assert isinstance(error, Unavailable)
            assert (error.code, error.details["setting"]) == (
                "store.not_durable",
                "synchronous_commit",
            )
            switch = "?dangerously_allow_losing_commits=true"
            await (await open_postgres(database.url + switch)).close()
        finally:
            ask(database, postgres_server, f"ALTER {where} RESET synchronous_commit")
    await (await open_postgres(database.url)).close()
    postgres_server.take_back(database)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_a_server_that_loses_commits_is_refused(setting: str) -> None:
    with PostgresServer({setting: "off"}) as server:
        error = await error_of(open_postgres(server.lend().url))
        assert (error.code, error.details["setting"]) == ("store.not_durable", setting)


@pytest.mark.parametrize("attribute", ["SUPERUSER", "BYPASSRLS"])
async def test_a_role_for_which_tenants_are_not_kept_apart_is_refused(
    postgres_server: PostgresServer, attribute: str
) -> None:
    """Refused in each connection, so also when the role gets the attribute later."""
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()
        url = bench.database.url
        ask(bench.database, postgres_server, f"ALTER ROLE {ROLE} {attribute}")
        try:
            error = await error_of(open_postgres(url))
            assert (type(error), error.code) == (Unavailable, "store.role_bypasses_tenants")
            assert (await error_of(store.list(TransactionRecord, TENANT))).code == error.code
            switch = "?dangerously_allow_bypassing_tenants=true"
            await (await open_postgres(url + switch)).close()
        finally:
            ask(bench.database, postgres_server, f"ALTER ROLE {ROLE} NO{attribute}")
        await (await open_postgres(url)).close()


async def test_a_server_that_takes_no_writes_is_not_taken_for_the_primary(
    postgres_server: PostgresServer,
) -> None:
    """Also where everything could be read there."""
    async with PostgresBench(postgres_server) as bench:
        await bench.open()
        where = f"DATABASE {bench.database.name}"
        ask(
            bench.database, postgres_server, f"ALTER {where} SET default_transaction_read_only = on"
        )
        try:
            error = await error_of(open_postgres(bench.database.url))
            assert (type(error), error.code) == (Unavailable, "store.unavailable")
        finally:
            reset = f"BEGIN READ WRITE; ALTER {where} RESET default_transaction_read_only; COMMIT"
            ask(bench.database, postgres_server, reset)
        await (await open_postgres(bench.database.url)).close()


async def test_a_server_that_cannot_be_reached_is_unavailable_and_says_no_password() -> None:
    error = await error_of(open_postgres("postgresql://me:canary@127.0.0.1:1/none"))
    assert isinstance(error, Unavailable)
    assert error.code == "store.unavailable"
    assert "canary" not in repr((error, error.details, str(error)))


async def test_a_switch_that_is_neither_true_nor_false_is_misuse() -> None:
    error = await error_of(open_postgres("postgresql://127.0.0.1/none?pooled=yes"))
    assert (type(error), error.code) == (Misuse, "store.url_unknown")


@pytest.mark.fault(18)
@pytest.mark.rule("TX-LEASE-3")
async def test_a_changed_timeline_is_refused_unless_every_commit_had_waited_for_a_standby(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        await commit(await bench.open(), Insert(a_transaction()))
        for synchronous, code in ((False, "store.timeline_changed"), (True, None)):
            ask(
                bench.database,
                postgres_server,
                f"UPDATE amends.store SET timeline = 99, synchronous = {synchronous}",
            )
            if code is None:
                await (await open_postgres(bench.database.url)).close()
            else:
                error = await error_of(open_postgres(bench.database.url))
                assert error.code == code
        await (await open_postgres(bench.database.url)).close()


async def test_a_store_belongs_to_the_loop_it_was_opened_in(
    postgres_server: PostgresServer,
) -> None:
    async with PostgresBench(postgres_server) as bench:
        store = await bench.open()

        async def elsewhere() -> AmendsError:
            return await error_of(store.get(TransactionRecord, TENANT, "txn_1"))

        error = await asyncio.to_thread(run_apart, elsewhere)
        assert error.code == "store.foreign_loop"
