"""A connection that is cut in mid COMMIT, at every write of a charge and its refund: one effect.

Once the connection to the server is cut, and where a pooler stands between, on either side of it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest

from amends.testing.errands import AnyErrand, Commit, Compensate, Plan, run_errand
from amends.testing.pgbouncer import PgBouncer
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.tcp_proxy import Cut, TcpProxy
from amends.testing.till import Setup, open_till
from tests.acceptance.children import effects, status

ERRANDS: tuple[AnyErrand, ...] = (
    Plan(action_id="act_plan", transaction_id="txn_1"),
    Commit(action_id="act_commit", plan_id="plan:txn_1"),
    Compensate(action_id="act_undo", transaction_id="txn_2", target="act_commit"),
)
MOST = 60
"""More than the errands have COMMITs; where a pooler stands between, questions end with one too."""

Where: TypeAlias = Literal["to the server", "to the pooler", "behind the pooler"]
STEPS: Final[dict[Where, int]] = {"to the server": 1, "to the pooler": 4, "behind the pooler": 4}
"""At every how-manieth COMMIT one is cut: where there are so many, a part of them is enough."""


@pytest.mark.fault(16)
@pytest.mark.case("DBC-01", "DBC-02")
@pytest.mark.rule("TX-CLAIM-1")
@pytest.mark.parametrize("where", list(STEPS))
@pytest.mark.parametrize("cut", list(Cut))
async def test_a_cut_at_any_write_of_a_charge_and_its_refund_doubles_and_loses_nothing(
    postgres_server: PostgresServer, tmp_path: Path, cut: Cut, where: Where
) -> None:
    """The first cut is at the first write, the next one later on, until there is none to cut."""
    counted, places = 0, range(0, MOST, STEPS[where])
    for spared in places:
        database = postgres_server.lend()
        folder = tmp_path / str(spared)
        folder.mkdir()
        async with way(postgres_server, database, where) as (proxy, url):
            setup = Setup(
                store=f"{url}{'&' if '?' in url else '?'}folder={folder}",
                ledger=str(folder / "provider.jsonl"),
            )
            async with open_till(setup) as till:
                proxy.cut_next(cut, spare=spared)
                answers = [await run_errand(till, errand) for errand in ERRANDS]
                assert [answer.code for answer in answers] == [None] * 3
                assert await status(till, "txn_2") == "compensated"
                assert await till.check() == []
            assert (effects(setup, "charge"), effects(setup, "refund")) == (1, 1)
            counted += proxy.cuts
        postgres_server.take_back(database)
        if not proxy.cuts:
            break
    assert counted == places.index(spared) >= 6


@asynccontextmanager
async def way(
    server: PostgresServer, database: Database, where: Where
) -> AsyncIterator[tuple[TcpProxy, str]]:
    """A way to the server with a proxy on it, and the URL of the database by that way."""
    match where:
        case "to the server":
            async with TcpProxy(server.port) as proxy:
                yield proxy, proxy.beside(database.url)
        case "to the pooler":
            with PgBouncer(server.port) as pooler:
                pooler.warm(database.url)
                async with TcpProxy(pooler.port) as proxy:
                    yield proxy, proxy.beside(pooler.before(database.url))
        case "behind the pooler":
            async with TcpProxy(server.port) as proxy:
                with PgBouncer(proxy.port) as pooler:
                    there = proxy.beside(database.url)
                    await asyncio.to_thread(pooler.warm, there)
                    yield proxy, pooler.before(there)
