"""Pipeline steps 1 to 8: envelope, identity, capability, schema, contract, credential, policy.

One list of gates in one order for every entrance. Each gate's answer is kept; the first no ends it.
Nothing is stored here but a refusal entry without input, and the action id stays free (TX-PIPE-4).
"""

from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.actions import TransactionContext
from amends.contracts.canonical import canonical_bytes
from amends.contracts.codes import coded
from amends.contracts.documents import GateVerdict, Refusal
from amends.contracts.enums import MUTATING_MODES, Mode
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.ids import (
    ACTION_PREFIX,
    REFUSAL_PREFIX,
    TRANSACTION_PREFIX,
    ActionId,
    TransactionId,
    check_identifier,
    check_opaque,
    check_plan_id,
    default_plan_id,
)
from amends.contracts.json_types import Json
from amends.contracts.parsing import admit_value
from amends.contracts.schema import refuse_mismatch
from amends.contracts.secrets import Credential
from amends.governance.credentials import check_credential
from amends.governance.idempotency import check_key
from amends.governance.policy import (
    PolicyDecision,
    PolicyQuestion,
    PolicyVerdict,
    ask,
    force_approval,
    stricter,
)
from amends.runtime.environment import Environment
from amends.runtime.registry import Registered
from amends.runtime.requests import Admitted, Request
from amends.stores.port import ChangeSet, Insert
from amends.transactions.hashing import input_hash

_ALLOW: Final = "allow"
_DENY: Final = "deny"
_HUMAN: Final = "needs_human"


class Intake:
    """Runs a request through the gates and says what was admitted."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def admit(self, request: Request, now: datetime) -> Admitted:
        """The admitted request.

        Raises the coded error of the first gate that says no, after leaving a refusal entry.
        """
        passed: list[GateVerdict] = []
        try:
            return self._through_gates(request, now, passed)
        except AmendsError as error:
            gate = _GATES[min(len(passed), len(_GATES) - 1)]
            passed.append(
                GateVerdict(gate=gate, answer=_DENY, code=error.code, reason=error.message)
            )
            await self._note_refusal(request, error.code, tuple(passed), now)
            raise

    def _through_gates(
        self, request: Request, now: datetime, passed: list[GateVerdict]
    ) -> Admitted:
        environment = self._environment
        action = request.action
        context = self._check_envelope(request)
        action_id = action.action_id or ActionId(environment.ids(ACTION_PREFIX))
        admitted_input = admit_value(action.input)
        _pass(passed, "envelope")
        _check_identity(request)
        _pass(passed, "identity")
        registered = environment.registry.get(action.capability_id)
        serving = self._serving(registered, context.mode)
        _pass(passed, "capability")
        _check_schema(registered, serving, context.mode, admitted_input)
        _pass(passed, "schema")
        _check_contract(registered, serving, request, context)
        _pass(passed, "contract")
        credential = self._credential(serving, request, now)
        _pass(passed, "credential")
        decision = self._decide(registered, serving, request, admitted_input)
        passed.append(_policy_verdict(decision))
        canonical = canonical_bytes(admitted_input)
        return Admitted(
            request=request,
            registered=registered,
            serving=serving,
            action_id=action_id,
            context=self._complete(context),
            chosen=context.transaction_id,
            input=admitted_input,
            canonical=canonical,
            input_hash=input_hash(registered.capability.id, canonical),
            policy_revision=environment.policy.revision,
            approval=decision.approval,
            credential=credential,
            verdicts=tuple(passed),
            now=now,
        )

    def _check_envelope(self, request: Request) -> TransactionContext:
        action, context = request.action, request.action.transaction
        check_identifier(action.capability_id, "capability_id")
        if action.action_id is not None:
            check_identifier(action.action_id, "action_id")
        if context.transaction_id is not None:
            length = limits.TRANSACTION_ID_LENGTH
            check_identifier(context.transaction_id, "transaction_id", length=length)
        if context.compensation_for is not None:
            check_identifier(context.compensation_for, "compensation_for")
        _check_mode_fields(request)
        if context.plan_id is not None and context.mode is not Mode.PLAN:
            check_identifier(context.plan_id, "plan_id")
        if len(msgspec.json.encode(admit_value(action.metadata))) > limits.METADATA_BYTES:
            raise coded("action.metadata_too_large", {"max_bytes": limits.METADATA_BYTES})
        if request.cursor is not None:
            check_opaque(request.cursor, "cursor", length=limits.CURSOR_LENGTH)
        return context

    def _complete(self, context: TransactionContext) -> TransactionContext:
        """Fill in the ids that the caller left to Amends; a commit's comes from its plan later."""
        transaction_id = context.transaction_id or TransactionId(
            self._environment.ids(TRANSACTION_PREFIX)
        )
        plan_id = context.plan_id
        if context.mode is Mode.PLAN:
            plan_id = (
                default_plan_id(transaction_id)
                if plan_id is None
                else check_plan_id(plan_id, transaction_id)
            )
        return replace(context, transaction_id=transaction_id, plan_id=plan_id)

    def _serving(self, registered: Registered, mode: Mode) -> Registered:
        if mode is not Mode.COMPENSATE or not _admits(registered, mode):
            return registered
        return self._environment.registry.serving(registered)

    def _credential(
        self, serving: Registered, request: Request, now: datetime
    ) -> Credential | None:
        credential = self._environment.credential(serving.capability.id, request.caller)
        check_credential(serving.capability.credential, credential, now)
        return credential

    def _decide(
        self, registered: Registered, serving: Registered, request: Request, value: Json
    ) -> PolicyDecision:
        mode = request.action.transaction.mode
        decision = self._ask(registered, request, value)
        if serving is not registered:
            decision = stricter(decision, self._ask(serving, request, value))
        forced = mode is Mode.COMPENSATE and registered.capability.compensation.requires_approval
        decision = force_approval(decision, required=forced)
        if decision.verdict is PolicyVerdict.DENY:
            details: dict[str, Json] = {"rules": list(decision.rules)}
            raise coded("policy.denied", details)
        return decision

    def _ask(self, registered: Registered, request: Request, value: Json) -> PolicyDecision:
        question = PolicyQuestion(
            capability=registered.capability,
            principal=request.caller.principal,
            identity=request.caller.identity,
            mode=request.action.transaction.mode,
            input=value,
            approval_requested=request.action.approval_required,
        )
        return ask(self._environment.policy, question)

    async def _note_refusal(
        self, request: Request, code: str, verdicts: tuple[GateVerdict, ...], now: datetime
    ) -> None:
        action = request.action
        entry = Refusal(
            tenant=request.caller.tenant,
            revision=1,
            created_at=now,
            updated_at=now,
            refusal_id=self._environment.ids(REFUSAL_PREFIX),
            action_id=_if_well_formed(action.action_id),
            capability_id=_if_well_formed(action.capability_id),
            mode=action.transaction.mode,
            principal=request.caller.principal.ref,
            code=code,
            verdicts=verdicts,
        )
        try:
            await self._environment.store.commit(ChangeSet(changes=(Insert(entry),)))
        except Unavailable:
            return  # the refusal itself is what the caller has to hear


_GATES: Final = (
    "envelope",
    "identity",
    "capability",
    "schema",
    "contract",
    "credential",
    "policy",
)


def _pass(passed: list[GateVerdict], gate: str) -> None:
    passed.append(GateVerdict(gate=gate, answer=_ALLOW))


def _policy_verdict(decision: PolicyDecision) -> GateVerdict:
    human = decision.verdict is PolicyVerdict.REQUIRE_APPROVAL
    return GateVerdict(
        gate="policy",
        answer=_HUMAN if human else _ALLOW,
        reason=decision.reason,
        rules=decision.rules,
    )


def _if_well_formed(value: str | None) -> ActionId | None:
    try:
        return None if value is None else ActionId(check_identifier(value, "id"))
    except AmendsError:
        return None


def _check_mode_fields(request: Request) -> None:
    context = request.action.transaction
    match context.mode:
        case Mode.COMMIT if context.plan_id is None and not request.caller.trusted:
            raise coded("transaction.plan_required")
        case Mode.COMPENSATE if context.compensation_for is None:
            raise coded("transaction.compensation_for_required")
        case Mode.RECONCILE if context.transaction_id is None:
            raise coded("transaction.id_required")
        case _:
            return


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
    if findings:
        raise refuse_mismatch(findings)


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
