"""From durable documents to what a caller sees: wire status, result, and what can be done next.

A record that exists always shows its own status, with two exceptions that cannot hide an effect:
a certain failure whose result is cancelled, and a plan (or nothing yet) behind a waiting approval.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from amends.contracts.actions import ActionResult
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Mode, ResultStatus, Status, Verdict, WireStatus
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.results import NextStep, Result
from amends.transactions.replay import belongs_to

_COMPENSATE: Final = NextStep("compensate", "Offset the effect, if its capability supports it.")
_LOOK: Final = NextStep("get", "Look again: an attempt is running.")
_RECONCILE: Final = NextStep("reconcile", "Ask the provider what happened. Do not repeat it.")
_OPEN: Final = IN_FLIGHT | {Status.OUTCOME_UNKNOWN}
_WIRE: Final = MappingProxyType({status: WireStatus(status.value) for status in Status})
_SETTLE: Final = NextStep("settle", "An operator settles it by hand, with evidence.")

NEXT_STEPS: Final[Mapping[WireStatus, tuple[NextStep, ...]]] = MappingProxyType(
    {
        WireStatus.DRY_RUN_COMPLETED: (
            NextStep("plan", "Make a plan of it that can be committed."),
        ),
        WireStatus.PLANNED: (
            NextStep("commit", "Commit the plan before it expires."),
            NextStep("withdraw", "Withdraw the plan."),
        ),
        WireStatus.PREPARED: (_LOOK,),
        WireStatus.COMMITTING: (_LOOK,),
        WireStatus.COMMITTED: (_COMPENSATE,),
        WireStatus.COMPENSATING: (_LOOK,),
        WireStatus.COMPENSATED: (),
        WireStatus.FAILED: (
            NextStep("execute", "Nothing happened. Begin anew if the intent still stands."),
        ),
        WireStatus.OUTCOME_UNKNOWN: (_RECONCILE, _SETTLE),
        WireStatus.RECONCILING: (_LOOK,),
        WireStatus.RECONCILED: (
            NextStep("get", "The verdict says whether the effect is there."),
            _COMPENSATE,
        ),
        WireStatus.ROLLBACK_NOT_SUPPORTED: (),
        WireStatus.REQUIRES_HUMAN: (
            NextStep("approve", "Somebody who may decides."),
            NextStep("cancel", "The requester cancels it."),
        ),
        WireStatus.CANCELLED: (),
    }
)


def wire_status(
    record: TransactionRecord | None, action: ActionDocument | None, *, waiting: bool
) -> WireStatus:
    """The wire status of a transaction; `waiting` says that an approval request is pending.

    A possible effect is never masked: only `planned`, or no record at all, shows the waiting.
    """
    if record is None:
        return _without_record(action, waiting=waiting)
    if record.status is Status.PLANNED and waiting:
        return WireStatus.REQUIRES_HUMAN
    stopped = record.result is not None and record.result.status is ResultStatus.CANCELLED
    if record.status is Status.FAILED and record.verdict is Verdict.NOT_COMMITTED and stopped:
        return WireStatus.CANCELLED
    return _WIRE[record.status]


def _without_record(action: ActionDocument | None, *, waiting: bool) -> WireStatus:
    if waiting:
        return WireStatus.REQUIRES_HUMAN
    result = action.result if action else None
    if result is not None and result.status is ResultStatus.CANCELLED:
        return WireStatus.CANCELLED
    return WireStatus.FAILED


def next_steps(status: WireStatus, record: TransactionRecord | None) -> tuple[NextStep, ...]:
    """What can be done now; a partial or absent effect changes what the table says."""
    if record is None:
        return NEXT_STEPS[status]
    compensates = record.mode is Mode.COMPENSATE
    if status is WireStatus.FAILED and record.verdict is Verdict.PARTIAL:
        return () if compensates else (_COMPENSATE,)
    if status is WireStatus.RECONCILED and (compensates or record.verdict is Verdict.NOT_COMMITTED):
        return NEXT_STEPS[status][:1]
    return NEXT_STEPS[status]


def project(
    action: ActionDocument,
    record: TransactionRecord | None,
    *,
    waiting: bool = False,
    replayed: bool = False,
) -> Result:
    """The current result of one action, from its own document and its transaction's record."""
    status = wire_status(record, action, waiting=waiting)
    own = _own_result(action, record)
    plan = record.plan if record else None
    return Result(
        status=status,
        mode=action.mode,
        action_id=action.action_id,
        transaction_id=action.transaction_id,
        capability_id=action.capability_id,
        revision=record.revision if record else None,
        verdict=record.verdict if record else None,
        result_status=_result_status(own, waiting=waiting),
        plan_id=plan.plan_id if plan else action.context.plan_id,
        plan_expires_at=plan.expires_at if plan else None,
        approval_id=action.approval_id,
        approval_required=plan.approval_required if plan else action.approval_id is not None,
        replayed=replayed,
        raw_output=own.output if own else None,
        output_hash=own.output_hash if own else None,
        output_redacted=own.output_redacted if own else False,
        output_invalid=own.output_invalid if own else None,
        error=_own_error(action, record, own),
        provider_operation=record.provider_operation if record else None,
        cursor=record.cursor if record else None,
        reconcile_after=record.reconcile_after if record else None,
        attention=record.attention if record else None,
        warnings=plan.warnings if plan else (),
        next=next_steps(status, record),
    )


def _own_result(action: ActionDocument, record: TransactionRecord | None) -> ActionResult | None:
    """What this very action came to. An open outcome has none, whatever was stored before it, and
    an action that only named the transaction never shows what another one brought about.
    """
    if record is None or not belongs_to(action, record):
        return action.result
    return record.result if record.status in _OPEN else record.result or action.result


def _own_error(
    action: ActionDocument, record: TransactionRecord | None, own: ActionResult | None
) -> ErrorInfo | None:
    told = own.error if own else None
    if record is None or (own is not None and not belongs_to(action, record)):
        return told
    return record.error or told


def _result_status(own: ActionResult | None, *, waiting: bool) -> ResultStatus | None:
    if waiting:
        return ResultStatus.PENDING_APPROVAL
    return own.status if own else None


_RULE: Final = NextStep("rule", "Evidence speaks against it: an operator rules. Do not repeat it.")
CONTRADICTED: Final = "contradicted"
"""The attention of a result that later evidence speaks against."""


def contradicted(result: Result) -> Result:
    """The result of a terminal record that open corrections speak against (TX-REV-3).

    The record stays as it is, but nobody is told to begin anew on the strength of it.
    """
    return msgspec.structs.replace(
        result,
        attention=CONTRADICTED,
        next=(_RULE,),
    )
