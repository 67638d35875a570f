"""Retention by itself: what a capability declares is kept without somebody remembering it (RD-3).

A program that runs for long looks once a day, for every tenant of its store, and forgets what is
due as `retaining` does, under the name of recovery. Where no capability of the program declares a
time, nothing is even read. Tenants are known from the receipts, which are read once from the first
to the last, and then only the new ones.

What cannot be forgotten for one tenant is tried again the next day and holds up no other. Any
number of programs may look: of two that meet, one is first. Deliberately not here: what is due and
what is still needed (`transactions.retention`), and old bytes in free pages (`wiring.compacting`).
"""

import asyncio
import contextlib
from typing import Final

from amends.contracts.errors import AmendsError
from amends.contracts.ids import TenantId
from amends.recovery.retaining import Retained, Retention
from amends.runtime.engine import Engine

FIRST_LOOK_S: Final = 600.0
"""Late enough that a program which was started to look at something forgets nothing."""

LOOK_S: Final = 24 * 3600.0
_AT_ONCE: Final = 200


class Expiring:
    """Forgets what is due, for all tenants of one store."""

    def __init__(self, engine: Engine) -> None:
        self._store = engine.environment.store
        self._registry = engine.environment.registry
        self._retention = Retention(engine)
        self._tenants: dict[TenantId, None] = {}
        self._read_to = 0

    async def run(self) -> None:
        """Look once a day, until cancelled."""
        pause = FIRST_LOOK_S
        while True:
            await asyncio.sleep(pause)
            with contextlib.suppress(AmendsError):
                await self.look()
            pause = LOOK_S

    async def look(self) -> dict[TenantId, Retained]:
        """Forget what is due now. Raises what reading the store's feed does."""
        done: dict[TenantId, Retained] = {}
        if not self._declared():
            return done
        for tenant in await self._known_tenants():
            with contextlib.suppress(AmendsError):
                done[tenant] = await self._retention.forget_due(tenant)
        return done

    def _declared(self) -> bool:
        return any(one.capability.data.retention_ms is not None for one in self._registry.all())

    async def _known_tenants(self) -> tuple[TenantId, ...]:
        while entries := await self._store.feed(after=self._read_to, limit=_AT_ONCE):
            self._tenants |= dict.fromkeys(entry.tenant for entry in entries)
            self._read_to = entries[-1].position
            await asyncio.sleep(0)  # others have their turn between two pages
        return tuple(self._tenants)
