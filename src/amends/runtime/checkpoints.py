"""Checkpoints: what the provider accepted becomes durable inside the attempt (TX-CHECKPOINT-*)."""

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.documents import Evidence, TransactionRecord
from amends.contracts.enums import IN_FLIGHT, Status
from amends.contracts.evidence import ReceiptType
from amends.contracts.outcomes import ProviderOperation
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft, until_written
from amends.runtime.environment import Environment
from amends.runtime.running import Running
from amends.runtime.soundness import echoes_in, sound_cursor, sound_operation
from amends.runtime.steps import record_step
from amends.runtime.upkeep import due_of
from amends.stores.port import Due, Lost, Stored
from amends.transactions.settlement import TWO_EFFECTS, keep_evidence, same_operation
from amends.transactions.table import Event, admits, move


class Checkpoints:
    """Writes provider references under the fence of the attempt that learnt them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def write(
        self, running: Running, operation: ProviderOperation, cursor: str | None
    ) -> None:
        """Make a reference (and a cursor) durable; the stored reference is never replaced.

        Until it is, the reference travels with the attempt and is looked at again when that is
        settled, in time or late.

        Raises `Conflict` (`transaction.provider_operation_conflict`) for a different reference,
        and `Refused` (`transaction.checkpoint_refused`) once the attempt may not write any more,
        and for a reference that holds the attempt's credential.
        """
        operation, cursor = sound_operation(operation), sound_cursor(cursor)
        credential = running.call.credential
        if credential is not None and echoes_in(operation, cursor, credential.secret):
            raise coded("transaction.checkpoint_refused", {"reason": "credential"})
        running.unsaved = operation
        async with running.lock:
            running.unsaved = operation  # another one may have been written meanwhile
            conflict = await until_written(lambda: self._round(running, operation, cursor))
        if conflict:
            raise coded("transaction.provider_operation_conflict")
        running.unsaved = None

    async def _round(
        self, running: Running, operation: ProviderOperation, cursor: str | None
    ) -> bool | Lost:
        store = self._environment.store
        stored = await store.get(TransactionRecord, running.tenant, running.record.transaction_id)
        assert stored is not None
        record = stored.document
        known = record.provider_operation
        if known is not None and not same_operation(known, operation):
            return await self._keep_conflict(running, stored, operation)
        if known is not None and cursor in (None, record.cursor):
            return False
        event = _event(running, record)
        changes = {"provider_operation": known or operation, "cursor": cursor or record.cursor}
        moved = move(event, record, stored.read_at, **changes)
        return await self._write(running, moved, stored, ReceiptType.PROVIDER_ACCEPTED, operation)

    async def _keep_conflict(
        self, running: Running, stored: Stored[TransactionRecord], operation: ProviderOperation
    ) -> bool | Lost:
        record = stored.document
        if any(kept.operation == operation for kept in record.evidence):
            return True
        if not admits(Event.EVIDENCE_KEPT, record.status):
            raise coded("transaction.checkpoint_refused", {"status": record.status.value})
        seen = Evidence(
            kind=TWO_EFFECTS, at=stored.read_at, fence=running.fence, operation=operation
        )
        moved = move(
            Event.EVIDENCE_KEPT,
            record,
            stored.read_at,
            evidence=keep_evidence(record.evidence, seen),
            attention=TWO_EFFECTS,
        )
        answer = await self._write(running, moved, stored, ReceiptType.EVIDENCE_KEPT, operation)
        return answer if isinstance(answer, Lost) else True

    async def _write(
        self,
        running: Running,
        record: TransactionRecord,
        stored: Stored[TransactionRecord],
        type_: ReceiptType,
        operation: ProviderOperation,
    ) -> bool | Lost:
        environment = self._environment
        draft = Draft(running.tenant, record.transaction_id)
        lease = Due(at=stored.due_at) if stored.due_at and record.status in IN_FLIGHT else None
        draft.replace(record, lease or due_of(record))
        step = record_step(type_, record, running.actor, stored.read_at, operation=operation)
        draft.step(replace(step, code=None))
        tail = await environment.store.tail(running.tenant, chain_of(record.transaction_id))
        written = await draft.commit(environment.store, None, tail=tail)
        if isinstance(written, Lost):
            return written
        if running.holds(record):
            running.record, running.tail = record, written.tail
        return False


def _event(running: Running, record: TransactionRecord) -> Event:
    """The event by which this attempt may still write, or a refusal."""
    if record.status in IN_FLIGHT and running.holds(record):
        return Event.CHECKPOINTED
    own = record.attempt is not None and record.attempt.fence == running.fence
    empty = record.provider_operation is None
    if record.status is Status.OUTCOME_UNKNOWN and own and empty:
        return Event.REFERENCE_FILLED
    raise coded("transaction.checkpoint_refused", {"status": record.status.value})
