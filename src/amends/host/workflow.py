"""A workflow: one plan, its durable ledger, and what it asks of workers (HL-3, PM-4, PM-6).

    plan → record operation → *persist* → dispatch → apply → *persist*
    record compensation, asking both verifiers → *persist* → permit → seal → send → open → apply →
    *persist*

Each method does its part of that and returns when what it says is durable. Nothing follows by
itself: no method compensates, retries or resumes anything that it was not called for. What is open
after a crash is in the ledger, and `recovery` says what may be done about it.

`OutcomeUnknown` says that something was sent and nobody knows what came of it. The entry stays
open; call the same method again, over a new channel: the worker finds it under the same key.

It is usable by itself, without a runtime (INT-6). Deliberately not here: where ledgers lie, which
worker is asked, and when.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

from amends.connectors.blocking import HandlerThreads
from amends.contracts.codes import coded
from amends.contracts.persistence import PersistReceipt
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import CompensationKey, OperationKey
from amends.contracts.worker_messages import (
    AnsweredStatus,
    AskCompensationState,
    CompensationResult,
    CompensationState,
    CompensationStateRequest,
    CompensationStateResult,
    DispatchOperation,
    OperationResult,
    ReconciledOperation,
    ReconcileOperation,
    ReconciliationRequest,
)
from amends.contracts.worker_payload import ToolPayload
from amends.host.channel import WorkerChannel
from amends.host.keeping import LedgerKeeper, OpenRecord
from amends.host.verifiers import Verifiers
from amends.ledger.compensations import (
    apply_compensation,
    apply_compensation_state,
    propose_compensation,
    record_compensation,
)
from amends.ledger.operations import (
    Envoy,
    OperationIntent,
    apply_operation,
    head_of,
    record_operation,
    request_operation,
)
from amends.ledger.permits import DispatchPermit
from amends.ledger.plans import WorkflowPlan
from amends.ledger.records import Ledger, require_operation
from amends.ledger.recovery import Recovery, recovery_of
from amends.ledger.superseding import supersede_grant
from amends.ledger.targets import (
    Question,
    Stage,
    Target,
    Verdicts,
    check_intent,
    question_of,
)

PERMIT_LIFE: Final = timedelta(seconds=30)


class Workflow:
    """One opening of one plan's ledger. `clock` tells the time by which permits expire."""

    def __init__(
        self,
        plan: WorkflowPlan,
        keeper: LedgerKeeper,
        verifiers: Verifiers,
        *,
        clock: Callable[[], datetime],
        permit_life: timedelta = PERMIT_LIFE,
    ) -> None:
        self.plan: Final = plan
        self._keeper = keeper
        self._verifiers = verifiers
        self._clock = clock
        self._permit_life = permit_life
        self._threads = HandlerThreads()
        self._changing = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        plan: WorkflowPlan,
        record: OpenRecord,
        verifiers: Verifiers,
        *,
        clock: Callable[[], datetime],
        permit_life: timedelta = PERMIT_LIFE,
    ) -> "Workflow":
        """Open the plan's ledger under a fresh fence, which ends every opening before.

        Raises as `LedgerKeeper.open`.
        """
        keeper = await LedgerKeeper.open(record, plan)
        return cls(plan, keeper, verifiers, clock=clock, permit_life=permit_life)

    @property
    def ledger(self) -> Ledger:
        """What is durable. Raises `Unavailable` (`sealed.poisoned`) after a failed write."""
        return self._keeper.ledger

    def recovery(self, operation_key: str) -> Recovery:
        """What may be done now about an operation and its compensation.

        Raises `Refused` (`ledger.operation_unknown`).
        """
        return recovery_of(require_operation(self.ledger, operation_key))

    # ── originals ────────────────────────────────────────────────────────────────────────────────

    async def record(self, intent: OperationIntent) -> OperationKey:
        """Record an operation, durably; its key. The same intent again changes nothing.

        Raises as `record_operation`, and what persisting raises.
        """
        async with self._changing:
            recorded = record_operation(self.ledger, self.plan, intent)
            await self._keeper.persist(recorded.ledger)
        return cast(OperationKey, recorded.key)

    async def dispatch(
        self, channel: WorkerChannel, operation_key: str, payload: ToolPayload
    ) -> AnsweredStatus:
        """Offer a recorded operation to a worker, and record what it reports.

        It may be offered again: a worker that has it does not run it again. Raises as
        `request_operation` and `WorkerChannel.ask`, `PeerViolation` for an answer that is none, and
        what persisting raises.
        """
        async with self._changing:
            envoy = Envoy(
                channel.protocol_version, channel.session_id, channel.names()["request_id"]
            )
            receipt = self._keeper.receipt
            request = request_operation(self.ledger, operation_key, payload, receipt, envoy)
            grant = channel.grant(request.tool)
            sent = await channel.send(DispatchOperation(request))
        result = cast(OperationResult, await sent.answer()).result
        await self._apply(lambda ledger: apply_operation(ledger, request, result, grant))
        return result.status

    async def reconcile(self, channel: WorkerChannel, operation_key: str) -> AnsweredStatus:
        """Have a worker find out what became of an operation, and record it. Carries nothing out.

        Raises as `dispatch`.
        """
        async with self._changing:
            operation = require_operation(self.ledger, operation_key)
            grant = channel.grant(operation.tool)
            request = ReconciliationRequest(
                **channel.names(),
                tool=operation.tool,
                operation_key=operation.operation_key,
                head=head_of(self.ledger, self._keeper.receipt, channel.protocol_version),
            )
            sent = await channel.send(ReconcileOperation(request))
        result = cast(ReconciledOperation, await sent.answer()).result
        await self._apply(lambda ledger: apply_operation(ledger, request, result, grant))
        return result.status

    # ── inverses ─────────────────────────────────────────────────────────────────────────────────

    def target(
        self, operation_key: str, tenant_scope: str, grant: CapabilityGrant, payload: ToolPayload
    ) -> Target:
        """An operation of this plan with the exact inverse that is meant for it."""
        return Target(
            plan=self.plan,
            operation_key=operation_key,
            tenant_scope=tenant_scope,
            grant=grant,
            payload=payload,
        )

    async def record_compensation(self, target: Target, nonce: bytes) -> CompensationKey:
        """Ask both verifiers, and record the one intent, durably; its key.

        The nonce is the host's own, durable, 1 to 128 bytes; the same again finds the same intent.
        Raises as `propose_compensation` and `record_compensation`, and what persisting raises.
        """
        async with self._changing:
            proposal = propose_compensation(self.ledger, target, nonce)
            verdicts = await self._asked(proposal.question)
            recorded = record_compensation(self.ledger, proposal, verdicts)
            await self._keeper.persist(recorded.ledger)
        return cast(CompensationKey, recorded.key)

    async def permit(self, channel: WorkerChannel, target: Target) -> DispatchPermit:
        """Ask both verifiers for one use of a recorded intent in this channel's session.

        Raises as `PermitDesk.issue`.
        """
        async with self._changing:
            return await self._permitted(channel, target)

    async def compensate(
        self, channel: WorkerChannel, target: Target, permit: DispatchPermit | None = None
    ) -> AnsweredStatus:
        """Send the recorded intent under a permit, a fresh one unless it is given; record the end.

        Both verifiers are asked again right before sealing. The permit is used up, whatever
        happens. Raises as `WorkerChannel.compensate`, `Sent.answer` and `permit`, `PeerViolation`
        for an answer that is none, and what persisting raises.
        """
        async with self._changing:
            permit = permit or await self._permitted(channel, target)
            try:
                question = question_of(self.ledger, target, Stage.SEAL)
                verdicts = await self._asked(question)
                request, sent = await channel.compensate(
                    permit, self.ledger, target, verdicts, now=self._clock()
                )
            finally:
                permit.void()
        result = cast(CompensationResult, await sent.answer()).result
        grant = target.grant
        await self._apply(lambda ledger: apply_compensation(ledger, request, result, grant))
        return result.status

    async def compensation_state(self, channel: WorkerChannel, target: Target) -> CompensationState:
        """Have a worker find out what became of the inverse, and record it. Version 6.

        Raises as `check_intent` and `WorkerChannel.ask`, `PeerViolation` for an answer that is
        none, and what persisting raises.
        """
        check_intent(self.ledger, target)
        return await self.find_compensation(channel, target.operation_key, target.grant)

    async def find_compensation(
        self, channel: WorkerChannel, operation_key: str, grant: CapabilityGrant
    ) -> CompensationState:
        """As `compensation_state`, by the recorded intent alone: for when its input is not at hand.

        Raises `Refused` (`ledger.operation_unknown`, `ledger.compensation_unknown`), and as
        `compensation_state`.
        """
        async with self._changing:
            operation = require_operation(self.ledger, operation_key)
            intent = operation.compensation
            if intent is None:
                raise coded("ledger.compensation_unknown")
            if intent.grant_fingerprint != grant_fingerprint(grant):
                raise coded("ledger.compensation_drifted", {"field": "grant_fingerprint"})
            request = CompensationStateRequest(
                **channel.names(),
                tool=operation.tool,
                operation_key=operation.operation_key,
                compensation_key=intent.compensation_key,
                tenant_scope=intent.tenant_scope,
                grant_fingerprint=intent.grant_fingerprint,
                head=head_of(self.ledger, self._keeper.receipt, channel.protocol_version),
            )
            sent = await channel.send(AskCompensationState(request))
        result = cast(CompensationStateResult, await sent.answer()).result
        await self._apply(lambda ledger: apply_compensation_state(ledger, request, result, grant))
        return result.state

    async def supersede_grant(
        self, operation_key: str, grant: CapabilityGrant, *, who: str, why: str
    ) -> None:
        """Let a stranded intent stand under another grant, as a person decided (GR-4).

        A worker that has the entry already needs an act of its own (`worker.ruling.supersede`).
        Raises as `ledger.superseding.supersede_grant`, and what persisting raises.
        """
        await self._apply(
            lambda ledger: supersede_grant(ledger, operation_key, grant, who=who, why=why)
        )

    # ── shared ───────────────────────────────────────────────────────────────────────────────────

    async def _asked(self, question: Question) -> Verdicts:
        return await self._verifiers.verdicts(question, self._threads)

    async def _permitted(self, channel: WorkerChannel, target: Target) -> DispatchPermit:
        receipt: PersistReceipt = self._keeper.receipt
        question = question_of(self.ledger, target, Stage.PERMIT)
        verdicts = await self._asked(question)
        return channel.desk.issue(
            self.ledger,
            target,
            verdicts,
            receipt,
            session_id=channel.session_id,
            expires_at=self._clock() + self._permit_life,
        )

    async def _apply(self, change: Callable[[Ledger], Ledger]) -> None:
        """Record an answer in the ledger as it is now, and persist that before anything follows."""
        async with self._changing:
            await self._keeper.persist(change(self.ledger))
