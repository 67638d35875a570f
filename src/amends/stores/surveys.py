"""What can be asked about a whole store, across tenants, by its upkeep alone.

It is no part of the store port: the runtime never asks it. Each driver with something that lasts
answers it in its own way, and writes nothing.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.stores.port import Stored, Unreadable

D = TypeVar("D", bound=Document)


class ChainName(NamedTuple):
    """One chain of one tenant."""

    tenant: TenantId
    chain: str


class ReadChain(NamedTuple):
    """The receipts of a chain in their order, and the numbers of those that cannot be read."""

    receipts: tuple[Receipt, ...]
    unreadable: tuple[int, ...]


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
