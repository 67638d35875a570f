"""Answers that come after their attempt was given up: old fence, past the time limit (TX-SETTLE-6).

An effect is an effect whoever reports it, so *applied* moves an unknown record whatever its fence.
*Not applied* does so only if that was the sole attempt. Terminal records do not move; what
contradicts them becomes a correction (TX-REV-3).
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import Status, Verdict
from amends.contracts.ids import Fence
from amends.transactions.reconciliation import LATE_APPLIED, LATE_PARTIAL, reconciled_result
from amends.transactions.settlement import (
    OUTPUT_ATTENTION,
    Certainty,
    Reading,
    StoredOutput,
    keep_evidence,
    same_operation,
)
from amends.transactions.table import Event, admits, move

_KINDS: Final = {
    Certainty.APPLIED: LATE_APPLIED,
    Certainty.PARTIAL: LATE_PARTIAL,
    Certainty.NOT_APPLIED: "late_not_applied",
    Certainty.UNCERTAIN: "late_uncertain",
}
_VERDICTS: Final = {
    Certainty.APPLIED: Verdict.COMMITTED,
    Certainty.PARTIAL: Verdict.PARTIAL,
    Certainty.NOT_APPLIED: Verdict.NOT_COMMITTED,
}


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """What a late answer does: move the record, or be kept, or correct a terminal record."""

    event: Event | None = None
    record: TransactionRecord | None = None
    correction: Evidence | None = None


def take_late(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    fence: Fence,
    now: datetime,
) -> Late:
    """What a late answer of the attempt with this fence means for the record as it stands."""
    seen = Evidence(
        kind=_KINDS[reading.certainty],
        at=now,
        fence=fence,
        code=reading.error.code if reading.error else None,
        operation=reading.operation,
    )
    if _moves(record, reading):
        return _moved(record, reading, output, seen, now)
    if admits(Event.EVIDENCE_KEPT, record.status):
        kept = move(Event.EVIDENCE_KEPT, record, now, evidence=keep_evidence(record.evidence, seen))
        return Late(event=Event.EVIDENCE_KEPT, record=kept)
    return Late(correction=seen) if _contradicts(record, reading) else Late()


def _moves(record: TransactionRecord, reading: Reading) -> bool:
    if record.status is not Status.OUTCOME_UNKNOWN or record.frozen is not None:
        return False
    known, named = record.provider_operation, reading.operation
    if known is not None and named is not None and not same_operation(known, named):
        return False
    match reading.certainty:
        case Certainty.APPLIED | Certainty.PARTIAL:
            return True
        case Certainty.NOT_APPLIED:
            return record.effect_attempts == 1
        case _:
            return False


def _moved(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    seen: Evidence,
    now: datetime,
) -> Late:
    verdict = _VERDICTS[reading.certainty]
    moved = move(
        Event.LATE_ANSWER,
        record,
        now,
        result=reconciled_result(verdict, reading, output, now),
        verdict=verdict,
        error=None if verdict is Verdict.COMMITTED else reading.error,
        provider_operation=record.provider_operation or reading.operation,
        reconcile_after=None,
        settled_at=now,
        attention=OUTPUT_ATTENTION if output.invalid else None,
        evidence=keep_evidence(record.evidence, seen),
    )
    return Late(event=Event.LATE_ANSWER, record=moved)


def _contradicts(record: TransactionRecord, reading: Reading) -> bool:
    verdict = _VERDICTS.get(reading.certainty)
    if verdict is None or record.verdict is None:
        return False
    known, named = record.provider_operation, reading.operation
    if known is not None and named is not None and not same_operation(known, named):
        return True
    return verdict is not record.verdict
