"""Changes that time makes: lapsed leases, expired plans and approvals, escalations, freezes.

Each is one compare-and-set; losing it means that somebody else was there first, which is as good.
None of them calls a provider.
"""

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import RecoveryContract
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import PrincipalKind
from amends.contracts.errors import Refused
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.principals import Principal, PrincipalRef
from amends.governance import approvals
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft
from amends.runtime.environment import Environment
from amends.runtime.steps import approval_step, record_step
from amends.stores.port import Due, Lost, Stored
from amends.transactions.cancellation import expire_plan
from amends.transactions.leases import due_at, freeze, holds_lease, lapse, release
from amends.transactions.table import Event, move

RECOVERY = PrincipalRef(PrincipalId("recovery"), PrincipalKind.RECOVERY)


def recovery_principal(tenant: TenantId) -> Principal:
    """The principal under which the scheduler acts: look-ups only."""
    return Principal(id=RECOVERY.id, kind=RECOVERY.kind, tenant=tenant, scopes=())


def due_of(record: TransactionRecord) -> Due | None:
    """When recovery has to look at a record that holds no lease."""
    instant = due_at(record)
    return Due(at=instant) if instant is not None else None


class Upkeep:
    """Writes what became of records while nobody acted on them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def lapse(self, stored: Stored[TransactionRecord]) -> TransactionRecord | None:
        """Write a lapsed attempt down as unknown; none where somebody was faster (TX-LEASE-2)."""
        ended = stored.due_at or stored.read_at
        recovery = self._recovery(stored.document)
        record = lapse(stored.document, stored.read_at, ended, recovery)
        return await self._write(record, ReceiptType.OUTCOME_UNKNOWN, RECOVERY)

    def _recovery(self, record: TransactionRecord) -> RecoveryContract:
        """The capability's own back-off and bound; the default where it is not registered here."""
        try:
            registered = self._environment.registry.get(record.connector_capability_id)
        except Refused:
            return RecoveryContract()
        return registered.capability.recovery

    async def expire_plan(self, stored: Stored[TransactionRecord]) -> TransactionRecord | None:
        """Write an expired plan down as failed (TX-PLAN-6)."""
        record = expire_plan(stored.document, stored.read_at)
        return await self._write(record, ReceiptType.PLAN_EXPIRED, RECOVERY)

    async def escalate(
        self, stored: Stored[TransactionRecord], reason: str
    ) -> TransactionRecord | None:
        """Say why a person is needed; the record is not looked up by itself any more."""
        record = move(Event.ESCALATED, stored.document, stored.read_at, attention=reason)
        return await self._write(record, ReceiptType.ESCALATED, RECOVERY)

    async def freeze(
        self, stored: Stored[TransactionRecord], reason: str
    ) -> TransactionRecord | None:
        """Freeze a record whose store is not the one it was written in (TX-LEASE-3)."""
        record = freeze(stored.document, stored.read_at, reason)
        if record is None:
            return None
        return await self._write(record, ReceiptType.FROZEN, RECOVERY)

    async def release(
        self, stored: Stored[TransactionRecord], operator: PrincipalRef
    ) -> TransactionRecord | None:
        """Release a frozen record; an attempt it carries is due to lapse at once."""
        record = release(stored.document, stored.read_at)
        due = Due(after_ms=0) if holds_lease(record) else due_of(record)
        return await self._write(record, ReceiptType.RELEASED, operator, due=due)

    async def freeze_approval(
        self, stored: Stored[ApprovalRequest], reason: str
    ) -> ApprovalRequest | None:
        """Freeze a waiting request whose store is not the one it was written in (TX-LEASE-3)."""
        request = approvals.freeze(stored.document, reason, stored.read_at)
        return await self._write_request(request, ReceiptType.FROZEN, RECOVERY)

    async def release_approval(
        self, stored: Stored[ApprovalRequest], operator: PrincipalRef
    ) -> ApprovalRequest | None:
        """Release a frozen request; it goes on until it expires."""
        request = approvals.release(stored.document, stored.read_at)
        return await self._write_request(request, ReceiptType.RELEASED, operator)

    async def expire_approval(self, stored: Stored[ApprovalRequest]) -> bool:
        """Write an approval that nobody used in time down as expired; false where not due."""
        request = approvals.expire(stored.document, stored.read_at)
        type_ = ReceiptType.APPROVAL_EXPIRED
        return await self._write_request(request, type_, RECOVERY) is not None

    async def _write_request(
        self, request: ApprovalRequest | None, type_: ReceiptType, actor: PrincipalRef
    ) -> ApprovalRequest | None:
        """Make a request's change durable; none where there is none, or somebody was faster."""
        if request is None:
            return None
        waits = request.status in approvals.OPEN and request.frozen is None
        draft = Draft(request.tenant, request.transaction_id)
        draft.replace(request, Due(at=request.expires_at) if waits else None)
        draft.step(approval_step(type_, request, actor, request.updated_at))
        written = await self._commit(draft, request)
        return None if isinstance(written, Lost) else request

    async def _write(
        self,
        record: TransactionRecord,
        type_: ReceiptType,
        actor: PrincipalRef,
        *,
        due: Due | None = None,
    ) -> TransactionRecord | None:
        draft = Draft(record.tenant, record.transaction_id)
        draft.replace(record, due or due_of(record))
        draft.step(record_step(type_, record, actor, record.updated_at))
        written = await self._commit(draft, record)
        return None if isinstance(written, Lost) else record

    async def _commit(self, draft: Draft, document: TransactionRecord | ApprovalRequest) -> object:
        environment = self._environment
        tail = await environment.store.tail(document.tenant, chain_of(document.transaction_id))
        return await draft.commit(environment.store, environment.signer, tail=tail)
