"""The PostgreSQL server that all cases of a run share, and an empty database on it for each.

`python -m benchmarks` starts one and tells its cases where it is; a case that is run by itself
starts its own. It keeps what it acknowledges: `fsync`, `full_page_writes` and `synchronous_commit`
are on, as Amends insists.
"""

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import asyncpg

from amends.testing.postgres_server import ROLE, PostgresServer, run_apart

PLACE: Final = "AMENDS_BENCH_POSTGRESQL"
KEYS: Final = "AMENDS_BENCH_KEYS"
"""The folder with the keys of databases that stay: a store is only opened with its own key."""

SETTINGS: Final = MappingProxyType(
    {
        "shared_buffers": "512MB",
        "max_wal_size": "8GB",
        "checkpoint_timeout": "30min",
        "max_connections": "300",
    }
)


class Bench(NamedTuple):
    """A database: for Amends, for loops that know no tenants, and for DBOS."""

    url: str
    superuser_url: str


@contextmanager
def server_for_all() -> Iterator[None]:
    """A server, whose place is told to every case that is started meanwhile."""
    with PostgresServer(SETTINGS) as server, tempfile.TemporaryDirectory() as keys:
        server.lend()  # which makes the role
        os.environ.update({PLACE: str(server.port), KEYS: keys})
        try:
            yield
        finally:
            del os.environ[PLACE], os.environ[KEYS]


@contextmanager
def bench(folder: Path, name: str = "") -> Iterator[Bench]:
    """An empty database, gone at the end; one with a name stays until the server goes."""
    if PLACE not in os.environ:
        with server_for_all(), bench(folder, name) as made:
            yield made
        return
    chosen = name or f"bench_{uuid.uuid4().hex}"
    server = f"127.0.0.1:{os.environ[PLACE]}"
    asked = f"postgresql://postgres@{server}"
    if not name or not run_apart(lambda: _is_there(f"{asked}/postgres", name)):
        run_apart(lambda: _do(f"{asked}/postgres", f"CREATE DATABASE {chosen} OWNER {ROLE}"))
    run_apart(lambda: _do(f"{asked}/postgres", "CHECKPOINT"))
    try:
        keys = os.environ[KEYS] if name else folder
        yield Bench(f"postgresql://{ROLE}@{server}/{chosen}?folder={keys}", f"{asked}/{chosen}")
    finally:
        if not name:
            run_apart(lambda: _do(f"{asked}/postgres", f"DROP DATABASE {chosen} WITH (FORCE)"))


async def _do(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def _is_there(url: str, name: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        asked = "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)"
        return bool(await connection.fetchval(asked, name))
    finally:
        await connection.close()
