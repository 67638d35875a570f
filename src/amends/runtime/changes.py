"""Drafts of change sets: documents and receipts that become durable together, or not at all.

All steps of one draft belong to one transaction's chain. A draft is built from what was just read;
when it loses, the caller reads again and builds another, a bounded number of times.
"""

from collections.abc import Awaitable, Callable
from copy import copy
from datetime import datetime
from typing import Final, TypeVar

from amends.contracts.codes import coded
from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt, Step, Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.chain import chain_of, seal
from amends.receipts.signing import Signer
from amends.stores.port import (
    Accepted,
    AnyDocument,
    Append,
    Change,
    ChangeSet,
    Due,
    Guard,
    Insert,
    Lost,
    Replace,
    Store,
)

T = TypeVar("T")
ROUNDS: Final = 32
"""How often one request builds its change set anew before it gives up as contended."""


class Draft:
    """One change set in the making."""

    def __init__(self, tenant: TenantId, transaction_id: TransactionId) -> None:
        self._tenant = tenant
        self._chain = chain_of(transaction_id)
        self._changes: list[Change] = []
        self._steps: list[Step] = []
        self._not_after: datetime | None = None

    def copy(self) -> "Draft":
        """A draft that says the same and goes on by itself."""
        copied = copy(self)
        copied._changes, copied._steps = list(self._changes), list(self._steps)
        return copied

    def lost_by(self, lost: Lost, type_: type[Document]) -> bool:
        """Whether it was a document of this type that was not as the draft took it to be."""
        changed = self._changes[lost.index] if 0 <= lost.index < len(self._changes) else None
        return isinstance(changed, Insert | Replace) and isinstance(changed.document, type_)

    def before(self, instant: datetime) -> None:
        """Hold only while the store's time has not reached this instant."""
        self._not_after = min(instant, self._not_after or instant)

    def insert(self, document: AnyDocument, due: Due | None = None) -> None:
        """Insert if absent."""
        self._changes.append(Insert(document, due))

    def replace(self, document: AnyDocument, due: Due | None = None) -> None:
        """Compare and set on the revision before the document's."""
        self._changes.append(Replace(document, due))

    def put(self, document: AnyDocument, due: Due | None = None) -> None:
        """Insert a document of revision 1, replace any other."""
        if document.revision == 1:
            self.insert(document, due)
        else:
            self.replace(document, due)

    def guard(self, type_: type[Document], id_: str, revision: int) -> None:
        """Hold only while that document is at this revision."""
        self._changes.append(Guard(type_, self._tenant, id_, revision))

    def step(self, step: Step) -> None:
        """Add one receipt to the transaction's chain."""
        self._steps.append(step)

    async def commit(
        self, store: Store, signer: Signer | None, *, tail: Tail | None
    ) -> "Written | Lost":
        """Chain and sign the receipts onto `tail` and make everything durable."""
        receipts: tuple[Receipt, ...] = ()
        changes = tuple(self._changes)
        if self._steps:
            receipts = seal(tail, self._steps, signer)
            after = tail.number if tail else 0
            changes = (*changes, Append(self._tenant, self._chain, after, receipts))
        change_set = ChangeSet(changes=changes, not_after=self._not_after)
        answer = await store.commit(change_set)
        if isinstance(answer, Lost):
            return answer
        return Written(answer, _tail_after(tail, receipts))


class Written:
    """A durable change set: the store's time of it, and the chain's tail after it."""

    __slots__ = ("at", "tail")

    def __init__(self, accepted: Accepted, tail: Tail | None) -> None:
        self.at = accepted.at
        self.tail = tail


def _tail_after(tail: Tail | None, receipts: tuple[Receipt, ...]) -> Tail | None:
    if not receipts:
        return tail
    return Tail(receipts[-1].number, receipts[-1].hash)


async def until_written(round_: Callable[[], Awaitable[T | Lost]]) -> T:
    """Repeat a round of reading, deciding and writing until it is not lost to somebody else.

    Raises `Conflict` (`store.contended`) after many lost rounds; nothing was changed then.
    """
    for _ in range(ROUNDS):
        answer = await round_()
        if not isinstance(answer, Lost):
            return answer
    raise coded("store.contended")
