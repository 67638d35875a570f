"""What is left of documents once nobody may keep what was written in them (RD-3).

Inputs, outputs, error details, plan snapshots, metadata, cursors and what people wrote are replaced
by their hash or by nothing. Everything that says what happened stays: statuses, verdicts, ids,
hashes, times, codes, rules. Receipts hold none of the former and are not touched, so a chain
verifies afterwards as it did before, and so does the digest of a plan.

Deliberately not here: when that may be done (`retention`), and writing it.
"""

from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import (
    ActionDocument,
    Correction,
    Document,
    GateVerdict,
    LegalHold,
    OperatorRuling,
    Refusal,
    TransactionPlan,
    TransactionRecord,
)
from amends.contracts.redaction import hidden_text, redacted_error

D = TypeVar("D", bound=Document)


def forget_record(record: TransactionRecord, now: datetime) -> TransactionRecord:
    """The record of a transaction that has ended, with nothing in it but what happened."""
    return _next(
        record,
        now,
        plan=_plan(record.plan),
        result=_result(record.result),
        error=redacted_error(record.error) if record.error else None,
        # Not removed: that a record has a cursor keeps its failure from being retried.
        cursor=None if record.cursor is None else hidden_text(record.cursor),
        ruling=_ruling(record.ruling),
    )


def forget_action(action: ActionDocument, now: datetime) -> ActionDocument:
    """An action's document without its input, its results' content, and what was said of it."""
    cancellation = action.cancellation
    if cancellation is not None:
        cancellation = replace(cancellation, reason=hidden_text(cancellation.reason))
    requested = action.requested
    if requested is not None:
        reason = None if requested.reason is None else hidden_text(requested.reason)
        requested = replace(requested, reason=reason, metadata={})
    return _next(
        action,
        now,
        input=None,
        result=_result(action.result),
        reconcile_result=_result(action.reconcile_result),
        verdicts=_verdicts(action.verdicts),
        cancellation=cancellation,
        requested=requested,
        metadata={},
    )


def forget_request(request: ApprovalRequest, now: datetime) -> ApprovalRequest:
    """An approval request without what was approved in words; hashes and decisions stay."""
    decisions = tuple(
        [
            replace(
                one,
                reason=hidden_text(one.reason),
                evidence={name: hidden_text(text) for name, text in one.evidence.items()},
            )
            for one in request.decisions
        ]
    )
    return _next(request, now, input=None, decisions=decisions)


def forget_correction(correction: Correction, now: datetime) -> Correction:
    """A correction with the ruling's words as their hash."""
    ruling = None if correction.ruling is None else hidden_text(correction.ruling)
    return _next(correction, now, ruling=ruling)


def forget_hold(hold: LegalHold, now: datetime) -> LegalHold:
    """A hold that was lifted, with its last reason as its hash."""
    return replace(
        hold,
        revision=hold.revision + 1,
        updated_at=max(now, hold.updated_at),
        reason=hidden_text(hold.reason),
    )


def forget_refusal(refusal: Refusal, now: datetime) -> Refusal:
    """A refusal with its code and its gates, without their words."""
    return _next(refusal, now, verdicts=_verdicts(refusal.verdicts))


def _next(document: D, now: datetime, **changes: object) -> D:
    at = max(now, document.updated_at)
    revision = document.revision + 1
    return replace(document, revision=revision, updated_at=at, forgotten_at=at, **changes)


def _plan(plan: TransactionPlan | None) -> TransactionPlan | None:
    """The plan without its input and its validation's output: its digest covers neither."""
    if plan is None:
        return None
    validation = plan.validation
    return replace(
        plan,
        snapshot=replace(plan.snapshot, input=None),
        validation=replace(validation, output=None) if validation else None,
    )


def _result(result: ActionResult | None) -> ActionResult | None:
    if result is None:
        return None
    return replace(
        result,
        output=None,
        output_redacted=result.output_redacted or result.output is not None,
        error=redacted_error(result.error) if result.error else None,
    )


def _ruling(ruling: OperatorRuling | None) -> OperatorRuling | None:
    if ruling is None:
        return None
    return replace(ruling, reference=hidden_text(ruling.reference), note=hidden_text(ruling.note))


def _verdicts(verdicts: tuple[GateVerdict, ...]) -> tuple[GateVerdict, ...]:
    return tuple([replace(one, reason=hidden_text(one.reason)) for one in verdicts])
