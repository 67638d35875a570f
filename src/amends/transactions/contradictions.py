"""What was learnt beside the record's own story: second operations and late effects.

Two different provider operations are evidence of two effects (TX-CHECKPOINT-2). Evidence never
replaces what is recorded; it makes settlements more careful and calls a person.
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts import limits
from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import Verdict
from amends.contracts.ids import Fence
from amends.contracts.outcomes import ProviderOperation
from amends.transactions.readings import Reading

TWO_EFFECTS: Final = "two_provider_operations"
LATE_APPLIED: Final = "late_applied"
LATE_PARTIAL: Final = "late_partial"
LATE_NOT_APPLIED: Final = "late_not_applied"
LATE_UNCERTAIN: Final = "late_uncertain"


def same_operation(one: ProviderOperation, other: ProviderOperation) -> bool:
    """Whether two references name the same thing; request ids may differ from call to call."""
    return (one.provider, one.operation_id) == (other.provider, other.operation_id)


def other_operation(record: TransactionRecord, reading: Reading) -> ProviderOperation | None:
    """The operation that a reading names, where the record knows a different one."""
    known, named = record.provider_operation, reading.operation
    if known is None or named is None or same_operation(known, named):
        return None
    return named


def conflict_in_this_attempt(record: TransactionRecord) -> bool:
    """Whether the record's present attempt tried to record a second operation."""
    fence: Fence | None = record.attempt.fence if record.attempt else None
    return any(kept.kind == TWO_EFFECTS and kept.fence == fence for kept in record.evidence)


def late_verdict(record: TransactionRecord) -> Verdict | None:
    """What late answers, kept as evidence, say of the effect: all, a part, or nothing known."""
    kinds = {kept.kind for kept in record.evidence}
    if LATE_APPLIED in kinds:
        return Verdict.COMMITTED
    return Verdict.PARTIAL if LATE_PARTIAL in kinds else None


def sole_attempt_tells(record: TransactionRecord) -> bool:
    """Whether one attempt's "nothing happened" settles the matter: no other could have acted."""
    return (
        record.effect_attempts == 1
        and record.attention != TWO_EFFECTS
        and late_verdict(record) is None
    )


def effect_beside(record: TransactionRecord, named: ProviderOperation | None) -> bool:
    """Whether another attempt is known to have had an effect that is not the named operation's."""
    fence: Fence | None = record.attempt.fence if record.attempt else None
    for kept in record.evidence:
        same = kept.operation and named and same_operation(kept.operation, named)
        if kept.kind in (LATE_APPLIED, LATE_PARTIAL) and kept.fence != fence and not same:
            return True
    return False


def two_effects(
    record: TransactionRecord, operation: ProviderOperation, now: datetime
) -> tuple[Evidence, ...]:
    """The record's evidence with a second operation that its present attempt named, once."""
    fence: Fence | None = record.attempt.fence if record.attempt else None
    seen = Evidence(kind=TWO_EFFECTS, at=now, fence=fence, operation=operation)
    noted = (msgspec.structs.replace(kept, at=now) for kept in record.evidence)
    return record.evidence if seen in noted else keep_evidence(record.evidence, seen)


def keep_evidence(kept: tuple[Evidence, ...], new: Evidence) -> tuple[Evidence, ...]:
    """Evidence with one more entry, bounded: the oldest stay, and the first of each kind."""
    full = len(kept) >= limits.EVIDENCE_ENTRIES
    return kept if full and any(one.kind == new.kind for one in kept) else (*kept, new)
