"""The memory of a small world, which writes down every change set and what is wrong with it.

It is the store's own memory, so nothing becomes durable unseen: each accepted change set is held
against the laws (`laws`) at once, with what the provider's books say at that moment. The history
is kept whole, so that a world can be built again as it stood after any change set.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, TypeVar

from amends.contracts.documents import Document, TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.ids import TenantId
from amends.simulation.laws import Books, Turn, find_broken_laws
from amends.simulation.promises import Promise
from amends.stores.memory_tables import Memory
from amends.stores.port import (
    Accepted,
    AnyDocument,
    Append,
    ChangeSet,
    Guard,
    Insert,
    Lost,
    Replace,
)
from amends.stores.rows import from_micros
from amends.stores.shapes import shape_of
from amends.transactions.leases import ABANDONED

D = TypeVar("D", bound=Document)
Key = tuple[type[Document], str]

TENANT: Final = TenantId("town")


class Moment(NamedTuple):
    """One change set, with the store's time and the loop's seconds of it, and how many requests
    the provider had been sent by then.
    """

    at: datetime
    change_set: ChangeSet
    seconds: float
    sent: int


class Chronicle(Memory):
    """A memory with a history.

    `faults` is what is wrong so far, in words. `seen` counts what happened: each type of receipt,
    and whatever else is noted there. `time` gives the loop's seconds, `clock` the store's time.
    """

    def __init__(
        self, promise: Promise, clock: Callable[[], datetime], time: Callable[[], float]
    ) -> None:
        super().__init__(clock)
        self.promise = promise
        self.history: list[Moment] = []
        self.faults: list[str] = []
        self.seen: Counter[str] = Counter()
        self._time = time
        self._books: Books | None = None
        self._latest: dict[Key, AnyDocument] = {}
        self._by_key: dict[str, str] = {}

    def hold_against(self, books: Books) -> None:
        """From now on every change set is compared with these books."""
        self._books = books

    def fault(self, text: str) -> None:
        """Write down that something is wrong."""
        self.faults.append(f"{text} (second {self._time():g})")

    def apply(self, change_set: ChangeSet) -> Accepted | Lost:
        """See `Memory.apply`."""
        answer = super().apply(change_set)
        if isinstance(answer, Accepted):
            assert self._books is not None
            sent = self._books.sent
            self.history.append(Moment(answer.at, change_set, self._time(), sent))
            self._examine(change_set, answer.at)
        return answer

    def relive(self, past: Iterable[Moment]) -> None:
        """Make the same changes at the same times as another memory did."""
        present = self.clock
        for moment in past:
            self.clock = partial(_give, moment.at)
            accepted = super().apply(moment.change_set)
            assert isinstance(accepted, Accepted), "what was accepted once is accepted again"
            self.history.append(moment)
            for change in moment.change_set.changes:
                if isinstance(change, Insert | Replace):
                    self._remember(change.document)
        self.clock = present

    def _examine(self, change_set: ChangeSet, at: datetime) -> None:
        beside = [one for change in change_set.changes if (one := self._document(change))]
        for change in change_set.changes:
            match change:
                case Insert() | Replace():
                    self._judge(change.document, beside, at)
                case Append():
                    self.seen.update(receipt.step.type.value for receipt in change.receipts)
                case Guard():
                    continue
        for document in beside:
            self._remember(document)

    def _document(self, change: Insert | Replace | Append | Guard) -> AnyDocument | None:
        match change:
            case Insert() | Replace():
                return change.document
            case Guard():
                return self._latest.get((change.type, change.id))
            case Append():
                return None

    def _judge(self, after: AnyDocument, beside: Sequence[AnyDocument], at: datetime) -> None:
        assert self._books is not None
        turn = Turn(
            promise=self.promise,
            books=self._books,
            now=self._time(),
            at=at,
            before=self._latest.get(_key(after)),
            after=after,
            due_at=self.due_at(after),
            beside=beside,
        )
        for text in find_broken_laws(turn):
            self.fault(text)
        if isinstance(after, TransactionRecord):
            self._count(turn.before, after)

    def _count(self, before: AnyDocument | None, after: TransactionRecord) -> None:
        """Note what became of a record, so that a world in which nothing happens shows."""
        self.seen[f"{after.mode} {after.status}"] += 1
        if after.status is Status.RECONCILED:
            self.seen[f"reconciled as {after.verdict}"] += 1
        if after.error is not None and after.error.code == ABANDONED:
            self.seen["lapsed"] += 1
        attempts = before.attempts if isinstance(before, TransactionRecord) else 0
        if after.attempt is not None and after.attempt.redrive and after.attempts > attempts:
            self.seen["re-driven"] += 1

    def _remember(self, document: AnyDocument) -> None:
        self._latest[_key(document)] = document
        if isinstance(document, TransactionRecord):
            self._by_key[document.provider_key] = document.transaction_id

    def due_at(self, document: AnyDocument) -> datetime | None:
        """When the stored document is due."""
        shape = shape_of(type(document))
        row = self.due[shape.type].get((document.tenant, shape.id_of(document)))
        return None if row is None or row.due_us is None else from_micros(row.due_us)

    def next_due(self) -> datetime | None:
        """When the first of all documents is due."""
        due = [row.due_us for rows in self.due.values() for row in rows.values() if row.due_us]
        return from_micros(min(due)) if due else None

    def documents(self, type_: type[D]) -> Iterable[D]:
        """All documents of one type as they stand, in the order of their insertion."""
        return (one for one in self._latest.values() if isinstance(one, type_))

    def document(self, type_: type[D], id_: str) -> D | None:
        """One document as it stands."""
        found = self._latest.get((type_, id_))
        return found if isinstance(found, type_) else None

    def record_of_key(self, provider_key: str) -> TransactionRecord | None:
        """The record whose effect has this provider key."""
        return self.document(TransactionRecord, self._by_key.get(provider_key, ""))


def _key(document: AnyDocument) -> Key:
    return type(document), shape_of(type(document)).id_of(document)


def _give(at: datetime) -> datetime:
    return at
