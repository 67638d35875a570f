"""Reading a list of the store from its first page to its last.

Pages are read one after the other while their rows are looked at, so a long list needs little
memory. A row that cannot be read comes as such: what it means is for whoever asks.
"""

from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

from amends.contracts.documents import Document
from amends.contracts.ids import TenantId
from amends.stores.port import Store, Stored, Unreadable

D = TypeVar("D", bound=Document)


async def every(
    store: Store,
    type_: type[D],
    tenant: TenantId,
    where: Mapping[str, str] | None = None,
) -> AsyncIterator[Stored[D] | Unreadable]:
    """All documents that `Store.list` lists, newest first, on however many pages."""
    after = None
    while True:
        page = await store.list(type_, tenant, where=where, after=after)
        for item in page.items:
            yield item
        after = page.next
        if after is None:
            return


async def readable(
    store: Store,
    type_: type[D],
    tenant: TenantId,
    where: Mapping[str, str] | None = None,
) -> AsyncIterator[D]:
    """Those of `every` that can be read, for whoever looks for one that may be there."""
    async for item in every(store, type_, tenant, where):
        if isinstance(item, Stored):
            yield item.document
