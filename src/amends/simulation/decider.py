"""Clients that decide: on approvals, on their own actions, on plans that are still waiting."""

import asyncio

from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.documents import TransactionRecord
from amends.contracts.ids import ActionId
from amends.runtime.deciding import Deciding
from amends.simulation.client import ALICE, BOB, OLGA, Client, Habits, Move


class Decider(Client):
    """Says yes, no, and never mind."""

    def habits(self) -> Habits:
        """What a decider does, and how often."""
        return {self._may_decide: 4, self._may_cancel: 0.7, self._may_withdraw: 0.4}

    def _may_decide(self) -> Move | None:
        open_now = (ApprovalStatus.PENDING, ApprovalStatus.APPROVED)
        waiting = [
            one for one in self.town.chronicle.documents(ApprovalRequest) if one.status in open_now
        ]
        return (lambda: self._decide(self.lot.choice(waiting))) if waiting else None

    async def _decide(self, request: ApprovalRequest) -> None:
        """Say something about a request; the one who asked then often tries again at once."""
        caller = self.lot.choices((BOB, OLGA, ALICE), (8, 2, 1))[0]
        answer = self.lot.choices((Answer.APPROVED, Answer.DENIED, Answer.REVOKED), (10, 1, 1))[0]
        await self.town.ask(
            f"{caller.principal.id} {answer} {request.approval_id}",
            lambda engine: Deciding(engine).decide(
                caller,
                request.approval_id,
                answer,
                reason="",
                evidence={},
                seen_revision=None,
            ),
        )
        if self.lot.random() < 0.8:
            resumed = [one for one in self.town.asked if one.action.action_id == request.action_id]
            await asyncio.gather(*(self.send(one) for one in resumed))

    def _may_cancel(self) -> Move | None:
        if not self.town.asked:
            return None
        action_id = self.lot.choice(self.town.asked).action.action_id
        assert action_id is not None
        return lambda: self._cancel(action_id)

    async def _cancel(self, action_id: ActionId) -> None:
        await self.town.ask(
            f"alice cancels {action_id}",
            lambda engine: Deciding(engine).cancel(ALICE, action_id, "changed my mind"),
        )

    def _may_withdraw(self) -> Move | None:
        plans = [one for one in self.records() if one.plan is not None]
        return (lambda: self._withdraw(self.lot.choice(plans))) if plans else None

    async def _withdraw(self, record: TransactionRecord) -> None:
        await self.town.ask(
            f"alice withdraws {record.transaction_id}",
            lambda engine: Deciding(engine).withdraw_plan(ALICE, record.transaction_id),
        )
