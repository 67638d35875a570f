"""Two real servers, the second a copy of the first: the first dies and the second takes over."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from amends.stores.port import Change, Insert
from amends.stores.postgres import open_postgres
from amends.testing.chaos_runtime import ChaosRuntime
from amends.testing.effects import FileLedger
from amends.testing.errands import Answer, Commit, Execute, Plan, run_errand
from amends.testing.postgres_server import Database, PostgresServer
from amends.testing.reckoning import doubled, lost, recover, unended
from amends.testing.refusals import refused_with
from amends.testing.snapshots import take_snapshot
from amends.testing.store_contract_trial import commit, error_of
from amends.testing.store_documents import a_transaction, links
from amends.testing.till import Setup, open_till
from amends.wiring.places import OnServer
from amends.wiring.server_upkeep import go_on_after_restore
from tests.acceptance.children import effects

STANDBY: Final = "standby"
RUNTIMES: Final = 2
AT_ONCE: Final = 8
PATIENCE_S: Final = 30.0


class Pair(NamedTuple):
    """A primary, its standby, and a store that knows both addresses."""

    primary: PostgresServer
    standby: PostgresServer
    database: Database
    setup: Setup

    def ask(self, sql: str) -> Any:
        """What the primary answers to a superuser."""

        async def question(connection: Any) -> Any:
            return await connection.fetchval(sql)

        return self.primary.ask(self.database.superuser_url, question)

    def ask_standby(self, sql: str) -> Any:
        """What the standby answers to a superuser."""

        async def question(connection: Any) -> Any:
            return await connection.fetchval(sql)

        return self.standby.ask(self.standby.url_of("postgres", "postgres"), question)

    def is_level(self) -> bool:
        """Whether the standby has everything by now."""
        replayed = "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication"
        return bool(self.ask(replayed))

    def fail_over(self) -> None:
        """End the primary as in a crash and make the standby one."""
        self.primary.stop(signal.SIGQUIT)
        self.standby.promote()


@contextmanager
def pair(folder: Path, *, synchronous: bool) -> Iterator[Pair]:
    with PostgresServer() as primary:
        standby = PostgresServer()
        try:
            standby.follow(primary, STANDBY)
            standby.start()
            database = primary.lend()
            # The standby is named first, and not asked all the same.
            both = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
            url = database.url.replace(f"127.0.0.1:{primary.port}", both)
            setup = Setup(
                store=f"{url}?folder={folder}",
                ledger=str(folder / "provider.jsonl"),
                timeout_ms=2_000,
                grace_ms=500,
                recover=True,
                poll_s=0.2,
            )
            servers = Pair(primary, standby, database, setup)
            if synchronous:
                servers.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
                servers.ask("SELECT pg_reload_conf()")
            wanted = "sync" if synchronous else "async"
            wait_for(lambda: servers.ask("SELECT sync_state FROM pg_stat_replication") == wanted)
            wait_for(servers.is_level)
            yield servers
        finally:
            standby.remove()


def wait_for(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


@asynccontextmanager
async def runtimes(setup: Setup) -> AsyncIterator[list[ChaosRuntime]]:
    async with open_till(setup):
        pass
    started = [await ChaosRuntime.start(setup) for _ in range(RUNTIMES)]
    try:
        for one in started:
            assert await one.opened(), await one.complaint()
        yield started
        for one in started:
            await one.end()
            assert await one.complaint() == ""
    finally:
        for one in started:
            one.kill()
            one.close()


class Load:
    """Runtimes that charge until they are told to stop, and what they have answered."""

    def __init__(self) -> None:
        self.heard: list[Answer] = []
        self.over = False
        self._numbers = 0

    async def go_on(self, runtime: ChaosRuntime) -> None:
        while not self.over:
            answers = await runtime.ask(*self.charges())
            assert answers is not None, await runtime.complaint()
            self.heard += answers

    def charges(self) -> Sequence[Execute]:
        """The next few charges."""
        first = self._numbers
        self._numbers += AT_ONCE
        return [
            Execute(action_id=f"act_{n}", transaction_id=f"txn_{n}")
            for n in range(first, self._numbers)
        ]

    def count(self, status: str) -> int:
        """How many answers were that."""
        return sum(answer.heard == status for answer in self.heard)


async def judged(setup: Setup, heard: Sequence[Answer]) -> list[str]:
    """What is broken, once everything that was open has been recovered."""
    quiet = msgspec.structs.replace(setup, recover=False)
    async with open_till(quiet) as till:
        problems = await till.check() + lost(heard, await take_snapshot(till.store))
        await recover(till)
        ended = await take_snapshot(till.store)
        ledger = FileLedger(setup.ledger)
        return problems + lost(heard, ended) + unended(ended) + doubled(ended, ledger)


async def until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.02)


@pytest.mark.fault(17)
@pytest.mark.rule("TX-LEASE-3")
async def test_every_acknowledged_settlement_is_there_after_a_failover_under_load(
    tmp_path: Path,
) -> None:
    with pair(tmp_path, synchronous=True) as servers:
        load = Load()
        async with runtimes(servers.setup) as started:
            lanes = [asyncio.create_task(load.go_on(one)) for one in started]
            await until(lambda: load.count("committed") >= 60)
            before = len(load.heard)
            servers.fail_over()
            await until(lambda: load.count("committed") >= before + 60)
            load.over = True
            await asyncio.gather(*lanes)
        assert await judged(servers.setup, load.heard) == []
        assert effects(servers.setup) >= load.count("committed")
        servers.primary.start()
        await check_nothing_is_done_on_the_old_primary(servers)


async def check_nothing_is_done_on_the_old_primary(servers: Pair) -> None:
    """It has nobody who follows it, so it acknowledges nothing, and nothing is sent."""
    done = effects(servers.setup)
    folder = servers.setup.store.partition("?")[2]
    alone = msgspec.structs.replace(servers.setup, store=f"{servers.database.url}?{folder}")
    runtime = await ChaosRuntime.start(alone)
    try:
        assert await runtime.opened()
        sent = asyncio.create_task(runtime.ask(Execute(action_id="act_behind")))
        await asyncio.sleep(1)
        assert not sent.done()
        assert effects(servers.setup) == done
        runtime.kill()
        assert await sent is None
        await runtime.end()
    finally:
        runtime.kill()
        runtime.close()


@pytest.mark.fault(17)
async def test_no_effect_is_released_for_a_commit_that_waits_for_a_lost_standby(
    tmp_path: Path,
) -> None:
    """What the lost primary had kept to itself vanishes, and is done once, on the new one.

    It is stopped in order, in which it cuts the waiting short and has committed all the same.
    """
    with pair(tmp_path, synchronous=True) as servers:
        load = Load()
        async with runtimes(servers.setup) as started:
            load.heard += await started[0].ask(*load.charges()) or ()
            assert load.count("committed") == effects(servers.setup) == AT_ONCE
            servers.standby.stop(signal.SIGQUIT)
            waiting = [asyncio.create_task(one.ask(*load.charges())) for one in started]
            await asyncio.sleep(1.5)
            assert not any(one.done() for one in waiting)
            assert effects(servers.setup) == AT_ONCE
            servers.primary.stop(signal.SIGINT)
            assert effects(servers.setup) == AT_ONCE
            servers.standby.start()
            servers.standby.promote()
            for answers in await asyncio.gather(*waiting):
                load.heard += answers or ()
        assert len(load.heard) == AT_ONCE * (1 + RUNTIMES)
        assert await judged(servers.setup, load.heard) == []
        done = load.count("committed")
        assert done <= effects(servers.setup) <= len(load.heard)


@pytest.mark.fault(16, 17)
@pytest.mark.parametrize("receipts", [True, False])
async def test_a_wait_for_a_standby_that_is_cut_short_acknowledges_nothing(
    tmp_path: Path, *, receipts: bool
) -> None:
    """The server says COMMIT all the same, and warns. Nor is what looks it up believed then.

    With a receipt it is one statement, which is a transaction by itself.
    """

    def changes(name: str) -> tuple[Change, ...]:
        return (Insert(a_transaction(name)), *([links(name=name)] if receipts else []))

    with pair(tmp_path, synchronous=True) as servers:
        store = await open_postgres(servers.database.url)
        await commit(store, *changes("before"))
        servers.standby.stop(signal.SIGQUIT)
        once = asyncio.ensure_future(commit(store, *changes("once")))
        await _cut_short(servers)
        await asyncio.sleep(0.5)
        assert not once.done()
        servers.standby.start()
        await once
        servers.standby.stop(signal.SIGQUIT)
        twice = asyncio.ensure_future(error_of(commit(store, *changes("twice"))))
        await _cut_short(servers)
        await _cut_short(servers)
        assert (await twice).code == "store.commit_unknown"
        servers.standby.start()
        await store.close()


async def _cut_short(servers: Pair) -> None:
    """End the wait of whoever waits for the standby, as an operator may."""
    cut = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    for _ in range(200):
        if servers.ask(cut):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nobody waits")


@pytest.mark.fault(19)
async def test_a_standby_that_is_behind_is_never_asked(tmp_path: Path) -> None:
    with pair(tmp_path, synchronous=False) as servers:
        async with open_till(servers.setup):
            pass
        servers.ask_standby("SELECT pg_wal_replay_pause()")
        async with open_till(servers.setup) as till:
            for number in range(20):
                errand = Plan(action_id=f"act_{number}", transaction_id=f"txn_{number}")
                assert (await run_errand(till, errand)).status == "planned"
                commit = Commit(action_id=f"act_c{number}", plan_id=f"plan:txn_{number}")
                assert (await run_errand(till, commit)).status == "committed"
                assert (await till.amends.get(f"txn_{number}")).result.status == "committed"
        assert not servers.is_level()
        port = f"127.0.0.1:{servers.primary.port}"
        alone = servers.setup.store.replace(f",{port}", "")
        with refused_with("store.unavailable"):
            await opened(msgspec.structs.replace(servers.setup, store=alone))


@pytest.mark.fault(18)
@pytest.mark.rule("TX-LEASE-3")
async def test_a_failover_to_a_standby_that_may_be_behind_stops_every_runtime_until_it_is_released(
    tmp_path: Path,
) -> None:
    with pair(tmp_path, synchronous=False) as servers:
        load = Load()
        async with runtimes(servers.setup) as started:
            plan = Plan(action_id="act_plan", transaction_id="txn_planned")
            load.heard += await started[0].ask(plan) or ()
            for one in started:
                load.heard += await one.ask(*load.charges()) or ()
            wait_for(servers.is_level)
            servers.fail_over()
            done = effects(servers.setup)
            for one in started:
                answers = await one.ask(*load.charges()) or ()
                assert {answer.code for answer in answers} == {"store.timeline_changed"}
        assert effects(servers.setup) == done == AT_ONCE * RUNTIMES
        with refused_with("store.timeline_changed"):
            await opened(servers.setup)
        await frozen_and_opened(servers.setup)
        assert await judged(servers.setup, load.heard) == []


async def opened(setup: Setup) -> None:
    async with open_till(setup):
        pass


async def frozen_and_opened(setup: Setup) -> None:
    """What was open is frozen by `amends restore`, and the store can be used again."""
    place = OnServer(setup.store)
    done = await asyncio.to_thread(go_on_after_restore, place, lambda _name: lambda *_: None)
    assert done.lineage != done.from_lineage
    assert {one.transaction_id for one in done.frozen.records} == {"txn_planned"}
    async with open_till(setup) as till:
        refused = await run_errand(till, Commit(action_id="act_late", plan_id="plan:txn_planned"))
        assert refused.code == "transaction.frozen"
        fresh = await run_errand(till, Execute(action_id="act_new", transaction_id="txn_new"))
        assert fresh.code is None
