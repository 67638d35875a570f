"""Rulings on corrections: when an effect that was contradicted may be offset again (TX-REV-3).

A correction closes its target to compensations. It is opened again only when every correction of
that target was ruled on, and each ruling allows it. A later ruling on the same correction takes the
place of the earlier one; both stay in the receipts. The record itself does not change.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.documents import CompensationSlots, Correction
from amends.contracts.principals import SETTLE_SCOPE, Principal


def rule(
    correction: Correction,
    operator: Principal,
    ruling: str,
    *,
    allow_compensation: bool,
    now: datetime,
) -> Correction:
    """The correction with an operator's word on it.

    Raises `correction.ruling_not_allowed` for anybody else, and `correction.ruling_required` for a
    ruling without words.
    """
    if not operator.may(SETTLE_SCOPE):
        raise coded("correction.ruling_not_allowed", {"correction_id": correction.correction_id})
    if not ruling.strip():
        raise coded("correction.ruling_required", {"correction_id": correction.correction_id})
    return replace(
        correction,
        revision=correction.revision + 1,
        updated_at=max(now, correction.updated_at),
        ruled_by=operator.ref,
        ruling=ruling,
        allows_compensation=allow_compensation,
    )


def closed_by(corrections: Sequence[Correction]) -> str | None:
    """The kind of evidence that still closes a target, or none where every ruling opens it."""
    closing = (one.evidence.kind for one in corrections if not one.allows_compensation)
    return next(closing, None)


def reopened(
    slots: CompensationSlots, corrections: Sequence[Correction], now: datetime
) -> CompensationSlots:
    """The target's slots as these corrections of it leave them."""
    return replace(
        slots,
        revision=slots.revision + 1,
        updated_at=max(now, slots.updated_at),
        frozen=closed_by(corrections),
    )
