"""Legal holds (RD-4): a transaction that has to be kept, until somebody says that it need not be.

A hold is a document beside the transaction, so that it can be placed at any time, also while
something is being carried out, and changes nothing about that. Placing, lifting and forgetting
compare and set it: of a hold and a forgetting that race, the first one wins.

Deliberately not here: what a hold keeps away (`recovery.retaining`).
"""

from datetime import datetime

from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.codes import coded
from amends.contracts.documents import ActionDocument, LegalHold, TransactionRecord
from amends.contracts.evidence import ReceiptType, Step
from amends.contracts.ids import TransactionId
from amends.contracts.principals import HOLD_SCOPE, Caller, PrincipalRef
from amends.contracts.redaction import kept_text
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft, until_written
from amends.runtime.engine import Engine
from amends.runtime.pages import every
from amends.runtime.steps import action_step, record_step
from amends.runtime.texts import check_text, hides_texts
from amends.stores.port import Lost, Page, Stored


class Holds:
    """Places and lifts holds under the caller's own name."""

    def __init__(self, engine: Engine) -> None:
        self._environment = engine.environment
        self._store = engine.environment.store

    async def place(self, caller: Caller, id_: TransactionId, reason: str) -> LegalHold:
        """Keep a transaction until the hold is lifted; durable when it returns.

        What was forgotten before stays forgotten. Raises `hold.not_allowed`,
        `hold.reason_required`, `transaction.not_found`, `hold.placed`, and an `input.*` code for a
        reason that cannot be stored.
        """
        return await self._change(caller, id_, reason, placed=True)

    async def lift(self, caller: Caller, id_: TransactionId, reason: str) -> LegalHold:
        """End a hold; what was due meanwhile is forgotten by the next retention run.

        Raises as `place`, and `hold.not_placed`.
        """
        return await self._change(caller, id_, reason, placed=False)

    async def page(self, caller: Caller, *, lifted: bool, after: str | None) -> Page[LegalHold]:
        """A page of the tenant's holds, newest first. Raises `hold.not_allowed`."""
        _check_allowed(caller)
        where = {} if lifted else {"state": "placed"}
        return await self._store.list(
            LegalHold, caller.tenant, where=where, after=after, limit=limits.PAGE_SIZE
        )

    async def _change(
        self, caller: Caller, id_: TransactionId, reason: str, *, placed: bool
    ) -> LegalHold:
        _check_allowed(caller)
        reason = check_text(reason, "reason")
        if not reason.strip():
            raise coded("hold.reason_required")
        return await until_written(lambda: self._round(caller, id_, reason, placed=placed))

    async def _round(
        self, caller: Caller, id_: TransactionId, reason: str, *, placed: bool
    ) -> LegalHold | Lost:
        held = await self._store.get(LegalHold, caller.tenant, id_)
        about = await self._about(caller, id_)
        if held is not None and held.document.placed and placed:
            raise coded("hold.placed", {"transaction_id": id_})
        if not placed and (held is None or not held.document.placed):
            raise coded("hold.not_placed", {"transaction_id": id_})
        now, by = about.read_at, caller.principal.ref
        kept = kept_text(reason, hidden=await self._hides(about.document))
        hold = _changed(held.document if held else None, about.document, by, kept, now)
        draft = Draft(caller.tenant, id_)
        draft.put(replace(hold, placed=placed))
        type_ = ReceiptType.HOLD_PLACED if placed else ReceiptType.HOLD_LIFTED
        draft.step(_step(type_, about.document, by, now))
        tail = await self._store.tail(caller.tenant, chain_of(id_))
        written = await draft.commit(self._store, self._environment.signer, tail=tail)
        return written if isinstance(written, Lost) else replace(hold, placed=placed)

    async def _about(
        self, caller: Caller, id_: TransactionId
    ) -> Stored[TransactionRecord] | Stored[ActionDocument]:
        """The record, or an action of a transaction that has none."""
        record = await self._store.get(TransactionRecord, caller.tenant, id_)
        if record is not None:
            return record
        async for one in every(self._store, ActionDocument, caller.tenant, {"transaction_id": id_}):
            if isinstance(one, Stored):
                return one
        raise coded("transaction.not_found")

    async def _hides(self, about: TransactionRecord | ActionDocument) -> bool:
        """Whether the reason is kept as its hash only, as every text beside this transaction."""
        if isinstance(about, TransactionRecord):
            return await hides_texts(self._store, about)
        return about.input is None


def _check_allowed(caller: Caller) -> None:
    if not caller.principal.may(HOLD_SCOPE):
        raise coded("hold.not_allowed")


def _changed(
    held: LegalHold | None,
    about: TransactionRecord | ActionDocument,
    by: PrincipalRef,
    reason: str,
    now: datetime,
) -> LegalHold:
    return LegalHold(
        tenant=about.tenant,
        revision=held.revision + 1 if held else 1,
        created_at=held.created_at if held else now,
        updated_at=max(now, held.updated_at) if held else now,
        transaction_id=about.transaction_id,
        capability_id=about.capability_id,
        placed=True,
        reason=reason,
        by=by,
        at=now,
    )


def _step(
    type_: ReceiptType,
    about: TransactionRecord | ActionDocument,
    by: PrincipalRef,
    now: datetime,
) -> Step:
    if isinstance(about, TransactionRecord):
        return record_step(type_, about, by, now)
    return action_step(type_, about, by, now)
