"""Sealed records in memory: what survives a process, with a moment before and after each write.

    record = MemoryRecord(encode_journal(open_journal("tenant")))
    opening = record.open()                   # a fresh fence, as `Vault.open` takes one
    opening.save(payload)

A later opening fences the earlier ones out. `at` is told of each write before it is durable and
after; what it raises ends the write there, and the opening with it.
"""

from collections.abc import Callable
from enum import StrEnum

from amends.contracts.codes import coded
from amends.contracts.persistence import DurableRecord, PersistReceipt, content_digest
from amends.worker.shell import UsedSessions


class Moment(StrEnum):
    """When `at` is told."""

    BEFORE = "before"
    AFTER = "after"


Watcher = Callable[[Moment, bytes], None]


class MemoryRecord:
    """One record, and what is durable of it."""

    def __init__(self, payload: bytes, at: Watcher | None = None) -> None:
        self.payload = payload
        self.revision = 1
        self.fence = 1
        self.at = at

    def open(self) -> DurableRecord:
        """Take the next fence, and read what is durable."""
        self.fence += 1
        return _Opening(self)

    def tell(self, moment: Moment, payload: bytes) -> None:
        """Tell the watcher."""
        if self.at is not None:
            self.at(moment, payload)


class _Opening(DurableRecord):
    def __init__(self, record: MemoryRecord) -> None:
        self._record = record
        self._fence = record.fence
        self._revision = record.revision
        self._payload = record.payload
        self._poisoned = False

    @property
    def payload(self) -> bytes:
        return self._payload

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def fence(self) -> int:
        return self._fence

    @property
    def receipt(self) -> PersistReceipt:
        return PersistReceipt(
            namespace="memory",
            name="record",
            revision=self._revision,
            digest=content_digest(self._payload),
            fence=self._fence,
        )

    def save(self, payload: bytes) -> PersistReceipt:
        if self._poisoned:
            raise coded("sealed.poisoned")
        self._poisoned = True
        record = self._record
        record.tell(Moment.BEFORE, payload)
        if record.fence != self._fence:
            raise coded("sealed.fenced")
        record.payload = self._payload = payload
        record.revision = self._revision = record.revision + 1
        record.tell(Moment.AFTER, payload)
        self._poisoned = False
        return self.receipt


class MemorySessions(UsedSessions):
    """The names of sessions that were served, as long as this object lives."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def take(self, session_id: str) -> None:
        """See `UsedSessions`."""
        if session_id in self.names:
            raise coded("worker.session_used")
        self.names.add(session_id)
