"""The files that most acceptance tests stand at: once with SQLite, and once with PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from amends.testing.postgres_server import PostgresServer
from amends.testing.till import Setup


@pytest.fixture(params=["sqlite", "postgresql"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setup]:
    """Where a till stands, with nothing in it yet."""
    ledger = str(tmp_path / "provider.jsonl")
    if request.param == "sqlite":
        yield Setup(store=str(tmp_path / "amends.db"), ledger=ledger)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database = server.lend()
    yield Setup(store=f"{database.url}?folder={tmp_path}", ledger=ledger)
    server.take_back(database)
