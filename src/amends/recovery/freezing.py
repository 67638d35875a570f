"""Freezing everything that is open in a store that is not the one it was written in (TX-LEASE-3).

What a restored store says of open records was true at another moment, and what was done since may
be there at the provider. So no lease in it counts, nothing in it is carried out, looked up, decided
or retried by itself, and an operator releases one transaction at a time. A delegation lends nothing
any more. What has ended for good stays as it is.

Deliberately not here: noticing that a store was restored, and effects whose records it has lost.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

import msgspec

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.delegations import Delegation
from amends.contracts.documents import Document, TransactionRecord
from amends.contracts.errors import Corrupt
from amends.contracts.ids import ApprovalId, DelegationId, TenantId, TransactionId
from amends.governance.approvals import OPEN
from amends.governance.delegations import void
from amends.runtime.engine import Engine
from amends.runtime.upkeep import RECOVERY
from amends.stores.port import ChangeSet, Replace, Stored, Unreadable
from amends.transactions.table import Event, row_of

D = TypeVar("D", bound=Document)
_AT_ONCE: Final = 100


class FrozenRecord(msgspec.Struct, frozen=True):
    """A transaction that waits for an operator, as it stood."""

    tenant: TenantId
    transaction_id: TransactionId
    status: str


class FrozenApproval(msgspec.Struct, frozen=True):
    """An approval request that can be neither decided nor used, as it stood."""

    tenant: TenantId
    approval_id: ApprovalId
    transaction_id: TransactionId
    status: str


class VoidDelegation(msgspec.Struct, frozen=True):
    """A delegation that lends nothing any more; its delegator may make another one."""

    tenant: TenantId
    delegation_id: DelegationId
    delegator: str


class LeftAlone(msgspec.Struct, frozen=True):
    """A row that could not be frozen, since nothing can be done with it at all."""

    tenant: TenantId
    id: str
    reason: str


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """What was frozen."""

    records: tuple[FrozenRecord, ...] = ()
    approvals: tuple[FrozenApproval, ...] = ()
    delegations: tuple[VoidDelegation, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()


class Freezer:
    """Freezes a store that nobody else uses meanwhile. `told` is called with how many so far."""

    def __init__(self, engine: Engine, told: Callable[[int], None]) -> None:
        self._store = engine.environment.store
        self._upkeep = engine.upkeep
        self._told = told
        self._records: list[FrozenRecord] = []
        self._approvals: list[FrozenApproval] = []
        self._delegations: list[VoidDelegation] = []
        self._left_alone: list[LeftAlone] = []

    async def freeze(self, tenants: Iterable[TenantId], reason: str) -> Frozen:
        """Freeze all that is open, of these tenants; durable when it returns."""
        open_statuses = row_of(Event.FROZEN).before
        assert open_statuses is not None
        for tenant in tenants:
            for status in sorted(open_statuses):
                async for records in self._pages(TransactionRecord, tenant, {"status": status}):
                    await asyncio.gather(*(self._record(one, reason) for one in records))
                    self._tell()
            for asked in sorted(OPEN):
                async for requests in self._pages(ApprovalRequest, tenant, {"status": asked.value}):
                    for request in requests:  # one by one: several may stand on one chain
                        await self._approval(request, reason)
                    self._tell()
            async for lent in self._pages(Delegation, tenant, {}):
                for delegation in lent:
                    await self._void(delegation, reason)
                self._tell()
        return Frozen(
            records=tuple(self._records),
            approvals=tuple(self._approvals),
            delegations=tuple(self._delegations),
            left_alone=tuple(self._left_alone),
        )

    async def _pages(
        self, type_: type[D], tenant: TenantId, where: dict[str, str]
    ) -> AsyncIterator[list[Stored[D]]]:
        """All of them, or in one status. Freezing changes no status, so no page moves under us."""
        after = None
        while True:
            page = await self._store.list(type_, tenant, where=where, after=after, limit=_AT_ONCE)
            for item in page.items:
                if isinstance(item, Unreadable):
                    self._left_alone.append(LeftAlone(item.tenant, item.id, item.reason))
            yield [item for item in page.items if isinstance(item, Stored)]
            if page.next is None:
                return
            after = page.next

    async def _record(self, stored: Stored[TransactionRecord], reason: str) -> None:
        record = stored.document
        try:
            frozen = await self._upkeep.freeze(stored, reason)
        except Corrupt as error:
            self._left_alone.append(LeftAlone(record.tenant, record.transaction_id, error.code))
            return
        if frozen is not None:
            self._records.append(
                FrozenRecord(record.tenant, record.transaction_id, record.status.value)
            )

    async def _approval(self, stored: Stored[ApprovalRequest], reason: str) -> None:
        request = stored.document
        if await self._upkeep.freeze_approval(stored, reason) is not None:
            self._approvals.append(
                FrozenApproval(
                    request.tenant,
                    request.approval_id,
                    request.transaction_id,
                    request.status.value,
                )
            )

    async def _void(self, stored: Stored[Delegation], reason: str) -> None:
        """A delegation lends nothing any more: it may have been revoked since the backup."""
        delegation = void(stored.document, RECOVERY, reason, stored.read_at)
        if delegation is None:
            return
        await self._store.commit(ChangeSet(changes=(Replace(delegation),)))
        self._delegations.append(
            VoidDelegation(delegation.tenant, delegation.delegation_id, delegation.delegator.id)
        )

    def _tell(self) -> None:
        self._told(len(self._records) + len(self._approvals) + len(self._delegations))
