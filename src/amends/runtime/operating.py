"""What operators do by hand: settle an unknown outcome, release a frozen record.

A ruling on an effect that a worker carried out goes into the worker's journal and the host's ledger
before the transaction (INT-3). Each of these is durable before the next; whoever was interrupted
makes the same ruling again. A transaction whose accounts cannot be reached is not settled.
"""

from msgspec.structs import replace

from amends.connectors.port import HandRuling, KeepsAccounts
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import ActionDocument, OperatorRuling, TransactionRecord
from amends.contracts.enums import Verdict
from amends.contracts.errors import Refused
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import TransactionId
from amends.contracts.outcomes import WORKER, ProviderOperation
from amends.contracts.principals import RELEASE_SCOPE, Caller
from amends.contracts.redaction import kept_text
from amends.contracts.results import Result
from amends.receipts.chain import chain_of
from amends.runtime.attempt import hand_over
from amends.runtime.changes import Draft, until_written
from amends.runtime.engine import Engine
from amends.runtime.grounds import Grounds
from amends.runtime.steps import record_step
from amends.runtime.texts import check_text, hides_texts
from amends.runtime.upkeep import due_of
from amends.stores.port import Loss, Lost, Stored
from amends.transactions.hashing import intent_digest
from amends.transactions.projection import project
from amends.transactions.reconciliation import settle_by_hand


class Operating:
    """Rulings under the operator's own name, with evidence, by revision."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._environment = engine.environment
        self._grounds = Grounds(engine.environment, engine.acceptance)

    async def settle(
        self,
        caller: Caller,
        transaction_id: TransactionId,
        verdict: Verdict,
        *,
        reference: str,
        note: str,
        accept_risk: bool,
        seen_revision: int | None,
    ) -> Result:
        """Settle an unknown outcome by hand (TX-RECON-5); durable when it returns.

        Without `seen_revision` the record is taken as it stands now. Raises the
        `transaction.settle_*` codes, `transaction.revision_conflict`, an `input.*` code for texts
        that cannot be stored, and what `KeepsAccounts.rule` raises.
        """
        reference, note = check_text(reference, "reference"), check_text(note, "note")

        async def once() -> Result | Lost:
            stored = await self._record(caller, transaction_id)
            record = stored.document
            hidden = await hides_texts(self._environment.store, record)
            ruling = OperatorRuling(
                verdict=verdict,
                reference=kept_text(reference, hidden=hidden),
                note=kept_text(note, hidden=hidden),
                by=caller.principal.ref,
                at=stored.read_at,
                risk_accepted=accept_risk,
            )
            settled = settle_by_hand(
                record,
                ruling,
                self._capability(record),
                caller.principal,
                seen_revision=record.revision if seen_revision is None else seen_revision,
            )
            operation = await self._accounted(record, ruling)
            named = replace(settled.record, provider_operation=operation)
            return await self._write(caller, named)

        return await until_written(once)

    async def _accounted(
        self, record: TransactionRecord, ruling: OperatorRuling
    ) -> ProviderOperation | None:
        """Take the ruling into what the connector keeps, if it keeps any; the effect's reference.

        Raises `Misuse` (`transaction.settle_needs_capability`) where a worker has it, and none that
        is registered here.
        """
        named = record.provider_operation
        serving = self._environment.registry.find(record.connector_capability_id)
        if serving is None and named is not None and named.provider == WORKER:
            raise coded("transaction.settle_needs_capability")
        if serving is None or not isinstance(serving.connector, KeepsAccounts):
            return named
        handed = HandRuling(
            tenant=record.tenant,
            capability_id=record.connector_capability_id,
            transaction_id=record.transaction_id,
            intent_digest=intent_digest(record),
            verdict=ruling.verdict,
            by=f"{ruling.by.kind.value}:{ruling.by.id}",
            reference=ruling.reference,
            note=ruling.note,
            operation=named,
            original=await self._grounds.offset_by(record),
        )
        found = await hand_over(serving.connector, handed)
        return named or found

    def _capability(self, record: TransactionRecord) -> Capability:
        """Who carried the effect out; one that is gone promises nothing, but is ruled on all the
        same.
        """
        try:
            return self._environment.registry.get(record.connector_capability_id).capability
        except Refused:
            return Capability(id=record.connector_capability_id)

    async def _write(self, caller: Caller, record: TransactionRecord) -> Result | Lost:
        environment = self._environment
        draft = Draft(caller.tenant, record.transaction_id)
        draft.replace(record, due_of(record))
        by, now = caller.principal.ref, record.updated_at
        draft.step(record_step(ReceiptType.OPERATOR_RESOLVED, record, by, now))
        await self._engine.settlement.settle_effect(draft, record, record.result, now)
        tail = await environment.store.tail(caller.tenant, chain_of(record.transaction_id))
        written = await draft.commit(environment.store, environment.signer, tail=tail)
        if isinstance(written, Lost):
            return written
        return await self._shown(record)

    async def release(self, caller: Caller, transaction_id: TransactionId) -> Result:
        """Release what a restore froze of a transaction: record and approvals (TX-LEASE-3).

        Raises `transaction.release_not_allowed` without the scope `amends:release`,
        `transaction.not_found` and `transaction.not_frozen`.
        """
        if not caller.principal.may(RELEASE_SCOPE):
            raise coded("transaction.release_not_allowed")
        asking = await until_written(lambda: self._release_approvals(caller, transaction_id))

        async def once() -> Result | Lost:
            stored = await self._environment.store.get(
                TransactionRecord, caller.tenant, transaction_id
            )
            if asking is not None and (stored is None or stored.document.frozen is None):
                return await self._engine.acceptance.current(asking)
            if stored is None:
                raise coded("transaction.not_found")
            record = await self._engine.upkeep.release(stored, caller.principal.ref)
            return Lost(0, Loss.REVISION) if record is None else await self._shown(record)

        return await until_written(once)

    async def _release_approvals(
        self, caller: Caller, transaction_id: TransactionId
    ) -> ActionDocument | Lost | None:
        """Release the transaction's approval requests; an action that waits for one, if any."""
        store, after, asking = self._environment.store, None, None
        while True:
            where = {"transaction_id": transaction_id}
            page = await store.list(ApprovalRequest, caller.tenant, where=where, after=after)
            for item in page.items:
                if not isinstance(item, Stored) or item.document.frozen is None:
                    continue
                by = caller.principal.ref
                if await self._engine.upkeep.release_approval(item, by) is None:
                    return Lost(0, Loss.REVISION)
                asking = await store.get(ActionDocument, caller.tenant, item.document.action_id)
            if page.next is None:
                return asking.document if asking else None
            after = page.next

    async def _record(
        self, caller: Caller, transaction_id: TransactionId
    ) -> Stored[TransactionRecord]:
        store = self._environment.store
        stored = await store.get(TransactionRecord, caller.tenant, transaction_id)
        if stored is None:
            raise coded("transaction.not_found")
        return stored

    async def _shown(self, record: TransactionRecord) -> Result:
        store = self._environment.store
        action = await store.get(ActionDocument, record.tenant, record.action_id)
        assert action is not None
        return project(action.document, record)
