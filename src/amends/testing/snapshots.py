"""What a store holds at one moment, read through the port alone, for invariants to judge.

Tenants are found in the store's own feed: whatever moved a transaction left a receipt there.

Deliberately not here: any judgement (`invariants`), and what a driver keeps beside documents.
"""

from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Document,
    Reservation,
    TransactionRecord,
)
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.stores.port import FeedEntry, Store, Stored

D = TypeVar("D", bound=Document)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The documents and receipts of every tenant. `feed` is in the store's own order."""

    records: tuple[TransactionRecord, ...]
    actions: tuple[ActionDocument, ...]
    approvals: tuple[ApprovalRequest, ...]
    reservations: tuple[Reservation, ...]
    slots: tuple[CompensationSlots, ...]
    feed: tuple[FeedEntry, ...]

    @property
    def chains(self) -> dict[tuple[TenantId, str], tuple[Receipt, ...]]:
        """Every receipt chain, by tenant and name, each in the order in which it was appended."""
        chains: dict[tuple[TenantId, str], list[Receipt]] = {}
        for entry in self.feed:
            chains.setdefault((entry.tenant, entry.receipt.chain), []).append(entry.receipt)
        return {name: tuple(chain) for name, chain in chains.items()}

    @property
    def documents(self) -> dict[tuple[str, TenantId, str], Document]:
        """Every document, by type, tenant and id."""
        return {
            **{("record", one.tenant, one.transaction_id): one for one in self.records},
            **{("action", one.tenant, one.action_id): one for one in self.actions},
            **{("approval", one.tenant, one.approval_id): one for one in self.approvals},
            **{("reservation", one.tenant, one.reservation_id): one for one in self.reservations},
            **{("slots", one.tenant, one.transaction_id): one for one in self.slots},
        }


async def take_snapshot(store: Store) -> Snapshot:
    """Read everything. Not atomic: take it while nobody writes, or expect to see a step halfway."""
    feed = tuple([entry async for entry in _feed(store)])
    tenants = sorted({entry.tenant for entry in feed})
    return Snapshot(
        records=await _all(store, TransactionRecord, tenants),
        actions=await _all(store, ActionDocument, tenants),
        approvals=await _all(store, ApprovalRequest, tenants),
        reservations=await _all(store, Reservation, tenants),
        slots=await _all(store, CompensationSlots, tenants),
        feed=feed,
    )


async def _feed(store: Store) -> AsyncIterator[FeedEntry]:
    position = 0
    while page := await store.feed(after=position):
        for entry in page:
            yield entry
        position = page[-1].position


async def _all(store: Store, type_: type[D], tenants: list[TenantId]) -> tuple[D, ...]:
    found: list[D] = []
    for tenant in tenants:
        after: str | None = None
        while True:
            page = await store.list(type_, tenant, after=after)
            found.extend(one.document for one in page.items if isinstance(one, Stored))
            after = page.next
            if after is None:
                break
    return tuple(found)
