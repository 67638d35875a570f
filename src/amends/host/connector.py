"""The connector whose provider is a worker (INT-1 to INT-4).

    open ledger → channel → record → *persist* → checkpoint → dispatch → apply → *persist*

An attempt becomes an operation of the transaction's own ledger. A compensating attempt becomes the
one compensation of its target's operation, under both verifiers and a permit. Everything comes from
`Call`, which only the claim makes; no public input carries a key, a scope or a grant.

The channel is opened before anything is recorded, so a worker that cannot be reached is a definite
failure. From the recorded intent on, what is not the worker's definite word is uncertain.

A look-up never carries an original out. Of a compensation the scheduler only asks; its owner or an
operator offers the recorded intent again, and the journal knows it, or carries it out if it never
came (INT-3).

Deliberately not here: where workers and ledgers are (`WorkerLink`), what statuses mean (`endings`),
and what a person rules (`ruling`).
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import msgspec

from amends.connectors.inputs import InputType
from amends.connectors.port import Attempt, Call, HandRuling, OriginalEffect
from amends.contracts.codes import coded
from amends.contracts.enums import Handler
from amends.contracts.errors import AmendsError, Refused
from amends.contracts.ids import TransactionId
from amends.contracts.outcomes import NotFound, Outcome, Pending, ProviderOperation
from amends.contracts.worker_identity import host_input_fingerprint
from amends.contracts.worker_messages import (
    AnsweredStatus,
    CompensationState,
    Indeterminate,
    NoRecord,
    TerminalRecord,
)
from amends.contracts.worker_payload import Pending as JournalPending
from amends.contracts.worker_payload import Running, ToolPayload
from amends.host import endings
from amends.host.channel import WorkerChannel
from amends.host.identities import (
    STEP,
    compensation_nonce,
    ledger_name,
    operation_nonce,
    plan_of,
    tenant_scope,
)
from amends.host.link import WorkerLink
from amends.host.ruling import NO_OPERATION, rule_by_hand
from amends.host.tools import Judges, WorkerTool
from amends.host.workflow import Workflow
from amends.ledger.operations import OperationIntent
from amends.ledger.records import Ledger, LedgerCompensation, LedgerOperation
from amends.ledger.recovery import Recovery
from amends.ledger.targets import Target

UNSUPPORTED: str = "worker.lookup_unsupported"
NO_INPUT: str = "action.input_required"
_DIFFERS = "journal.compensation_differs"
_LOOK_UPS_SINCE = 6


class WorkerConnector:
    """Carries the attempts of one capability to a worker.

    `inputs` say how inputs are described and converted, as a function's annotations would.
    """

    def __init__(
        self,
        tool: WorkerTool,
        link: WorkerLink,
        *,
        inputs: Mapping[Handler, InputType],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.inputs = inputs
        self._tool = tool
        self._link = link
        self._clock = clock
        self._judges = Judges(tool)

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """See `Connector`."""
        call = attempt.call
        inverse = _is_inverse(call)
        match call.handler:
            case Handler.EXECUTE:
                return await self._attempted(_Attempted(attempt, self._dispatch))
            case Handler.COMPENSATE if inverse:
                return await self._attempted(_Attempted(attempt, self._offset))
            case Handler.RECONCILE if inverse:
                return await self._looked_up(call, self._find_inverse)
            case Handler.RECONCILE:
                return await self._looked_up(call, self._find)
            case _:
                return endings.refused(coded("worker.handler_missing"))

    async def rule(self, ruling: HandRuling) -> ProviderOperation | None:
        """See `KeepsAccounts`: the journal first, then the ledger. Raises as `rule_by_hand`."""
        return await rule_by_hand(self._link, ruling, self._tool.grant.format)

    async def aclose(self) -> None:
        """See `Closable`. A verifier that hangs in a thread is left to itself."""
        self._judges.close()
        await self._link.aclose()

    # ── effects ──────────────────────────────────────────────────────────────────────────────────

    async def _attempted(self, attempted: "_Attempted") -> Outcome:
        try:
            return await attempted.act(attempted)
        except AmendsError as error:
            if attempted.may_be_recorded:
                return endings.left_open(error, attempted.key)
            return endings.refused(error)

    async def _dispatch(self, attempted: "_Attempted") -> Outcome:
        call, tool = attempted.call, self._tool
        payload = tool.payload(call.input)
        if not await self._judges.is_granted(call.tenant):
            raise coded("ledger.grant_denied")
        workflow = await self._opened(call, _own(call), create=True)
        async with self._channel(call) as channel:
            attempted.begin(workflow)
            intent = OperationIntent(
                step_id=STEP,
                tool=tool.grant.tool,
                payload=payload,
                nonce=operation_nonce(call.tenant, call.transaction_id),
            )
            key = await workflow.record(intent)
            await attempted.recorded(key)
            return self._told(await workflow.dispatch(channel, key, payload), key)

    async def _offset(self, attempted: "_Attempted") -> Outcome:
        call = attempted.call
        original = _original(call)
        payload = self._tool.payload(call.input)
        workflow = await self._opened(call, _of(original), create=False)
        operation = _operation(workflow.ledger)
        target = self._target(call, workflow, operation, payload)
        async with self._channel(call) as channel:
            attempted.begin(workflow)
            nonce = compensation_nonce(call.tenant, original.action_id)
            key = await workflow.record_compensation(target, nonce)
            await attempted.recorded(key)
            return self._told(await workflow.compensate(channel, target), key)

    # ── look-ups ─────────────────────────────────────────────────────────────────────────────────

    async def _looked_up(self, call: Call, find: "Callable[[Call], Awaitable[Outcome]]") -> Outcome:
        operation = call.provider_operation
        try:
            return await find(call)
        except AmendsError as error:
            return endings.left_open(error, operation.operation_id if operation else None)

    async def _find(self, call: Call) -> Outcome:
        """What became of an original. One that no ledger has was not sent by whoever is gone."""
        workflow = await self._found(call, _own(call))
        if workflow is None or not workflow.ledger.operations:
            return NotFound()
        key = _operation(workflow.ledger).operation_key
        async with self._channel(call) as channel:
            return self._told(await workflow.reconcile(channel, key), key)

    async def _find_inverse(self, call: Call) -> Outcome:
        """What became of an inverse; who asks for it by name offers the open intent again."""
        workflow = await self._found(call, _of(_original(call)))
        if workflow is None:
            return endings.for_a_person(NO_OPERATION)
        operation = _operation(workflow.ledger)
        intent = operation.compensation
        if intent is None:
            return NotFound()
        if not self._is_meant(call, intent):
            return endings.for_a_person("ledger.compensation_exists")
        open_yet = workflow.recovery(operation.operation_key) is Recovery.OFFER_AGAIN
        if open_yet and not call.recovering:
            return await self._offer_again(call, workflow, operation, intent)
        return await self._ask(call, workflow, operation, intent)

    async def _offer_again(
        self,
        call: Call,
        workflow: Workflow,
        operation: LedgerOperation,
        intent: LedgerCompensation,
    ) -> Outcome:
        if call.input is None:
            return endings.for_a_person(NO_INPUT, intent.compensation_key)
        target = self._target(call, workflow, operation, self._tool.payload(call.input))
        async with self._channel(call) as channel:
            try:
                status = await workflow.compensate(channel, target)
            except Refused as refused:
                if refused.details.get("code") != _DIFFERS:
                    raise
                return await self._closed(workflow, channel, operation, intent)
        return self._told(status, intent.compensation_key)

    async def _closed(
        self,
        workflow: Workflow,
        channel: WorkerChannel,
        operation: LedgerOperation,
        intent: LedgerCompensation,
    ) -> Outcome:
        """The journal has this very key without its input: a person closed it there."""
        grant = self._tool.grant
        state = await workflow.find_compensation(channel, operation.operation_key, grant)
        return self._known(state, intent.compensation_key)

    async def _ask(
        self,
        call: Call,
        workflow: Workflow,
        operation: LedgerOperation,
        intent: LedgerCompensation,
    ) -> Outcome:
        key = intent.compensation_key
        async with self._channel(call) as channel:
            if channel.protocol_version < _LOOK_UPS_SINCE:
                return endings.for_a_person(UNSUPPORTED, key)
            grant = self._tool.grant
            state = await workflow.find_compensation(channel, operation.operation_key, grant)
        return self._known(state, key)

    def _is_meant(self, call: Call, intent: LedgerCompensation) -> bool:
        """Whether the ledger's one intent is that of this very record."""
        named = call.provider_operation
        if named is not None:
            return str(named.operation_id) == intent.compensation_key
        if call.input is None:
            return False
        canonical = self._tool.payload(call.input).canonical
        return host_input_fingerprint(canonical) == intent.input_fingerprint

    # ── shared ───────────────────────────────────────────────────────────────────────────────────

    def _told(self, status: AnsweredStatus, key: str) -> Outcome:
        return endings.told(status, key, cancelled_is_absent=self._tool.cancelled_is_absent)

    def _known(self, state: CompensationState, key: str) -> Outcome:
        match state:
            case TerminalRecord(status):
                return self._told(status, key)
            case Running() | JournalPending():
                return Pending(operation=endings.operation_of(key))
            case Indeterminate():
                return self._told(state, key)
            case NoRecord():
                return endings.for_a_person(endings.NOT_ADMITTED, key)

    def _target(
        self, call: Call, workflow: Workflow, operation: LedgerOperation, payload: ToolPayload
    ) -> Target:
        scope, grant = tenant_scope(call.tenant), self._tool.grant
        return workflow.target(operation.operation_key, scope, grant, payload)

    def _channel(self, call: Call) -> AbstractAsyncContextManager[WorkerChannel]:
        limit_s = call.deadline_in_ms / 1000
        return self._link.channel(call.tenant, self._tool.grant, limit_s=limit_s)

    async def _opened(self, call: Call, whose: "_Whose", *, create: bool) -> Workflow:
        workflow = await self._found(call, whose, create=create)
        if workflow is None:
            raise coded(NO_OPERATION)
        return workflow

    async def _found(self, call: Call, whose: "_Whose", *, create: bool = False) -> Workflow | None:
        plan = plan_of(whose.intent_digest)
        name = ledger_name(call.tenant, whose.transaction_id)
        record = await self._link.ledger(name, plan, create=create)
        if record is None:
            return None
        return await Workflow.open(plan, record, self._judges.verifiers(call), clock=self._clock)


class _Whose(msgspec.Struct, frozen=True):
    """Whose ledger it is."""

    transaction_id: TransactionId
    intent_digest: str


class _Attempted:
    """How far an attempt has come: whether its intent may be recorded, and under which key."""

    def __init__(self, attempt: Attempt, act: "Callable[[_Attempted], Awaitable[Outcome]]") -> None:
        self.act = act
        self.call = attempt.call
        self.key: str | None = None
        self._attempt = attempt
        self._workflow: Workflow | None = None
        self._before: Ledger | None = None

    def begin(self, workflow: Workflow) -> None:
        """The next step records. Raises `Refused` (`worker.given_up`) when nobody wants it."""
        if self._attempt.cancelled.is_set():
            raise coded("worker.given_up")
        self._workflow, self._before = workflow, workflow.ledger

    async def recorded(self, key: str) -> None:
        """The intent is durable: so is its key now, in the transaction's record."""
        self.key = key
        operation = endings.operation_of(key)
        await self._attempt.checkpoint(operation.provider, operation.operation_id)

    @property
    def may_be_recorded(self) -> bool:
        """Whether the ledger holds the intent, or nobody knows what a write came to."""
        if self._workflow is None:
            return False
        try:
            return self.key is not None or self._workflow.ledger != self._before
        except AmendsError:
            return True


def _is_inverse(call: Call) -> bool:
    """Whether an attempt offsets, or looks for, the inverse of an effect of this very tool.

    It stays one if the capability offers no compensation any more: its ledger is the target's.
    """
    original = call.original
    return original is not None and original.capability_id == call.capability.id


def _own(call: Call) -> _Whose:
    return _Whose(call.transaction_id, call.intent_digest)


def _of(original: OriginalEffect) -> _Whose:
    return _Whose(original.transaction_id, original.intent_digest)


def _original(call: Call) -> OriginalEffect:
    assert call.original is not None
    return call.original


def _operation(ledger: Ledger) -> LedgerOperation:
    """The one operation of a transaction's ledger. Raises `Refused`."""
    if not ledger.operations:
        raise coded(NO_OPERATION)
    return ledger.operations[0]
