"""The anchor's contract over PostgreSQL, and what its server and its network can do to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from amends.contracts.worker_identity import Fingerprint
from amends.sealed.anchors import FENCES_LOST, FIRST, Anchor, Floor
from amends.sealed.files import SealedFile
from amends.sealed.postgres_anchor import PostgresAnchor
from amends.sealed.vault import Storage, Vault
from amends.testing.anchor_contract import KEYS, PLACE, AnchorBench, AnchorContract
from amends.testing.postgres_server import ROLE, PostgresServer
from amends.testing.refusals import refused_with
from amends.testing.tcp_proxy import STATEMENT, Cut, TcpProxy
from amends.wiring.anchors import OpenAnchor

SCHEMA: Final = "amends_anchor"


class PostgresAnchorBench(AnchorBench):
    """A schema in a database of a server, as a role that is no superuser."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.database = server, server.lend()
        self.url = self.database.url
        PostgresAnchor.create_schema(self.url)

    def open(self) -> OpenAnchor:
        return PostgresAnchor.open_schema(self.url)

    def keep(self) -> None:
        self.do("CREATE TABLE kept AS TABLE floors")

    def put_back(self) -> None:
        self.do("DELETE FROM floors; INSERT INTO floors TABLE kept")

    def close(self) -> None:
        self.do(f"DROP SCHEMA {SCHEMA} CASCADE")
        self.server.take_back(self.database)

    def reseatings(self) -> list[tuple[str, str]]:
        return [tuple(row) for row in self.rows("SELECT who, why FROM reseatings ORDER BY at")]

    def do(self, sql: str) -> None:
        """Run this as the superuser."""
        self._asked(lambda connection: connection.execute(sql))

    def rows(self, sql: str) -> list[Any]:
        """What the superuser reads."""
        return list(self._asked(lambda connection: connection.fetch(sql)))

    def _asked(self, question: Any) -> Any:
        async def asking(connection: Any) -> Any:
            await connection.execute(f"SET search_path = {SCHEMA}")
            return await question(connection)

        return self.server.ask(self.database.superuser_url, asking)


@pytest.fixture
def bench(postgres_server: PostgresServer) -> Iterator[PostgresAnchorBench]:
    with closing(PostgresAnchorBench(postgres_server)) as made:
        yield made


class TestPostgresAnchor(AnchorContract):
    """As it is used."""


# ── its network ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def proxy(postgres_server: PostgresServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(postgres_server.port, waits_for=STATEMENT) as made:
        yield made


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "records"
    folder.mkdir(mode=0o700)
    return folder


def storage_in(path: Path, anchor: Anchor) -> Storage:
    return Storage(PLACE, SealedFile(path, "journal", max_bytes=10_000), anchor, KEYS)


@pytest.mark.fault(39)
@pytest.mark.rule("ST-2", "ST-3")
@pytest.mark.parametrize("cut", list(Cut))
async def test_a_move_whose_answer_is_lost_ends_the_opening_and_the_next_one_knows(
    bench: PostgresAnchorBench, proxy: TcpProxy, records: Path, cut: Cut
) -> None:
    def begun() -> tuple[PostgresAnchor, Vault]:
        anchor = PostgresAnchor.open_schema(proxy.beside(bench.url))
        Vault.initialise(storage_in(records, anchor), b"first")
        vault = Vault.open(storage_in(records, anchor))
        vault.save(b"second")
        return anchor, vault

    anchor, vault = await asyncio.to_thread(begun)
    proxy.cut_next(cut, spare=1)  # the one that asks whether this writer still holds its fence
    with refused_with("sealed.anchor_unreachable"):
        await asyncio.to_thread(vault.save, b"third")
    assert proxy.cuts == 1
    with refused_with("sealed.poisoned"):
        vault.save(b"third")
    again = await asyncio.to_thread(Vault.open, storage_in(records, anchor))
    assert (again.payload, again.revision) == (b"third", 3)
    assert again.finished_a_crash is (cut is Cut.BEFORE_COMMIT)
    await asyncio.to_thread(again.save, b"fourth")
    await asyncio.to_thread(anchor.close)


@pytest.mark.rule("ST-2")
async def test_an_anchor_that_does_not_answer_serves_nothing_and_creates_nothing(
    bench: PostgresAnchorBench, proxy: TcpProxy, records: Path
) -> None:
    anchor = await asyncio.to_thread(PostgresAnchor.open_schema, proxy.beside(bench.url))
    await asyncio.to_thread(Vault.initialise, storage_in(records, anchor), b"first")
    proxy.refusing = True
    proxy.cut_all()
    acts: tuple[Callable[[], object], ...] = (
        lambda: Vault.open(storage_in(records, anchor)),
        lambda: Vault.initialise(storage_in(records, anchor), b"first"),
        lambda: anchor.floor(PLACE),
    )
    for act in acts:
        with refused_with("sealed.anchor_unreachable"):
            await asyncio.to_thread(act)
    proxy.refusing = False
    vault = await asyncio.to_thread(Vault.open, storage_in(records, anchor))
    assert vault.payload == b"first"
    await asyncio.to_thread(anchor.close)


@pytest.mark.rule("ST-3")
def test_a_move_that_is_still_on_its_way_finds_the_next_fence_and_does_nothing(
    bench: PostgresAnchorBench,
) -> None:
    """Both wait for the row that somebody else has locked; the fence was first in the queue."""
    with closing(bench.open()) as one, closing(bench.open()) as other:
        one.create(PLACE, FIRST)
        floor = one.reserve(PLACE)
        moved = Floor(1, Fingerprint("1" * 64), floor.fence)
        with ThreadPoolExecutor(2) as threads:

            async def hold(connection: asyncpg.Connection) -> tuple[Any, Any]:
                async with connection.transaction():
                    await connection.execute(f"SELECT FROM {SCHEMA}.floors FOR UPDATE")
                    fence = threads.submit(other.reserve, PLACE)
                    await waiting(connection, 1)
                    move = threads.submit(one.advance, PLACE, floor, moved)
                    await waiting(connection, 2)
                return fence, move

            fence, move = bench.server.ask(bench.database.superuser_url, hold)
            assert fence.result().fence == floor.fence + 1
            with refused_with("sealed.fenced"):
                move.result()
        assert other.floor(PLACE) == Floor(0, FIRST.commitment, floor.fence + 1)


async def waiting(connection: asyncpg.Connection, count: int) -> None:
    """Until so many wait for a lock in this database."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    while await connection.fetchval(f"{asked} AND wait_event_type = 'Lock'") < count:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        await asyncio.sleep(0.01)


async def test_it_may_be_asked_where_an_event_loop_runs(bench: PostgresAnchorBench) -> None:
    with closing(bench.open()) as anchor:
        anchor.create(PLACE, FIRST)
        assert anchor.floor(PLACE) == FIRST


# ── its server ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("ST-2")
def test_a_connection_that_the_server_ended_is_made_anew(bench: PostgresAnchorBench) -> None:
    with closing(bench.open()) as anchor:
        anchor.create(PLACE, FIRST)
        bench.rows(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert anchor.floor(PLACE) == FIRST


@pytest.mark.rule("ST-2", "ST-3")
def test_a_server_that_was_restored_is_refused_until_a_person_accepts_it(
    bench: PostgresAnchorBench, records: Path
) -> None:
    with closing(bench.open()) as anchor:
        Vault.initialise(storage_in(records, anchor), b"first")
        old = Vault.open(storage_in(records, anchor))
        bench.do("UPDATE server SET timeline = timeline - 1")
        with refused_with("sealed.anchor_restored"):
            bench.open()
        for who, why in (("", "restored"), ("olga", " ")):
            with refused_with("sealed.reason_required"):
                PostgresAnchor.accept_server(bench.url, who=who, why=why)
        PostgresAnchor.accept_server(bench.url, who="olga", why="failed over, nothing was lost")
        with refused_with("sealed.fenced"):
            old.save(b"late")
    with closing(bench.open()) as anchor:
        vault = Vault.open(storage_in(records, anchor))
        assert (vault.payload, vault.fence) == (b"first", old.fence + FENCES_LOST + 1)
    [row] = bench.rows("SELECT who, why FROM acceptances")
    assert tuple(row) == ("olga", "failed over, nothing was lost")


@pytest.mark.rule("ST-2")
@pytest.mark.fault(38)
def test_a_standby_that_took_over_is_refused_until_a_person_accepts_it() -> None:
    with PostgresServer() as primary:
        url = primary.lend().url
        PostgresAnchor.create_schema(url)
        standby = PostgresServer()
        try:
            standby.follow(primary, "standby")
            standby.start()
            primary.stop()
            standby.promote()
            there = url.replace(f":{primary.port}/", f":{standby.port}/")
            with refused_with("sealed.anchor_restored"):
                PostgresAnchor.open_schema(there)
            PostgresAnchor.accept_server(there, who="olga", why="the other one burnt down")
            PostgresAnchor.open_schema(there).close()
        finally:
            standby.remove()


@pytest.mark.rule("ST-2")
def test_a_server_that_can_lose_what_it_acknowledged_is_refused(
    bench: PostgresAnchorBench,
) -> None:
    bench.do(f"ALTER ROLE {ROLE} IN DATABASE {bench.database.name} SET synchronous_commit = off")
    try:
        with refused_with("sealed.anchor_unreachable") as caught:
            bench.open()
        assert caught.error is not None
        assert caught.error.details == {"setting": "synchronous_commit"}
    finally:
        bench.do(f"ALTER ROLE {ROLE} IN DATABASE {bench.database.name} RESET ALL")


# ── what is there ────────────────────────────────────────────────────────────────────────────────


def test_a_schema_is_made_once_and_one_that_is_missing_or_foreign_never_anew(
    bench: PostgresAnchorBench,
) -> None:
    with refused_with("sealed.initialised"):
        PostgresAnchor.create_schema(bench.url)
    with refused_with("sealed.anchor_unreachable"):
        PostgresAnchor.open_schema(f"{bench.url}?schema=elsewhere")
    bench.do("UPDATE server SET format = 2")
    with refused_with("sealed.anchor_unreachable"):
        bench.open()
    bench.do("DELETE FROM server")
    with refused_with("sealed.anchor_unreachable"):
        bench.open()


def test_each_schema_is_an_anchor_of_its_own(bench: PostgresAnchorBench) -> None:
    other = f"{bench.url}?schema=other"
    PostgresAnchor.create_schema(other)
    with closing(bench.open()) as here, closing(PostgresAnchor.open_schema(other)) as there:
        here.create(PLACE, FIRST)
        assert there.floor(PLACE) is None
    bench.do("DROP SCHEMA other CASCADE")


def test_its_role_is_no_superuser_and_another_role_sees_nothing_of_it(
    bench: PostgresAnchorBench,
) -> None:
    roles = bench.rows("SELECT rolname, rolsuper, rolbypassrls FROM pg_roles")
    assert (ROLE, False, False) in map(tuple, roles)
    bench.do("CREATE ROLE amends_stranger LOGIN")
    try:
        with refused_with("sealed.anchor_unreachable") as caught:
            PostgresAnchor.open_schema(bench.url.replace(ROLE, "amends_stranger"))
        assert caught.error is not None
        assert caught.error.details == {"sqlstate": "42P01"}
    finally:
        bench.do("DROP ROLE amends_stranger")
