"""The sweeper and the reconciliation scheduler (TX-LEASE-2, TX-RECON-4, TX-PLAN-6).

Any number of them may run over one store: each change is a compare-and-set, and a look-up begins
with one. It adopts nothing that its own process still runs, invents no retry, and stops asking when
only a person can find out: then the record gets `attention`.
"""

import asyncio
from typing import Final

import msgspec

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Mode, Status
from amends.contracts.errors import AmendsError, Refused, Unavailable
from amends.contracts.principals import Caller
from amends.runtime.engine import Engine
from amends.runtime.requests import Request
from amends.runtime.upkeep import recovery_principal
from amends.stores.port import Stored
from amends.transactions.leases import holds_lease
from amends.transactions.reconciliation import NO_REFERENCE, Way, way_to_ask

BY_HAND: Final = "reconcile_by_hand"
UNREGISTERED: Final = "capability_not_registered"
INPUT_REQUIRED: Final = "input_required"
REFUSED: Final = "reconcile_refused"
_RACES: Final = frozenset(
    {"transaction.reconcile_not_due", "transaction.frozen", "transaction.not_found"}
)


class Swept(msgspec.Struct, kw_only=True):
    """What one round did, for logs and tests."""

    lapsed: int = 0
    plans_expired: int = 0
    approvals_expired: int = 0
    reconciled: int = 0
    escalated: int = 0

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


class Sweeper:
    """Looks after what is due in one store, for all tenants.

    `poll_s` is the pause between two rounds that found little; `batch` bounds one round;
    `concurrency` bounds look-ups at a time.
    """

    def __init__(
        self, engine: Engine, *, poll_s: float = 1.0, batch: int = 100, concurrency: int = 4
    ) -> None:
        self._engine = engine
        self._store = engine.environment.store
        self._poll_s = poll_s
        self._batch = batch
        self._slots = asyncio.Semaphore(concurrency)

    async def run(self) -> None:
        """Sweep until cancelled. A store that cannot be reached is tried again later."""
        while True:
            try:
                swept = await self.sweep()
            except Unavailable:
                swept = Swept()
            if swept.total < self._batch:
                await asyncio.sleep(self._poll_s)

    async def sweep(self) -> Swept:
        """One round over everything that is due now; look-ups of the round have ended after it."""
        swept = Swept()
        look_ups = []
        for stored in await self._store.due(TransactionRecord, self._batch):
            if stored.document.status is Status.OUTCOME_UNKNOWN:
                look_ups.append(self._look_up(stored, swept))
            else:
                await self._settle_time(stored, swept)
        for request in await self._store.due(ApprovalRequest, self._batch):
            swept.approvals_expired += await self._engine.upkeep.expire_approval(request)
        if look_ups:
            await asyncio.gather(*look_ups)
        return swept

    async def _settle_time(self, stored: Stored[TransactionRecord], swept: Swept) -> None:
        record, upkeep = stored.document, self._engine.upkeep
        if holds_lease(record):
            if not self._engine.runs(record):
                swept.lapsed += await upkeep.lapse(stored) is not None
        elif record.status is Status.PLANNED:
            swept.plans_expired += await upkeep.expire_plan(stored) is not None

    async def _look_up(self, stored: Stored[TransactionRecord], swept: Swept) -> None:
        async with self._slots:
            reason = await self._why_not(stored)
            if reason is None:
                reason = await self._ask(stored.document, swept)
            if reason is not None:
                swept.escalated += await self._engine.upkeep.escalate(stored, reason) is not None

    async def _why_not(self, stored: Stored[TransactionRecord]) -> str | None:
        """Why only a person can find out, if so."""
        record = stored.document
        try:
            registry = self._engine.environment.registry
            capability = registry.get(record.connector_capability_id).capability
            registry.get(record.capability_id)
        except Refused:
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
        except AmendsError:
            return None
        swept.reconciled += 1
        return None
