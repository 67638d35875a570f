"""Idempotency keys of callers: scope, fingerprint, and what a second use gets (ID-1 to ID-4).

A reservation only points at an action. Whether it is in progress, settled or free is read from that
action's document, so a reservation can never say something else than the action does.
"""

from datetime import datetime
from enum import Enum
from typing import Final, assert_never

from amends.contracts import limits
from amends.contracts.canonical import parts_digest
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability, IdempotencyContract
from amends.contracts.documents import ActionDocument, Reservation
from amends.contracts.enums import (
    MUTATING_MODES,
    Collision,
    KeyRequirement,
    KeyScope,
    Mode,
    ResultStatus,
)
from amends.contracts.ids import ActionId, CapabilityId
from amends.contracts.principals import Identity, Principal
from amends.contracts.times import after_ms

_EFFECTS: Final = "effects"


class Use(Enum):
    """What a key may be used for."""

    RESERVE = "reserve"
    TAKE_OVER = "take_over"
    OWN = "own"
    REPLAY = "replay"


def check_key(contract: IdempotencyContract, mode: Mode, key: str | None) -> None:
    """Raise where a key is missing, not wanted, blank or oversize (ID-1).

    Only modes with an effect need one; a preview or a look-up may go without.
    """
    if key is None:
        if contract.requirement is KeyRequirement.REQUIRED and mode in MUTATING_MODES:
            raise coded("idempotency.key_required")
        return
    if not isinstance(key, str):
        raise coded("idempotency.key_invalid")
    printable = key.isprintable() and key.isascii()
    if not key.strip() or len(key) > limits.IDEMPOTENCY_KEY_LENGTH or not printable:
        raise coded("idempotency.key_invalid")
    if contract.requirement is KeyRequirement.UNSUPPORTED:
        raise coded("idempotency.key_unsupported")


def reservation_id(
    capability: Capability,
    principal: Principal,
    identity: Identity | None,
    action_id: ActionId,
    mode: Mode,
    key: str,
) -> str:
    """The scoped key: execute, commit and compensate share one space; tenants never meet (ID-1).

    Raises `idempotency.account_required` where the scope needs an account that is not given.
    """
    scope = capability.idempotency.key_scope
    within = _within(scope, capability.id, principal, identity, action_id)
    space = _EFFECTS if mode in MUTATING_MODES else mode.value
    return parts_digest("amends-reservation-v1", principal.tenant, space, scope, within, key)


def _within(
    scope: KeyScope,
    capability_id: CapabilityId,
    principal: Principal,
    identity: Identity | None,
    action_id: ActionId,
) -> str:
    match scope:
        case KeyScope.ACTION:
            return action_id
        case KeyScope.CAPABILITY:
            return capability_id
        case KeyScope.PRINCIPAL:
            return f"{principal.kind.value}:{principal.id}"
        case KeyScope.TENANT:
            return ""
        case KeyScope.EXTERNAL_ACCOUNT:
            account = identity.external_account if identity else None
            if account is None:
                raise coded("idempotency.account_required")
            return account
        case _:
            assert_never(scope)


def use_of_key(
    contract: IdempotencyContract,
    reservation: Reservation | None,
    holder: ActionDocument | None,
    action_id: ActionId,
    fingerprint: str,
    *,
    approval_open: bool,
    now: datetime,
) -> Use:
    """What this action may do with its key.

    `holder` is the action that the reservation points at, `approval_open` whether that one waits
    for people. Raises `idempotency.input_mismatch` or `idempotency.conflict`, or, where the holder
    cannot be read and nobody knows what it did, `idempotency.in_progress`; the text never says
    anything about the holder.
    """
    if reservation is None:
        return Use.RESERVE
    if reservation.action_id == action_id:
        return Use.OWN
    if holder is None:
        raise coded("idempotency.in_progress")
    if is_free(reservation, holder, approval_open=approval_open, now=now):
        return Use.TAKE_OVER
    if reservation.fingerprint != fingerprint:
        raise coded("idempotency.input_mismatch")
    if contract.collision is Collision.REJECT_CONFLICT:
        raise coded("idempotency.conflict")
    return Use.REPLAY


def is_free(
    reservation: Reservation, holder: ActionDocument, *, approval_open: bool, now: datetime
) -> bool:
    """Whether the key may be taken over (ID-3, ID-4).

    Free are: a retryable failure that certainly had no effect, a settled result whose time to live
    has passed, and an action that never got an attempt and lies still.
    """
    if holder.result is None:
        lapsed = now >= after_ms(holder.updated_at, limits.RESERVATION_LAPSE_MS)
        return not holder.attempted and not approval_open and lapsed
    if _retryable_without_effect(holder):
        return True
    ttl, settled = reservation.ttl_ms, holder.settled_at
    return ttl is not None and settled is not None and now >= after_ms(settled, ttl)


def _retryable_without_effect(holder: ActionDocument) -> bool:
    result = holder.result
    if result is None or result.status is not ResultStatus.FAILED or result.error is None:
        return False
    return result.error.retryable and result.error.details.get("side_effects_committed") is not True
