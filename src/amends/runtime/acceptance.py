"""Pipeline step 9: what is known of this action id and this key, and the documents of acceptance.

Acceptance becomes durable together with whatever follows first: the claim, a waiting approval, a
stored preview, or a refusal at step 10.
"""

import msgspec
from msgspec.structs import replace

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.documents import (
    ActionDocument,
    GateVerdict,
    Reservation,
    ReservationRef,
    TransactionRecord,
)
from amends.contracts.enums import MUTATING_MODES, Mode
from amends.contracts.ids import ActionId, ApprovalId
from amends.contracts.json_types import json_text
from amends.contracts.results import Result
from amends.governance.approvals import OPEN
from amends.governance.idempotency import Use, reservation_id, use_of_key
from amends.runtime.changes import Draft
from amends.runtime.contradicting import seen_by_evidence
from amends.runtime.environment import Environment
from amends.runtime.registry import Registered
from amends.runtime.requests import Admitted
from amends.stores.port import Stored
from amends.transactions.cancellation import check_not_cancelled
from amends.transactions.hashing import fingerprint
from amends.transactions.projection import project
from amends.transactions.replay import check_same_action


class Known(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What step 9 found: the action's own document, and how its key may be used.

    `first` says that nobody came in between yet: it is the first round of this request.
    """

    first: bool = False

    action: ActionDocument | None = None
    use: Use | None = None
    reservation: Reservation | None = None
    holder: ActionDocument | None = None
    reservation_id: str | None = None
    replay: Result | None = None


class Acceptance:
    """Reads what is known of a request, and writes down that it was accepted."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def look_up(self, admitted: Admitted, *, first: bool) -> tuple[Admitted, Known]:
        """The request with the ids and key of its first acceptance, and what is known of it.

        An action id that was made for this very request is not looked for in its first round, nor
        is the key of an execution all of whose ids were.

        Raises `action.id_conflict`, `action.cancelled` or an `idempotency.*` refusal.
        """
        made_here = first and admitted.request.action.action_id is None
        action = None if made_here else await self._action(admitted, admitted.action_id)
        if made_here and admitted.mode is Mode.EXECUTE and admitted.chosen is None:
            return admitted, self._with_new_key(admitted)
        if action is not None and not _reconciles_target(admitted, action):
            check_same_action(admitted.asked, action)
            key = action.idempotency_key
            admitted = replace(admitted, context=action.context, idempotency_key=key)
            if admitted.mode in MUTATING_MODES:
                check_not_cancelled(action)
        return admitted, await self._with_key(admitted, action)

    def _with_new_key(self, admitted: Admitted) -> Known:
        """Take it that nobody used this key before; inserting its reservation will tell.

        All ids of the action are new, so nothing that is checked before the insertion depends on
        what is stored. Where the key was used, the change set loses and the next round reads.
        """
        key = admitted.idempotency_key
        if key is None:
            return Known()
        return Known(use=Use.RESERVE, reservation_id=_reservation_id(admitted, key))

    async def _with_key(self, admitted: Admitted, action: ActionDocument | None) -> Known:
        key = admitted.idempotency_key
        if key is None or admitted.request.recovering:
            return Known(action=action)
        keyed, id_ = _keyed(admitted), _reservation_id(admitted, key)
        reserved = await self._environment.store.get(Reservation, admitted.tenant, id_)
        if reserved is None:
            return Known(action=action, use=Use.RESERVE, reservation_id=id_)
        reservation = reserved.document
        holder = await self._action(admitted, reservation.action_id)
        use = use_of_key(
            keyed.capability.idempotency,
            reservation,
            holder,
            admitted.action_id,
            self._fingerprint(admitted),
            approval_open=await self._waits(holder),
            now=admitted.now,
        )
        replay = await self.current(holder, replayed=True) if use is Use.REPLAY and holder else None
        if replay is not None and replay.status.value in _RUNNING:
            raise coded("idempotency.in_progress", {"retry_after_ms": 1000})
        return Known(
            action=action,
            use=use,
            reservation=reservation,
            holder=holder,
            reservation_id=id_,
            replay=replay,
        )

    async def _action(self, admitted: Admitted, action_id: ActionId) -> ActionDocument | None:
        found = await self._environment.store.get(ActionDocument, admitted.tenant, action_id)
        return found.document if found else None

    async def _waits(self, action: ActionDocument | None) -> bool:
        if action is None or action.approval_id is None:
            return False
        request = await self.approval(action, action.approval_id)
        return request is not None and request.document.status in OPEN

    async def approval(
        self, action: ActionDocument, approval_id: ApprovalId
    ) -> Stored[ApprovalRequest] | None:
        """The approval request that an action waits for or has used."""
        return await self._environment.store.get(ApprovalRequest, action.tenant, approval_id)

    async def current(self, action: ActionDocument, *, replayed: bool = False) -> Result:
        """The current projection of an accepted action."""
        stored = await self._environment.store.get(
            TransactionRecord, action.tenant, action.transaction_id
        )
        record = stored.document if stored else None
        waiting = not action.attempted and await self._waits(action)
        result = project(action, record, waiting=waiting, replayed=replayed)
        return await seen_by_evidence(self._environment.store, record, result)

    def _fingerprint(self, admitted: Admitted) -> str:
        return fingerprint(admitted.intent, admitted.chosen)

    def document(
        self,
        admitted: Admitted,
        known: Known,
        draft: Draft,
        *verdicts: GateVerdict,
        **changes: object,
    ) -> ActionDocument:
        """The action's document as it will stand, with its key reserved in the same draft."""
        reservation = self._reserve(admitted, known, draft)
        changes["verdicts"] = (*admitted.verdicts, *verdicts)
        if known.action is None:
            return replace(new_action(admitted), reservation=reservation, **changes)
        return replace(
            known.action,
            revision=known.action.revision + 1,
            updated_at=max(admitted.now, known.action.updated_at),
            reservation=reservation or known.action.reservation,
            **changes,
        )

    def _reserve(self, admitted: Admitted, known: Known, draft: Draft) -> ReservationRef | None:
        if known.use is None or known.reservation_id is None:
            return None
        if known.use is Use.OWN and known.reservation is not None:
            held = known.reservation
            draft.guard(Reservation, held.reservation_id, held.revision)
            return ReservationRef(reservation_id=held.reservation_id, fence=held.fence)
        if known.use is Use.TAKE_OVER and known.holder is not None:
            # The key is free only while its holder lies still: it may be tried again itself.
            draft.guard(ActionDocument, known.holder.action_id, known.holder.revision)
        before = known.reservation
        made = Reservation(
            tenant=admitted.tenant,
            revision=before.revision + 1 if before else 1,
            created_at=before.created_at if before else admitted.now,
            updated_at=max(admitted.now, before.updated_at) if before else admitted.now,
            reservation_id=known.reservation_id,
            action_id=admitted.action_id,
            fingerprint=self._fingerprint(admitted),
            fence=self._environment.fence(),
            ttl_ms=admitted.serving.capability.idempotency.ttl_ms,
        )
        draft.put(made)
        return ReservationRef(reservation_id=made.reservation_id, fence=made.fence)


_RUNNING = frozenset({"prepared", "committing", "compensating", "reconciling"})


def _keyed(admitted: Admitted) -> Registered:
    """The capability whose contract the key is held to."""
    return admitted.serving if admitted.mode in MUTATING_MODES else admitted.registered


def _reservation_id(admitted: Admitted, key: str) -> str:
    caller, capability = admitted.caller, _keyed(admitted).capability
    return reservation_id(
        capability, caller.principal, caller.identity, admitted.action_id, admitted.mode, key
    )


def _reconciles_target(admitted: Admitted, action: ActionDocument) -> bool:
    """Only a reconciliation may carry its target's action id (TX-ACT-1)."""
    return (
        admitted.mode is Mode.RECONCILE
        and action.mode is not Mode.RECONCILE
        and action.transaction_id == admitted.transaction_id
    )


def new_action(admitted: Admitted) -> ActionDocument:
    """The document of an action that was just accepted."""
    capability = admitted.registered.capability
    redact = capability.data.redaction_required or (
        admitted.serving.capability.data.redaction_required
    )
    return ActionDocument(
        tenant=admitted.tenant,
        revision=1,
        created_at=admitted.now,
        updated_at=admitted.now,
        action_id=admitted.action_id,
        transaction_id=admitted.transaction_id,
        mode=admitted.mode,
        capability_id=capability.id,
        context=admitted.context,
        principal=admitted.requester,
        scopes=admitted.caller.principal.scopes,
        asserted=admitted.caller.asserted,
        identity=admitted.caller.identity,
        input_hash=admitted.input_hash,
        input=None if redact else json_text(admitted.canonical),
        idempotency_key=admitted.idempotency_key,
        approval_requested=admitted.request.action.approval_required,
        verdicts=admitted.verdicts,
        requested=None if redact else admitted.info,
        metadata={} if redact else admitted.metadata,
    )
