"""The bench for the PostgreSQL store: a database of a server that many benches share.

Deliberately not here: what is tried (`store_contract`).
"""

from string import Template
from types import TracebackType
from typing import Any, Final

from amends.contracts.documents import Document
from amends.stores.port import Store
from amends.stores.postgres import open_postgres
from amends.stores.shapes import SHAPES, shape_of
from amends.testing.pgbouncer import PgBouncer
from amends.testing.postgres_server import PostgresServer
from amends.testing.store_bench import Contents, StoreBench
from amends.testing.store_documents import TENANT

_ORDERS: Final = {"receipts": "position", "migrations": "number", "store": "lineage"}
_ALL: Final = Template("SELECT * FROM amends.$table ORDER BY $order")
_DAMAGE: Final = Template(
    "UPDATE amends.$table SET $column = $$1::$kind WHERE tenant = $$2 AND id = $$3"
)
_DAMAGE_RECEIPT: Final = (
    "UPDATE amends.receipts SET body = $1::bytea::text"
    " WHERE tenant = $2 AND chain = $3 AND number = $4"
)
_ANY_BYTES: Final = (
    "SELECT 1 FROM pg_cast WHERE castsource = 'bytea'::regtype AND casttarget = 'text'::regtype"
)


class PostgresBench(StoreBench):
    """For the PostgreSQL store: an empty database of a server, as a role that is no superuser."""

    def __init__(self, server: PostgresServer, pooler: PgBouncer | None = None) -> None:
        super().__init__()
        self.server = server
        self.database = server.lend()
        self._url = self.database.url
        if pooler is not None:
            pooler.warm(self._url)
            self._url = pooler.before(self._url)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        self.server.take_back(self.database)

    async def connect(self) -> Store:
        """Open a store on the database."""
        return await open_postgres(self._url, clock=self.clock)

    def contents(self) -> Contents:
        """See `StoreBench.contents`."""
        orders = {shape.table: "seq" for shape in SHAPES.values()} | _ORDERS

        async def read(connection: Any) -> Contents:
            return {
                table: [
                    tuple(row)
                    for row in await connection.fetch(_ALL.substitute(table=table, order=order))
                ]
                for table, order in orders.items()
            }

        return self.server.ask(self.database.superuser_url, read)

    def damage(self, type_: type[Document], id_: str, body: bytes) -> None:
        """See `StoreBench.damage`."""
        self._alter(type_, id_, "body", body, "bytea::text")

    def relabel(self, type_: type[Document], id_: str, column: str, value: str | int) -> None:
        """See `StoreBench.relabel`."""
        self._alter(type_, id_, column, value, "bigint" if column == "revision" else "text")

    def damage_receipt(self, chain: str, number: int, body: bytes) -> None:
        """See `StoreBench.damage_receipt`."""
        self._do(_DAMAGE_RECEIPT, body, TENANT, chain, number)

    def _alter(
        self, type_: type[Document], id_: str, column: str, value: str | int | bytes, kind: str
    ) -> None:
        names = {"table": shape_of(type_).table, "column": column, "kind": kind}
        self._do(_DAMAGE.substitute(names), value, TENANT, id_)

    def _do(self, sql: str, *values: object) -> None:
        async def do(connection: Any) -> None:
            if not await connection.fetchval(_ANY_BYTES):
                # A text of any bytes, which no server would take: the way disks put them there.
                await connection.execute("CREATE CAST (bytea AS text) WITHOUT FUNCTION")
            await connection.execute(sql, *values)

        self.server.ask(self.database.superuser_url, do)
