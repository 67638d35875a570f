"""Pipeline steps 11 to 13: the approval gate, and the claim that licenses one connector call.

Everything that step 10 read is compared again in one change set: the record's revision, the
action's document (and with it the cancellation mark), the key's reservation, the approval that is
consumed, the target's record and slots, the plan's expiry by the store's clock (TX-CLAIM-1,
TX-PIPE-5).
"""

from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from amends.connectors.port import Call
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.documents import (
    ActionDocument,
    Attempt,
    GateVerdict,
    LimitUsage,
    SlotHolder,
    TransactionRecord,
)
from amends.contracts.enums import Mode
from amends.contracts.evidence import ReceiptType, Tail
from amends.contracts.ids import APPROVAL_PREFIX, ApprovalId
from amends.contracts.persons import names_of
from amends.contracts.results import Result
from amends.contracts.secrets import Credential
from amends.contracts.times import after_ms
from amends.governance.approvals import check_consumed, consume, policy_hash
from amends.governance.credentials import check_credential
from amends.governance.limits import Charge
from amends.receipts.chain import chain_of
from amends.runtime.acceptance import Acceptance, Known
from amends.runtime.allowances import COUNTS, Allowances
from amends.runtime.changes import Draft, Written
from amends.runtime.environment import Environment
from amends.runtime.grounds import Ground
from amends.runtime.registry import Registered
from amends.runtime.requests import Admitted
from amends.runtime.running import Running
from amends.runtime.standing import check_standing
from amends.runtime.steps import approval_step, record_step
from amends.stores.port import Due, Loss, Lost, Stored
from amends.transactions.compensation import take_slot
from amends.transactions.hashing import Intent, action_hash, intent_digest
from amends.transactions.leases import lease_ms
from amends.transactions.projection import project
from amends.transactions.table import Event, begin, move

_STARTED: Final = {
    Mode.EXECUTE: ReceiptType.EXECUTION_STARTED,
    Mode.COMMIT: ReceiptType.COMMIT_STARTED,
    Mode.COMPENSATE: ReceiptType.COMPENSATION_STARTED,
    Mode.RECONCILE: ReceiptType.RECONCILIATION_STARTED,
}


JUDGE_AGAIN: Final = Lost(0, Loss.REVISION)
"""The policy has changed since it was asked, so the round begins anew."""


class Carrier(NamedTuple):
    """The capability that carries an attempt out, with the credential of this attempt alone."""

    serving: Registered
    credential: Credential | None

    @property
    def capability(self) -> Capability:
        """What it declares."""
        return self.serving.capability


class Claim:
    """Passes the approval gate and writes the claim."""

    def __init__(self, environment: Environment, acceptance: Acceptance) -> None:
        self._environment = environment
        self._acceptance = acceptance
        self._allowances = Allowances(environment)

    async def make(
        self, admitted: Admitted, known: Known, ground: Ground, *, first: bool
    ) -> Running | Result | Lost:
        """The licensed attempt; or the result that waits for people; or what the claim lost to.

        A policy whose rules have changed since it was asked counts as lost: the next round asks it.
        """
        charges = self._allowances.due(admitted, known)
        if not charges:
            return await self._make(admitted, known, ground, charges, first=first)
        async with self._allowances.turn(admitted.tenant, charges) as waited:
            if waited:
                now = await self._environment.store.now()
                admitted = replace(admitted, now=max(now, admitted.now))
            return await self._make(admitted, known, ground, charges, first=first)

    async def _make(
        self,
        admitted: Admitted,
        known: Known,
        ground: Ground,
        charges: tuple[Charge, ...],
        *,
        first: bool,
    ) -> Running | Result | Lost:
        draft = Draft(admitted.tenant, ground.record.transaction_id)
        waiting = await self._gate(admitted, known, ground, draft)
        if waiting is not None:
            return waiting
        carrier = self._carrier(admitted, ground)
        attempt = self._attempt(admitted, ground, carrier.capability)
        record = _claimed_record(admitted, ground, attempt)
        action = self._claimed_action(admitted, known, ground, draft)
        self._take_slot(admitted, ground, record, draft)
        draft.put(record, Due(after_ms=attempt.lease_ms))
        if ground.not_after is not None:
            draft.before(ground.not_after)
        actor = admitted.requester
        draft.step(record_step(_STARTED[admitted.mode], record, actor, admitted.now))
        tail = await self._tail(admitted, known, ground, first=first)
        written = await self._write(draft, charges, admitted, tail)
        if isinstance(written, Lost):
            return written
        return _running(admitted, ground, record, action, carrier, written)

    async def _write(
        self, draft: Draft, charges: tuple[Charge, ...], admitted: Admitted, tail: Tail | None
    ) -> Written | Lost:
        """Write the claim. Where others only were first to a limit, it is counted anew."""
        environment = self._environment
        for _ in range(COUNTS):
            counted = draft.copy() if charges else draft
            if charges:
                await self._allowances.take(admitted.tenant, charges, counted)
            if environment.policy.revision != admitted.judged_under:
                return JUDGE_AGAIN
            written = await counted.commit(environment.store, None, tail=tail)
            if isinstance(written, Written) or not counted.lost_by(written, LimitUsage):
                return written
            await self._allowances.step_back()
        return written

    def _carrier(self, admitted: Admitted, ground: Ground) -> Carrier:
        """Who carries the attempt out, and with which credential, found before anything is written.

        A look-up goes where the effect went, which may be another capability than the one named.
        """
        serving_id = ground.record.connector_capability_id
        if serving_id == admitted.serving.capability.id:
            return Carrier(admitted.serving, admitted.credential)
        serving = self._environment.registry.get(serving_id)
        credential = self._environment.credential(serving_id, admitted.caller)
        check_credential(serving.capability.credential, credential, admitted.now)
        return Carrier(serving, credential)

    async def _tail(
        self, admitted: Admitted, known: Known, ground: Ground, *, first: bool
    ) -> Tail | None:
        """The chain's end; a new transaction's is taken to be empty until that loses once."""
        if first and known.action is None and ground.event in _CREATING:
            return None
        chain = chain_of(ground.record.transaction_id)
        return await self._environment.store.tail(admitted.tenant, chain)

    def _attempt(self, admitted: Admitted, ground: Ground, capability: Capability) -> Attempt:
        timeout = capability.service_level.timeout_ms
        return Attempt(
            number=ground.record.attempts + 1,
            owner=self._environment.owner,
            fence=self._environment.fence(),
            handler=ground.handler,
            action_id=admitted.action_id,
            started_at=admitted.now,
            timeout_ms=timeout,
            lease_ms=lease_ms(timeout, self._environment.grace_ms),
            redrive=ground.redrive,
        )

    def _claimed_action(
        self, admitted: Admitted, known: Known, ground: Ground, draft: Draft
    ) -> ActionDocument:
        if _shares_document(admitted, known):
            assert known.action is not None
            return known.action
        action = self._acceptance.document(
            admitted,
            known,
            draft,
            transaction_id=ground.record.transaction_id,
            attempted=True,
            result=None,
            settled_at=None,
        )
        draft.put(action)
        return action

    def _take_slot(
        self, admitted: Admitted, ground: Ground, record: TransactionRecord, draft: Draft
    ) -> None:
        if ground.target is None:
            return
        holder = SlotHolder(action_id=admitted.action_id, transaction_id=record.transaction_id)
        limit = admitted.registered.capability.compensation.max_compensations
        slots = take_slot(ground.target, ground.slots, holder, limit, admitted.now)
        draft.put(slots)
        if ground.target_record is not None:
            known = ground.target_record
            draft.guard(TransactionRecord, known.transaction_id, known.revision)

    async def _gate(
        self, admitted: Admitted, known: Known, ground: Ground, draft: Draft
    ) -> Result | Lost | None:
        """Pass the approval gate, under the policy of now or else the one that asked before.

        An approval that a plan is bound to, or that this action asked for, is not got rid of by
        sending the request again without it.
        """
        if admitted.request.recovering:
            return None
        request = await self._asked_before(admitted, known)
        policy = admitted.approval
        if policy is None and ground.plan is not None:
            policy = ground.plan.approval_policy
        if policy is None and request is not None:
            policy = request.document.policy
        if policy is None:
            return None
        return await self._pass_approval(admitted, known, ground, policy, request, draft)

    async def _asked_before(
        self, admitted: Admitted, known: Known
    ) -> Stored[ApprovalRequest] | None:
        """The approval request of this very action."""
        action = known.action
        if action is None or action.approval_id is None or _shares_document(admitted, known):
            return None
        found = await self._acceptance.approval(action, action.approval_id)
        if found is None:
            raise coded("approval.not_found")
        return found

    async def _pass_approval(
        self,
        admitted: Admitted,
        known: Known,
        ground: Ground,
        policy: ApprovalPolicy,
        found: Stored[ApprovalRequest] | None,
        draft: Draft,
    ) -> Result | Lost | None:
        """Consume the approval in the claim's draft, or ask for one and wait."""
        plan_digest = ground.plan.digest if ground.plan else None
        bound = action_hash(_bound_intent(admitted, ground), plan_digest)
        if known.action is None or found is None:
            return await self._ask(admitted, known, ground, policy, bound)
        request, now = found.document, max(admitted.now, found.read_at)
        if request.status is ApprovalStatus.PENDING and now < request.expires_at:
            return project(known.action, _existing(ground), waiting=True, replayed=True)
        draft.before(request.expires_at)
        if request.status is ApprovalStatus.CONSUMED and ground.event is Event.EXECUTION_REOPENED:
            check_consumed(request, bound, policy, now)
            draft.guard(ApprovalRequest, request.approval_id, request.revision)
            return None
        used = consume(request, bound, policy, now)
        await check_standing(self._environment, request, admitted.caller, now, draft)
        draft.replace(used)
        return None

    async def _ask(
        self,
        admitted: Admitted,
        known: Known,
        ground: Ground,
        policy: ApprovalPolicy,
        bound: str,
    ) -> Result | Lost:
        """Insert the approval request and the action that waits for it; the plan stays as it is."""
        draft = Draft(admitted.tenant, ground.record.transaction_id)
        waits = GateVerdict(gate="approval", answer="needs_human", code="approval.required")
        approval_id = ApprovalId(self._environment.ids(APPROVAL_PREFIX))
        action = self._acceptance.document(
            admitted,
            known,
            draft,
            waits,
            transaction_id=ground.record.transaction_id,
            context=admitted.context,
            approval_id=approval_id,
        )
        request = _approval_request(admitted, ground, policy, bound, approval_id, action)
        draft.put(action)
        draft.insert(request, Due(at=request.expires_at))
        actor = admitted.requester
        draft.step(approval_step(ReceiptType.APPROVAL_REQUESTED, request, actor, admitted.now))
        tail = await self._environment.store.tail(
            admitted.tenant, chain_of(ground.record.transaction_id)
        )
        environment = self._environment
        written = await draft.commit(environment.store, environment.signer, tail=tail)
        if isinstance(written, Lost):
            return written
        return project(action, _existing(ground), waiting=True)


_CREATING = frozenset(
    {Event.EXECUTION_PREPARED, Event.DIRECT_COMMIT_CLAIMED, Event.COMPENSATION_CLAIMED}
)


def _existing(ground: Ground) -> TransactionRecord | None:
    return None if ground.event in _CREATING else ground.record


def _shares_document(admitted: Admitted, known: Known) -> bool:
    """A reconciliation under its target's action id keeps its result in the target's document."""
    return (
        admitted.mode is Mode.RECONCILE
        and known.action is not None
        and known.action.mode is not Mode.RECONCILE
    )


def _bound_intent(admitted: Admitted, ground: Ground) -> Intent:
    return replace(admitted.intent, transaction_id=ground.record.transaction_id)


def _claimed_record(admitted: Admitted, ground: Ground, attempt: Attempt) -> TransactionRecord:
    looks_only = ground.event is Event.RECONCILIATION_STARTED and not ground.redrive
    changes: dict[str, object] = {
        "attempt": attempt,
        "attempts": attempt.number,
        "effect_attempts": ground.record.effect_attempts + (0 if looks_only else 1),
        "first_attempt_at": ground.record.first_attempt_at or admitted.now,
    }
    match ground.event:
        case Event.PLAN_CLAIMED:
            changes |= {
                "action_id": admitted.action_id,
                "mode": Mode.COMMIT,
                "context": admitted.context,
                "idempotency_key": admitted.idempotency_key,
            }
        case Event.EXECUTION_REOPENED:
            changes |= {
                "result": None,
                "error": None,
                "verdict": None,
                "declared_not_applied": False,
                "settled_at": None,
            }
        case Event.RECONCILIATION_STARTED:
            changes["reconcile_attempts"] = ground.record.reconcile_attempts + 1
        case _:
            pass
    if ground.event in _CREATING:
        return begin(ground.event, ground.record, **changes)
    return move(ground.event, ground.record, admitted.now, **changes)


def _running(
    admitted: Admitted,
    ground: Ground,
    record: TransactionRecord,
    action: ActionDocument,
    carrier: Carrier,
    written: Written,
) -> Running:
    attempt, settles = record.attempt, ground.settles
    assert attempt is not None
    if settles is not None and settles.action_id == action.action_id:
        settles = None
    return Running(
        call=_call(admitted, ground, record, attempt, carrier),
        serving=carrier.serving,
        record=record,
        action=action,
        settles=settles,
        tail=written.tail,
        actor=admitted.requester,
        started_at=written.at,
        lease_end=after_ms(written.at, attempt.lease_ms),
    )


def _call(
    admitted: Admitted,
    ground: Ground,
    record: TransactionRecord,
    attempt: Attempt,
    carrier: Carrier,
) -> Call:
    return Call(
        handler=attempt.handler,
        capability=carrier.capability,
        tenant=record.tenant,
        principal=admitted.requester,
        identity=admitted.caller.identity,
        transaction_id=record.transaction_id,
        action_id=record.action_id,
        number=attempt.number,
        fence=attempt.fence,
        input=ground.input,
        deadline=after_ms(admitted.now, attempt.timeout_ms),
        deadline_in_ms=attempt.timeout_ms,
        provider_key=record.provider_key,
        provider_operation=record.provider_operation,
        cursor=record.cursor,
        original=ground.original,
        credential=carrier.credential,
        redrive=attempt.redrive,
        intent_digest=intent_digest(record),
        recovering=admitted.request.recovering,
    )


def _approval_request(
    admitted: Admitted,
    ground: Ground,
    policy: ApprovalPolicy,
    bound: str,
    approval_id: ApprovalId,
    action: ActionDocument,
) -> ApprovalRequest:
    now: datetime = admitted.now
    return ApprovalRequest(
        tenant=admitted.tenant,
        revision=1,
        created_at=now,
        updated_at=now,
        approval_id=approval_id,
        action_id=admitted.action_id,
        transaction_id=ground.record.transaction_id,
        capability_id=admitted.registered.capability.id,
        mode=admitted.mode,
        risk=admitted.serving.capability.risk,
        plan_id=admitted.context.plan_id,
        plan_digest=ground.plan.digest if ground.plan else None,
        compensation_for=admitted.context.compensation_for,
        action_hash=bound,
        input_hash=admitted.input_hash,
        input=action.input,
        requester=admitted.requester,
        requester_names=names_of(admitted.caller.principal, admitted.caller.identity),
        identity=admitted.caller.identity,
        policy=policy,
        policy_hash=policy_hash(policy),
        status=ApprovalStatus.PENDING,
        expires_at=after_ms(now, policy.ttl_ms),
    )
