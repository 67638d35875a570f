"""Asking for things: every mode of an action, and coming back to one that waited."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from amends.app.capabilities import Buildable
from amends.app.edges import flag_of, mapping_of, record_of, seconds_of, text_of, text_or_none
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import ActionDocument, RequestInfo, TransactionRecord
from amends.contracts.enums import Handler, Mode
from amends.contracts.evidence import Receipt
from amends.contracts.ids import ActionId, CapabilityId, PlanId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.parsing import admit_value
from amends.contracts.principals import Caller
from amends.contracts.results import Result
from amends.runtime.deciding import Deciding
from amends.runtime.reading import Reading
from amends.runtime.requests import Request
from amends.wiring.opening import Runtime

CapabilityLike: TypeAlias = Buildable | str


class TransactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the first-class wrapper adds to a result: its transaction's receipt chain (TX-REQ-1)."""

    result: Result
    receipts: tuple[Receipt, ...]


class Asking:
    """The modes of an action, as calls. Every call returns what is durable, or raises why not."""

    def __init__(self, runtime: Runtime, caller: Caller) -> None:
        self._runtime = runtime
        self._caller = caller

    async def execute(
        self,
        capability: CapabilityLike,
        input: object,
        *,
        action_id: str | None = None,
        transaction_id: str | None = None,
        idempotency_key: str | None = None,
        approval_required: bool = False,
        metadata: Mapping[str, Json] | None = None,
    ) -> Result:
        """Do it directly under a transaction id of its own, without a plan."""
        context = TransactionContext(mode=Mode.EXECUTE, transaction_id=_transaction(transaction_id))
        return await self._perform(
            capability, input, context, action_id, idempotency_key, approval_required, metadata
        )

    async def dry_run(
        self,
        capability: CapabilityLike,
        input: object,
        *,
        action_id: str | None = None,
        transaction_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Result:
        """See what would happen, as strongly as the capability's fidelity says; asks nobody."""
        context = TransactionContext(mode=Mode.DRY_RUN, transaction_id=_transaction(transaction_id))
        return await self._perform(capability, input, context, action_id, None, False, metadata)

    async def plan(
        self,
        capability: CapabilityLike,
        input: object,
        *,
        plan_id: str | None = None,
        action_id: str | None = None,
        transaction_id: str | None = None,
        approval_required: bool = False,
        metadata: Mapping[str, Json] | None = None,
    ) -> Result:
        """Make a durable plan that can be committed once, until it expires."""
        context = TransactionContext(
            mode=Mode.PLAN,
            transaction_id=_transaction(transaction_id),
            plan_id=PlanId(plan_id) if plan_id is not None else None,
        )
        return await self._perform(
            capability, input, context, action_id, None, approval_required, metadata
        )

    async def commit(
        self,
        plan: Result | str,
        input: object = msgspec.UNSET,
        *,
        action_id: str | None = None,
        idempotency_key: str | None = None,
        approval_required: bool = False,
        metadata: Mapping[str, Json] | None = None,
    ) -> Result:
        """Commit a plan. Exactly one action ever claims it.

        The planned input is used where none is given; where the capability requires redaction it is
        not stored, and has to be given again. Raises the codes of plan binding.
        """
        plan_id = plan.plan_id if isinstance(plan, Result) else PlanId(text_of(plan, "plan_id"))
        if plan_id is None:
            raise coded("transaction.plan_required")
        capability, planned = await self._planned(plan_id)
        if input is msgspec.UNSET and planned is msgspec.UNSET:
            raise coded("action.input_required")
        context = TransactionContext(mode=Mode.COMMIT, plan_id=plan_id)
        return await self._perform(
            capability,
            planned if input is msgspec.UNSET else input,
            context,
            action_id,
            idempotency_key,
            approval_required,
            metadata,
        )

    async def _planned(self, plan_id: PlanId) -> tuple[str, object]:
        """The planned capability and its input, which is unset where it was not kept."""
        store = self._runtime.engine.environment.store
        found = await store.find(TransactionRecord, self._caller.tenant, "plan_id", plan_id)
        if found is None or found.document.plan is None:
            raise coded("transaction.plan_not_found")
        snapshot = found.document.plan.snapshot
        if snapshot.input is None:
            return found.document.capability_id, msgspec.UNSET
        return found.document.capability_id, msgspec.json.decode(snapshot.input)

    async def compensate(
        self,
        target: Result | str,
        input: object = None,
        *,
        action_id: str | None = None,
        transaction_id: str | None = None,
        idempotency_key: str | None = None,
        approval_required: bool = False,
        metadata: Mapping[str, Json] | None = None,
    ) -> Result:
        """Offset an earlier effect by a new governed action. Never automatic, never twice.

        `target` is the result, or the action id, of the effect. It does not erase the effect.
        """
        target_id = _action(target)
        action = await self._action(target_id)
        if action is None:
            raise coded("transaction.compensation_target_not_found")
        context = TransactionContext(
            mode=Mode.COMPENSATE,
            transaction_id=_transaction(transaction_id),
            compensation_for=target_id,
        )
        return await self._perform(
            action.capability_id,
            input,
            context,
            action_id,
            idempotency_key,
            approval_required,
            metadata,
        )

    async def reconcile(
        self,
        transaction: Result | str,
        *,
        input: object = None,
        insist: bool = False,
        provider_operation: ProviderOperation | None = None,
        cursor: str | None = None,
    ) -> Result:
        """Ask the provider what became of an unknown outcome; never repeats the effect blindly.

        `insist` asks before the earliest time, for operators. `input` is needed only for a re-drive
        of a capability that requires redaction.
        """
        transaction_id = (
            transaction.transaction_id
            if isinstance(transaction, Result)
            else text_of(transaction, "transaction_id")
        )
        store, tenant = self._runtime.engine.environment.store, self._caller.tenant
        found = await store.get(TransactionRecord, tenant, transaction_id)
        if found is None:
            raise coded("transaction.not_found")
        record = found.document
        action = Action(
            capability_id=record.capability_id,
            input=self._encoded(record.capability_id, input, Mode.EXECUTE),
            transaction=TransactionContext(
                mode=Mode.RECONCILE, transaction_id=record.transaction_id
            ),
        )
        request = Request(
            action=action,
            caller=self._caller,
            insist=flag_of(insist, "insist"),
            provider_operation=_operation(provider_operation),
            cursor=cursor,
        )
        return await self._runtime.engine.perform(request)

    async def transact(self, request: TransactionRequest) -> TransactionResult:
        """Run a first-class request: the same action and engine, plus the receipt chain (TX-REQ-1).

        The mode may be given in its wire spelling. Raises `action.principal_mismatch` and
        `action.transaction_mismatch`.
        """
        record_of(request, TransactionRequest, "request", but="mode")
        if request.requested_by != self._caller.principal.ref:
            raise coded("action.principal_mismatch")
        context = request.action.transaction
        if context.transaction_id not in (None, request.transaction_id):
            raise coded("action.transaction_mismatch")
        mode = _mode(context.mode)
        action = msgspec.structs.replace(
            request.action,
            input=self._encoded(request.action.capability_id, request.action.input, mode),
            transaction=msgspec.structs.replace(
                context, mode=mode, transaction_id=request.transaction_id
            ),
        )
        info = RequestInfo(reason=request.reason, metadata=request.metadata)
        result = await self._runtime.engine.perform(
            Request(
                action=action,
                caller=self._caller,
                info=info,
                provider_operation=request.provider_operation,
                cursor=request.cursor,
            )
        )
        reading = Reading(self._runtime.engine)
        chain = await reading.receipts(self._caller.tenant, result.transaction_id)
        return TransactionResult(result=result, receipts=chain)

    async def wait_for_approval(
        self,
        waiting: Result | str,
        *,
        timeout_s: float = 60.0,
        input: object = msgspec.UNSET,
    ) -> Result:
        """Wait until people have decided, then resume the same action (AP-5).

        `waiting` is the pending result or its action id. Raises `approval.wait_timeout` while
        nobody has decided, and the code of a denied, expired or revoked request.
        """
        action_id = _action(waiting)
        action = await self._action(action_id)
        if action is None or action.approval_id is None:
            raise coded("approval.not_found")
        deciding = Deciding(self._runtime.engine)
        span = seconds_of(timeout_s, "timeout_s")
        await deciding.wait(self._caller, action.approval_id, span)
        return await self.resume(action_id, input)

    async def resume(self, waiting: Result | str, input: object = msgspec.UNSET) -> Result:
        """Send an accepted action again, exactly as it was: it never runs twice.

        `input` has to be given where the capability requires redaction. Raises `action.not_found`
        and `action.input_required`.
        """
        action_id = _action(waiting)
        action = await self._action(action_id)
        if action is None:
            raise coded("action.not_found")
        if input is msgspec.UNSET:
            if action.input is None:
                raise coded("action.input_required")
            input = msgspec.json.decode(action.input)
        return await self._perform(
            action.capability_id,
            input,
            action.context,
            action_id,
            action.idempotency_key,
            action.approval_requested,
            action.metadata,
        )

    async def _action(self, action_id: ActionId) -> ActionDocument | None:
        store = self._runtime.engine.environment.store
        found = await store.get(ActionDocument, self._caller.tenant, action_id)
        return found.document if found else None

    async def _perform(
        self,
        capability: CapabilityLike,
        input: object,
        context: TransactionContext,
        action_id: str | None,
        idempotency_key: str | None,
        approval_required: bool,
        metadata: Mapping[str, Json] | None,
    ) -> Result:
        capability_id = _capability(capability)
        action = Action(
            capability_id=capability_id,
            input=self._encoded(capability_id, input, context.mode),
            transaction=context,
            action_id=ActionId(action_id) if action_id is not None else None,
            idempotency_key=text_or_none(idempotency_key, "idempotency_key"),
            approval_required=flag_of(approval_required, "approval_required"),
            metadata=mapping_of(metadata, "metadata"),
        )
        return await self._runtime.engine.perform(Request(action=action, caller=self._caller))

    def _encoded(self, capability_id: CapabilityId, value: object, mode: Mode) -> Json:
        """An input of the declared type as JSON; JSON stays as it is."""
        registry = self._runtime.engine.environment.registry
        registered = registry.get(capability_id)
        handler = Handler.EXECUTE
        if mode is Mode.COMPENSATE and Mode.COMPENSATE in _modes(registered.capability):
            serving = registry.serving(registered)
            own = Handler.COMPENSATE in serving.capability.handlers
            handler = Handler.COMPENSATE if own else Handler.EXECUTE
            registered = serving
        declared = registered.inputs.get(handler)
        if value is None or declared is None:
            return admit_value(value)
        return declared.encode(value)


def _modes(capability: Capability) -> tuple[Mode, ...]:
    return capability.transaction.supported_modes if capability.transaction else ()


def _mode(spelled: str) -> Mode:
    """The mode that rules compare with: a record is not checked when it is made."""
    try:
        return Mode(text_of(spelled, "mode"))
    except ValueError:
        raise coded("transaction.mode_not_supported") from None


def _transaction(value: str | None) -> TransactionId | None:
    return TransactionId(value) if value is not None else None


def _action(named: Result | str) -> ActionId:
    return named.action_id if isinstance(named, Result) else ActionId(text_of(named, "action_id"))


def _capability(named: CapabilityLike) -> CapabilityId:
    id_ = named if isinstance(named, str) else getattr(named, "id", None)
    return CapabilityId(text_of(id_, "capability"))


def _operation(named: ProviderOperation | None) -> ProviderOperation | None:
    return None if named is None else record_of(named, ProviderOperation, "provider_operation")
