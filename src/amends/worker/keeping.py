"""The journal as this session knows it to be durable (WS-1, WS-2).

What is in memory is what was last persisted, always: a change that could not be persisted was never
there. After one failure nothing more is read or written through this opening.

Writing waits for the disk, so it runs in a thread, unless there is nothing else that could go on
meanwhile. One change at a time, which the shell sees to.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from amends.contracts.codes import coded
from amends.contracts.persistence import DurableRecord
from amends.contracts.worker_identity import Fingerprint
from amends.journal.capacity import JournalLimits
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal
from amends.sealed.saving import save_beside

OpenRecord: TypeAlias = Callable[[], DurableRecord]
"""Takes a fresh fence and reads one authenticated snapshot; `Vault.open` of some storage."""


class JournalKeeper:
    """One opening of one journal."""

    def __init__(
        self, record: DurableRecord, limits: JournalLimits, is_alone: Callable[[], bool]
    ) -> None:
        self.limits: Final = limits
        self._record = record
        self._is_alone = is_alone
        self._journal = decode_journal(record.payload, max_bytes=limits.max_bytes)
        self._poisoned = False

    @classmethod
    async def open(
        cls,
        opened: OpenRecord,
        scope: str,
        limits: JournalLimits,
        *,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> "JournalKeeper":
        """Open the journal of this scope.

        `is_alone` says whether what persists now is all that this process has to do. Raises what
        the record raises, `Corrupt` (`journal.malformed`) and `Refused` (`journal.scope_mismatch`).
        """
        record = await asyncio.get_running_loop().run_in_executor(None, opened)
        keeper = cls(record, limits, is_alone)
        if keeper.journal.scope != scope:
            raise coded("journal.scope_mismatch")
        return keeper

    @property
    def journal(self) -> Journal:
        """What is durable. Raises `Unavailable` (`sealed.poisoned`)."""
        if self._poisoned:
            raise coded("sealed.poisoned")
        return self._journal

    @property
    def fence(self) -> int:
        """The fence of this opening."""
        return self._record.fence

    @property
    def revision(self) -> int:
        """How often the journal was written."""
        return self._record.revision

    @property
    def digest(self) -> Fingerprint:
        """The hash of what is durable."""
        return self._record.receipt.digest

    async def persist(self, journal: Journal) -> None:
        """Make this the journal; a journal that is the durable one already is not written again.

        Raises what the record raises, and after that this opening is over. Whoever is cancelled
        meanwhile is so once it is durable.
        """
        if journal == self.journal:
            return
        self._poisoned = True
        is_cancelled = await self._save(encode_journal(journal))
        self._journal = journal
        self._poisoned = False
        if is_cancelled:
            raise asyncio.CancelledError

    async def _save(self, payload: bytes) -> bool:
        """Whether the caller was cancelled meanwhile.

        Alone it waits right here, in the same order and to the same end: nobody is kept waiting by
        that, and handing over to a thread and back costs as much as half a write.
        """
        if not self._is_alone():
            return await save_beside(self._record, payload)
        self._record.save(payload)
        return False
