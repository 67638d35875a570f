"""People and programs of a small world: they ask, repeat, decide, cancel, look up and rule.

A client does one move after the other, drawn by lot from those that make sense now, through
whichever process is alive. Clients share what they know, so that one decides on what another began.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.canonical import canonical_bytes
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Mode, PrincipalKind, Status, Verdict
from amends.contracts.ids import ActionId, PrincipalId, ProviderOperationId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import APPROVE_SCOPE, Caller, Principal
from amends.contracts.results import Result
from amends.runtime.deciding import Deciding
from amends.runtime.engine import Engine
from amends.runtime.operating import Operating
from amends.runtime.requests import Request
from amends.simulation.capabilities import CHARGE
from amends.simulation.chronicle import TENANT
from amends.simulation.town import Town
from amends.testing.provider import PROVIDER
from amends.transactions.hashing import input_hash

Move = Callable[[], Coroutine[Any, Any, None]]

ALICE: Final = Caller(
    principal=Principal(id=PrincipalId("alice"), tenant=TENANT, scopes=()), trusted=True
)
BOB: Final = Caller(
    principal=Principal(id=PrincipalId("bob"), tenant=TENANT, scopes=(APPROVE_SCOPE,))
)
OLGA: Final = Caller(
    principal=Principal(id=PrincipalId("olga"), tenant=TENANT, kind=PrincipalKind.OPERATOR)
)
_PAUSES_S: Final = (0.0, 0.0, 0.5, 4.0, 6.0, 16.0, 45.0, 130.0)


class Clients:
    """What the clients of one town know together, and every move they can make."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._lot = town.lot
        self._named = 0
        self._moves = self._habits()

    def _habits(self) -> dict[Callable[[], Move | None], float]:
        """How often each move is made here: every town has other habits."""
        usual: dict[Callable[[], Move | None], float] = {
            self._may_execute: 3,
            self._may_plan: 2,
            self._may_commit: 3,
            self._may_repeat: 3,
            self._may_repeat_otherwise: 0.4,
            self._may_decide: 4,
            self._may_cancel: 0.7,
            self._may_withdraw: 0.4,
            self._may_reconcile: 2,
            self._may_compensate: 3,
            self._may_rule: 0.7,
            self._may_dry_run: 0.2,
        }
        return {move: much * self._lot.choice((0.1, 1, 4)) for move, much in usual.items()}

    async def live(self, moves: int) -> None:
        """Make some moves, now and then two at once, with pauses between them."""
        for _ in range(moves):
            at_once = 2 if self._lot.random() < 0.25 else 1
            await asyncio.gather(*(self._draw()() for _ in range(at_once)))
            await asyncio.sleep(self._lot.choice(_PAUSES_S))

    def _draw(self) -> Move:
        choosers, weights = tuple(self._moves), tuple(self._moves.values())
        while True:
            move = self._lot.choices(choosers, weights)[0]()
            if move is not None:
                return move

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def _may_execute(self) -> Move:
        key = self._lot.choice((None, None, "key-1", "key-2"))
        return lambda: self._begin(Mode.EXECUTE, self._order(), key=key)

    def _may_plan(self) -> Move:
        return lambda: self._begin(Mode.PLAN, self._order())

    def _may_dry_run(self) -> Move:
        return lambda: self._begin(Mode.DRY_RUN, self._order())

    def _order(self) -> Json:
        return {"amount": self._lot.choice((1000, 1000, 2000)), "currency": "eur"}

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
            approval_required=mode is not Mode.DRY_RUN and self._lot.random() < 0.1,
        )
        request = Request(action=action, caller=ALICE)
        self._town.remember(request)
        await self._send(request)

    def _transaction_id(self) -> TransactionId | None:
        return TransactionId(f"t{self._named}") if self._lot.random() < 0.5 else None

    async def _send(self, request: Request) -> None:
        """Send it; now and then twice at once, or from a caller without patience."""
        drawn = self._lot.random()
        if drawn < 0.06:
            self._town.count("a request was sent twice")
            await asyncio.gather(self._perform(request), self._perform(request))
        elif drawn < 0.12:
            await self._perform(request, patience_s=self._lot.choice((0.0, 3.0, 11.0)))
        else:
            await self._perform(request)

    async def _perform(self, request: Request, *, patience_s: float | None = None) -> Result | None:
        context, asker = request.action.transaction, request.caller.principal.id
        about = request.action.action_id or context.transaction_id
        who = f"{asker} {context.mode} {about}"
        call = partial(perform, request)
        return await self._town.ask(who, call, patience_s=patience_s)

    def _may_repeat(self) -> Move | None:
        return (
            (lambda: self._send(self._lot.choice(self._town.asked))) if self._town.asked else None
        )

    def _may_repeat_otherwise(self) -> Move | None:
        return self._repeat_otherwise if self._town.asked else None

    async def _repeat_otherwise(self) -> None:
        """The same action id for another input never gets an answer (F-13)."""
        request = self._lot.choice(self._town.asked)
        other = replace(request.action, input={"amount": 77})
        known = self._action(other.action_id)
        told = await self._perform(replace(request, action=other))
        first = input_hash(CHARGE, canonical_bytes(other.input))
        if told is not None and known is not None and known.input_hash != first:
            self._town.chronicle.fault("another input got the answer of a known action")

    # ── plans and compensations ──────────────────────────────────────────────────────────────────

    def _may_commit(self) -> Move | None:
        plans = [one for one in self._records() if one.plan is not None]
        if not plans:
            return (lambda: self._direct_commit()) if self._lot.random() < 0.1 else None
        fresh = [one for one in plans if one.status is Status.PLANNED]
        record = self._lot.choice(fresh or plans)
        return lambda: self._commit(record)

    async def _direct_commit(self) -> None:
        await self._begin(Mode.COMMIT, self._order())

    async def _commit(self, record: TransactionRecord) -> None:
        """Commit a plan; often from two sides at once, under one key or none."""
        assert record.plan is not None
        context = TransactionContext(mode=Mode.COMMIT, plan_id=record.plan.plan_id)
        planned = self._action(record.plan.action_id)
        order = self._input_of(planned.action_id) if planned else self._order()
        racers = 2 if self._lot.random() < 0.4 else 1
        if racers == 2:
            self._town.count("a plan was raced for")
        await asyncio.gather(
            *(self._begin(Mode.COMMIT, order, context=context) for _ in range(racers))
        )

    def _may_compensate(self) -> Move | None:
        ended = (Status.COMMITTED, Status.RECONCILED, Status.FAILED, Status.OUTCOME_UNKNOWN)
        targets = [
            one for one in self._records() if one.status in ended and one.mode is not Mode.DRY_RUN
        ]
        there = [one for one in targets if one.verdict is Verdict.COMMITTED]
        if not targets:
            return None
        target = self._lot.choice(there or targets)
        return lambda: self._compensate(target)

    async def _compensate(self, target: TransactionRecord) -> None:
        """Give money back; often from two sides at once."""
        context = TransactionContext(mode=Mode.COMPENSATE, compensation_for=target.action_id)
        amount: Json = {"amount": 100} if self._lot.random() < 0.7 else None
        racers = 2 if self._lot.random() < 0.4 else 1
        if racers == 2:
            self._town.count("a compensation was raced for")
        await asyncio.gather(
            *(self._begin(Mode.COMPENSATE, amount, context=context) for _ in range(racers))
        )

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────

    def _may_decide(self) -> Move | None:
        open_now = (ApprovalStatus.PENDING, ApprovalStatus.APPROVED)
        waiting = [
            one for one in self._town.chronicle.documents(ApprovalRequest) if one.status in open_now
        ]
        return (lambda: self._decide(self._lot.choice(waiting))) if waiting else None

    async def _decide(self, request: ApprovalRequest) -> None:
        """Say something about a request; the one who asked then often tries again at once."""
        caller = self._lot.choices((BOB, OLGA, ALICE), (8, 2, 1))[0]
        answer = self._lot.choices((Answer.APPROVED, Answer.DENIED, Answer.REVOKED), (10, 1, 1))[0]
        await self._town.ask(
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
        if self._lot.random() < 0.8:
            resumed = [one for one in self._town.asked if one.action.action_id == request.action_id]
            await asyncio.gather(*(self._send(one) for one in resumed))

    def _may_cancel(self) -> Move | None:
        if not self._town.asked:
            return None
        action_id = self._lot.choice(self._town.asked).action.action_id
        assert action_id is not None
        return lambda: self._cancel(action_id)

    async def _cancel(self, action_id: ActionId) -> None:
        await self._town.ask(
            f"alice cancels {action_id}",
            lambda engine: Deciding(engine).cancel(ALICE, action_id, "changed my mind"),
        )

    def _may_withdraw(self) -> Move | None:
        plans = [one for one in self._records() if one.plan is not None]
        return (lambda: self._withdraw(self._lot.choice(plans))) if plans else None

    async def _withdraw(self, record: TransactionRecord) -> None:
        await self._town.ask(
            f"alice withdraws {record.transaction_id}",
            lambda engine: Deciding(engine).withdraw_plan(ALICE, record.transaction_id),
        )

    # ── finding out ──────────────────────────────────────────────────────────────────────────────

    def _unknown(self) -> list[TransactionRecord]:
        return [one for one in self._records() if one.status is Status.OUTCOME_UNKNOWN]

    def _may_reconcile(self) -> Move | None:
        unknown = self._unknown()
        return (lambda: self._reconcile(self._lot.choice(unknown))) if unknown else None

    async def _reconcile(self, record: TransactionRecord) -> None:
        """Look up: the owner waits for the time, an operator may insist."""
        caller = self._lot.choice((ALICE, OLGA))
        context = TransactionContext(mode=Mode.RECONCILE, transaction_id=record.transaction_id)
        action = Action(
            capability_id=record.capability_id,
            transaction=context,
            input=self._input_of(record.action_id) if self._town.promise.redacts else None,
        )
        insist = caller is OLGA and self._lot.random() < 0.7
        found = self._operation(record) if insist and self._lot.random() < 0.5 else None
        request = Request(action=action, caller=caller, insist=insist, provider_operation=found)
        await self._send(request)

    def _operation(self, record: TransactionRecord) -> ProviderOperation | None:
        """What an operator reads in the provider's books of this effect."""
        for one in self._town.bank.effects(until=self._town.seconds()):
            if one.arrival.key == record.provider_key:
                return ProviderOperation(PROVIDER, ProviderOperationId(one.operation_id))
        return None

    def _may_rule(self) -> Move | None:
        unknown = self._unknown()
        return (lambda: self._rule(self._lot.choice(unknown))) if unknown else None

    async def _rule(self, record: TransactionRecord) -> None:
        """Settle by hand, as the provider's books stand; what is in flight does not show there.

        On a refund nobody rules before it has landed: that would free the way for a second one.
        """
        town, key = self._town, record.provider_key
        there = any(one.arrival.key == key for one in town.bank.effects(until=town.seconds()))
        coming = any(one.arrival.key == key for one in town.bank.effects())
        if record.mode is Mode.COMPENSATE and coming and not there:
            return
        accept_risk = self._lot.random() < 0.5
        await town.ask(
            f"olga rules on {record.transaction_id}",
            lambda engine: Operating(engine).settle(
                OLGA,
                record.transaction_id,
                Verdict.COMMITTED if there else Verdict.NOT_COMMITTED,
                reference="books",
                note="looked it up",
                accept_risk=accept_risk,
                seen_revision=None,
            ),
        )

    # ── what is known ────────────────────────────────────────────────────────────────────────────

    def _records(self) -> list[TransactionRecord]:
        return list(self._town.chronicle.documents(TransactionRecord))

    def _action(self, action_id: ActionId | None) -> ActionDocument | None:
        return self._town.chronicle.document(ActionDocument, action_id or "")

    def _input_of(self, action_id: ActionId) -> Json:
        """What was asked under an action id, as its asker remembers it."""
        return next(
            (one.action.input for one in self._town.asked if one.action.action_id == action_id),
            None,
        )


async def perform(request: Request, engine: Engine) -> Result:
    """Ask an engine for something."""
    return await engine.perform(request)
