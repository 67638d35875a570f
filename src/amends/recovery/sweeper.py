"""The sweeper and the reconciliation scheduler (TX-LEASE-2, TX-RECON-4, TX-PLAN-6).

Any number of them may run over one store: each change is a compare-and-set, and a look-up begins
with one. It adopts nothing that its own process still runs, invents no retry, and stops asking when
only a person can find out: then the record gets `attention`. What cannot be helped is left alone
for a while, and never stands in the way of the rest.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

import msgspec

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Mode, Status
from amends.contracts.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from amends.contracts.principals import Caller
from amends.contracts.times import after_ms
from amends.recovery.pacing import Pace, in_turns
from amends.recovery.resting import Resting
from amends.runtime.engine import Engine
from amends.runtime.requests import Request
from amends.runtime.upkeep import recovery_principal
from amends.stores.port import Stored
from amends.transactions.leases import holds_lease
from amends.transactions.reconciliation import NO_REFERENCE, Way, way_to_ask

BY_HAND: Final = "reconcile_by_hand"
UNREGISTERED: Final = "capability_not_registered"
PATIENCE_MS: Final = 15 * 60 * 1000
"""How long a record that nobody here can look up is left to other processes."""

INPUT_REQUIRED: Final = "input_required"
REFUSED: Final = "reconcile_refused"
FAILED: Final = "recovery_failed"
D = TypeVar("D", TransactionRecord, ApprovalRequest)
_RACES: Final = frozenset(
    {"transaction.reconcile_not_due", "transaction.frozen", "transaction.not_found"}
)


class Swept(msgspec.Struct, kw_only=True):
    """What one round did, for logs and tests. `failed` counts what could not be helped just now."""

    lapsed: int = 0
    plans_expired: int = 0
    approvals_expired: int = 0
    reconciled: int = 0
    escalated: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """How many changes the round made or tried."""
        return (
            self.lapsed
            + self.plans_expired
            + self.approvals_expired
            + self.reconciled
            + self.escalated
        )


class _ElsewherePerhaps(Exception):
    """The capability is not registered here; another process over this store may have it."""


class Sweeper:
    """Looks after what is due in one store, for all tenants.

    `poll_s` is the pause between two rounds that found little; `batch` bounds one round;
    `concurrency` bounds look-ups at a time, and `pace` how often one provider is asked for one
    tenant.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        poll_s: float = 1.0,
        batch: int = 100,
        concurrency: int = 4,
        pace: Pace | None = None,
    ) -> None:
        self._engine = engine
        self._store = engine.environment.store
        self._poll_s = poll_s
        self._batch = batch
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._resting = Resting()
        self._pace = pace or Pace()
        self._held_back = 0
        """How many look-ups the last round left for later, so that the next one looks past them."""

    async def run(self) -> None:
        """Sweep until cancelled. A store that cannot be reached is tried again later.

        Lapsed leases and expired plans do not wait for look-ups, however long these take.
        """
        try:
            while True:
                more = False
                with contextlib.suppress(Unavailable):
                    more = await self._round(Swept(), self._concurrency)
                await self._pause(more=more)
        finally:
            for asking in self._asking.values():
                asking.cancel()

    async def _pause(self, *, more: bool) -> None:
        """Until the next round: a while, or where more is due, until there is room for it."""
        if not more:
            await asyncio.sleep(self._poll_s)
        elif self._asking:
            some = asyncio.FIRST_COMPLETED
            await asyncio.wait(self._asking.values(), timeout=self._poll_s, return_when=some)

    async def sweep(self) -> Swept:
        """One round over everything that is due now; look-ups of the round have ended after it."""
        swept = Swept()
        await self._round(swept, self._batch)
        await asyncio.gather(*self._asking.values())
        return swept

    async def _round(self, swept: Swept, at_once: int) -> bool:
        """Do what is due, and begin look-ups while fewer than `at_once` run; say if more is due."""
        limit = self._batch + len(self._asking) + len(self._resting) + self._held_back
        records = await self._store.due(TransactionRecord, limit)
        requests = await self._store.due(ApprovalRequest, limit)
        self._resting.keep(
            {_key(one.document) for one in records} | {_key(one.document) for one in requests}
        )
        waiting = [one for one in records if self._wants_help(one)]
        unknown = [one for one in waiting if one.document.status is Status.OUTCOME_UNKNOWN]
        for record in waiting:
            if record.document.status is not Status.OUTCOME_UNKNOWN:
                await self._help(record, self._write_time(record, swept), swept)
        for request in filter(self._wants_help, requests):
            await self._help(request, self._write_expiry(request, swept), swept)
        room = max(at_once - len(self._asking), 0)
        more = self._begin_look_ups(unknown, room, swept)
        return more or (not self._held_back and max(len(records), len(requests)) >= limit)

    def _begin_look_ups(
        self, unknown: Sequence[Stored[TransactionRecord]], room: int, swept: Swept
    ) -> bool:
        """Begin as many as there is room for, tenants in turn; say if more only wait for room.

        Others are held back: those that would ask one provider too often for one tenant.
        """
        begun = held_back = 0
        for stored in in_turns(unknown, lambda one: one.document.tenant):
            if begun == room:
                break
            record = stored.document
            if self._pace.takes((record.connector_capability_id, record.tenant), stored.read_at):
                self._begin_look_up(stored, swept)
                begun += 1
            else:
                held_back += 1
        if unknown:
            self._pace.forget_full(unknown[0].read_at)
        self._held_back = held_back
        return len(unknown) > begun + held_back

    def _wants_help(self, stored: Stored[D]) -> bool:
        key = _key(stored.document)
        return key not in self._asking and not self._resting.rests(key, stored.read_at)

    async def _help(self, stored: Stored[D], helping: Awaitable[bool], swept: Swept) -> None:
        """One that cannot be read or written must not stop the others: it is left alone a while."""
        try:
            helped = await helping
        except Unavailable:
            raise
        except Exception:
            swept.failed += 1
            helped = False
        if not helped:
            self._resting.rest(_key(stored.document), stored.read_at)

    async def _write_time(self, stored: Stored[TransactionRecord], swept: Swept) -> bool:
        """Write down what time made of a record; false where this process still runs it."""
        record, upkeep = stored.document, self._engine.upkeep
        if holds_lease(record):
            if self._engine.runs(record):
                return False
            swept.lapsed += await upkeep.lapse(stored) is not None
        else:
            swept.plans_expired += await upkeep.expire_plan(stored) is not None
        return True

    async def _write_expiry(self, stored: Stored[ApprovalRequest], swept: Swept) -> bool:
        swept.approvals_expired += await self._engine.upkeep.expire_approval(stored)
        return True

    def _begin_look_up(self, stored: Stored[TransactionRecord], swept: Swept) -> None:
        key = _key(stored.document)
        self._asking[key] = self._engine.environment.spawn(self._look_up(stored, swept))
        self._asking[key].add_done_callback(lambda _: self._asking.pop(key, None))

    async def _look_up(self, stored: Stored[TransactionRecord], swept: Swept) -> None:
        """Ask what became of it, or call the person that only can find out."""
        async with self._slots:
            try:
                reason = await self._reason(stored, swept)
                if reason is not None:
                    await self._help(stored, self._escalate(stored, reason, swept), swept)
            except (Unavailable, _ElsewherePerhaps):
                self._resting.rest(_key(stored.document), stored.read_at)

    async def _reason(self, stored: Stored[TransactionRecord], swept: Swept) -> str | None:
        """Why a person is needed, after asking where that can be done."""
        try:
            return await self._why_not(stored) or await self._ask(stored.document, swept)
        except (Unavailable, _ElsewherePerhaps):
            raise
        except Exception:  # nothing that is wrong with one record may end the others' recovery
            return FAILED

    async def _escalate(self, stored: Stored[TransactionRecord], reason: str, swept: Swept) -> bool:
        swept.escalated += await self._engine.upkeep.escalate(stored, reason) is not None
        return True

    async def _why_not(self, stored: Stored[TransactionRecord]) -> str | None:
        """Why only a person can find out, if so."""
        record = stored.document
        try:
            registry = self._engine.environment.registry
            capability = registry.get(record.connector_capability_id).capability
            registry.get(record.capability_id)
        except Refused:
            if not _is_overdue(stored):
                raise _ElsewherePerhaps from None
            return UNREGISTERED
        if not capability.recovery.automatic:
            return BY_HAND
        way = way_to_ask(record, capability, stored.read_at)
        if way is None:
            return NO_REFERENCE
        if way is Way.REDRIVE and not await self._input_is_stored(record):
            return INPUT_REQUIRED
        return None

    async def _input_is_stored(self, record: TransactionRecord) -> bool:
        action = await self._store.get(ActionDocument, record.tenant, record.action_id)
        return action is not None and action.document.input is not None

    async def _ask(self, record: TransactionRecord, swept: Swept) -> str | None:
        """Reconcile under the original action id; the code of a refusal needs a person."""
        context = TransactionContext(mode=Mode.RECONCILE, transaction_id=record.transaction_id)
        action = Action(
            capability_id=record.capability_id, action_id=record.action_id, transaction=context
        )
        caller = Caller(
            principal=recovery_principal(record.tenant), identity=record.identity, trusted=True
        )
        try:
            await self._engine.perform(Request(action=action, caller=caller, recovering=True))
        except Refused as refusal:
            return None if refusal.code in _RACES else REFUSED
        except (Conflict, OutcomeUnknown):
            return None
        swept.reconciled += 1
        return None


def _key(document: TransactionRecord | ApprovalRequest) -> str:
    if isinstance(document, ApprovalRequest):
        return f"{document.tenant} {document.approval_id}"
    return f"{document.tenant} {document.transaction_id}"


def _is_overdue(stored: Stored[TransactionRecord]) -> bool:
    due = stored.document.reconcile_after or stored.document.updated_at
    return stored.read_at >= after_ms(due, PATIENCE_MS)
