"""One attempt of this process while it lives: the documents it last wrote, and its fence."""

import asyncio
from datetime import datetime

from amends.connectors.port import Call
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.evidence import Tail
from amends.contracts.ids import Fence, TenantId
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.contracts.results import Result
from amends.runtime.registry import Registered


class Running:
    """In-memory state of an attempt; everything that matters is durable already.

    `action` is the document of the action that asked, `settles` the action whose effect a
    reconciliation settles (none where that is the same document or there is none). `unsaved` is a
    provider operation whose checkpoint could not be written and travels in the settlement.
    `answered` says that the connector call is over, `settled` that somebody writes its end down.
    """

    def __init__(
        self,
        *,
        call: Call,
        serving: Registered,
        record: TransactionRecord,
        action: ActionDocument,
        settles: ActionDocument | None,
        tail: Tail | None,
        actor: PrincipalRef,
        started_at: datetime,
        lease_end: datetime,
    ) -> None:
        self.call = call
        self.serving = serving
        self.record = record
        self.action = action
        self.settles = settles
        self.tail = tail
        self.actor = actor
        self.started_at = started_at
        self.lease_end = lease_end
        self.cancelled = asyncio.Event()
        self.lock = asyncio.Lock()
        self.answer: asyncio.Future[Result]
        """Set before it runs: who asked may be waiting already, or nobody."""
        self.task: asyncio.Task[None] | None = None
        self.giving_up: asyncio.Task[None] | None = None
        self.dispatched_at: datetime | None = None
        self.unsaved: ProviderOperation | None = None
        self.answered = False
        self.settled = False

    @property
    def fence(self) -> Fence:
        """The fence this attempt was licensed with."""
        assert self.call.fence is not None
        return self.call.fence

    @property
    def tenant(self) -> TenantId:
        """The tenant it acts for."""
        return self.call.tenant

    @property
    def redrive(self) -> bool:
        """Whether it enters the original handler again under the same provider key."""
        return self.call.redrive

    def interrupt(self) -> None:
        """Break the connector call off; an answer that is being written down is not thrown away."""
        if self.task is not None and not self.answered:
            self.task.cancel()

    def holds(self, record: TransactionRecord) -> bool:
        """Whether the record is still in this very attempt; a freeze voids its lease."""
        return (
            record.attempt is not None
            and record.attempt.fence == self.fence
            and record.attempt.lease_ended_at is None
            and record.frozen is None
        )
