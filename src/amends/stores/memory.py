"""The store that keeps nothing: for tests, simulations and trying things out.

Documents are held as the same encoded bytes that a file would hold, so that what is read back is
what was written and nothing is shared with the caller.

Deliberately not here: durability of any kind, and threads: one memory belongs to one event loop.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from amends.contracts import limits
from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId
from amends.stores.memory_tables import Memory
from amends.stores.port import Accepted, ChangeSet, FeedEntry, Lost, Page, Stored
from amends.stores.rows import (
    Row,
    read_entry,
    read_receipt,
    read_row,
    show_row,
    system_clock,
    to_micros,
)
from amends.stores.shapes import shape_of
from amends.stores.wellformed import closed, read_cursor, require_limit

D = TypeVar("D", bound=Document)


class MemoryStore:
    """A `Store` in memory; see `amends.stores.port.Store` for what the methods promise."""

    def __init__(
        self, *, clock: Callable[[], datetime] = system_clock, memory: Memory | None = None
    ) -> None:
        self._memory = memory or Memory(clock)
        self._closed = False

    def beside(self) -> "MemoryStore":
        """Another store over the same memory, with a closing of its own: a second process."""
        return MemoryStore(memory=self._open)

    @property
    def _open(self) -> Memory:
        if self._closed:
            raise closed()
        return self._memory

    async def get(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        shape = shape_of(type_)
        row = self._open.tables[type_].get((tenant, id_))
        return None if row is None else read_row(shape, row, self._open.clock())

    async def find(
        self, type_: type[D], tenant: TenantId, key: str, value: str
    ) -> Stored[D] | None:
        """See `Store.find`."""
        shape = shape_of(type_)
        shape.unique_index(key)
        id_ = self._open.unique.get((tenant, shape.table, key, value))
        return None if id_ is None else await self.get(type_, tenant, id_)

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
        shape, where = shape_of(type_), where or {}
        shape.require_columns(where)
        require_limit(limit)
        wanted = {shape.columns.index(name): value for name, value in where.items()}
        rows = list(
            islice(_newest(self._open, type_, tenant, read_cursor(after), wanted), limit + 1)
        )
        now = self._open.clock()
        items = tuple(show_row(shape, row, now) for row in rows[:limit])
        return Page(items, str(rows[limit - 1].seq) if len(rows) > limit else None)

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """See `Store.commit`; nothing is durable here."""
        return self._open.apply(change_set)

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`."""
        shape = shape_of(type_)
        require_limit(limit)
        now = self._open.clock()
        now_us = to_micros(now)
        rows = [row for row in self._open.due[type_].values() if (row.due_us or 0) <= now_us]
        rows.sort(key=lambda row: (row.due_us, row.seq))
        shown = (show_row(shape, row, now) for row in rows)
        return list(islice((one for one in shown if isinstance(one, Stored)), limit))

    async def tail(self, tenant: TenantId, chain: str) -> Tail | None:
        """See `Store.tail`."""
        return self._open.tails.get((tenant, chain))

    async def receipts(
        self, tenant: TenantId, chain: str, *, after: int = 0, limit: int = limits.PAGE_SIZE
    ) -> Sequence[Receipt]:
        """See `Store.receipts`."""
        require_limit(limit)
        tail = self._open.tails.get((tenant, chain))
        last = 0 if tail is None else min(tail.number, after + limit)
        return [
            read_receipt(self._memory.receipts[tenant, chain, number], tenant, chain, number)
            for number in range(after + 1, last + 1)
        ]

    async def feed(self, *, after: int = 0, limit: int = limits.PAGE_SIZE) -> Sequence[FeedEntry]:
        """See `Store.feed`."""
        require_limit(limit)
        memory = self._open
        last = min(len(memory.feed), after + limit)
        return [
            read_entry(position, memory.receipts[key], *key)
            for position, key in (
                (place, memory.feed[place]) for place in range(after + 1, last + 1)
            )
        ]

    async def now(self) -> datetime:
        """See `Store.now`."""
        return self._open.clock()

    async def by_now(self) -> datetime:
        """See `Store.by_now`."""
        return await self.now()

    async def news(self, seconds: float) -> None:
        """See `Store.news`. It only waits."""
        assert self._open is not None
        await asyncio.sleep(seconds)

    async def lineage(self) -> str:
        """See `Store.lineage`."""
        return self._open.lineage

    async def close(self) -> None:
        """See `Store.close`. Other stores over the same memory stay open."""
        self._closed = True


def _newest(
    memory: Memory,
    type_: type[Document],
    tenant: str,
    before: int | None,
    wanted: Mapping[int, str],
) -> Iterator[Row]:
    for row in reversed(memory.tables[type_].values()):
        if row.tenant != tenant or (before is not None and row.seq >= before):
            continue
        if all(row.columns[place] == value for place, value in wanted.items()):
            yield row
