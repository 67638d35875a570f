"""Pipeline step 10: what a claim would stand on, read but not written.

One function per mode: execute's replay gate, the plan's checks, the compensation target's, the
reconciliation's admission. The claim compares everything that was read here again.
"""

from datetime import datetime
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from amends.connectors.port import OriginalEffect
from amends.contracts.codes import coded
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    TransactionPlan,
    TransactionRecord,
)
from amends.contracts.enums import Handler, Mode, Status
from amends.contracts.ids import ActionId, TenantId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.results import Result
from amends.runtime.acceptance import Acceptance, Known
from amends.runtime.environment import Environment
from amends.runtime.requests import Admitted
from amends.stores.port import Loss, Lost, Stored
from amends.transactions.binding import CommitFacts, check_commit
from amends.transactions.compensation import Target, check_target, window_ends
from amends.transactions.hashing import input_hash, intent_digest, provider_key
from amends.transactions.leases import holds_lease
from amends.transactions.reconciliation import Ask, Way, admit, redrive_until, way_to_ask
from amends.transactions.replay import Answer, belongs_to, reenter_claimed, replay_execution
from amends.transactions.table import Event


class Ground(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the claim will move, and what the connector will be told.

    `record` is the stored record (or, for a creating event, the one to insert). `settles` is the
    action whose effect a reconciliation settles, where that is another document than its own.
    """

    event: Event
    record: TransactionRecord
    handler: Handler
    input: Json
    not_after: datetime | None = None
    plan: TransactionPlan | None = None
    target: ActionDocument | None = None
    target_record: TransactionRecord | None = None
    slots: CompensationSlots | None = None
    original: OriginalEffect | None = None
    settles: ActionDocument | None = None
    redrive: bool = False


class Lapsed(msgspec.Struct, frozen=True):
    """The record's attempt has outlived its lease: it has to be written down as unknown first."""

    stored: Stored[TransactionRecord]


Step10 = Ground | Lapsed | Result | Lost
READ_AGAIN: Final = Lost(0, Loss.EXISTS)
"""The action was accepted between two readings of this round, so the round begins anew."""


class Grounds:
    """Checks what a request wants to claim."""

    def __init__(self, environment: Environment, acceptance: Acceptance) -> None:
        self._environment = environment
        self._acceptance = acceptance

    async def check(self, admitted: Admitted, known: Known) -> Step10:
        """What the claim stands on, or the stored answer; raises the code that refuses it."""
        match admitted.mode:
            case Mode.EXECUTE:
                return await self._execute(admitted, known)
            case Mode.COMMIT if admitted.context.plan_id is None:
                return await self._direct(admitted, known)
            case Mode.COMMIT:
                return await self._commit(admitted, known)
            case Mode.COMPENSATE:
                return await self._compensate(admitted, known)
            case _:
                return await self._reconcile(admitted, known)

    async def record(
        self, admitted: Admitted, transaction_id: TransactionId
    ) -> Stored[TransactionRecord] | None:
        """A record of the caller's tenant."""
        return await self._environment.store.get(TransactionRecord, admitted.tenant, transaction_id)

    async def _execute(self, admitted: Admitted, known: Known) -> Step10:
        stored = None
        if known.action is not None or admitted.chosen is not None:
            stored = await self.record(admitted, admitted.transaction_id)
        if stored is None:
            return self._new(admitted, Event.EXECUTION_PREPARED)
        record = stored.document
        if _just_accepted(admitted, known, record):
            return READ_AGAIN
        safety = admitted.registered.capability.execution.retry_safety
        answer = replay_execution(admitted.asked, record, lapsed=stored.lapsed, safety=safety)
        match answer:
            case Answer.LAPSED:
                return Lapsed(stored)
            case Answer.RETURN_STORED:
                if known.action is None:
                    raise coded("transaction.execute_state_invalid")
                return await self._acceptance.current(known.action, replayed=True)
            case Answer.GO_ON:
                event = Event.EXECUTION_RESUMED
            case Answer.REOPEN:
                event = Event.EXECUTION_REOPENED
            case _:
                assert_never(answer)
        return Ground(event=event, record=record, handler=Handler.EXECUTE, input=admitted.input)

    def _new(self, admitted: Admitted, event: Event) -> Ground:
        handler = Handler.EXECUTE
        return Ground(
            event=event, record=new_record(admitted), handler=handler, input=admitted.input
        )

    async def _claimed_before(self, admitted: Admitted, known: Known) -> Lapsed | Result | None:
        """A commit or compensation that made its claim already; none where it never did."""
        if known.action is None or not known.action.attempted:
            return None
        stored = await self.record(admitted, known.action.transaction_id)
        if stored is None:
            raise coded("transaction.not_found")
        answer = reenter_claimed(stored.document, lapsed=stored.lapsed)
        if answer is Answer.LAPSED:
            return Lapsed(stored)
        return await self._acceptance.current(known.action, replayed=True)

    async def _direct(self, admitted: Admitted, known: Known) -> Step10:
        before = await self._claimed_before(admitted, known)
        if before is not None:
            return before
        taken = await self.record(admitted, admitted.transaction_id)
        if taken is not None:
            return _taken(admitted, known, taken.document)
        return self._new(admitted, Event.DIRECT_COMMIT_CLAIMED)

    async def _commit(self, admitted: Admitted, known: Known) -> Step10:
        before = await self._claimed_before(admitted, known)
        if before is not None:
            return before
        plan_id = admitted.context.plan_id
        assert plan_id is not None
        found = await self._environment.store.find(
            TransactionRecord, admitted.tenant, "plan_id", plan_id
        )
        if found is not None and _just_accepted(admitted, known, found.document):
            return READ_AGAIN
        capability = admitted.registered.capability
        record = check_commit(
            CommitFacts(
                plan_id=plan_id,
                capability_id=capability.id,
                principal=admitted.requester,
                transaction_id=admitted.chosen,
                input_hash=admitted.input_hash,
                identity=admitted.caller.identity,
                governance_digest=admitted.governance_digest,
                freeze=capability.freeze,
                record=found.document if found else None,
                now=max(admitted.now, found.read_at) if found else admitted.now,
            )
        )
        assert record.plan is not None
        return Ground(
            event=Event.PLAN_CLAIMED,
            record=record,
            handler=Handler.EXECUTE,
            input=admitted.input,
            not_after=record.plan.expires_at,
            plan=record.plan,
        )

    async def _compensate(self, admitted: Admitted, known: Known) -> Step10:
        before = await self._claimed_before(admitted, known)
        if before is not None:
            return before
        taken = await self.record(admitted, admitted.transaction_id)
        if taken is not None:
            return _taken(admitted, known, taken.document)
        target_id = admitted.context.compensation_for
        assert target_id is not None
        target = await self._read_target(admitted.tenant, target_id)
        capability = admitted.registered.capability
        action = check_target(capability, target, admitted.metadata, admitted.now)
        own = admitted.serving is admitted.registered
        has_handler = Handler.COMPENSATE in admitted.serving.capability.handlers
        return Ground(
            event=Event.COMPENSATION_CLAIMED,
            record=new_record(admitted),
            handler=Handler.COMPENSATE if own or has_handler else Handler.EXECUTE,
            input=admitted.input,
            not_after=window_ends(capability, target, admitted.metadata, admitted.now),
            target=action,
            target_record=target.record,
            slots=target.slots,
            original=_original(action, target.record),
        )

    async def _read_target(self, tenant: TenantId, target_id: ActionId) -> Target:
        store = self._environment.store
        action = await store.get(ActionDocument, tenant, target_id)
        if action is None:
            return Target(action=None, record=None, slots=None)
        transaction_id = action.document.transaction_id
        record = await store.get(TransactionRecord, tenant, transaction_id)
        slots = await store.get(CompensationSlots, tenant, transaction_id)
        return Target(
            action=action.document,
            record=record.document if record else None,
            slots=slots.document if slots else None,
        )

    async def _reconcile(self, admitted: Admitted, known: Known) -> Step10:
        stored = await self.record(admitted, admitted.transaction_id)
        if stored is None:
            raise coded("transaction.not_found")
        own = known.action
        if own is not None and own.mode is not Mode.RECONCILE:
            _check_is_target(own, stored.document)
        answered = own is not None and own.mode is Mode.RECONCILE and own.result is not None
        if own is not None and answered and stored.document.status is Status.RECONCILED:
            return await self._acceptance.current(own, replayed=True)
        if stored.lapsed and holds_lease(stored.document):
            return Lapsed(stored)
        request = admitted.request
        ask = Ask(
            capability_id=admitted.registered.capability.id,
            principal=admitted.caller.principal,
            provider_operation=request.provider_operation,
            cursor=request.cursor,
            insist=request.insist,
            recovering=request.recovering,
        )
        now = max(admitted.now, stored.read_at)
        capability = self._environment.registry.get(
            stored.document.connector_capability_id
        ).capability
        record = admit(ask, stored.document, capability, now)
        settles = await self._effect_action(admitted, record.action_id)
        way = way_to_ask(record, capability, now)
        redrive = way is Way.REDRIVE
        return Ground(
            event=Event.RECONCILIATION_STARTED,
            record=record,
            not_after=redrive_until(record, capability) if redrive else None,
            handler=Handler.EXECUTE if redrive else Handler.RECONCILE,
            input=self._effect_input(admitted, record, settles, needed=redrive),
            settles=settles,
            redrive=redrive,
            original=await self.offset_by(record),
        )

    async def offset_by(self, record: TransactionRecord) -> OriginalEffect | None:
        """What a compensation was to offset: it tells whoever looks for it what to seek."""
        if record.context.compensation_for is None:
            return None
        target = await self._read_target(record.tenant, record.context.compensation_for)
        return _original(target.action, target.record) if target.action else None

    async def _effect_action(
        self, admitted: Admitted, action_id: ActionId
    ) -> ActionDocument | None:
        found = await self._environment.store.get(ActionDocument, admitted.tenant, action_id)
        return found.document if found else None

    def _effect_input(
        self,
        admitted: Admitted,
        record: TransactionRecord,
        action: ActionDocument | None,
        *,
        needed: bool,
    ) -> Json:
        """The input of the effect: as stored, else as supplied again and checked by hash."""
        if action is not None and action.input is not None:
            stored: Json = msgspec.json.decode(action.input)
            return stored
        supplied = input_hash(record.capability_id, admitted.canonical) == record.input_hash
        if needed and not supplied:
            raise coded("action.input_required", {"transaction_id": record.transaction_id})
        return admitted.input if supplied else None


def new_record(admitted: Admitted) -> TransactionRecord:
    """A record as it is before its creating event."""
    return TransactionRecord(
        tenant=admitted.tenant,
        revision=1,
        created_at=admitted.now,
        updated_at=admitted.now,
        transaction_id=admitted.transaction_id,
        action_id=admitted.action_id,
        capability_id=admitted.registered.capability.id,
        connector_capability_id=admitted.serving.capability.id,
        mode=admitted.mode,
        context=admitted.context,
        principal=admitted.requester,
        identity=admitted.caller.identity,
        status=Status.PREPARED,
        input_hash=admitted.input_hash,
        provider_key=provider_key(admitted.tenant, admitted.transaction_id, admitted.action_id),
        idempotency_key=admitted.idempotency_key,
    )


def _original(action: ActionDocument, record: TransactionRecord | None) -> OriginalEffect:
    result = record.result if record is not None else action.result
    shown = result is not None and result.output is not None and not result.output_redacted
    return OriginalEffect(
        action_id=action.action_id,
        transaction_id=action.transaction_id,
        capability_id=action.capability_id,
        input=msgspec.json.decode(action.input) if action.input is not None else None,
        output=msgspec.json.decode(result.output) if shown and result and result.output else None,
        operation=record.provider_operation if record else None,
        provider_key=record.provider_key if record else None,
        intent_digest=intent_digest(record) if record else "",
    )


def _check_is_target(action: ActionDocument, record: TransactionRecord) -> None:
    """Only the action whose effect is sought lends its id to a reconciliation (TX-ACT-1)."""
    if not belongs_to(action, record):
        raise coded("action.id_conflict", {"action_id": action.action_id})


def with_transaction(admitted: Admitted, ground: Ground) -> Admitted:
    """The request under the transaction that its plan determines."""
    transaction_id = ground.record.transaction_id
    if admitted.mode is not Mode.COMMIT or admitted.context.transaction_id == transaction_id:
        return admitted
    return replace(admitted, context=replace(admitted.context, transaction_id=transaction_id))


def _just_accepted(admitted: Admitted, known: Known, record: TransactionRecord) -> bool:
    """Whether another sending of this very action made its claim since step 9 looked for it.

    Asked once: where a second look finds no action either, there is none.
    """
    return known.first and known.action is None and record.action_id == admitted.action_id


def _taken(admitted: Admitted, known: Known, record: TransactionRecord) -> Lost:
    """The transaction id is taken: by this very action just now, or by something else."""
    if _just_accepted(admitted, known, record):
        return READ_AGAIN
    raise coded("transaction.id_conflict")
