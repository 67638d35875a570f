"""An operator rules on a correction, and thereby on whether its target may be offset (TX-REV-3).

The ruling, the target's slots and a receipt become durable together. Corrections that nobody has
ruled on, one that comes in meanwhile included, keep the target closed.

Deliberately not here: settling unknown outcomes (`operating`), and making corrections (`settle`).
"""

from typing import Final

from amends.contracts.codes import coded
from amends.contracts.documents import CompensationSlots, Correction, TransactionRecord
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.principals import Caller
from amends.contracts.redaction import kept_text
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft, until_written
from amends.runtime.engine import Engine
from amends.runtime.pages import every
from amends.runtime.steps import record_step
from amends.runtime.texts import check_text, hides_texts
from amends.stores.port import Lost, Stored
from amends.transactions.corrections import reopened, rule

ALLOWED: Final = "correction.compensation_allowed"
KEPT: Final = "correction.compensation_kept_frozen"


class Rulings:
    """Rulings under the operator's own name."""

    def __init__(self, engine: Engine) -> None:
        self._environment = engine.environment
        self._store = engine.environment.store

    async def rule(
        self, caller: Caller, correction_id: str, ruling: str, *, allow_compensation: bool
    ) -> Correction:
        """Rule on one correction; durable when it returns.

        With `allow_compensation` its target may be offset again, once no other correction closes
        it. Raises `correction.not_found`, for other tenants' too, the codes of
        `transactions.corrections.rule`, and an `input.*` code for a text that cannot be stored.
        """
        ruling = check_text(ruling, "ruling")

        async def once() -> Correction | Lost:
            stored = await self._store.get(Correction, caller.tenant, correction_id)
            if stored is None:
                raise coded("correction.not_found")
            record = await self._record(stored.document)
            hidden = await hides_texts(self._store, record)
            ruled = rule(
                stored.document,
                caller.principal,
                kept_text(ruling, hidden=hidden),
                allow_compensation=allow_compensation,
                now=stored.read_at,
            )
            return await self._write(caller, ruled, record)

        return await until_written(once)

    async def _record(self, correction: Correction) -> TransactionRecord:
        found = await self._store.get(
            TransactionRecord, correction.tenant, correction.transaction_id
        )
        assert found is not None
        return found.document

    async def _write(
        self, caller: Caller, ruled: Correction, record: TransactionRecord
    ) -> Correction | Lost:
        tenant, transaction_id = ruled.tenant, ruled.transaction_id
        slots = await self._store.get(CompensationSlots, tenant, transaction_id)
        assert slots is not None
        others = await self._others(tenant, transaction_id, ruled.correction_id)
        draft = Draft(tenant, transaction_id)
        draft.replace(ruled)
        for other in others:
            draft.guard(Correction, other.correction_id, other.revision)
        now = ruled.updated_at
        draft.replace(reopened(slots.document, [ruled, *others], now))
        draft.guard(TransactionRecord, transaction_id, record.revision)
        by, code = caller.principal.ref, ALLOWED if ruled.allows_compensation else KEPT
        step = record_step(ReceiptType.OPERATOR_RESOLVED, record, by, now, code=code)
        draft.step(step)
        tail = await self._store.tail(tenant, chain_of(transaction_id))
        written = await draft.commit(self._store, self._environment.signer, tail=tail)
        return written if isinstance(written, Lost) else ruled

    async def _others(
        self, tenant: TenantId, transaction_id: TransactionId, but: str
    ) -> list[Correction]:
        """Every other correction of the same target. One that cannot be read stays in the way.

        A new one cannot slip in between: it compares and sets the same slots.
        """
        found: list[Correction] = []
        async for item in every(
            self._store, Correction, tenant, {"transaction_id": transaction_id}
        ):
            if not isinstance(item, Stored):
                raise coded("correction.unreadable", {"transaction_id": transaction_id})
            if item.document.correction_id != but:
                found.append(item.document)
        return found
