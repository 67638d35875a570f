"""What a worker connector needs of the outside: channels, ledgers, and a hand in the journal.

Deliberately not here: processes, sockets and folders. Who puts a program together has them.
"""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from amends.contracts.ids import TenantId
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Terminal
from amends.host.channel import WorkerChannel
from amends.host.keeping import OpenRecord
from amends.ledger.plans import WorkflowPlan


class EntryRuling(msgspec.Struct, frozen=True, kw_only=True):
    """How a person ends an entry of a journal: an original, or with a second key its inverse.

    `grant` is the fingerprint under which the inverse was recorded.
    """

    tool: str
    operation_key: str
    compensation_key: str | None = None
    grant: str | None = None
    ending: Terminal
    who: str
    why: str
    evidence: str


class WorkerLink(Protocol):
    """The way to a tenant's worker, to its journal, and to the ledgers about it."""

    def channel(
        self, tenant: TenantId, grant: CapabilityGrant, *, limit_s: float
    ) -> AbstractAsyncContextManager[WorkerChannel]:
        """A fresh session under this grant. Raises before anything was asked."""
        ...

    async def ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        """How a ledger is opened, made empty first where there is none and `create` says so.

        None where there is none. One that was lost is not there anew: that raises.
        """
        ...

    async def rule(self, tenant: TenantId, ruling: EntryRuling) -> Terminal:
        """End an entry of the tenant's journal by hand, durably; how it stands ended.

        An entry that never came is closed, so that none of its key is admitted any more. One that
        ended so before, or as cancelled, stays as it is. Raises, and nothing was changed: as the
        journal's rulings do, and `Unavailable` while the journal cannot be reached.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what is held."""
        ...
