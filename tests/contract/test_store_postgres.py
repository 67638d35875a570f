"""The store contract over PostgreSQL, as it is used and behind a pooler."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from amends.testing.pgbouncer import PgBouncer
from amends.testing.postgres_bench import PostgresBench
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_bench import StoreBench
from amends.testing.store_contract import StoreContract
from tests.contract.test_store_model import StoreMachine


class TestPostgres(StoreContract):
    """As it is used."""

    @pytest.fixture(autouse=True)
    def _on(self, postgres_server: PostgresServer) -> None:
        self._server = postgres_server

    def bench(self) -> StoreBench:
        return PostgresBench(self._server)


@pytest.mark.case("QUE-02")
class TestPostgresBehindPgbouncer(StoreContract):
    """Where transactions take turns among the processes of the server."""

    @pytest.fixture(autouse=True)
    def _on(self, postgres_server: PostgresServer, pgbouncer: PgBouncer) -> None:
        self._server = postgres_server
        self._pooler = pgbouncer

    def bench(self) -> StoreBench:
        return PostgresBench(self._server, pooler=self._pooler)


def test_postgres_answers_as_the_model(postgres_server: PostgresServer) -> None:
    class Machine(StoreMachine):
        def make_bench(self) -> StoreBench:
            return PostgresBench(postgres_server)

    run_state_machine_as_test(Machine, settings=settings(max_examples=12, stateful_step_count=15))
