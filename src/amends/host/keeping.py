"""The ledger as this host knows it to be durable (HL-4, PM-4).

What is in memory is what was last persisted. After one failure nothing more is licensed from this
opening: whoever goes on opens the record anew, under a fresh fence.

Writing waits for the disk, so it runs in a thread; one change at a time, which the workflow sees
to.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from amends.contracts.codes import coded
from amends.contracts.persistence import DurableRecord, PersistReceipt
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import WorkflowPlan, check_plan
from amends.ledger.records import Ledger
from amends.sealed.saving import save_beside

OpenRecord: TypeAlias = Callable[[], DurableRecord]
"""Takes a fresh fence and reads one authenticated snapshot; `Vault.open` of some storage."""


class LedgerKeeper:
    """One opening of one ledger."""

    def __init__(self, record: DurableRecord) -> None:
        self._record = record
        self._ledger = decode_ledger(record.payload)
        self._poisoned = False

    @classmethod
    async def open(cls, opened: OpenRecord, plan: WorkflowPlan) -> "LedgerKeeper":
        """Open the ledger of this plan.

        Raises what the record raises, `Corrupt` (`ledger.malformed`) and `Refused`
        (`ledger.plan_mismatch`).
        """
        keeper = cls(await asyncio.get_running_loop().run_in_executor(None, opened))
        check_plan(keeper.ledger, plan)
        return keeper

    @property
    def ledger(self) -> Ledger:
        """What is durable. Raises `Unavailable` (`sealed.poisoned`)."""
        if self._poisoned:
            raise coded("sealed.poisoned")
        return self._ledger

    @property
    def receipt(self) -> PersistReceipt:
        """The receipt of what is durable. Raises `Unavailable` (`sealed.poisoned`)."""
        _ = self.ledger
        return self._record.receipt

    async def persist(self, ledger: Ledger) -> None:
        """Make this the ledger; one that is the durable one already is not written again.

        Raises what the record raises, and after that this opening is over. Whoever is cancelled
        meanwhile is so once it is durable.
        """
        if ledger == self.ledger:
            return
        self._poisoned = True
        is_cancelled = await save_beside(self._record, encode_ledger(ledger))
        self._ledger = ledger
        self._poisoned = False
        if is_cancelled:
            raise asyncio.CancelledError
