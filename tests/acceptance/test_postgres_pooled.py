"""Behind a real pgbouncer in transaction mode: what replicas do with each other, and commands."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from amends.app.amends import Amends
from amends.contracts.principals import Principal
from amends.stores.postgres.survey import PostgresSurvey
from amends.testing.errands import Commit, Compensate, Execute, Plan, run_errand
from amends.testing.pgbouncer import PgBouncer
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.till import Setup, open_till
from amends.testing.workbench import CHARGE
from tests.acceptance.children import effects, status
from tests.acceptance.test_races import IN_PROGRESS, LOSSES
from tests.unit.runtime.desk import Desk
from tests.unit.wiring.store_files import BOB, ORDER

pytestmark = pytest.mark.case("QUE-02")


@pytest.fixture
def database(postgres_server: PostgresServer, pgbouncer: PgBouncer) -> Iterator[Database]:
    database = postgres_server.lend()
    pgbouncer.warm(database.url)
    yield database
    postgres_server.take_back(database)


@pytest.fixture
def url(database: Database, pgbouncer: PgBouncer, tmp_path: Path) -> str:
    return pgbouncer.before(f"{database.url}?folder={tmp_path}")


async def test_a_client_meets_another_process_of_the_server_in_its_next_transaction(
    database: Database, pgbouncer: PgBouncer
) -> None:
    url = pgbouncer.before(database.url).partition("?")[0]
    client = await asyncpg.connect(url, statement_cache_size=0)
    met = []
    for _ in range(4):
        await client.execute("BEGIN")
        met.append(await client.fetchval("SELECT pg_backend_pid()"))
        await client.execute("COMMIT")
    await client.close()
    assert len(set(met)) > 1
    assert all(one != other for one, other in pairwise(met))


async def test_replicas_that_want_the_same_plans_carry_each_out_once_and_refund_it(
    url: str, tmp_path: Path
) -> None:
    setup = Setup(store=url, ledger=str(tmp_path / "provider.jsonl"))
    async with open_till(setup) as here, open_till(setup) as there:
        numbers = range(12)
        for number in numbers:
            await run_errand(here, Plan(action_id=f"act_p{number}", transaction_id=f"txn_{number}"))
        answers = await asyncio.gather(
            *(
                run_errand(till, Commit(action_id=f"act_{n}_{name}", plan_id=f"plan:txn_{n}"))
                for n in numbers
                for name, till in (("a", here), ("b", there))
            )
        )
        codes = [one.code for one in answers]
        assert codes.count(None) == len(numbers)
        assert set(codes) <= {None, *LOSSES}
        done = next(one.action_id for one in answers if one.code is None)
        assert done is not None
        refund = Compensate(action_id="act_undo", transaction_id="txn_undo", target=done)
        assert (await run_errand(there, refund)).code is None
        again = await asyncio.gather(
            *(run_errand(till, Execute(action_id="act_x", key="k")) for till in (here, there))
        )
        assert {one.code for one in again} <= {None, *IN_PROGRESS}
        assert await status(here, "txn_undo") == "compensated"
        assert await here.check() == []
    assert (effects(setup, "charge"), effects(setup, "refund")) == (len(numbers) + 1, 1)


async def test_who_waits_for_a_decision_hears_of_it_at_a_poll(url: str) -> None:
    """Nothing is listened to, so polling is all there is."""
    desk = Desk()
    async with (
        Amends.open(url, [desk.served()], recover=False) as asking,
        Amends.open(url, [desk.served()], recover=False) as deciding,
    ):
        ann = asking.acting_as(Principal.named("ann"))
        waiting = await ann.execute(CHARGE, ORDER, approval_required=True)
        wait = asyncio.create_task(ann.wait_for_approval(waiting, timeout_s=20))
        await asyncio.sleep(0.3)
        assert not wait.done()
        await deciding.acting_as(BOB).approve(waiting)
        assert (await wait).status == "committed"


def test_what_is_asked_across_tenants_leaves_nothing_in_any_session(
    url: str, database: Database, pgbouncer: PgBouncer
) -> None:
    async def run() -> None:
        async with Amends.open(url, [Desk().served()], recover=False) as amends:
            await amends.execute(CHARGE, ORDER, transaction_id="txn_1")

    asyncio.run(run())
    with PostgresSurvey(url) as survey:
        assert len(list(survey.chains())) == 1
        with survey.logbook() as book:
            assert book.count() > 1

        async def rows_without_a_tenant() -> set[int]:
            pooled = pgbouncer.before(database.url).partition("?")[0]
            client = await asyncpg.connect(pooled, statement_cache_size=0)
            seen = set()
            for _ in range(6):
                await client.execute("BEGIN")
                seen.add(await client.fetchval("SELECT count(*) FROM amends.receipts"))
                await client.execute("COMMIT")
            await client.close()
            return seen

        assert asyncio.run(rows_without_a_tenant()) == {0}
