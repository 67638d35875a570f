"""People decide: on approval requests, and on what they asked for themselves.

Approving never executes. A decision is one compare-and-set on the request's revision that the
decider saw; who decides comes from authentication.
"""

import asyncio
from typing import Final, TypeVar

from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import (
    DECISION_PREFIX,
    ActionId,
    ApprovalId,
    DecisionId,
    DelegationId,
    TransactionId,
)
from amends.contracts.principals import Caller
from amends.contracts.redaction import kept_text
from amends.contracts.results import Result
from amends.governance.approvals import Word, decide, withdraw
from amends.receipts.chain import chain_of
from amends.runtime.changes import Draft, until_written
from amends.runtime.delegating import Delegating
from amends.runtime.engine import Engine
from amends.runtime.steps import action_step, approval_step, record_step
from amends.runtime.texts import check_evidence, check_text, kept_evidence
from amends.runtime.upkeep import due_of
from amends.stores.port import Due, Lost, Stored
from amends.transactions import cancellation
from amends.transactions.cancellation import Cancelling, cancel

_TYPES: Final = {
    Answer.APPROVED: ReceiptType.APPROVAL_GRANTED,
    Answer.DENIED: ReceiptType.APPROVAL_DENIED,
    Answer.REVOKED: ReceiptType.APPROVAL_REVOKED,
}
W = TypeVar("W")
_FIRST_POLL_S = 0.02
_SLOWEST_POLL_S = 1.0


class Deciding:
    """What people may say about requests, plans and actions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._environment = engine.environment
        self._delegating = Delegating(engine.environment)

    async def approval(self, caller: Caller, approval_id: ApprovalId) -> Stored[ApprovalRequest]:
        """The request as it stands. Raises `approval.not_found`, for other tenants' too."""
        found = await self._environment.store.get(ApprovalRequest, caller.tenant, approval_id)
        if found is None:
            raise coded("approval.not_found")
        return found

    async def decide(
        self,
        caller: Caller,
        approval_id: ApprovalId,
        answer: Answer,
        *,
        reason: str,
        evidence: dict[str, str],
        seen_revision: int | None,
        under: DelegationId | None = None,
    ) -> ApprovalRequest:
        """Write one decision; durable when it returns.

        `seen_revision` is what the decider looked at; none means the request as it stands now.
        Reason and evidence are kept scrubbed, and only as hashes where the input is not kept either
        (RD-1). `under` names the delegation that lends the word. Raises the codes of
        `governance.approvals.decide`, an `identity.*` code where the principal is gone, and an
        `input.*` code for texts that cannot be stored; a stale revision changes nothing.
        """
        reason, evidence = check_text(reason, "reason"), check_evidence(evidence)
        caller = self._environment.renewed(caller)

        async def once() -> ApprovalRequest | Lost:
            stored = await self.approval(caller, approval_id)
            request = stored.document
            lent = None if under is None else await self._delegating.usable(caller, under)
            hidden = request.input is None
            word = Word(
                decision_id=DecisionId(self._environment.ids(DECISION_PREFIX)),
                answer=answer,
                principal=caller.principal,
                reason=kept_text(reason, hidden=hidden),
                evidence=kept_evidence(evidence, request.policy.evidence, hidden=hidden),
                seen_revision=request.revision if seen_revision is None else seen_revision,
                now=stored.read_at,
                identity=caller.identity,
                delegation=None if lent is None else lent.delegation,
            )
            decided = decide(request, word)
            draft = Draft(caller.tenant, request.transaction_id)
            draft.replace(decided, _due(decided))
            by, told = caller.principal.ref, None
            if lent is not None:
                one, told = lent
                draft.guard(Delegation, one.delegation_id, one.revision)
            step = approval_step(_TYPES[answer], decided, by, stored.read_at, delegation=told)
            draft.step(step)
            return await self._commit(draft, request.transaction_id, caller, decided)

        return await until_written(once)

    async def wait(
        self, caller: Caller, approval_id: ApprovalId, timeout_s: float
    ) -> ApprovalRequest:
        """The request once people have decided.

        Raises `approval.wait_timeout` after `timeout_s` seconds; the request stands.
        """
        delay = _FIRST_POLL_S
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    request = (await self.approval(caller, approval_id)).document
                    if request.status is not ApprovalStatus.PENDING:
                        return request
                    await self._environment.store.news(delay)
                    delay = min(delay * 2, _SLOWEST_POLL_S)
        except TimeoutError:
            raise coded("approval.wait_timeout", {"approval_id": approval_id}) from None

    async def cancel(self, caller: Caller, action_id: ActionId, reason: str) -> Result:
        """Cancel an action before its claim, or ask its connector to stop (TX-CANCEL-1).

        Returns the action as it stands afterwards: cancelled, still running, or how it ended.
        """
        told = check_text(reason, "reason")
        return await until_written(lambda: self._cancel_round(caller, action_id, told))

    async def _cancel_round(
        self, caller: Caller, action_id: ActionId, reason: str
    ) -> Result | Lost:
        store = self._environment.store
        stored = await store.get(ActionDocument, caller.tenant, action_id)
        if stored is None:
            raise coded("action.not_found")
        known, now = stored.document, stored.read_at
        kept = kept_text(reason, hidden=known.input is None)
        came_to, action = cancel(known, caller.principal, kept, now)
        if came_to is Cancelling.REQUESTED:
            await self._tell_connector(known)
        if action is known:
            return await self._engine.acceptance.current(known)
        draft = Draft(caller.tenant, action.transaction_id)
        draft.replace(action)
        cancelled = came_to is Cancelling.CANCELLED
        type_ = ReceiptType.CANCELLED if cancelled else ReceiptType.CANCELLATION_REQUESTED
        draft.step(action_step(type_, action, caller.principal.ref, now))
        if cancelled and action.approval_id is not None:
            await self._withdraw_approval(draft, action, action.approval_id)
        written = await self._commit(draft, action.transaction_id, caller, action)
        if isinstance(written, Lost):
            return written
        return await self._engine.acceptance.current(action)

    async def _tell_connector(self, action: ActionDocument) -> None:
        stored = await self._environment.store.get(
            TransactionRecord, action.tenant, action.transaction_id
        )
        running = self._engine.find_running(stored.document) if stored else None
        if running is not None and running.serving.capability.execution.supports_cancel:
            running.cancelled.set()

    async def _withdraw_approval(
        self, draft: Draft, action: ActionDocument, approval_id: ApprovalId
    ) -> None:
        stored = await self._engine.acceptance.approval(action, approval_id)
        request = withdraw(stored.document, stored.read_at) if stored else None
        if request is not None:
            draft.replace(request)

    async def withdraw_plan(self, caller: Caller, transaction_id: TransactionId) -> Result:
        """Withdraw a waiting plan (TX-CANCEL-2). Raises its codes, or `transaction.not_found`."""

        async def once() -> Result | Lost:
            store = self._environment.store
            stored = await store.get(TransactionRecord, caller.tenant, transaction_id)
            if stored is None:
                raise coded("transaction.not_found")
            now = stored.read_at
            record = cancellation.withdraw(stored.document, caller.principal, now)
            draft = Draft(caller.tenant, transaction_id)
            draft.replace(record, due_of(record))
            by = caller.principal.ref
            draft.step(record_step(ReceiptType.PLAN_WITHDRAWN, record, by, now))
            await self._engine.settlement.settle_effect(draft, record, record.result, now)
            written = await self._commit(draft, transaction_id, caller, record)
            if isinstance(written, Lost):
                return written
            action = await store.get(ActionDocument, caller.tenant, record.action_id)
            assert action is not None
            return await self._engine.acceptance.current(action.document)

        return await until_written(once)

    async def _commit(
        self, draft: Draft, transaction_id: TransactionId, caller: Caller, answer: W
    ) -> W | Lost:
        environment = self._environment
        tail = await environment.store.tail(caller.tenant, chain_of(transaction_id))
        written = await draft.commit(environment.store, environment.signer, tail=tail)
        return written if isinstance(written, Lost) else answer


def _due(request: ApprovalRequest) -> Due | None:
    """Pending and approved requests expire; others are not looked at again."""
    waits = request.status in (ApprovalStatus.PENDING, ApprovalStatus.APPROVED)
    return Due(at=request.expires_at) if waits else None
