"""Views: who may see which transaction, selected by exactly one identity (TX-VIEW-1).

Another tenant's record does not exist. Within a tenant the owner, operators and holders of the
scope `amends:read` see a record; to everybody else it does not exist either.
"""

from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from amends.contracts import limits
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.documents import (
    ActionDocument,
    Attempt,
    Correction,
    Evidence,
    GateVerdict,
    LegalHold,
    OperatorRuling,
    Refusal,
    TransactionPlan,
    TransactionRecord,
)
from amends.contracts.enums import Status
from amends.contracts.evidence import Receipt
from amends.contracts.ids import ActionId, ApprovalId, PlanId, TenantId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.principals import Caller, PrincipalRef
from amends.contracts.results import Result
from amends.governance.approvals import OPEN, may_decide
from amends.receipts.chain import chain_of
from amends.runtime.contradicting import any_open, corrections_of, page_by_evidence
from amends.runtime.delegating import Delegating
from amends.runtime.engine import Engine
from amends.runtime.pages import readable
from amends.stores.port import Page, Stored
from amends.transactions.projection import contradicted, project

READ_SCOPE: Final = "amends:read"


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """Which transaction: exactly one of the three is given."""

    transaction_id: TransactionId | None = None
    plan_id: PlanId | None = None
    action_id: ActionId | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as its reader may see it (TX-VIEW-2).

    `verdicts` are the ordered answers of the gates to the selected action; `receipts` and the
    result's output are there only where they were asked for.
    """

    result: Result
    owner: PrincipalRef
    plan: TransactionPlan | None = None
    attempt: Attempt | None = None
    attempts: int = 0
    verdicts: tuple[GateVerdict, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    corrections: tuple[Correction, ...] = ()
    frozen: str | None = None
    approval: ApprovalRequest | None = None
    ruling: OperatorRuling | None = None
    hold: LegalHold | None = None
    forgotten_at: datetime | None = None
    metadata: dict[str, Json] = {}
    receipts: tuple[Receipt, ...] = ()


class Reading:
    """Looks transactions up for somebody."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.environment.store
        self._delegating = Delegating(engine.environment)

    async def view(
        self,
        caller: Caller,
        selector: Selector,
        *,
        include_result: bool,
        include_receipts: bool,
    ) -> View:
        """One transaction. Raises `view.selector_invalid` or `transaction.not_found`."""
        record, action = await self._select(caller, selector)
        if record is not None and _may_read(caller, record.principal):
            action = action or await self._action(caller.tenant, record.action_id)
        elif action is not None and _may_read(caller, action.principal):
            include_receipts = include_receipts and record is None
            record = None
        else:
            raise coded("transaction.not_found")
        if action is None:
            raise coded("transaction.not_found")
        return await self._composed(
            action, record, include_result=include_result, include_receipts=include_receipts
        )

    async def _select(
        self, caller: Caller, selector: Selector
    ) -> tuple[TransactionRecord | None, ActionDocument | None]:
        """The record that is meant, and the action where it was named or nothing else is there."""
        tenant = caller.tenant
        match selector:
            case Selector(transaction_id=str(id_), plan_id=None, action_id=None):
                record = await self._record(tenant, TransactionId(id_))
                return record, None if record else await self._waiting(caller, id_)
            case Selector(transaction_id=None, plan_id=str(id_), action_id=None):
                found = await self._store.find(TransactionRecord, tenant, "plan_id", id_)
                return found.document if found else None, None
            case Selector(transaction_id=None, plan_id=None, action_id=str(id_)):
                action = await self._action(tenant, ActionId(id_))
                if action is None:
                    return None, None
                return await self._record(tenant, action.transaction_id), action
            case _:
                raise coded("view.selector_invalid")

    async def _waiting(self, caller: Caller, transaction_id: str) -> ActionDocument | None:
        """The newest readable action of a transaction that has no record yet."""
        where = {"transaction_id": transaction_id}
        async for one in readable(self._store, ActionDocument, caller.tenant, where):
            if _may_read(caller, one.principal):
                return one
        return None

    async def _action(self, tenant: TenantId, action_id: ActionId) -> ActionDocument | None:
        found = await self._store.get(ActionDocument, tenant, action_id)
        return found.document if found else None

    async def _record(
        self, tenant: TenantId, transaction_id: TransactionId
    ) -> TransactionRecord | None:
        found = await self._store.get(TransactionRecord, tenant, transaction_id)
        return found.document if found else None

    async def _composed(
        self,
        action: ActionDocument,
        record: TransactionRecord | None,
        *,
        include_result: bool,
        include_receipts: bool,
    ) -> View:
        approval = await self._approval(action, record)
        open_now = approval is not None and approval.status in OPEN
        waiting = open_now and not action.attempted
        result = project(action, record, waiting=waiting)
        corrections = await corrections_of(self._store, record) if record else ()
        if any_open(corrections):
            result = contradicted(result)
        if not include_result:
            result = msgspec.structs.replace(result, raw_output=None)
        receipts: tuple[Receipt, ...] = ()
        if include_receipts:
            receipts = await self.receipts(action.tenant, action.transaction_id)
        return View(
            result=result,
            owner=action.principal,
            plan=record.plan if record else None,
            attempt=record.attempt if record else None,
            attempts=record.attempts if record else 0,
            verdicts=action.verdicts,
            evidence=record.evidence if record else (),
            corrections=tuple([one.document for one in corrections if isinstance(one, Stored)]),
            frozen=record.frozen if record else None,
            approval=approval,
            ruling=record.ruling if record else None,
            hold=await self._hold(action),
            forgotten_at=(record or action).forgotten_at,
            metadata=action.metadata,
            receipts=receipts,
        )

    async def _approval(
        self, action: ActionDocument, record: TransactionRecord | None
    ) -> ApprovalRequest | None:
        """The action's own request; of a plan, the one that a commit of it waits for."""
        if action.approval_id is not None:
            found = await self._engine.acceptance.approval(action, action.approval_id)
            return found.document if found else None
        if record is None or record.status is not Status.PLANNED:
            return None
        where = {"transaction_id": record.transaction_id, "status": ApprovalStatus.PENDING.value}
        async for one in readable(self._store, ApprovalRequest, record.tenant, where):
            return one
        return None

    async def _hold(self, action: ActionDocument) -> LegalHold | None:
        """The hold that is on the transaction, or that was."""
        found = await self._store.get(LegalHold, action.tenant, action.transaction_id)
        return found.document if found else None

    async def receipts(
        self, tenant: TenantId, transaction_id: TransactionId
    ) -> tuple[Receipt, ...]:
        """The whole chain of one transaction, in order."""
        chain = chain_of(transaction_id)
        read: list[Receipt] = []
        while page := await self._store.receipts(tenant, chain, after=len(read)):
            read.extend(page)
        return tuple(read)

    async def refusals(self, caller: Caller, action_id: ActionId | None) -> tuple[Refusal, ...]:
        """The newest of the caller's requests that were refused before acceptance, a page of them.

        However many of others are newer, they hide none of the caller's own.
        """
        where = {} if action_id is None else {"action_id": action_id}
        entries: list[Refusal] = []
        async for one in readable(self._store, Refusal, caller.tenant, where):
            if _may_read(caller, one.principal):
                entries.append(one)
            if len(entries) == limits.PAGE_SIZE:
                break
        return tuple(entries)

    async def approvals(
        self,
        caller: Caller,
        *,
        where: dict[str, str],
        after: str | None,
        limit: int,
    ) -> Page[ApprovalRequest]:
        """A page of approval requests that the caller asked for, may decide, or may read."""
        page = await self._store.list(
            ApprovalRequest,
            caller.tenant,
            where=where,
            after=after,
            limit=min(limit, limits.PAGE_SIZE),
        )
        lent = await self._delegating.lent_to(caller)
        seen = tuple(
            item
            for item in page.items
            if not isinstance(item, Stored) or _may_see(caller, item, lent)
        )
        return msgspec.structs.replace(page, items=seen)

    async def approval(self, caller: Caller, approval_id: ApprovalId) -> ApprovalRequest:
        """One approval request. Raises `approval.not_found`, also where it may not be seen."""
        found = await self._store.get(ApprovalRequest, caller.tenant, approval_id)
        if found is None or not _may_see(caller, found, await self._delegating.lent_to(caller)):
            raise coded("approval.not_found")
        return found.document

    async def list(
        self,
        caller: Caller,
        *,
        where: dict[str, str],
        after: str | None,
        limit: int,
    ) -> Page[TransactionRecord]:
        """A page of the tenant's transactions, newest first, as far as the caller may see them.

        What later evidence speaks against has the attention of it, as in a view.
        """
        page = await self._store.list(
            TransactionRecord,
            caller.tenant,
            where=where,
            after=after,
            limit=min(limit, limits.PAGE_SIZE),
        )
        seen = tuple(
            item
            for item in page.items
            if not isinstance(item, Stored) or _may_read(caller, item.document.principal)
        )
        page = msgspec.structs.replace(page, items=seen)
        return await page_by_evidence(self._store, caller.tenant, page)


def _may_see(caller: Caller, stored: Stored[ApprovalRequest], lent: tuple[Delegation, ...]) -> bool:
    """Whoever asks, has decided, may decide, or may by a delegation; and whose word was lent."""
    request, principal = stored.document, caller.principal
    may = partial(may_decide, request, principal, stored.read_at, identity=caller.identity)
    return (
        _may_read(caller, request.requester)
        or any(principal.ref in (made.approver, made.speaks_for) for made in request.decisions)
        or any(may(delegation=one) for one in (None, *lent))
    )


def _may_read(caller: Caller, owner: PrincipalRef) -> bool:
    principal = caller.principal
    return principal.ref == owner or principal.is_operator or principal.holds(READ_SCOPE)
