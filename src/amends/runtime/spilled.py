"""Settlements that the store had refused: taken in later, as late answers (TX-SETTLE-6).

The attempt they end may still own its record. Then it is written down as abandoned first, which is
what the sweeper would do: its process gave it up when it spilled. Taking one in twice changes
nothing, since each is an event of its own.

Deliberately not here: where they lie, and whether they are genuine (`wiring`).
"""

from enum import StrEnum

from amends.contracts.documents import TransactionRecord
from amends.runtime.changes import until_written
from amends.runtime.engine import Engine
from amends.runtime.heard import Heard
from amends.transactions.leases import holds_lease


class Became(StrEnum):
    """What became of a spilled settlement."""

    TAKEN = "taken"
    KNOWN = "known"
    RUNNING = "running"
    UNCLAIMED = "unclaimed"


class SpilledAnswers:
    """Takes spilled settlements in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.environment.store

    async def take(self, heard: Heard) -> Became:
        """Take one in; durable when it returns. Only what was taken or known may be forgotten.

        Raises `Corrupt` where its record cannot be acted upon.
        """
        stored = await self._store.get(TransactionRecord, heard.tenant, heard.transaction_id)
        if stored is None:
            return Became.UNCLAIMED
        record = stored.document
        if holds_lease(record) and record.attempt and record.attempt.fence == heard.fence:
            if self._engine.runs(record):
                return Became.RUNNING
            await self._engine.upkeep.lapse(stored)
        changed = await until_written(lambda: self._engine.settlement.hear(heard))
        return Became.TAKEN if changed else Became.KNOWN
