"""Clients that want something done: execute, plan, commit, compensate, and all of it again."""

import asyncio

from msgspec.structs import replace

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.canonical import canonical_bytes
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.ids import ActionId, TransactionId
from amends.contracts.json_types import Json
from amends.runtime.requests import Request
from amends.simulation.capabilities import CHARGE
from amends.simulation.client import ALICE, Client, Habits, Move
from amends.simulation.town import Town
from amends.transactions.hashing import input_hash


class Requester(Client):
    """Asks for effects, often from two sides at once."""

    def __init__(self, town: Town) -> None:
        super().__init__(town)
        self._named = 0

    def habits(self) -> Habits:
        """What a requester does, and how often."""
        return {
            self._may_execute: 3,
            self._may_plan: 2,
            self._may_commit: 3,
            self._may_repeat: 3,
            self._may_repeat_otherwise: 0.4,
            self._may_compensate: 3,
            self._may_dry_run: 0.2,
        }

    def _may_execute(self) -> Move:
        key = self.lot.choice((None, None, "key-1", "key-2"))
        return lambda: self._begin(Mode.EXECUTE, self._order(), key=key)

    def _may_plan(self) -> Move:
        return lambda: self._begin(Mode.PLAN, self._order())

    def _may_dry_run(self) -> Move:
        return lambda: self._begin(Mode.DRY_RUN, self._order())

    def _order(self) -> Json:
        return {"amount": self.lot.choice((1000, 1000, 2000)), "currency": "eur"}

    async def _begin(
        self,
        mode: Mode,
        input: Json,
        *,
        key: str | None = None,
        context: TransactionContext | None = None,
    ) -> None:
        self._named += 1
        context = context or TransactionContext(mode=mode, transaction_id=self._transaction_id())
        action = Action(
            capability_id=CHARGE,
            input=input,
            transaction=context,
            action_id=ActionId(f"a{self._named}"),
            idempotency_key=key,
            approval_required=mode is not Mode.DRY_RUN and self.lot.random() < 0.1,
        )
        request = Request(action=action, caller=ALICE)
        self.town.remember(request)
        await self.send(request)

    def _transaction_id(self) -> TransactionId | None:
        return TransactionId(f"t{self._named}") if self.lot.random() < 0.5 else None

    def _may_repeat(self) -> Move | None:
        return (lambda: self.send(self.lot.choice(self.town.asked))) if self.town.asked else None

    def _may_repeat_otherwise(self) -> Move | None:
        return self._repeat_otherwise if self.town.asked else None

    async def _repeat_otherwise(self) -> None:
        """The same action id for another input never gets an answer (F-13)."""
        request = self.lot.choice(self.town.asked)
        other = replace(request.action, input={"amount": 77})
        known = self.action(other.action_id)
        told = await self.perform(replace(request, action=other))
        first = input_hash(CHARGE, canonical_bytes(other.input))
        if told is not None and known is not None and known.input_hash != first:
            self.town.chronicle.fault("another input got the answer of a known action")

    def _may_commit(self) -> Move | None:
        plans = [one for one in self.records() if one.plan is not None]
        if not plans:
            return (lambda: self._direct_commit()) if self.lot.random() < 0.1 else None
        fresh = [one for one in plans if one.status is Status.PLANNED]
        record = self.lot.choice(fresh or plans)
        return lambda: self._commit(record)

    async def _direct_commit(self) -> None:
        await self._begin(Mode.COMMIT, self._order())

    async def _commit(self, record: TransactionRecord) -> None:
        """Commit a plan; often from two sides at once, under one key or none."""
        assert record.plan is not None
        context = TransactionContext(mode=Mode.COMMIT, plan_id=record.plan.plan_id)
        planned = self.action(record.plan.action_id)
        order = self.input_of(planned.action_id) if planned else self._order()
        racers = 2 if self.lot.random() < 0.4 else 1
        if racers == 2:
            self.town.count("a plan was raced for")
        await asyncio.gather(
            *(self._begin(Mode.COMMIT, order, context=context) for _ in range(racers))
        )

    def _may_compensate(self) -> Move | None:
        ended = (Status.COMMITTED, Status.RECONCILED, Status.FAILED, Status.OUTCOME_UNKNOWN)
        targets = [
            one for one in self.records() if one.status in ended and one.mode is not Mode.DRY_RUN
        ]
        there = [one for one in targets if one.verdict is Verdict.COMMITTED]
        if not targets:
            return None
        target = self.lot.choice(there or targets)
        return lambda: self._compensate(target)

    async def _compensate(self, target: TransactionRecord) -> None:
        """Give money back; often from two sides at once."""
        context = TransactionContext(mode=Mode.COMPENSATE, compensation_for=target.action_id)
        amount: Json = {"amount": 100} if self.lot.random() < 0.7 else None
        racers = 2 if self.lot.random() < 0.4 else 1
        if racers == 2:
            self.town.count("a compensation was raced for")
        await asyncio.gather(
            *(self._begin(Mode.COMPENSATE, amount, context=context) for _ in range(racers))
        )
