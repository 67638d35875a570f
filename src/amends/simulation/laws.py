"""The laws of a small world that hold for every single change set.

A law is given one document before and after a change, with everything else that became durable in
the same change set, and says in words what is wrong. The laws are written from the specification
and from the provider's books, not from the product's rules; only the transition table is its own.

Deliberately not here: what holds only in the end, when everything has come to rest (`ends`).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeVar

import msgspec

from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Document,
    TransactionRecord,
)
from amends.contracts.enums import IN_FLIGHT, Mode, Status, Verdict
from amends.contracts.times import after_ms
from amends.simulation.promises import Promise
from amends.stores.port import AnyDocument
from amends.testing.effects import Ruling
from amends.transactions.table import TABLE

D = TypeVar("D", bound=Document)

_MOVES: Final = frozenset(
    (before, row.after or before)
    for row in TABLE
    for before in (row.before if row.before is not None else (None,))
)


class Books(Protocol):
    """What the provider knows."""

    @property
    def sent(self) -> int:
        """How many requests have been sent to it, arrived or not."""
        ...

    def effects(self, *, until: float = ...) -> Sequence[Ruling]:
        """Every movement of money: by a loop's time, or ever, those in flight included."""
        ...


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One document's change, at the loop's time `now` and the store's time `at`.

    `beside` is all that was written or guarded with it, itself too.
    """

    promise: Promise
    books: Books
    now: float
    at: datetime
    before: AnyDocument | None
    after: AnyDocument
    due_at: datetime | None
    beside: Sequence[AnyDocument]

    def among(self, type_: type[D]) -> Iterator[D]:
        """The documents of one type in the change set."""
        return (one for one in self.beside if isinstance(one, type_))


Law = Callable[[Turn], Iterator[str]]


def find_broken_laws(turn: Turn) -> Iterator[str]:
    """What is wrong with one document's change."""
    yield from _revisions(turn)
    match turn.after:
        case TransactionRecord() as record:
            before = turn.before if isinstance(turn.before, TransactionRecord) else None
            for law in _RECORD_LAWS:
                yield from law(turn, before, record)
        case ActionDocument() as action:
            yield from _cancelled_stays_cancelled(turn, action)
        case ApprovalRequest() as request:
            yield from _approvals(turn, request)
        case CompensationSlots() as slots:
            yield from _slots(turn, slots)
        case _:
            return


def _revisions(turn: Turn) -> Iterator[str]:
    """TX-REV-1: every change is one revision, and time does not run back in a document."""
    before, after = turn.before, turn.after
    if after.revision != (before.revision if before else 0) + 1:
        yield f"{_name(after)} went to revision {after.revision}"
    if before and (after.updated_at < before.updated_at or after.created_at != before.created_at):
        yield f"{_name(after)} goes back in time"


RecordLaw = Callable[[Turn, TransactionRecord | None, TransactionRecord], Iterator[str]]


def _transitions(
    _turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-REV-1, TX-REV-3: only what the table has; so terminal records do not move."""
    was = before.status if before else None
    if (was, after.status) not in _MOVES:
        yield f"{_name(after)} went from {was} to {after.status}"
    reopened = was is Status.FAILED and after.status is Status.PREPARED
    if before and reopened and before.verdict is not Verdict.NOT_COMMITTED:
        yield f"{_name(after)} was reopened with verdict {before.verdict}"


_LASTING: Final = (
    "provider_key",
    "capability_id",
    "connector_capability_id",
    "principal",
    "identity",
    "input_hash",
    "plan",
)
_ONCE_SET: Final = ("provider_operation", "first_attempt_at", "ruling")


def _lasting(
    _turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-PLAN-1, TX-CHECKPOINT-1: what a record is about, and what the provider named, stays."""
    if before is None:
        return
    for field in _LASTING:
        if getattr(before, field) != getattr(after, field):
            yield f"{_name(after)} changed its {field}"
    for field in _ONCE_SET:
        was = getattr(before, field)
        if was is not None and was != getattr(after, field):
            yield f"{_name(after)} replaced its {field}"


def _fenced(
    _turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-LEASE-1: attempts are counted one by one, each under a fence of its own."""
    attempts = before.attempts if before else 0
    was = before.attempt.fence if before and before.attempt else None
    fence = after.attempt.fence if after.attempt else None
    if (fence != was) != (after.attempts == attempts + 1):
        yield f"{_name(after)} has attempt {after.attempts} under fence {fence}, after {was}"


def _watched(
    turn: Turn, _before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-LEASE-2, TX-RECON-4: whatever is open is looked at again, or calls a person."""
    if after.frozen is not None:
        return
    if after.status in IN_FLIGHT and (after.attempt is None or turn.due_at is None):
        yield f"{_name(after)} is {after.status} without a lease"
    if after.status is Status.OUTCOME_UNKNOWN and after.attention is None and turn.due_at is None:
        yield f"{_name(after)} is unknown and forgotten"
    if after.status is Status.PLANNED and turn.due_at is None:
        yield f"{_name(after)} is a plan that never expires"


def _truthful(
    turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """A new verdict agrees with the provider's books; a person who took the risk may err."""
    if after.verdict is None or (before is not None and before.verdict is after.verdict):
        return
    yield from contradictions(after, turn.books, turn.now)


def contradictions(record: TransactionRecord, books: Books, now: float) -> Iterator[str]:
    """Where a record's verdict and the provider's books disagree."""
    name, key = f"{_name(record)} is {record.status}/{record.verdict}", record.provider_key
    there = any(one.arrival.key == key for one in books.effects(until=now))
    coming = any(one.arrival.key == key for one in books.effects())
    if record.verdict is Verdict.COMMITTED and not there:
        yield f"{name}, and there is no effect"
    if record.verdict is Verdict.NOT_COMMITTED and coming and not risk_was_accepted(record):
        yield f"{name}, and the effect is there"


def risk_was_accepted(record: TransactionRecord) -> bool:
    """Whether a person ruled "not committed" before that could be known (TX-RECON-5)."""
    return record.ruling is not None and record.ruling.risk_accepted


def _licensed(
    turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-CLAIM-1, AP-4: a first attempt uses its approval up in the claim's own change set."""
    attempt = after.attempt
    if attempt is None or attempt.redrive or after.effect_attempts == 0:
        return
    if before is not None and before.effect_attempts == after.effect_attempts:
        return
    asked = turn.promise.approval
    if after.mode is Mode.COMPENSATE:
        asked = turn.promise.refund_approval
    actions = [one for one in turn.among(ActionDocument) if one.action_id == after.action_id]
    if not actions:
        yield f"{_name(after)} was claimed without its action"
    asked = asked or any(one.approval_id is not None for one in actions)
    used = [one for one in turn.among(ApprovalRequest) if one.action_id == after.action_id]
    if asked and not any(one.status is ApprovalStatus.CONSUMED for one in used):
        yield f"{_name(after)} was claimed without using an approval up"


def _slotted(
    turn: Turn, before: TransactionRecord | None, after: TransactionRecord
) -> Iterator[str]:
    """TX-COMP-2, TX-COMP-4: a compensation begins in the change set that takes a slot, in time."""
    if after.status is not Status.COMPENSATING or before is not None:
        return
    held = [h.transaction_id for s in turn.among(CompensationSlots) for h in s.holders]
    if after.transaction_id not in held:
        yield f"{_name(after)} compensates without a slot"
    window = turn.promise.refund_window_ms
    for target in turn.among(TransactionRecord):
        if window is None or target.settled_at is None:
            continue
        if turn.at >= after_ms(target.settled_at, window):
            yield f"{_name(after)} compensates after the window"


_RECORD_LAWS: Final[tuple[RecordLaw, ...]] = (
    _transitions,
    _lasting,
    _fenced,
    _watched,
    _truthful,
    _licensed,
    _slotted,
)


def _cancelled_stays_cancelled(turn: Turn, after: ActionDocument) -> Iterator[str]:
    """TX-CANCEL-1: what was cancelled before its claim is never claimed."""
    before = turn.before
    if not isinstance(before, ActionDocument) or before.cancellation is None:
        return
    if after.attempted and not before.attempted:
        yield f"{_name(after)} was claimed after it was cancelled"


def _approvals(turn: Turn, after: ApprovalRequest) -> Iterator[str]:
    """AP-3, AP-4: used once, after somebody else's approval, and only while it stood."""
    if after.status is not ApprovalStatus.CONSUMED:
        return
    before = turn.before
    if not isinstance(before, ApprovalRequest) or before.status is not ApprovalStatus.APPROVED:
        yield f"{_name(after)} was used although it was not approved"
    others = [
        made
        for made in after.decisions
        if made.answer is Answer.APPROVED and made.approver.id != after.requester.id
    ]
    if not others:
        yield f"{_name(after)} was approved by nobody but its requester"


def _slots(turn: Turn, after: CompensationSlots) -> Iterator[str]:
    """TX-COMP-4: never more holders than declared; let go only with a certain absence."""
    if len(after.holders) > turn.promise.max_compensations:
        yield f"{_name(after)} has {len(after.holders)} holders"
    before = turn.before
    if not isinstance(before, CompensationSlots):
        return
    absent = {
        one.transaction_id
        for one in turn.among(TransactionRecord)
        if one.verdict is Verdict.NOT_COMMITTED
    }
    for holder in set(before.holders) - set(after.holders):
        if holder.transaction_id not in absent:
            yield f"{_name(after)} let go of {holder.transaction_id}, whose effect may be there"


def _name(document: AnyDocument) -> str:
    match document:
        case TransactionRecord():
            return f"record {document.transaction_id}"
        case ActionDocument():
            return f"action {document.action_id}"
        case ApprovalRequest():
            return f"approval {document.approval_id}"
        case CompensationSlots():
            return f"slots of {document.transaction_id}"
        case _:
            return type(document).__name__.lower()
