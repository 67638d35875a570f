"""What a claim takes of the policy's limits, compared and set in the claim's own change set (PO-2).

Two processes cannot both take the last of a limit: whoever loses reads again, and is refused. An
action is counted by its first claim; whatever else becomes of it, it is not counted again.

Deliberately not here: the arithmetic (`governance.limits`).
"""

from amends.contracts.documents import LimitUsage
from amends.contracts.enums import MUTATING_MODES
from amends.governance.limits import Charge, book
from amends.runtime.acceptance import Known
from amends.runtime.changes import Draft
from amends.runtime.environment import Environment
from amends.runtime.requests import Admitted


class Allowances:
    """Counts claims against limits."""

    def __init__(self, environment: Environment) -> None:
        self._store = environment.store

    async def take(self, admitted: Admitted, known: Known, draft: Draft) -> None:
        """Take every charge of the request into the draft.

        Raises `policy.limit_exceeded` and `policy.limit_too_small`; nothing is taken then.
        """
        counted = known.action is not None and known.action.attempted
        if counted or admitted.mode not in MUTATING_MODES:
            return
        for charge in admitted.decision.charges:
            await self._take(charge, admitted, draft)

    async def _take(self, charge: Charge, admitted: Admitted, draft: Draft) -> None:
        stored = await self._store.get(LimitUsage, admitted.tenant, charge.usage_id)
        if stored is None:
            booked = book(charge, None, admitted.tenant, await self._store.now())
        else:
            booked = book(charge, stored.document, admitted.tenant, stored.read_at)
        draft.put(booked.usage)
        draft.before(booked.before)
