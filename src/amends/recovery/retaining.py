"""Forgetting what was kept long enough (RD-3): one change set for each transaction of one tenant.

A transaction is read whole, judged by the rules of `transactions.retention`, and rewritten whole
with a receipt that says so. Everything that was read is compared when it is written, the absence of
a hold included, so that whoever is first wins, and a loser is judged anew by the next run.

Deliberately not here: when that is done (`expiring`, or a person), and removing what a file still
holds of old bytes (`wiring`).
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    Document,
    LegalHold,
    Refusal,
    TransactionRecord,
)
from amends.contracts.errors import Corrupt
from amends.contracts.evidence import ReceiptType, Step
from amends.contracts.ids import CapabilityId, TenantId, TransactionId
from amends.contracts.principals import RETAIN_SCOPE, Caller, PrincipalRef
from amends.contracts.times import after_ms
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft
from amends.runtime.engine import Engine
from amends.runtime.pages import every
from amends.runtime.steps import action_step, record_step
from amends.runtime.upkeep import recovery_principal
from amends.stores.port import Lost, Stored
from amends.transactions.forgetting import (
    forget_action,
    forget_correction,
    forget_hold,
    forget_record,
    forget_refusal,
    forget_request,
)
from amends.transactions.retention import Whole, is_due, needed_for

D = TypeVar("D", bound=Document)
UNREADABLE = "unreadable"
CHANGED = "changed_meanwhile"


class StillNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction whose time is over and that was kept: `reason` is a code, `text` says it."""

    transaction_id: TransactionId
    reason: str
    text: str


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What one run did, or would do. `refusals` counts requests that were never accepted."""

    forgotten: tuple[TransactionId, ...] = ()
    kept: tuple[StillNeeded, ...] = ()
    refusals: int = 0
    dry_run: bool = False


class _Unreadable(Exception):
    """A row of the transaction cannot be read; nothing of it is touched."""


class Retention:
    """Forgets under the caller's own name, in the caller's own tenant."""

    def __init__(self, engine: Engine) -> None:
        self._environment = engine.environment
        self._store = engine.environment.store

    async def run(self, caller: Caller, *, dry_run: bool) -> Retained:
        """Forget everything whose declared time is over; durable when it returns.

        With `dry_run` nothing is written. Capabilities that are not registered here keep all.
        Raises `retention.not_allowed`.
        """
        if not caller.principal.may(RETAIN_SCOPE):
            raise coded("retention.not_allowed")
        return await self._run(caller.tenant, caller.principal.ref, dry_run=dry_run)

    async def forget_due(self, tenant: TenantId) -> Retained:
        """The same for a tenant, under the name of recovery."""
        return await self._run(tenant, recovery_principal(tenant).ref, dry_run=False)

    async def _run(self, tenant: TenantId, by: PrincipalRef, *, dry_run: bool) -> Retained:
        seen: set[TransactionId] = set()
        forgotten: list[TransactionId] = []
        kept: list[StillNeeded] = []
        async for action in self._all(ActionDocument, tenant, {}):
            id_ = action.document.transaction_id
            if action.document.forgotten_at is not None or id_ in seen:
                continue
            seen.add(id_)
            needed = await self._one(by, action, dry_run=dry_run)
            if isinstance(needed, StillNeeded):
                kept.append(needed)
            elif needed:
                forgotten.append(id_)
        refusals = await self._refusals(tenant, dry_run=dry_run)
        return Retained(
            forgotten=tuple(forgotten), kept=tuple(kept), refusals=refusals, dry_run=dry_run
        )

    async def _one(
        self, by: PrincipalRef, action: Stored[ActionDocument], *, dry_run: bool
    ) -> StillNeeded | bool:
        """Forget one transaction; why not, or false where its time has not come."""
        id_, now = action.document.transaction_id, action.read_at
        try:
            whole = await self._whole(action.document.tenant, id_)
        except (Corrupt, _Unreadable):
            return StillNeeded(
                transaction_id=id_, reason=UNREADABLE, text="a row of it cannot be read"
            )
        capability = self._capability(whole)
        if capability is None or not is_due(whole, capability, now):
            return False
        need = needed_for(whole, capability, now)
        if need is not None:
            return StillNeeded(transaction_id=id_, reason=need.code, text=need.text)
        if dry_run or await self._forget(whole, by, id_, now):
            return True
        return StillNeeded(
            transaction_id=id_, reason=CHANGED, text="somebody else changed it meanwhile"
        )

    def _capability(self, whole: Whole) -> Capability | None:
        """Who declares how long it is kept: the capability that was asked for."""
        asked = whole.record.capability_id if whole.record else whole.actions[0].capability_id
        registered = self._environment.registry.find(asked)
        return registered.capability if registered else None

    async def _forget(
        self, whole: Whole, by: PrincipalRef, id_: TransactionId, now: datetime
    ) -> bool:
        tenant = whole.actions[0].tenant
        draft = Draft(tenant, id_)
        _replace_all(draft, whole, now)
        if whole.hold is None:
            draft.guard(LegalHold, id_, 0)
        draft.guard(CompensationSlots, id_, whole.slots.revision if whole.slots else 0)
        for one in whole.compensations:
            draft.guard(TransactionRecord, one.transaction_id, one.revision)
        if whole.record is None:
            draft.guard(TransactionRecord, id_, 0)
        draft.step(_step(whole, by, now))
        tail = await self._store.tail(tenant, chain_of(id_))
        written = await draft.commit(self._store, self._environment.signer, tail=tail)
        return not isinstance(written, Lost)

    async def _whole(self, tenant: TenantId, id_: TransactionId) -> Whole:
        where = {"transaction_id": id_}
        record = await self._store.get(TransactionRecord, tenant, id_)
        slots = await self._store.get(CompensationSlots, tenant, id_)
        hold = await self._store.get(LegalHold, tenant, id_)
        actions = [one.document async for one in self._all(ActionDocument, tenant, where)]
        approvals = [one.document async for one in self._all(ApprovalRequest, tenant, where)]
        corrections = [one.document async for one in self._all(Correction, tenant, where)]
        return Whole(
            record=record.document if record else None,
            actions=tuple(actions),
            approvals=tuple(approvals),
            corrections=tuple(corrections),
            slots=slots.document if slots else None,
            compensations=await self._compensations(tenant, slots.document if slots else None),
            hold=hold.document if hold else None,
        )

    async def _compensations(
        self, tenant: TenantId, slots: CompensationSlots | None
    ) -> tuple[TransactionRecord, ...]:
        found = []
        for holder in slots.holders if slots else ():
            stored = await self._store.get(TransactionRecord, tenant, holder.transaction_id)
            if stored is None:
                raise _Unreadable
            found.append(stored.document)
        return tuple(found)

    async def _all(
        self, type_: type[D], tenant: TenantId, where: Mapping[str, str]
    ) -> AsyncIterator[Stored[D]]:
        """Every document; one that cannot be read stops what it belongs to, and nothing else."""
        async for item in every(self._store, type_, tenant, where):
            if isinstance(item, Stored):
                yield item
            elif where:
                raise _Unreadable

    async def _refusals(self, tenant: TenantId, *, dry_run: bool) -> int:
        """Refused requests hold no input; what their gates said in words is forgotten."""
        count = 0
        async for stored in self._all(Refusal, tenant, {}):
            refusal = stored.document
            if not self._is_over(refusal, stored.read_at):
                continue
            draft = Draft(tenant, TransactionId(""))
            draft.replace(forget_refusal(refusal, stored.read_at))
            written = None if dry_run else await draft.commit(self._store, None, tail=None)
            count += not isinstance(written, Lost)
        return count

    def _is_over(self, refusal: Refusal, now: datetime) -> bool:
        if refusal.forgotten_at is not None or refusal.capability_id is None:
            return False
        registered = self._environment.registry.find(CapabilityId(refusal.capability_id))
        span = registered.capability.data.retention_ms if registered else None
        return span is not None and after_ms(refusal.created_at, span) <= now


def _replace_all(draft: Draft, whole: Whole, now: datetime) -> None:
    """Everything that is left to forget; what was forgotten already is only compared."""
    if whole.record is not None:
        draft.replace(forget_record(whole.record, now))
    for action in whole.actions:
        draft.replace(forget_action(action, now))
    for request in whole.approvals:
        draft.replace(forget_request(request, now))
    for correction in whole.corrections:
        draft.replace(forget_correction(correction, now))
    if whole.hold is not None:
        draft.replace(forget_hold(whole.hold, now))


def _step(whole: Whole, by: PrincipalRef, now: datetime) -> Step:
    """A receipt of the record as it stands afterwards, with the hashes of what is gone."""
    if whole.record is not None:
        return record_step(ReceiptType.FORGOTTEN, forget_record(whole.record, now), by, now)
    return action_step(ReceiptType.FORGOTTEN, forget_action(whole.actions[0], now), by, now)
