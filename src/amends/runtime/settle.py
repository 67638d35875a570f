"""`settle`: how an attempt ended becomes durable, before anything follows from it.

One settlement is one change set: the record, the action's document, the target's slot, the receipts
with a signed head (TX-REV-4). A settlement whose fence is not the record's any more is a late
answer (TX-SETTLE-6).
"""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.codes import coded
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    Evidence,
    TransactionRecord,
)
from amends.contracts.enums import IN_FLIGHT, Handler, Mode, Status
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import CORRECTION_PREFIX, ActionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import (
    WORKER,
    Applied,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Uncertain,
)
from amends.contracts.principals import PrincipalRef
from amends.contracts.results import Result
from amends.receipts.chain import chain_of
from amends.runtime.acceptance import Acceptance
from amends.runtime.changes import ROUNDS, Draft, until_written
from amends.runtime.environment import Environment
from amends.runtime.heard import Heard
from amends.runtime.pages import readable
from amends.runtime.running import Running
from amends.runtime.steps import record_step
from amends.runtime.upkeep import due_of
from amends.stores.port import Due, Lost
from amends.transactions.compensation import freeze_slots, release_slot
from amends.transactions.late import take_late
from amends.transactions.outputs import store_output
from amends.transactions.projection import project
from amends.transactions.reconciliation import Answered, settle_reconciliation
from amends.transactions.settlement import (
    NO_OUTPUT,
    Certainty,
    Reading,
    Settled,
    StoredOutput,
    read_outcome,
    settle_attempt,
)
from amends.transactions.table import Event

_TYPES: Final = {
    Event.COMPLETED: ReceiptType.COMMITTED,
    Event.COMPENSATION_COMPLETED: ReceiptType.COMPENSATED,
    Event.FAILED: ReceiptType.FAILED,
    Event.OUTCOME_LOST: ReceiptType.OUTCOME_UNKNOWN,
    Event.RECONCILED: ReceiptType.RECONCILED,
    Event.RECONCILIATION_OPEN: ReceiptType.OUTCOME_UNKNOWN,
    Event.LATE_ANSWER: ReceiptType.RECONCILED,
    Event.EVIDENCE_KEPT: ReceiptType.EVIDENCE_KEPT,
    Event.SETTLED_BY_HAND: ReceiptType.OPERATOR_RESOLVED,
    Event.FROZEN: ReceiptType.FROZEN,
}
_WITH_OUTPUT: Final = (Applied, Partial)
_FOUND: Final = frozenset({Certainty.APPLIED, Certainty.PARTIAL})
"""What a look-up says late of the effect itself; its failures say nothing."""


class Settle:
    """Writes endings of attempts: in time, late, or by an operator's hand."""

    def __init__(self, environment: Environment, acceptance: Acceptance) -> None:
        self._environment = environment
        self._acceptance = acceptance

    async def settle(self, running: Running, outcome: Outcome) -> Result:
        """Write down how this attempt ended; durable when it returns.

        Raises `OutcomeUnknown` (`transaction.settlement_not_stored`) when the store cannot keep it;
        the details name the file that keeps it, where there is one.
        """
        shown = self._shown(running, outcome)
        output = self._output(running, outcome)
        try:
            for number in range(ROUNDS):
                if number == 0 or await self._reread(running):
                    answer = await self._write(running, shown, output)
                else:
                    answer = await self._late_round(running, shown, output)
                if not isinstance(answer, Lost):
                    return answer
            raise coded("store.contended")
        except AmendsError as error:  # whatever kept it from being stored, the effect may be there
            kept_in = await self._spill(running, shown, output, f"settlement:{running.fence}")
            raise _not_stored(running, shown, kept_in) from error

    async def _spill(
        self, running: Running, outcome: Outcome, output: StoredOutput, event: str
    ) -> str | None:
        """Keep outside the store what it refused; where, or none if that was not possible."""
        spill, reading = self._environment.spill, read_outcome(outcome)
        if spill is None or not _says_something(running, reading):
            return None
        try:
            return await spill.keep(_heard(running, reading, output, event))
        except Unavailable:  # what the caller has to hear is that the settlement is not stored
            return None

    async def _write(self, running: Running, outcome: Outcome, output: StoredOutput) -> Result | (
        Lost
    ):
        now = await self._environment.store.now()
        settled = self._settled(running, outcome, output, now)
        record = settled.record
        draft = Draft(running.tenant, record.transaction_id)
        draft.replace(record, due_of(record))
        action = _settle_actions(draft, running, settled, now)
        await self._give_back_slot(draft, record, now)
        if running.dispatched_at is not None:
            dispatched = min(running.dispatched_at, now)  # it is the latest that it may have been
            type_ = ReceiptType.DISPATCHED
            draft.step(record_step(type_, running.record, running.actor, dispatched))
        draft.step(record_step(_TYPES[settled.event], record, running.actor, now))
        environment = self._environment
        written = await draft.commit(environment.store, environment.signer, tail=running.tail)
        if isinstance(written, Lost):
            return written
        running.record, running.action, running.tail = record, action, written.tail
        return project(action, record)

    def _settled(
        self, running: Running, outcome: Outcome, output: StoredOutput, now: datetime
    ) -> Settled:
        if running.record.status is Status.RECONCILING:
            answered = Answered(
                outcome=outcome,
                output=output,
                looked_from=running.started_at,
                redrive=running.redrive,
                jitter=self._environment.jitter(),
                now=now,
                lease_ended_at=running.lease_end,
            )
            return settle_reconciliation(running.record, answered, running.serving.capability)
        return settle_attempt(
            running.record,
            read_outcome(outcome),
            output,
            now,
            lease_ended_at=running.lease_end,
            cancelled=running.action.cancellation is not None,
        )

    async def _give_back_slot(self, draft: Draft, record: TransactionRecord, now: datetime) -> None:
        if record.context.compensation_for is None:
            return
        slots = await self._slots_of(record, record.context.compensation_for)
        if slots is None:
            return
        left = release_slot(slots, record, now, for_good=self._has_a_worker(record))
        if left is not None:
            draft.replace(left)

    def _has_a_worker(self, record: TransactionRecord) -> bool:
        """Whether a worker carried it out; of a capability that is gone, what it named tells."""
        serving = self._environment.registry.find(record.connector_capability_id)
        if serving is not None:
            return serving.capability.served_by == "worker"
        named = record.provider_operation
        return named is not None and named.provider == WORKER

    async def _slots_of(
        self, record: TransactionRecord, target_id: ActionId
    ) -> CompensationSlots | None:
        """The slots that a compensation's record holds one of."""
        store = self._environment.store
        target = await store.get(ActionDocument, record.tenant, target_id)
        if target is None:
            return None
        slots = await store.get(CompensationSlots, record.tenant, target.document.transaction_id)
        return slots.document if slots else None

    async def _reread(self, running: Running) -> bool:
        """Take up what others changed; false where the record is not in this attempt any more."""
        store, tenant = self._environment.store, running.tenant
        stored = await store.get(TransactionRecord, tenant, running.record.transaction_id)
        if stored is None or stored.document.status not in IN_FLIGHT:
            return False
        if not running.holds(stored.document):
            return False
        action = await store.get(ActionDocument, tenant, running.action.action_id)
        assert action is not None
        running.record, running.action = stored.document, action.document
        if running.settles is not None:
            effect = await store.get(ActionDocument, tenant, running.settles.action_id)
            running.settles = effect.document if effect else None
        running.tail = await store.tail(tenant, chain_of(running.record.transaction_id))
        return True

    async def late(self, running: Running, outcome: Outcome) -> None:
        """Take a late answer of an attempt that was settled or abandoned already."""
        shown = self._shown(running, outcome)
        output = self._output(running, outcome)
        try:
            await until_written(lambda: self._late_round(running, shown, output))
        except AmendsError:
            await self._spill(running, shown, output, f"late:{running.fence}")
            raise

    async def _late_round(
        self, running: Running, outcome: Outcome, output: StoredOutput
    ) -> Result | Lost:
        reading = read_outcome(outcome)
        if not _says_something(running, reading):
            return await self._acceptance.current(running.action)
        taken = await self.hear(_heard(running, reading, output))
        if isinstance(taken, Lost):
            return taken
        return await self._acceptance.current(running.action)

    async def hear(self, heard: Heard) -> bool | Lost:
        """Take one late answer or provider event in; true where it changed anything.

        It may settle an unknown record, be kept as evidence, or correct a terminal one; it never
        moves a record back (TX-SETTLE-6, TX-REV-3).
        """
        environment = self._environment
        store = environment.store
        stored = await store.get(TransactionRecord, heard.tenant, heard.transaction_id)
        assert stored is not None
        record = stored.document
        late = take_late(
            record,
            heard.reading,
            heard.output,
            heard.fence,
            stored.read_at,
            event=heard.event,
        )
        if late.record is None and late.correction is None:
            return False
        draft = Draft(heard.tenant, record.transaction_id)
        if late.record is not None and late.event is not None:
            await self._move_late(draft, heard, late.record, late.event, stored.due_at)
        if late.correction is not None:
            if await self._is_corrected(record, late.correction):
                return False
            await self._correct(draft, heard.actor, record, late.correction)
        tail = await store.tail(heard.tenant, chain_of(record.transaction_id))
        written = await draft.commit(store, environment.signer, tail=tail)
        return written if isinstance(written, Lost) else True

    async def _is_corrected(self, record: TransactionRecord, evidence: Evidence) -> bool:
        """Whether the same event was taken as a correction before."""
        if evidence.event is None:
            return False
        store, where = self._environment.store, {"transaction_id": record.transaction_id}
        async for known in readable(store, Correction, record.tenant, where):
            if known.evidence.event == evidence.event:
                return True
        return False

    async def _move_late(
        self,
        draft: Draft,
        heard: Heard,
        record: TransactionRecord,
        event: Event,
        due_at: datetime | None,
    ) -> None:
        kept_lease = Due(at=due_at) if record.status in IN_FLIGHT and due_at else None
        draft.replace(record, kept_lease or due_of(record))
        draft.step(record_step(_TYPES[event], record, heard.actor, record.updated_at))
        if event is Event.LATE_ANSWER:
            await self.settle_effect(draft, record, record.result, record.updated_at)

    async def settle_effect(
        self,
        draft: Draft,
        record: TransactionRecord,
        result: ActionResult | None,
        now: datetime,
    ) -> None:
        """Settle the action that owns the record, and the slot its compensation held."""
        store = self._environment.store
        action = await store.get(ActionDocument, record.tenant, record.action_id)
        if action is not None:
            draft.replace(_revised(action.document, now, result=result, settled_at=now))
        await self._give_back_slot(draft, record, now)

    async def _correct(
        self, draft: Draft, actor: PrincipalRef, record: TransactionRecord, evidence: Evidence
    ) -> None:
        """Evidence against a terminal record: a correction, and no more compensations."""
        store, now = self._environment.store, evidence.at
        action = await store.get(ActionDocument, record.tenant, record.action_id)
        assert action is not None
        draft.insert(
            Correction(
                tenant=record.tenant,
                revision=1,
                created_at=now,
                updated_at=now,
                correction_id=self._environment.ids(CORRECTION_PREFIX),
                transaction_id=record.transaction_id,
                target=record.action_id,
                evidence=evidence,
            )
        )
        slots = await store.get(CompensationSlots, record.tenant, record.transaction_id)
        known = slots.document if slots else None
        draft.put(freeze_slots(action.document, known, evidence.kind, now))
        draft.step(
            record_step(
                ReceiptType.CORRECTION,
                record,
                actor,
                now,
                code=evidence.code or evidence.kind,
                operation=evidence.operation,
            )
        )

    def _output(self, running: Running, outcome: Outcome) -> StoredOutput:
        if not isinstance(outcome, _WITH_OUTPUT):
            return NO_OUTPUT
        serving = running.serving
        fits = serving.fits if _promises_output(running) else _anything
        return store_output(
            outcome.output, redact=serving.redact, fits=fits, credential=running.call.credential
        )

    def _shown(self, running: Running, outcome: Outcome) -> Outcome:
        """The outcome with its error as it may be stored (RD-1, RD-2).

        A reference whose checkpoint could not be written travels with it (TX-CHECKPOINT-2).
        """
        serving, credential = running.serving, running.call.credential
        if running.unsaved is not None and not isinstance(outcome, NotFound):
            outcome = replace(outcome, operation=outcome.operation or running.unsaved)
        match outcome:
            case NotApplied() | Partial() | Failure() | Uncertain():
                return replace(outcome, error=serving.shown_error(outcome.error, credential))
            case _:
                return outcome


def _settle_actions(
    draft: Draft, running: Running, settled: Settled, now: datetime
) -> ActionDocument:
    """The documents of the action that asked, and of the one whose effect was found out."""
    action, result = running.action, settled.result
    if result is None:
        return action
    found_out = settled.event is Event.RECONCILED
    if action.mode is Mode.RECONCILE or running.record.status is not Status.RECONCILING:
        changed = _revised(action, now, result=result, settled_at=now)
    elif found_out and action.action_id == settled.record.action_id:
        changed = _revised(action, now, reconcile_result=result, result=result, settled_at=now)
    else:
        changed = _revised(action, now, reconcile_result=result)
    draft.replace(changed)
    if found_out and running.settles is not None:
        draft.replace(_revised(running.settles, now, result=result, settled_at=now))
    return changed


def _says_something(running: Running, reading: Reading) -> bool:
    """Whether an answer outside its own settlement tells of the effect."""
    return running.call.handler is not Handler.RECONCILE or reading.certainty in _FOUND


def _heard(
    running: Running, reading: Reading, output: StoredOutput, event: str | None = None
) -> Heard:
    return Heard(
        tenant=running.tenant,
        transaction_id=running.record.transaction_id,
        reading=reading,
        output=output,
        actor=running.actor,
        fence=running.fence,
        event=event,
    )


def _not_stored(running: Running, outcome: Outcome, kept_in: str | None) -> AmendsError:
    operation = read_outcome(outcome).operation or running.record.provider_operation
    details: dict[str, Json] = {
        "transaction_id": running.record.transaction_id,
        "provider_operation_id": operation.operation_id if operation else None,
    }
    if kept_in is not None:
        details["kept_in"] = kept_in
    return coded("transaction.settlement_not_stored", details)


def _revised(action: ActionDocument, now: datetime, **changes: object) -> ActionDocument:
    updated_at = max(now, action.updated_at)
    return replace(action, revision=action.revision + 1, updated_at=updated_at, **changes)


def _promises_output(running: Running) -> bool:
    """Whether the declared output schema speaks of this call: a refund is not a charge."""
    if running.call.handler is Handler.RECONCILE:
        return running.record.mode is not Mode.COMPENSATE
    return running.call.handler is Handler.EXECUTE


def _anything(_output: Json) -> bool:
    return True
