"""What people say: deciding, cancelling, withdrawing, ruling by hand."""

from amends.app.delegates import delegation_of
from amends.app.edges import choice_of, flag_of, record_of, revision_of, text_of, texts_of
from amends.contracts.approvals import Answer, ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.delegations import Delegation
from amends.contracts.documents import Correction
from amends.contracts.enums import Verdict
from amends.contracts.events import ProviderEvent
from amends.contracts.ids import ActionId, ApprovalId, TransactionId
from amends.contracts.principals import Caller
from amends.contracts.results import Result
from amends.runtime.deciding import Deciding
from amends.runtime.evidence import EvidenceDesk, Taken
from amends.runtime.operating import Operating
from amends.runtime.rulings import Rulings
from amends.wiring.opening import Runtime


class People:
    """Decisions under the caller's own name. Approving never executes."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._deciding = Deciding(runtime.engine)
        self._operating = Operating(runtime.engine)
        self._rulings = Rulings(runtime.engine)
        self._desk = EvidenceDesk(runtime.engine)
        self._by = caller

    async def approve(
        self,
        approval: Result | str,
        *,
        reason: str = "",
        evidence: dict[str, str] | None = None,
        seen_revision: int | None = None,
        under: Delegation | str | None = None,
    ) -> ApprovalRequest:
        """Approve a request; its action runs when its requester resumes it.

        `seen_revision` is the request's revision that the approver looked at. `under` names the
        delegation that lends the word. Raises the `approval.*` and `delegation.*` codes; a stale
        revision changes nothing, and `details["current"]` is the request as it stands.
        """
        return await self._decide(approval, Answer.APPROVED, reason, evidence, seen_revision, under)

    async def deny(
        self,
        approval: Result | str,
        *,
        reason: str = "",
        seen_revision: int | None = None,
        under: Delegation | str | None = None,
    ) -> ApprovalRequest:
        """Deny a request for good; `under` as in `approve`."""
        return await self._decide(approval, Answer.DENIED, reason, None, seen_revision, under)

    async def revoke(
        self,
        approval: Result | str,
        *,
        reason: str = "",
        seen_revision: int | None = None,
    ) -> ApprovalRequest:
        """Take an approval back before it is used."""
        return await self._decide(approval, Answer.REVOKED, reason, None, seen_revision)

    async def _decide(
        self,
        approval: Result | str,
        answer: Answer,
        reason: str,
        evidence: dict[str, str] | None,
        seen_revision: int | None,
        under: Delegation | str | None = None,
    ) -> ApprovalRequest:
        id_ = approval.approval_id if isinstance(approval, Result) else _approval(approval)
        if id_ is None:
            raise coded("approval.not_found")
        return await self._deciding.decide(
            self._by,
            id_,
            answer,
            reason=reason,
            evidence=texts_of(evidence, "evidence"),
            seen_revision=revision_of(seen_revision),
            under=None if under is None else delegation_of(under),
        )

    async def cancel(self, action: Result | str, *, reason: str = "") -> Result:
        """Cancel an action before its claim; after it, ask its connector to stop (TX-CANCEL-1)."""
        id_ = (
            action.action_id
            if isinstance(action, Result)
            else ActionId(text_of(action, "action_id"))
        )
        return await self._deciding.cancel(self._by, id_, reason)

    async def withdraw(self, plan: Result | str) -> Result:
        """Withdraw a plan by its result or its transaction id (TX-CANCEL-2)."""
        id_ = _transaction(plan)
        return await self._deciding.withdraw_plan(self._by, id_)

    async def settle(
        self,
        transaction: Result | str,
        verdict: Verdict | str,
        *,
        reference: str,
        note: str,
        accept_risk: bool = False,
        seen_revision: int | None = None,
    ) -> Result:
        """Rule on an unknown outcome by hand, with evidence; operators only (TX-RECON-5).

        `reference` says where the evidence lies, `note` what was found. `accept_risk` is needed to
        rule *not committed* while an earlier request may still be under way.
        """
        id_ = _transaction(transaction)
        return await self._operating.settle(
            self._by,
            id_,
            choice_of(verdict, Verdict, "verdict"),
            reference=reference,
            note=note,
            accept_risk=flag_of(accept_risk, "accept_risk"),
            seen_revision=revision_of(seen_revision),
        )

    async def evidence(self, event: ProviderEvent) -> Taken:
        """Take in what a provider says on its own account, such as the body of a webhook.

        Check its signature first. It may confirm or settle an unknown outcome, never more; a
        repeated event is a no-op, and one that no record claims is kept for a person.
        """
        return await self._desk.take(self._by, record_of(event, ProviderEvent, "event"))

    async def rule(
        self, correction: Correction | str, ruling: str, *, allow_compensation: bool
    ) -> Correction:
        """Rule on evidence that contradicts a terminal record; operators only (TX-REV-3).

        The record stays as it is. With `allow_compensation` its effect may be offset again, once no
        other correction closes it; without, it stays closed.
        """
        named = correction.correction_id if isinstance(correction, Correction) else correction
        return await self._rulings.rule(
            self._by,
            text_of(named, "correction_id"),
            ruling,
            allow_compensation=flag_of(allow_compensation, "allow_compensation"),
        )

    async def release(self, transaction: Result | str) -> Result:
        """Release what a restore froze of a transaction; operators only (TX-LEASE-3)."""
        id_ = _transaction(transaction)
        return await self._operating.release(self._by, id_)


def _transaction(named: Result | str) -> TransactionId:
    if isinstance(named, Result):
        return named.transaction_id
    return TransactionId(text_of(named, "transaction_id"))


def _approval(named: str) -> ApprovalId:
    return ApprovalId(text_of(named, "approval_id"))
