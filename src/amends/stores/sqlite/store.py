"""The store over one SQLite file, as the runtime holds it.

Deliberately not here: everything that is done; this only checks that the store may be used, and by
whom.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from amends.contracts import limits
from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId
from amends.stores.port import Accepted, ChangeSet, FeedEntry, Lost, Page, Stored
from amends.stores.rows import system_clock
from amends.stores.sqlite.changes import prepare
from amends.stores.sqlite.connection import BUSY_MS
from amends.stores.sqlite.opened import OPEN_FILES, OpenFile, Terms
from amends.stores.wellformed import closed

D = TypeVar("D", bound=Document)


async def open_sqlite(
    path: str | Path,
    *,
    clock: Callable[[], datetime] = system_clock,
    threads: bool = True,
    busy_ms: int = BUSY_MS,
    vfs: str | None = None,
    looks: bool = False,
) -> "SqliteStore":
    """Open the store in this file, making it if there is none.

    `clock` gives aware UTC times and is the store's clock for this process. Without `threads`
    everything, waiting included, happens on the caller's turn. `busy_ms` is how long a change set
    waits for other processes. `vfs` names a SQLite file layer. With `looks` a store that is there
    is opened to be read, by a user who may do no more; it takes no change set.

    Raises `Unavailable` (`store.unavailable`, `store.foreign_file`, `store.schema_too_new`,
    `store.not_durable`, `store.sqlite_too_old`, `store.read_only`), `Corrupt`
    (`store.schema_changed`) or `Misuse` (`store.forked`). There is no falling back to anything
    weaker.
    """
    terms = Terms(clock=clock, threads=threads, busy_ms=busy_ms, vfs=vfs, looks=looks)

    def opening() -> OpenFile:
        return OPEN_FILES.open(Path(path).absolute(), terms)

    return SqliteStore(await asyncio.to_thread(opening) if threads else opening())


class SqliteStore:
    """A `Store` in a file; see `amends.stores.port.Store` for what the methods promise."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._closed = False

    def _usable(self) -> OpenFile:
        if self._closed:
            raise closed()
        self._file.check()
        return self._file

    async def get(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        return self._usable().reader.get(type_, tenant, id_)

    async def find(
        self, type_: type[D], tenant: TenantId, key: str, value: str
    ) -> Stored[D] | None:
        """See `Store.find`."""
        return self._usable().reader.find(type_, tenant, key, value)

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
        return self._usable().reader.page(type_, tenant, where or {}, after, limit)

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """See `Store.commit`. Once called it is carried out, whatever becomes of the caller."""
        return await self._usable().writer.commit(prepare(change_set))

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`."""
        return self._usable().reader.due(type_, limit)

    async def tail(self, tenant: TenantId, chain: str) -> Tail | None:
        """See `Store.tail`."""
        return self._usable().reader.tail(tenant, chain)

    async def receipts(
        self, tenant: TenantId, chain: str, *, after: int = 0, limit: int = limits.PAGE_SIZE
    ) -> Sequence[Receipt]:
        """See `Store.receipts`."""
        return self._usable().reader.receipts(tenant, chain, after, limit)

    async def feed(self, *, after: int = 0, limit: int = limits.PAGE_SIZE) -> Sequence[FeedEntry]:
        """See `Store.feed`."""
        return self._usable().reader.feed(after, limit)

    async def now(self) -> datetime:
        """See `Store.now`."""
        return self._usable().terms.clock()

    async def by_now(self) -> datetime:
        """See `Store.by_now`."""
        return await self.now()

    async def news(self, seconds: float) -> None:
        """See `Store.news`. It only waits."""
        self._usable()
        await asyncio.sleep(seconds)

    async def lineage(self) -> str:
        """See `Store.lineage`."""
        return self._usable().lineage

    async def close(self) -> None:
        """See `Store.close`. What other stores of this process have asked for is not touched."""
        if self._closed:
            return
        self._closed = True
        if self._file.inherited:
            return
        try:
            await self._file.writer.drain()
        finally:
            if self._file.terms.threads:
                await asyncio.to_thread(OPEN_FILES.release, self._file)
            else:
                OPEN_FILES.release(self._file)
