"""The store port: documents with revisions, unique keys, atomic change sets, due queues.

One change set is all or nothing. Stores hold no rule: they compare and set, append with an expected
tail, and answer what is due by their own clock. The contract suite in `amends.testing` is the
definition; a driver is whatever passes it.

Deliberately not here: deletion (retention rewrites documents), transition rules, encryption.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from amends.contracts import limits
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.delegations import Delegation
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    Document,
    LegalHold,
    LimitUsage,
    LogCheckpoint,
    Refusal,
    Reservation,
    TransactionRecord,
    UnclaimedEffect,
)
from amends.contracts.evidence import Receipt, Tail
from amends.contracts.ids import TenantId
from amends.contracts.notices import NoticeCursor

D = TypeVar("D", bound=Document)

AnyDocument = (
    TransactionRecord
    | ActionDocument
    | ApprovalRequest
    | Reservation
    | CompensationSlots
    | Refusal
    | Correction
    | UnclaimedEffect
    | LogCheckpoint
    | Delegation
    | NoticeCursor
    | LimitUsage
    | LegalHold
)


class Loss(StrEnum):
    """Why a change set was refused."""

    EXISTS = "exists"
    REVISION = "revision"
    ABSENT = "absent"
    TAIL = "tail"
    UNIQUE = "unique"
    TOO_LATE = "too_late"


class Due(msgspec.Struct, frozen=True, gc=False):
    """When a document needs looking at: an instant, or a span from the store's time of the write.

    The span is resolved by the store inside the change set, so that a lease never depends on the
    clock of the process that asked for it. Exactly one of the two is set.
    """

    at: datetime | None = None
    after_ms: int | None = None


class Insert(msgspec.Struct, frozen=True, gc=False):
    """Insert if absent. The document's revision is 1."""

    document: AnyDocument
    due: Due | None = None


class Replace(msgspec.Struct, frozen=True, gc=False):
    """Compare and set: the stored revision must be the document's revision minus one."""

    document: AnyDocument
    due: Due | None = None


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append receipts to a chain whose tail is number `after` (0: the chain does not exist yet)."""

    tenant: TenantId
    chain: str
    after: int
    receipts: tuple[Receipt, ...]


class Guard(msgspec.Struct, frozen=True, gc=False):
    """A document still at this revision; `revision` 0: absent."""

    type: type[Document]
    tenant: TenantId
    id: str
    revision: int


Change = Insert | Replace | Append | Guard


class ChangeSet(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What happens together or not at all.

    `not_after`: refused as `too_late` when the store's time has reached it.
    """

    changes: tuple[Change, ...]
    not_after: datetime | None = None


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The change set is durable. `at` is the store's time; leases count from it."""

    at: datetime


class Lost(msgspec.Struct, frozen=True, gc=False):
    """Nothing was changed. `index` is the first change that lost (-1: `not_after`)."""

    index: int
    loss: Loss


class Stored(msgspec.Struct, Generic[D], frozen=True, gc=False):
    """A document as read, with its due time and the store's time of the reading (one clock)."""

    document: D
    due_at: datetime | None
    read_at: datetime

    @property
    def lapsed(self) -> bool:
        """Whether the due time has been reached, by the store's own clock."""
        return self.due_at is not None and self.due_at <= self.read_at


class Unreadable(msgspec.Struct, frozen=True):
    """A row whose body or status this version cannot read; it is shown, never acted upon."""

    type: type[Document]
    tenant: TenantId
    id: str
    reason: str
    body: bytes


class Page(msgspec.Struct, Generic[D], frozen=True):
    """One page, newest first. `next` is an opaque cursor, none at the end."""

    items: tuple[Stored[D] | Unreadable, ...]
    next: str | None


class FeedEntry(msgspec.Struct, frozen=True):
    """A receipt at its place in the store's own order: the outbox that followers read."""

    position: int
    tenant: TenantId
    receipt: Receipt


class Store(Protocol):
    """What the runtime asks of durable memory. All methods are safe to call concurrently.

    Every method raises `Unavailable` (`store.unavailable`, `store.poisoned`) when the store cannot
    be trusted, and `commit` raises `Unavailable` (`store.commit_unknown`) when nobody can say
    whether the change set is durable.
    """

    async def get(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | None:
        """The document, or none. Raises `Corrupt` (`store.record_corrupt`) for unreadable rows."""
        ...

    async def find(
        self, type_: type[D], tenant: TenantId, key: str, value: str
    ) -> Stored[D] | None:
        """Look up by a unique key (`plan_id` of a transaction record). Raises as `get`."""
        ...

    async def list(
        self,
        type_: type[D],
        tenant: TenantId,
        *,
        where: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = limits.PAGE_SIZE,
    ) -> Page[D]:
        """Documents of one tenant, newest first, filtered on readable columns; never fatal."""
        ...

    async def commit(self, change_set: ChangeSet) -> Accepted | Lost:
        """Make all changes durable, or none. Durable when it returns `Accepted`."""
        ...

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """Documents of all tenants whose due time is reached, earliest first."""
        ...

    async def tail(self, tenant: TenantId, chain: str) -> Tail | None:
        """The end of a receipt chain, or none where the chain has not begun."""
        ...

    async def receipts(
        self, tenant: TenantId, chain: str, *, after: int = 0, limit: int = limits.PAGE_SIZE
    ) -> Sequence[Receipt]:
        """Receipts of one chain in order, from number `after + 1`."""
        ...

    async def feed(self, *, after: int = 0, limit: int = limits.PAGE_SIZE) -> Sequence[FeedEntry]:
        """Receipts of all chains in the store's order, from position `after + 1`.

        The order never changes once it was seen: a receipt that becomes visible later has a higher
        position than every one that was visible before, whoever wrote it and however long its
        change set took. Positions may leave gaps, and nothing ever fills one. Checkpoints of the
        log stand on this (RC-3).
        """
        ...

    async def now(self) -> datetime:
        """The store's clock, the only one that leases and due times are compared with.

        It may be a little behind, by what an answer takes to come here, and is never ahead.
        """
        ...

    async def by_now(self) -> datetime:
        """What the store's clock may show by now, at the latest: what licences are measured by."""
        ...

    async def news(self, seconds: float) -> None:
        """Wait until something that people wait for may have been written, at most so long.

        It may return early for nothing, and where a store hears of no other process it only waits.
        So it decides nothing: whoever waits asks again.
        """
        ...

    async def lineage(self) -> str:
        """Made once with the store; a restored copy gets another."""
        ...

    async def close(self) -> None:
        """Let running change sets end and release the store. Idempotent."""
        ...
