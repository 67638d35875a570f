"""When an effect may be offset, and how often (TX-COMP-*).

A compensation is a new governed action of its own. Nothing here starts one (TX-COMP-6): these rules
only say whether one that was asked for may go on, and which slot of its target it takes.
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.actions import ActionResult
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    SlotHolder,
    TransactionRecord,
)
from amends.contracts.enums import CompensationMode, Mode, ResultStatus, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.times import after_ms, format_instant, parse_instant
from amends.transactions.coherence import check_coherent
from amends.transactions.replay import belongs_to

COMPENSABLE: Final = frozenset({CompensationMode.SUPPORTED, CompensationMode.BEST_EFFORT})
_TARGET_MODES: Final = frozenset({Mode.EXECUTE, Mode.PLAN, Mode.COMMIT})
_EFFECT_VERDICTS: Final = frozenset({Verdict.COMMITTED, Verdict.PARTIAL})


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the effect to offset, as read in one go; the claim compares it again."""

    action: ActionDocument | None
    record: TransactionRecord | None
    slots: CompensationSlots | None


def check_target(
    capability: Capability, target: Target, metadata: dict[str, Json], now: datetime
) -> ActionDocument:
    """The target's action, if it may be compensated now.

    The record's result speaks for the effect, since a planning action's own is only its plan; but
    not for an action that merely named the transaction and was refused. A reconciled effect, whole
    or partial, meets every test on the target.

    `capability` is the target's (the requested one); `metadata` is the compensating action's.
    Raises the code of the first condition of TX-COMP-1, TX-COMP-2 and TX-COMP-4 that fails.
    """
    if capability.compensation.mode not in COMPENSABLE:
        raise coded("transaction.compensation_not_supported", {"capability_id": capability.id})
    action = _target_action(capability.id, target)
    record = target.record
    if record is not None:
        check_coherent(record)
    result = _result_of(target)
    found_out = record is not None and record.status is Status.RECONCILED
    if not found_out and not _completed(result) and not _partial_evidence(result):
        raise _ineligible("transaction.compensation_target_not_completed", target)
    if record is not None and not _effect_is_there(record):
        raise _ineligible("transaction.compensation_target_not_committed", target)
    _check_window(capability, target, metadata, now)
    check_slots(capability, target.slots)
    return action


def _result_of(target: Target) -> ActionResult | None:
    if target.record is not None:
        return target.record.result
    return target.action.result if target.action is not None else None


def _target_action(capability_id: CapabilityId, target: Target) -> ActionDocument:
    action = target.action
    if action is None:
        raise coded("transaction.compensation_target_not_found")
    if action.mode not in _TARGET_MODES:
        raise _ineligible("transaction.compensation_target_invalid", target)
    if action.capability_id != capability_id:
        raise _ineligible("transaction.compensation_target_mismatch", target)
    if target.record is not None and not belongs_to(action, target.record):
        raise _ineligible("transaction.compensation_target_not_completed", target)
    return action


def _completed(result: ActionResult | None) -> bool:
    return result is not None and result.status is ResultStatus.COMPLETED


def _partial_evidence(result: ActionResult | None) -> bool:
    if result is None or result.error is None or result.error.retryable:
        return False
    details = result.error.details
    return (
        details.get("side_effects_committed") is True
        and details.get("compensation_required") is True
    )


def _effect_is_there(record: TransactionRecord) -> bool:
    if record.status is Status.RECONCILED:
        return record.verdict in _EFFECT_VERDICTS
    if record.status is Status.FAILED:
        return _partial_evidence(record.result)
    return record.status is Status.COMMITTED


def _check_window(
    capability: Capability, target: Target, metadata: dict[str, Json], now: datetime
) -> None:
    ends = window_ends(capability, target, metadata, now)
    if ends is not None and now >= ends:
        details: dict[str, Json] = {
            "happened_at": format_instant(_happened_at(target, metadata, now)),
            "window_ms": capability.compensation.window_ms,
        }
        raise coded("transaction.compensation_window_expired", details)


def window_ends(
    capability: Capability, target: Target, metadata: dict[str, Json], now: datetime
) -> datetime | None:
    """The instant from which the target may not be compensated any more, where a window is
    declared (TX-COMP-2).

    Raises `transaction.compensation_time_unknown` where nobody knows when its effect happened.
    """
    window = capability.compensation.window_ms
    if window is None:
        return None
    return after_ms(_happened_at(target, metadata, now), window)


def _happened_at(target: Target, metadata: dict[str, Json], now: datetime) -> datetime:
    if target.record is not None and target.record.settled_at is not None:
        return target.record.settled_at
    result = _result_of(target)
    if result is not None and result.completed_at is not None:
        return result.completed_at
    claimed = metadata.get("original_completed_at")
    if claimed is None:
        raise _ineligible("transaction.compensation_time_unknown", target)
    happened = parse_instant(claimed, "original_completed_at")
    if happened > now:
        raise _ineligible("transaction.compensation_time_unknown", target)
    return happened


def check_slots(capability: Capability, slots: CompensationSlots | None) -> None:
    """Raise unless the target has a free slot and is not frozen (TX-COMP-4, INT-3a)."""
    if slots is None:
        return
    if slots.frozen is not None:
        raise coded("transaction.compensation_frozen", {"reason": slots.frozen})
    if len(slots.holders) >= capability.compensation.max_compensations:
        held: list[Json] = [holder.action_id for holder in slots.holders]
        ended = any(holder.ended for holder in slots.holders)
        exists = "compensation_recovery_required" if ended else "compensation_exists"
        raise coded(f"transaction.{exists}", {"held_by": held})


def take_slot(
    target: ActionDocument,
    slots: CompensationSlots | None,
    holder: SlotHolder,
    limit: int,
    now: datetime,
) -> CompensationSlots:
    """The target's slots with one more holder; new where there were none."""
    if slots is None:
        return CompensationSlots(
            tenant=target.tenant,
            revision=1,
            created_at=now,
            updated_at=now,
            transaction_id=target.transaction_id,
            target=target.action_id,
            limit=limit,
            holders=(holder,),
        )
    return msgspec.structs.replace(
        slots,
        revision=slots.revision + 1,
        updated_at=max(now, slots.updated_at),
        limit=limit,
        holders=(*slots.holders, holder),
    )


def release_slot(
    slots: CompensationSlots, record: TransactionRecord, now: datetime, *, for_good: bool = False
) -> CompensationSlots | None:
    """The slots without this compensation, or none where nothing changes about its slot.

    Only a verdict of not_committed gives a slot back; an open or partial one holds it. `for_good`:
    its capability is served by a worker. If that has an intent of it, which the record names, the
    slot is never free again (INT-3a).
    """
    holder = next((h for h in slots.holders if h.transaction_id == record.transaction_id), None)
    if record.verdict is not Verdict.NOT_COMMITTED or holder is None or holder.ended:
        return None
    left = tuple(one for one in slots.holders if one is not holder)
    if for_good and record.provider_operation is not None:
        left = (*left, msgspec.structs.replace(holder, ended=True))
    return msgspec.structs.replace(
        slots,
        revision=slots.revision + 1,
        updated_at=max(now, slots.updated_at),
        holders=left,
    )


def freeze_slots(
    target: ActionDocument, slots: CompensationSlots | None, reason: str, now: datetime
) -> CompensationSlots:
    """The target's slots, closed until an operator rules on contradicting evidence (TX-REV-3)."""
    if slots is None:
        return CompensationSlots(
            tenant=target.tenant,
            revision=1,
            created_at=now,
            updated_at=now,
            transaction_id=target.transaction_id,
            target=target.action_id,
            limit=0,
            frozen=reason,
        )
    return msgspec.structs.replace(
        slots,
        revision=slots.revision + 1,
        updated_at=max(now, slots.updated_at),
        frozen=reason,
    )


def _ineligible(code: str, target: Target) -> AmendsError:
    record = target.record
    return coded(
        code,
        {
            "target_status": record.status.value if record else None,
            "target_transaction_id": record.transaction_id if record else None,
        },
    )
