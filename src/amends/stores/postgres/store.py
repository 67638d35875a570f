"""The store over one PostgreSQL database, as the runtime holds it.

Deliberately not here: everything that is done; this only checks that the store may be used, and by
whom.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from amends.contracts import limits
from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId
from amends.stores.port import Accepted, ChangeSet, FeedEntry, Lost, Page, Stored
from amends.stores.postgres.address import address_of
from amends.stores.postgres.connection import (
    PATIENCE_S,
    Connections,
    Terms,
    accept_timeline,
    connect,
    take_over,
    whole,
)
from amends.stores.postgres.failures import REPORTED, failed
from amends.stores.postgres.listening import Listener
from amends.stores.postgres.migrations import migrate
from amends.stores.postgres.reader import Reader
from amends.stores.postgres.session import Session
from amends.stores.postgres.writer import Writer
from amends.stores.postgres.writes import prepare
from amends.stores.wellformed import closed

D = TypeVar("D", bound=Document)


WRITERS: Final = 2
"""One batch is decided while the other one waits for the disk; measured, that is twice as much."""


async def open_postgres(
    url: str,
    *,
    clock: Callable[[], datetime | None] | None = None,
    patience_s: float = PATIENCE_S,
    writers: int = WRITERS,
    taking_over: bool = False,
) -> "PostgresStore":
    """Open the store in this database, making it if there is none.

    Without a `clock`, which tests have, and wherever it gives none, the server's time counts.
    `patience_s` is how long a call
    waits for a server that cannot be reached, or for others that hold what it needs; `writers` how
    many batches may be on their way at once. With `taking_over` a store whose server was restored
    is opened all the same, as another store, and by nobody else until `accept_server`.

    Raises `Misuse` (`store.url_unknown`), `Unavailable` (`store.unavailable`, `store.not_durable`,
    `store.role_bypasses_tenants`, `store.foreign_file`, `store.schema_too_new`,
    `store.server_too_old`, `store.timeline_changed`) or `Corrupt` (`store.schema_changed`).
    """
    terms = Terms(address=address_of(url), patience_s=patience_s, taking_over=taking_over)
    if clock is not None:
        terms = msgspec.structs.replace(terms, clock=clock)
    connection = await connect(terms.address)
    writing = tuple([Connections(terms, 1) for _ in range(writers)])
    try:
        await migrate(connection)
        if taking_over:
            async with whole(connection, terms.address):
                await take_over(connection)
        await writing[0].keep(connection)
    except REPORTED as error:
        connection.terminate()
        raise failed(error).exception() from error
    except BaseException:
        connection.terminate()
        raise
    return PostgresStore(writing, Connections(terms, terms.readers), terms)


class PostgresStore:
    """A `Store` in a database; see `amends.stores.port.Store` for what the methods promise.

    It belongs to the event loop in which it was opened.
    """

    def __init__(
        self, writing: tuple[Connections, ...], reading: Connections, terms: Terms
    ) -> None:
        self._writing = writing
        self._reading = reading
        # The one that is connected already comes first, and the others as they are needed.
        self._writer = Writer([Session(one, terms) for one in reversed(writing)])
        self._reader = Reader(reading, terms)
        self._listener = Listener(terms)
        self._closed = False

    def _asked(self) -> Reader:
        self._reading.check()
        return self._telling()

    def _telling(self) -> Reader:
        if self._closed:
            raise closed()
        return self._reader

    async def get(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        return await self._asked().get(type_, tenant, id_)

    async def find(
        self, type_: type[D], tenant: TenantId, key: str, value: str
    ) -> Stored[D] | None:
        """See `Store.find`."""
        return await self._asked().find(type_, tenant, key, value)

    async def list(
        self,
        type_: type[D],
        tenant: TenantId,
        *,
        where: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = limits.PAGE_SIZE,
    ) -> Page[D]:
        """See `Store.list`."""
        return await self._asked().page(type_, tenant, where or {}, after, limit)

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """See `Store.commit`. Once called it is carried out, whatever becomes of the caller."""
        self._telling()
        return await self._writer.commit(prepare(change_set), self._reading.check())

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`. Tenants take turns, so that none waits for the others' backlog."""
        return await self._asked().due(type_, limit)

    async def tail(self, tenant: TenantId, chain: str) -> Tail | None:
        """See `Store.tail`."""
        return await self._asked().tail(tenant, chain)

    async def receipts(
        self, tenant: TenantId, chain: str, *, after: int = 0, limit: int = limits.PAGE_SIZE
    ) -> Sequence[Receipt]:
        """See `Store.receipts`."""
        return await self._asked().receipts(tenant, chain, after, limit)

    async def feed(self, *, after: int = 0, limit: int = limits.PAGE_SIZE) -> Sequence[FeedEntry]:
        """See `Store.feed`."""
        return await self._asked().feed(after, limit)

    async def now(self) -> datetime:
        """See `Store.now`."""
        return await self._telling().now()

    async def by_now(self) -> datetime:
        """See `Store.by_now`."""
        return await self._telling().by_now()

    async def news(self, seconds: float) -> None:
        """See `Store.news`. It hears of all processes, unless a pooler stands between."""
        self._asked()
        await self._listener.wait(seconds)

    async def lineage(self) -> str:
        """See `Store.lineage`."""
        self._asked()
        return self._writing[0].standing.lineage

    async def signer(self) -> str | None:
        """The id of the key with which all replicas sign; none until the first one has said."""
        rows = await self._asked().settings("SELECT signer FROM amends.store")
        found: str | None = rows[0][0]
        return found

    async def appoint(self, key_id: str, *, instead_of: str | None) -> bool:
        """Say with which key all replicas sign from now on; false if it was said anew meanwhile."""
        done = await self._asked().settings(
            "UPDATE amends.store SET signer = $1 WHERE signer IS NOT DISTINCT FROM $2 RETURNING 1",
            key_id,
            instead_of,
        )
        return bool(done)

    async def accept_server(self) -> None:
        """Write down that the store goes on where it is now; others can open it again."""
        self._asked()
        async with self._reading.asked() as connection:
            await accept_timeline(connection)

    async def close(self) -> None:
        """See `Store.close`."""
        if self._closed:
            return
        self._closed = True
        await self._writer.drain()
        self._writer.refuse()
        for connections in (*self._writing, self._reading):
            await connections.close()
        await self._listener.close()
