"""What can be asked about a whole store, across tenants, by its upkeep alone.

It is no part of the store port: the runtime never asks it. Each driver with something that lasts
answers it in its own way, and writes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from amends.contracts.documents import Document, LogCheckpoint
from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.stores.port import Stored, Unreadable
from amends.stores.rows import read_receipt

D = TypeVar("D", bound=Document)

Row: TypeAlias = Sequence[Any]
"""One row of an answer in SQL."""


class ChainName(NamedTuple):
    """One chain of one tenant."""

    tenant: TenantId
    chain: str


class ReadChain(NamedTuple):
    """The receipts of a chain in their order, and the numbers of those that cannot be read."""

    receipts: tuple[Receipt, ...]
    unreadable: tuple[int, ...]


class Logged(NamedTuple):
    """A receipt's position in the feed, and what its hash is said to be."""

    position: int
    hash: str


class Logbook(Protocol):
    """The log of a store: every receipt in the order of the feed, and its checkpoints.

    What a receipt's hash is said to be is read from its column, with which the end of a chain is
    compared when a chain grows; whether the receipt has that hash is for whoever reads the chains.
    """

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        ...

    def count(self) -> int:
        """How many receipts there are."""
        ...

    def began(self) -> datetime | None:
        """When the first transaction of the store began."""
        ...

    def entries(self) -> Iterator[Logged]:
        """Every receipt, in the order of the feed, which ends where it may still change."""
        ...

    def positions(self, name: ChainName) -> dict[int, int]:
        """Where the receipts of a chain stand in the feed, by their numbers."""
        ...

    def chains_within(
        self, tenant: TenantId | None, since: datetime | None, until: datetime | None
    ) -> tuple[ChainName, ...]:
        """The chains with a step at or after `since` and before `until`, by whole milliseconds.

        A chain with a receipt that stands near them and cannot be read is among them: nobody can
        tell of when it is.
        """
        ...

    def checkpoints(self) -> tuple[LogCheckpoint, ...]:
        """The checkpoints of this lineage, the smallest first; the unreadable are passed over."""
        ...


class Surveyed(Protocol):
    """A store, open for such questions. Long answers come piece by piece."""

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        ...

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        """Every tenant with a transaction, a waiting approval, or an effect that nobody claims."""
        ...

    def snapshot(self) -> AbstractContextManager[object]:
        """Answers of one moment of the store while the block lasts."""
        ...

    def logbook(self) -> AbstractContextManager[Logbook]:
        """The log of one moment of the store; all answers in the block are of that moment.

        Raises `Unavailable` (`store.unavailable`) where a writer that stands still keeps anybody
        from knowing the order.
        """
        ...

    def signers(self, latest: int = ...) -> frozenset[str]:
        """The ids of the keys that signed the latest receipts."""
        ...

    def count(self, type_: type[Document]) -> int:
        """How many documents of a type there are."""
        ...

    def documents(self, type_: type[D]) -> Iterator[Stored[D] | Unreadable]:
        """Every document of a type, of all tenants, oldest first; what cannot be read is shown."""
        ...

    def count_chains(self) -> int:
        """How many receipt chains there are."""
        ...

    def chains(self) -> Iterator[ChainName]:
        """Every receipt chain, by tenant and name."""
        ...

    def unchained(self) -> Iterator[tuple[TenantId, str]]:
        """Transactions without a single receipt, by tenant and id."""
        ...

    def receipts(self, name: ChainName) -> ReadChain:
        """The whole of one chain; a receipt that cannot be read is passed over and counted."""
        ...

    def record(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | Unreadable | None:
        """One document, as it lies there."""
        ...


def chain_names(page: Callable[[tuple[str, str]], Sequence[Row]]) -> Iterator[ChainName]:
    """Every chain, read page by page; `page` gives those after a tenant and chain."""
    last = ("", "")
    while rows := page(last):
        for tenant, chain in rows:
            last = (tenant, chain)
            yield ChainName(TenantId(tenant), chain)


def read_chain(name: ChainName, page: Callable[[int], Sequence[Row]]) -> ReadChain:
    """A whole chain, read page by page; `page` gives bodies and numbers after a number.

    A receipt that cannot be read is passed over and counted.
    """
    receipts: list[Receipt] = []
    unreadable: list[int] = []
    after = 0
    while rows := page(after):
        for body, number in rows:
            after = number
            try:
                receipts.append(read_receipt(body, name.tenant, name.chain, number))
            except Corrupt:
                unreadable.append(number)
    return ReadChain(tuple(receipts), tuple(unreadable))


def own_checkpoints(survey: Surveyed) -> tuple[LogCheckpoint, ...]:
    """See `Logbook.checkpoints`."""
    lineage = survey.lineage
    found = [row.document for row in survey.documents(LogCheckpoint) if isinstance(row, Stored)]
    own = [one for one in found if one.lineage == lineage]
    return tuple(sorted(own, key=lambda one: one.size))
