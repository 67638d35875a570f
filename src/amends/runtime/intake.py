"""Pipeline steps 1 to 8: envelope, identity, capability, schema, contract, credential, policy.

One list of gates in one order for every entrance. Each gate's answer is kept; the first no ends it.
Nothing is stored here but a refusal entry without input, and the action id stays free (TX-PIPE-4).
"""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from amends.contracts.actions import TransactionContext
from amends.contracts.codes import coded
from amends.contracts.documents import GateVerdict
from amends.contracts.enums import MUTATING_MODES, Mode
from amends.contracts.errors import AmendsError
from amends.contracts.json_types import Json
from amends.contracts.schema import refuse_mismatch
from amends.contracts.secrets import Credential
from amends.governance.credentials import check_credential
from amends.governance.idempotency import check_key
from amends.runtime.envelope import open_envelope
from amends.runtime.environment import Environment
from amends.runtime.judging import judge
from amends.runtime.refusals import Refusals
from amends.runtime.registry import Registered
from amends.runtime.requests import Admitted, Request
from amends.transactions.hashing import input_hash

_ALLOW: Final = "allow"


class Intake:
    """Runs a request through the gates and says what was admitted."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._refusals = Refusals(environment)

    async def admit(self, request: Request, now: datetime) -> Admitted:
        """The admitted request.

        Raises the coded error of the first gate that says no, after leaving a refusal entry.
        """
        passed: list[GateVerdict] = []
        try:
            return self._through_gates(request, now, passed)
        except AmendsError as error:
            await self._refusals.note(request, tuple(passed), _GATES[len(passed)], error, now)
            raise

    def _through_gates(
        self, request: Request, now: datetime, passed: list[GateVerdict]
    ) -> Admitted:
        environment = self._environment
        action = request.action
        envelope = open_envelope(request, environment.ids)
        context, value = envelope.context, envelope.input
        passed.append(_PASSED["envelope"])
        request = self._identified(request)
        passed.append(_PASSED["identity"])
        registered = environment.registry.get(action.capability_id)
        serving = self._serving(registered, context.mode)
        passed.append(_PASSED["capability"])
        _check_schema(registered, serving, context.mode, value)
        passed.append(_PASSED["schema"])
        _check_contract(registered, serving, request, context)
        passed.append(_PASSED["contract"])
        credential = self._credential(serving, request, now)
        passed.append(_PASSED["credential"])
        judgement = judge(environment.policy, registered, serving, request, value)
        passed.append(judgement.verdict)
        caller = request.caller
        return Admitted(
            request=request,
            mode=context.mode,
            caller=caller,
            tenant=caller.tenant,
            requester=caller.principal.ref,
            registered=registered,
            serving=serving,
            action_id=envelope.action_id,
            context=context,
            chosen=action.transaction.transaction_id,
            input=value,
            canonical=envelope.canonical,
            input_hash=input_hash(registered.capability.id, envelope.canonical),
            idempotency_key=action.idempotency_key,
            metadata=envelope.metadata,
            info=envelope.info,
            decision=judgement.decision,
            judged_under=judgement.revision,
            credential=credential,
            verdicts=tuple(passed),
            now=now,
        )

    def _identified(self, request: Request) -> Request:
        """The request of a principal as it is now, in the tenant that was authenticated (AP-5)."""
        _check_identity(request)
        caller = self._environment.renewed(request.caller)
        return request if caller is request.caller else replace(request, caller=caller)

    def _serving(self, registered: Registered, mode: Mode) -> Registered:
        if mode is not Mode.COMPENSATE or not _admits(registered, mode):
            return registered
        return self._environment.registry.serving(registered)

    def _credential(
        self, serving: Registered, request: Request, now: datetime
    ) -> Credential | None:
        if request.action.transaction.mode is Mode.ROLLBACK_NOT_SUPPORTED:
            return None
        credential = self._environment.credential(serving.capability.id, request.caller)
        check_credential(serving.capability.credential, credential, now)
        return credential


_GATES: Final = (
    "envelope",
    "identity",
    "capability",
    "schema",
    "contract",
    "credential",
    "policy",
)


_PASSED: Final = {gate: GateVerdict(gate=gate, answer=_ALLOW) for gate in _GATES}


def _check_identity(request: Request) -> None:
    identity = request.caller.identity
    if identity is not None and identity.tenant != request.caller.tenant:
        raise coded("identity.tenant_mismatch")


def _check_schema(registered: Registered, serving: Registered, mode: Mode, value: Json) -> None:
    if mode in (Mode.RECONCILE, Mode.ROLLBACK_NOT_SUPPORTED) and value is None:
        return
    schema = serving.input_schema
    if mode is Mode.COMPENSATE and serving is registered:
        if registered.compensation_schema is None:
            return
        schema = registered.compensation_schema
    findings = schema.check(value)
    if findings and not (mode is Mode.RECONCILE and _is_inverse(registered, value)):
        raise refuse_mismatch(findings)


def _is_inverse(registered: Registered, value: Json) -> bool:
    """Whether it may be the input of a compensation under look-up; its hash decides later."""
    schema = registered.compensation_schema
    return schema is not None and schema.fits(value)


def _admits(registered: Registered, mode: Mode) -> bool:
    contract = registered.capability.transaction
    if contract is None:
        return mode is Mode.EXECUTE
    return mode in contract.supported_modes


def _check_contract(
    registered: Registered, serving: Registered, request: Request, context: TransactionContext
) -> None:
    mode, capability = context.mode, registered.capability
    if mode is Mode.ROLLBACK_NOT_SUPPORTED:
        return
    if not _admits(registered, mode):
        details: dict[str, Json] = {"mode": mode.value, "capability_id": capability.id}
        raise coded("transaction.mode_not_supported", details)
    contract = capability.transaction
    planless = mode is Mode.COMMIT and context.plan_id is None
    if planless and (contract is None or contract.requires_plan_before_commit):
        raise coded("transaction.plan_required")
    keyed = serving if mode in MUTATING_MODES else registered
    check_key(keyed.capability.idempotency, mode, request.action.idempotency_key)
