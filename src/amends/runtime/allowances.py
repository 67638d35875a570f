"""What a claim takes of the policy's limits, compared and set in the claim's own change set (PO-2).

Two processes cannot both take the last of a limit: whoever loses reads again, and is refused. An
action is counted by its first claim; whatever else becomes of it, it is not counted again.

Everybody who shares a limit changes one document, so claims of one engine take turns at it. That is
a courtesy and not what keeps the limit: other processes take no turns with this one, and of those
that meet in the store one wins. The others count again, and nobody is turned away who has room.

Deliberately not here: the arithmetic (`governance.limits`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from amends.contracts.documents import LimitUsage
from amends.contracts.enums import MUTATING_MODES
from amends.contracts.ids import TenantId
from amends.governance.limits import Charge, book
from amends.runtime.acceptance import Known
from amends.runtime.changes import Draft
from amends.runtime.environment import Environment
from amends.runtime.requests import Admitted

COUNTS: Final = 128
"""How often one round counts anew when others were first, before all else is read again as well."""

_PAUSE_S: Final = 0.01


class Allowances:
    """Counts claims against limits."""

    def __init__(self, environment: Environment) -> None:
        self._store = environment.store
        self._jitter = environment.jitter
        self._turns: WeakValueDictionary[tuple[TenantId, str], asyncio.Lock] = WeakValueDictionary()

    def due(self, admitted: Admitted, known: Known) -> tuple[Charge, ...]:
        """What the request has to take: nothing where its action was counted before."""
        counted = known.action is not None and known.action.attempted
        if counted or admitted.mode not in MUTATING_MODES:
            return ()
        return admitted.decision.charges

    @asynccontextmanager
    async def turn(self, tenant: TenantId, charges: Iterable[Charge]) -> AsyncIterator[bool]:
        """One's turn at each of these limits; yields whether there was anybody to wait for.

        They are waited for in one order, so that no two claims wait for each other.
        """
        waited = False
        async with AsyncExitStack() as held:
            for usage_id in sorted({charge.usage_id for charge in charges}):
                turn = self._turns.setdefault((tenant, usage_id), asyncio.Lock())
                waited = waited or turn.locked()
                await held.enter_async_context(turn)
            yield waited

    async def take(self, tenant: TenantId, charges: Iterable[Charge], draft: Draft) -> None:
        """Take every charge into the draft.

        Raises `policy.limit_exceeded` and `policy.limit_too_small`; nothing is taken then.
        """
        for charge in charges:
            await self._take(charge, tenant, draft)

    async def _take(self, charge: Charge, tenant: TenantId, draft: Draft) -> None:
        stored = await self._store.get(LimitUsage, tenant, charge.usage_id)
        if stored is None:
            booked = book(charge, None, tenant, await self._store.now())
        else:
            booked = book(charge, stored.document, tenant, stored.read_at)
        draft.put(booked.usage)
        draft.before(booked.before)

    async def step_back(self) -> None:
        """Let others of other processes go first, for a moment of chance."""
        await asyncio.sleep(self._jitter() * _PAUSE_S)
