"""When what was written in a transaction may be forgotten, and what it is still needed for (RD-3).

A capability declares how long its data is kept, from the settlement on. When that time is over the
transaction is forgotten as a whole, unless something may still need it: the table below says what.
A capability that declares nothing keeps everything for ever.

A compensation whose target was forgotten still has the provider's reference, and not the target's
output: without a declared window nothing says how long that would be needed, so it is not waited
for.

Deliberately not here: what is left then (`forgetting`), and writing it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import Capability
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    LegalHold,
    TransactionRecord,
)
from amends.contracts.errors import AmendsError
from amends.contracts.times import after_ms
from amends.transactions.compensation import COMPENSABLE, Target, window_ends
from amends.transactions.replay import TERMINAL, reopenable

_WAITING: Final = frozenset({ApprovalStatus.PENDING, ApprovalStatus.APPROVED})


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored of one transaction, as it was read.

    `record` is absent where nothing was ever claimed or planned. `compensations` are the records
    that hold the target's slots.
    """

    record: TransactionRecord | None
    actions: tuple[ActionDocument, ...]
    approvals: tuple[ApprovalRequest, ...] = ()
    corrections: tuple[Correction, ...] = ()
    slots: CompensationSlots | None = None
    compensations: tuple[TransactionRecord, ...] = ()
    hold: LegalHold | None = None

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is left to forget."""
        documents = (*self.actions, *self.approvals, *self.corrections)
        known = documents if self.record is None else (self.record, *documents)
        return all(one.forgotten_at is not None for one in known)

    @property
    def settled_at(self) -> datetime:
        """From when its data is kept: the settlement, or the last that is known of it."""
        if self.record is not None:
            return self.record.settled_at or self.record.updated_at
        moved = (*self.actions, *self.approvals)
        return max(one.updated_at for one in moved)


class Need(NamedTuple):
    """What a transaction may still be needed for, and how that is seen."""

    code: str
    text: str
    is_there: Callable[[Whole, Capability, datetime], bool]


def _is_held(whole: Whole, _: Capability, __: datetime) -> bool:
    return whole.hold is not None and whole.hold.placed


def _is_open(whole: Whole, _: Capability, __: datetime) -> bool:
    return whole.record is not None and whole.record.status not in TERMINAL


def _is_frozen(whole: Whole, _: Capability, __: datetime) -> bool:
    frozen = [one.frozen for one in whole.approvals]
    return any(frozen) or (whole.record is not None and whole.record.frozen is not None)


def _may_be_retried(whole: Whole, _: Capability, __: datetime) -> bool:
    return whole.record is not None and reopenable(whole.record)


def _waits_for_people(whole: Whole, _: Capability, __: datetime) -> bool:
    return any(one.status in _WAITING for one in whole.approvals)


def _is_contradicted(whole: Whole, _: Capability, __: datetime) -> bool:
    return any(one.ruled_by is None for one in whole.corrections)


def _is_being_offset(whole: Whole, _: Capability, __: datetime) -> bool:
    return any(one.status not in TERMINAL or reopenable(one) for one in whole.compensations)


def _may_be_offset(whole: Whole, capability: Capability, now: datetime) -> bool:
    """Whether a declared window in which the effect may be offset is still open."""
    record, contract = whole.record, capability.compensation
    if record is None or contract.mode not in COMPENSABLE or not whole.actions:
        return False
    holders = whole.slots.holders if whole.slots else ()
    if len(holders) >= contract.max_compensations:
        return False
    target = Target(action=whole.actions[0], record=record, slots=whole.slots)
    try:
        ends = window_ends(capability, target, {}, now)
    except AmendsError:
        return False
    return ends is not None and now < ends


NEEDS: Final = (
    Need("held", "a legal hold is on it", _is_held),
    Need("open", "it has not ended", _is_open),
    Need("frozen", "it is frozen until an operator releases it", _is_frozen),
    Need("retryable", "its failure may be retried under the same key", _may_be_retried),
    Need("approval_waits", "people have yet to decide on it, or it may be used", _waits_for_people),
    Need("contradicted", "evidence speaks against it, and nobody has ruled", _is_contradicted),
    Need("compensation_open", "a compensation of it has not ended", _is_being_offset),
    Need("window_open", "its effect may still be offset", _may_be_offset),
)
"""What keeps a transaction although its time is over, in this order."""


def is_due(whole: Whole, capability: Capability, now: datetime) -> bool:
    """Whether the declared time is over and something is left to forget."""
    span = capability.data.retention_ms
    if span is None or whole.is_forgotten:
        return False
    return after_ms(whole.settled_at, span) <= now


def needed_for(whole: Whole, capability: Capability, now: datetime) -> Need | None:
    """The first thing that a transaction is still needed for; none where it may be forgotten."""
    return next((one for one in NEEDS if one.is_there(whole, capability, now)), None)
