"""Looking: one transaction, many of them, and the receipts that prove what was done."""

from collections.abc import Mapping

from amends.app.edges import count_of, flag_of, text_of, text_or_none, texts_of
from amends.contracts import limits
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.documents import Refusal, TransactionRecord
from amends.contracts.evidence import Receipt
from amends.contracts.ids import ActionId, ApprovalId, PlanId, TransactionId
from amends.contracts.principals import Caller
from amends.contracts.results import Result
from amends.receipts.chain import chain_of
from amends.receipts.signing import PublishedKey
from amends.receipts.verify import Verification, verify_chain
from amends.runtime.reading import Reading, Selector, View
from amends.stores.port import Page
from amends.wiring.opening import Runtime


class Views:
    """What the caller may see. Another tenant's record does not exist."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._reading = Reading(runtime.engine)
        self._reader = caller
        self._audited = runtime

    async def get(
        self,
        transaction_id: Result | str | None = None,
        *,
        plan_id: str | None = None,
        action_id: str | None = None,
        include_result: bool = False,
        include_receipts: bool = False,
    ) -> View:
        """One transaction, by exactly one of its identities.

        Raises `view.selector_invalid` and `transaction.not_found`.
        """
        if isinstance(transaction_id, Result):
            return await self.get(
                action_id=transaction_id.action_id,
                include_result=include_result,
                include_receipts=include_receipts,
            )
        selector = Selector(
            transaction_id=TransactionId(text_of(transaction_id, "transaction_id"))
            if transaction_id
            else None,
            plan_id=PlanId(text_of(plan_id, "plan_id")) if plan_id else None,
            action_id=ActionId(text_of(action_id, "action_id")) if action_id else None,
        )
        return await self._reading.view(
            self._reader,
            selector,
            include_result=flag_of(include_result, "include_result"),
            include_receipts=flag_of(include_receipts, "include_receipts"),
        )

    async def list(
        self,
        *,
        where: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = limits.PAGE_SIZE,
    ) -> Page[TransactionRecord]:
        """A page of transactions, newest first; `where` filters on `status`, `capability_id` …"""
        return await self._reading.list(
            self._reader,
            where=texts_of(where, "where"),
            after=text_or_none(after, "after"),
            limit=count_of(limit, "limit", least=1),
        )

    async def approvals(
        self,
        *,
        where: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = limits.PAGE_SIZE,
    ) -> Page[ApprovalRequest]:
        """A page of approval requests, newest first: the caller's own, and those it may decide.

        `where` filters on `status`, `action_id` and `transaction_id`. Who may read every
        transaction sees every request.
        """
        return await self._reading.approvals(
            self._reader,
            where=texts_of(where, "where"),
            after=text_or_none(after, "after"),
            limit=count_of(limit, "limit", least=1),
        )

    async def approval(self, approval: Result | str) -> ApprovalRequest:
        """One approval request: exactly what would run. Raises `approval.not_found`."""
        id_ = approval.approval_id if isinstance(approval, Result) else _approval(approval)
        if id_ is None:
            raise coded("approval.not_found")
        return await self._reading.approval(self._reader, id_)

    async def refusals(self, action_id: str | None = None) -> tuple[Refusal, ...]:
        """Requests that were refused before acceptance, with the gates' ordered verdicts."""
        named = ActionId(text_of(action_id, "action_id")) if action_id else None
        return await self._reading.refusals(self._reader, named)

    async def receipts(self, transaction: Result | str) -> tuple[Receipt, ...]:
        """The receipt chain of one transaction, in order. Raises `transaction.not_found`."""
        view = await self.get(transaction, include_receipts=True)
        return view.receipts

    async def keys(self) -> tuple[PublishedKey, ...]:
        """Every public key that has signed receipts of this store, the one in use last.

        They are no secret. `amends.receipts.keyset.write_key_set` writes them as a JWK Set, which
        others pin and check bundles by.
        """
        return self._audited.keys.published

    async def verify(self, transaction: Result | str) -> Verification:
        """Check a transaction's receipts against this store's own keys: chain and signatures."""
        read = await self.receipts(transaction)
        chain = read[0].chain if read else chain_of(TransactionId(""))
        return verify_chain(read, self._audited.keys, chain=chain)


def _approval(named: str) -> ApprovalId:
    return ApprovalId(text_of(named, "approval_id"))
