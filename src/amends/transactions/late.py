"""Answers that come after their attempt was given up: old fence, past the time limit (TX-SETTLE-6).

An effect is an effect whoever reports it, so *applied* moves an unknown record whatever its fence.
*Not applied* does so only if that was the sole attempt. Terminal records do not move; what
contradicts them becomes a correction (TX-REV-3), and a failure that could still be tried again is
frozen with it, so that nobody repeats an effect that came late.
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import Status, Verdict
from amends.contracts.ids import Fence
from amends.transactions.contradictions import (
    LATE_APPLIED,
    LATE_NOT_APPLIED,
    LATE_PARTIAL,
    LATE_UNCERTAIN,
    TWO_EFFECTS,
    keep_evidence,
    other_operation,
    sole_attempt_tells,
)
from amends.transactions.reconciliation import reconciled_result
from amends.transactions.replay import reopenable
from amends.transactions.settlement import Certainty, Reading, StoredOutput, settled_attention
from amends.transactions.table import Event, admits, move

_KINDS: Final = {
    Certainty.APPLIED: LATE_APPLIED,
    Certainty.PARTIAL: LATE_PARTIAL,
    Certainty.NOT_APPLIED: LATE_NOT_APPLIED,
    Certainty.UNCERTAIN: LATE_UNCERTAIN,
}
_VERDICTS: Final = {
    Certainty.APPLIED: Verdict.COMMITTED,
    Certainty.PARTIAL: Verdict.PARTIAL,
    Certainty.NOT_APPLIED: Verdict.NOT_COMMITTED,
}


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """What a late answer does: move the record, or be kept, or correct a terminal record.

    A correction may come with a record: the failure that it freezes.
    """

    event: Event | None = None
    record: TransactionRecord | None = None
    correction: Evidence | None = None


def take_late(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    fence: Fence | None,
    now: datetime,
    *,
    event: str | None = None,
) -> Late:
    """What a late answer, or a provider's own event, means for the record as it stands.

    `fence` names the effect attempt that answered, `event` the provider's event; one that the
    record already remembers changes nothing.

    Late answers of mere look-ups do not come here: their failures say nothing of the effect.
    """
    if event is not None and any(kept.event == event for kept in record.evidence):
        return Late()
    conflict = other_operation(record, reading) is not None
    seen = Evidence(
        kind=TWO_EFFECTS if conflict else _KINDS[reading.certainty],
        at=now,
        fence=fence,
        event=event,
        code=reading.error.code if reading.error else None,
        operation=reading.operation,
    )
    if not conflict and _moves(record, reading):
        return _moved(record, reading, output, seen, now)
    if admits(Event.EVIDENCE_KEPT, record.status):
        return _kept(record, seen, now)
    if not conflict and not _contradicts(record, reading):
        return Late()
    if not reopenable(record):
        return Late(correction=seen)
    frozen = move(
        Event.FROZEN, record, now, frozen=seen.kind, evidence=keep_evidence(record.evidence, seen)
    )
    return Late(event=Event.FROZEN, record=frozen, correction=seen)


def _moves(record: TransactionRecord, reading: Reading) -> bool:
    if record.status is not Status.OUTCOME_UNKNOWN or record.frozen is not None:
        return False
    if reading.certainty is Certainty.NOT_APPLIED:
        return sole_attempt_tells(record)
    return reading.certainty is not Certainty.UNCERTAIN


def _moved(
    record: TransactionRecord,
    reading: Reading,
    output: StoredOutput,
    seen: Evidence,
    now: datetime,
) -> Late:
    verdict = _VERDICTS[reading.certainty]
    result = reconciled_result(verdict, reading, output, now)
    moved = move(
        Event.LATE_ANSWER,
        record,
        now,
        result=result,
        verdict=verdict,
        error=result.error,
        provider_operation=record.provider_operation or reading.operation,
        reconcile_after=None,
        settled_at=now,
        attention=settled_attention(record, output),
        evidence=keep_evidence(record.evidence, seen),
    )
    return Late(event=Event.LATE_ANSWER, record=moved)


def _kept(record: TransactionRecord, seen: Evidence, now: datetime) -> Late:
    """The attempt's own reference fills an empty one of an unknown record (TX-CHECKPOINT-2)."""
    attention = TWO_EFFECTS if seen.kind == TWO_EFFECTS else record.attention
    evidence = keep_evidence(record.evidence, seen)
    operation = record.provider_operation
    if record.status is Status.OUTCOME_UNKNOWN and seen.fence is not None:
        operation = operation or seen.operation
    kept = move(
        Event.EVIDENCE_KEPT,
        record,
        now,
        evidence=evidence,
        attention=attention,
        provider_operation=operation,
    )
    return Late(event=Event.EVIDENCE_KEPT, record=kept)


def _contradicts(record: TransactionRecord, reading: Reading) -> bool:
    verdict = _VERDICTS.get(reading.certainty)
    return verdict is not None and record.verdict not in (None, verdict)
