"""Pipeline steps 9 and on for what never claims: dry runs, plans, and `rollback_not_supported`.

A preview comes before approval and says what will be needed. It holds no claim, sees no provider
key, and a checkpoint from it is refused and kept as the sign of an effect it must not have
(TX-DRY-2).
"""

import asyncio
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.connectors.port import Attempt, Call
from amends.contracts.actions import ActionResult
from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import (
    DOWNSTREAM_FIDELITIES,
    ErrorCategory,
    Fidelity,
    Freeze,
    Handler,
    Mode,
    ResultStatus,
    Verdict,
)
from amends.contracts.evidence import ReceiptType
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Applied, ErrorInfo, Outcome, ProviderOperation
from amends.contracts.results import Result
from amends.contracts.times import after_ms
from amends.receipts.chain import chain_of
from amends.runtime.acceptance import Acceptance, Known
from amends.runtime.attempt import enter_preview
from amends.runtime.changes import Draft
from amends.runtime.environment import Environment
from amends.runtime.grounds import new_record
from amends.runtime.requests import Admitted
from amends.runtime.steps import record_step
from amends.stores.port import Due, Lost
from amends.transactions.outputs import store_output
from amends.transactions.planning import PlanFacts, build_plan
from amends.transactions.projection import project
from amends.transactions.settlement import StoredOutput, completed_result, read_outcome
from amends.transactions.table import Event, begin

_TYPES: Final = {
    Event.DRY_RUN_STORED: ReceiptType.DRY_RUN_COMPLETED,
    Event.PLAN_STORED: ReceiptType.PLANNED,
    Event.PLAN_REJECTED: ReceiptType.FAILED,
    Event.ROLLBACK_ANSWERED: ReceiptType.ROLLBACK_NOT_SUPPORTED,
}


class Previews:
    """Answers the modes that make no attempt."""

    def __init__(self, environment: Environment, acceptance: Acceptance) -> None:
        self._environment = environment
        self._acceptance = acceptance

    async def answer(self, admitted: Admitted, known: Known) -> Result | Lost:
        """The stored preview. The same action again gets the same one.

        Raises `transaction.id_conflict` or `transaction.plan_id_conflict` for ids that are taken.
        """
        if known.action is not None:
            return await self._acceptance.current(known.action, replayed=True)
        await self._check_free(admitted)
        if admitted.mode is Mode.ROLLBACK_NOT_SUPPORTED:
            return await self._store(admitted, known, Event.ROLLBACK_ANSWERED, _refusal(admitted))
        flags: list[ProviderOperation] = []
        validation = await self._validate(admitted, flags)
        if admitted.mode is Mode.DRY_RUN:
            result = self._dry_run_result(admitted, validation)
            return await self._store(
                admitted, known, Event.DRY_RUN_STORED, result, flagged=bool(flags)
            )
        if validation is not None and validation.status is not ResultStatus.COMPLETED:
            return await self._store(
                admitted, known, Event.PLAN_REJECTED, validation, flagged=bool(flags)
            )
        return await self._store(
            admitted, known, Event.PLAN_STORED, validation, flagged=bool(flags)
        )

    async def _check_free(self, admitted: Admitted) -> None:
        store, tenant = self._environment.store, admitted.tenant
        if admitted.chosen is not None:
            taken = await store.get(TransactionRecord, tenant, admitted.transaction_id)
            if taken is not None:
                raise coded("transaction.id_conflict")
        plan_id = admitted.context.plan_id
        if admitted.mode is Mode.PLAN and plan_id is not None:
            named = await store.find(TransactionRecord, tenant, "plan_id", plan_id)
            if named is not None:
                raise coded("transaction.plan_id_conflict")

    async def _validate(
        self, admitted: Admitted, flags: list[ProviderOperation]
    ) -> ActionResult | None:
        """Ask the provider, where the declared fidelity says so (TX-DRY-1)."""
        contract = admitted.registered.capability.transaction
        if contract is None or contract.dry_run_fidelity not in DOWNSTREAM_FIDELITIES:
            return None

        async def refuse(operation: ProviderOperation, cursor: str | None) -> None:
            flags.append(operation)
            raise coded("transaction.checkpoint_refused")

        attempt = Attempt(_preview_call(admitted), refuse, asyncio.Event())
        timeout = admitted.serving.capability.service_level.timeout_ms
        outcome = await enter_preview(admitted.serving.connector, attempt, timeout)
        return self._preview_result(admitted, outcome)

    def _preview_result(self, admitted: Admitted, outcome: Outcome) -> ActionResult:
        serving = admitted.serving
        if isinstance(outcome, Applied):
            output = store_output(
                outcome.output,
                redact=serving.redact,
                fits=lambda _: True,
                credential=admitted.credential,
            )
            return completed_result(output, admitted.now)
        error = read_outcome(outcome).error or ErrorInfo(code="transaction.preview_failed")
        return ActionResult(
            status=ResultStatus.FAILED,
            error=serving.shown_error(error, admitted.credential),
            completed_at=admitted.now,
        )

    def _dry_run_result(self, admitted: Admitted, validation: ActionResult | None) -> ActionResult:
        contract = admitted.registered.capability.transaction
        fidelity = contract.dry_run_fidelity if contract else Fidelity.SCHEMA_ONLY
        preview: dict[str, Json] = {
            "fidelity": fidelity.value,
            "input_hash": admitted.input_hash,
            "approval_required": admitted.approval is not None,
            "side_effects": [
                effect.value for effect in admitted.registered.capability.side_effects
            ],
        }
        if validation is not None:
            preview["provider"] = _inner(validation)
        output: StoredOutput = store_output(preview, redact=None, fits=lambda _: True)
        return completed_result(output, admitted.now)

    async def _store(
        self,
        admitted: Admitted,
        known: Known,
        event: Event,
        result: ActionResult | None,
        *,
        flagged: bool = False,
    ) -> Result | Lost:
        draft = Draft(admitted.tenant, admitted.transaction_id)
        record = self._record(admitted, event, result)
        action = self._acceptance.document(admitted, known, draft)
        action = replace(action, result=record.result, settled_at=admitted.now)
        due = Due(at=record.plan.expires_at) if record.plan else None
        draft.insert(record, due)
        draft.insert(action)
        actor = admitted.requester
        if flagged:
            draft.step(record_step(ReceiptType.PREVIEW_EFFECT, record, actor, admitted.now))
        draft.step(record_step(_TYPES[event], record, actor, admitted.now))
        environment = self._environment
        tail = await environment.store.tail(admitted.tenant, chain_of(admitted.transaction_id))
        written = await draft.commit(environment.store, environment.signer, tail=tail)
        if isinstance(written, Lost):
            return written
        return _shown(admitted, project(action, record))

    def _record(
        self, admitted: Admitted, event: Event, result: ActionResult | None
    ) -> TransactionRecord:
        record = begin(event, new_record(admitted))
        if event is Event.PLAN_STORED:
            return self._with_plan(admitted, record, result)
        failed = event in (Event.PLAN_REJECTED, Event.ROLLBACK_ANSWERED)
        return replace(
            record,
            result=result,
            verdict=Verdict.NOT_COMMITTED if failed else None,
            error=result.error if result else None,
            settled_at=admitted.now,
        )

    def _with_plan(
        self, admitted: Admitted, record: TransactionRecord, validation: ActionResult | None
    ) -> TransactionRecord:
        assert admitted.context.plan_id is not None
        facts = PlanFacts(
            plan_id=admitted.context.plan_id,
            transaction_id=admitted.transaction_id,
            action_id=admitted.action_id,
            requester=admitted.requester,
            identity=admitted.caller.identity,
            input_hash=admitted.input_hash,
            input=admitted.canonical,
            approval=admitted.approval,
            governance_digest=admitted.governance_digest,
            validation=validation,
            now=admitted.now,
            freeze=Freeze.GOVERNANCE if admitted.decision.freeze else Freeze.NOTHING,
            ttl_ms=admitted.decision.plan_ttl_ms,
        )
        plan = build_plan(admitted.registered.capability, facts)
        result = ActionResult(
            status=ResultStatus.COMPLETED,
            output=validation.output if validation else None,
            output_hash=validation.output_hash if validation else None,
            output_redacted=validation.output_redacted if validation else False,
            completed_at=admitted.now,
        )
        return replace(record, plan=plan, result=result)


def _inner(validation: ActionResult) -> Json:
    inner: dict[str, Json] = {"status": validation.status.value}
    if validation.output is not None:
        inner["output"] = msgspec.json.decode(validation.output)
    if validation.error is not None:
        inner["error"] = msgspec.to_builtins(validation.error)
    return inner


def _refusal(admitted: Admitted) -> ActionResult:
    error = ErrorInfo(
        code="transaction.rollback_not_supported", category=ErrorCategory.POLICY, retryable=False
    )
    return ActionResult(status=ResultStatus.FAILED, error=error, completed_at=admitted.now)


def _preview_call(admitted: Admitted) -> Call:
    timeout = admitted.serving.capability.service_level.timeout_ms
    return Call(
        handler=Handler.PREVIEW,
        capability=admitted.serving.capability,
        tenant=admitted.tenant,
        principal=admitted.requester,
        identity=admitted.caller.identity,
        transaction_id=admitted.transaction_id,
        action_id=admitted.action_id,
        number=0,
        fence=None,
        input=admitted.input,
        deadline=after_ms(admitted.now, timeout),
        deadline_in_ms=timeout,
        credential=admitted.credential,
    )


def _shown(admitted: Admitted, result: Result) -> Result:
    """A preview says what will be needed, although it asks nobody yet (TX-PIPE-2)."""
    return replace(result, approval_required=admitted.approval is not None)
