"""Documents with sane defaults, so that a test names only what it is about.

Every builder takes changes by field name. `record_in` gives a record as it stands in one of the
twelve statuses, with everything that a real one would carry there.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from amends.contracts.actions import ActionResult, TransactionContext
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    ExecutionContract,
    TransactionContract,
)
from amends.contracts.documents import (
    ActionDocument,
    Attempt,
    CompensationSlots,
    Reservation,
    SlotHolder,
    TransactionPlan,
    TransactionRecord,
)
from amends.contracts.enums import (
    CompensationMode,
    Handler,
    Mode,
    ResultStatus,
    Risk,
    Status,
    Verdict,
)
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    Fence,
    PlanId,
    PrincipalId,
    ProviderOperationId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import json_text
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.principals import Identity, Principal
from amends.contracts.times import after_ms
from amends.governance.approvals import policy_hash
from amends.transactions.hashing import input_hash
from amends.transactions.planning import PlanFacts, build_plan

NOW: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""When everything here was made, unless a test says otherwise."""

TENANT: Final = TenantId("acme")
CAPABILITY: Final = CapabilityId("payments.charge")
ACTION: Final = ActionId("act_effect")
PLANNING: Final = ActionId("act_planning")
TRANSACTION: Final = TransactionId("txn_1")
PLAN: Final = PlanId("plan:txn_1")
FENCE: Final = Fence("fen_1")
KEY: Final = "order-7"
CANONICAL: Final = b'{"amount":500}'
INPUT_HASH: Final = input_hash(CAPABILITY, CANONICAL)
OPERATION: Final = ProviderOperation("stripe", ProviderOperationId("ch_1"))
OTHER_OPERATION: Final = ProviderOperation("stripe", ProviderOperationId("ch_2"))
ANYBODY: Final = ApprovalPolicy()
"""Whoever the tenant lets approve, but never the requester."""

DECLINED: Final = ErrorInfo(code="card_declined", message="The card was declined.")

ALL_MODES: Final = (
    Mode.EXECUTE,
    Mode.DRY_RUN,
    Mode.PLAN,
    Mode.COMMIT,
    Mode.COMPENSATE,
    Mode.RECONCILE,
)


def principal(name: str = "alice", **changes: object) -> Principal:
    """A user of the tenant who holds every scope but those that are granted by name."""
    return replace(Principal(id=PrincipalId(name), tenant=TENANT), **changes)


def identity(**changes: object) -> Identity:
    """An identity that acts on an external account."""
    return replace(Identity(tenant=TENANT, external_account="acct_1"), **changes)


def capability(**changes: object) -> Capability:
    """A capability that does everything, well declared: plan, commit, look up, compensate."""
    made = Capability(
        id=CAPABILITY,
        input_schema={"type": "object"},
        transaction=TransactionContract(supported_modes=ALL_MODES),
        compensation=CompensationContract(mode=CompensationMode.SUPPORTED),
        execution=ExecutionContract(lookup_by_key=True),
        handlers=(Handler.EXECUTE, Handler.RECONCILE, Handler.COMPENSATE),
    )
    return replace(made, **changes)


def plan(**changes: object) -> TransactionPlan:
    """The plan that `capability` and the defaults here lead to."""
    facts = PlanFacts(
        plan_id=PLAN,
        transaction_id=TRANSACTION,
        action_id=PLANNING,
        requester=principal().ref,
        identity=identity(),
        input_hash=INPUT_HASH,
        input=CANONICAL,
        approval=None,
        governance_digest="governance",
        validation=None,
        now=NOW,
    )
    return replace(build_plan(capability(), facts), **changes)


def attempt(**changes: object) -> Attempt:
    """A first attempt that runs, with a time limit of 30 seconds and a lease of 35."""
    made = Attempt(
        number=1,
        owner="host-1",
        fence=FENCE,
        handler=Handler.EXECUTE,
        action_id=ACTION,
        started_at=NOW,
        timeout_ms=30_000,
        lease_ms=35_000,
    )
    return replace(made, **changes)


def result(status: ResultStatus = ResultStatus.COMPLETED, **changes: object) -> ActionResult:
    """How an action ended; a completed one has an output."""
    done = status is ResultStatus.COMPLETED
    output = json_text(b'{"id":"ch_1"}') if done else None
    made = ActionResult(status=status, output=output, completed_at=NOW)
    return replace(made, **changes)


def record(**changes: object) -> TransactionRecord:
    """The record of an execution that is prepared and has an attempt running."""
    made = TransactionRecord(
        tenant=TENANT,
        revision=3,
        created_at=NOW,
        updated_at=NOW,
        transaction_id=TRANSACTION,
        action_id=ACTION,
        capability_id=CAPABILITY,
        connector_capability_id=CAPABILITY,
        mode=Mode.EXECUTE,
        context=TransactionContext(mode=Mode.EXECUTE, transaction_id=TRANSACTION),
        principal=principal().ref,
        identity=identity(),
        status=Status.PREPARED,
        input_hash=INPUT_HASH,
        provider_key="amends-key",
        idempotency_key=KEY,
        attempt=attempt(),
        attempts=1,
        effect_attempts=1,
        first_attempt_at=NOW,
    )
    return replace(made, **changes)


_COMMIT: Final = TransactionContext(mode=Mode.COMMIT, transaction_id=TRANSACTION, plan_id=PLAN)
_COMPENSATE: Final = TransactionContext(
    mode=Mode.COMPENSATE, transaction_id=TRANSACTION, compensation_for=ActionId("act_target")
)
_NEVER_TRIED: Final[Mapping[str, object]] = MappingProxyType(
    {"attempt": None, "attempts": 0, "effect_attempts": 0, "first_attempt_at": None}
)
_KNOWN: Final[Mapping[str, object]] = MappingProxyType(
    {
        "result": result(),
        "verdict": Verdict.COMMITTED,
        "settled_at": NOW,
        "provider_operation": OPERATION,
        "attempt": attempt(lease_ended_at=after_ms(NOW, 35_000)),
    }
)


def _carried(status: Status) -> dict[str, object]:
    """What a record in this status carries beside the defaults of `record`."""
    match status:
        case Status.DRY_RUN_COMPLETED:
            return {**_NEVER_TRIED, "mode": Mode.DRY_RUN, "result": result(), "settled_at": NOW}
        case Status.PLANNED:
            planned = {"mode": Mode.PLAN, "action_id": PLANNING, "plan": plan()}
            return {**_NEVER_TRIED, **planned, "result": result()}
        case Status.PREPARED:
            return {}
        case Status.COMMITTING:
            return {"mode": Mode.COMMIT, "context": _COMMIT, "plan": plan()}
        case Status.COMMITTED:
            return {**_KNOWN, "mode": Mode.COMMIT, "context": _COMMIT, "plan": plan()}
        case Status.COMPENSATING:
            return {"mode": Mode.COMPENSATE, "context": _COMPENSATE}
        case Status.COMPENSATED:
            return {**_KNOWN, "mode": Mode.COMPENSATE, "context": _COMPENSATE}
        case Status.FAILED:
            failed = result(ResultStatus.FAILED, error=DECLINED)
            return {
                **_KNOWN,
                "result": failed,
                "verdict": Verdict.NOT_COMMITTED,
                "error": DECLINED,
                "provider_operation": None,
            }
        case Status.OUTCOME_UNKNOWN:
            return {
                "attempt": attempt(lease_ended_at=after_ms(NOW, 35_000)),
                "error": ErrorInfo(code="sla.timeout_exceeded"),
                "reconcile_after": after_ms(NOW, 5_000),
                "last_effect_lease_end": after_ms(NOW, 35_000),
            }
        case Status.RECONCILING:
            looking = attempt(number=2, handler=Handler.RECONCILE, fence=Fence("fen_2"))
            return {
                **_carried(Status.OUTCOME_UNKNOWN),
                "attempt": looking,
                "attempts": 2,
                "reconcile_attempts": 1,
            }
        case Status.RECONCILED:
            return {**_KNOWN, "attempts": 2, "reconcile_attempts": 1}
        case Status.ROLLBACK_NOT_SUPPORTED:
            return {
                **_NEVER_TRIED,
                "mode": Mode.ROLLBACK_NOT_SUPPORTED,
                "result": result(ResultStatus.FAILED),
                "verdict": Verdict.NOT_COMMITTED,
                "settled_at": NOW,
            }


def record_in(status: Status, **changes: object) -> TransactionRecord:
    """A record as it stands in this status."""
    return record(**{"status": status, **_carried(status), **changes})


def action(**changes: object) -> ActionDocument:
    """The document of an execution that was accepted and claimed."""
    made = ActionDocument(
        tenant=TENANT,
        revision=2,
        created_at=NOW,
        updated_at=NOW,
        action_id=ACTION,
        transaction_id=TRANSACTION,
        mode=Mode.EXECUTE,
        capability_id=CAPABILITY,
        context=TransactionContext(mode=Mode.EXECUTE, transaction_id=TRANSACTION),
        principal=principal().ref,
        scopes=("*",),
        asserted=False,
        identity=identity(),
        input_hash=INPUT_HASH,
        input=json_text(CANONICAL),
        idempotency_key=KEY,
        attempted=True,
    )
    return replace(made, **changes)


def reservation(**changes: object) -> Reservation:
    """The reservation that `action` holds."""
    made = Reservation(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        reservation_id="reservation",
        action_id=ACTION,
        fingerprint="fingerprint",
        fence=FENCE,
    )
    return replace(made, **changes)


def slots(*holders: str, **changes: object) -> CompensationSlots:
    """The slots of `record`'s effect, held by the compensations of these names."""
    held = tuple(
        SlotHolder(action_id=ActionId(f"act_{one}"), transaction_id=TransactionId(f"txn_{one}"))
        for one in holders
    )
    made = CompensationSlots(
        tenant=TENANT,
        revision=4,
        created_at=NOW,
        updated_at=NOW,
        transaction_id=TRANSACTION,
        target=ACTION,
        limit=1,
        holders=held,
    )
    return replace(made, **changes)


def approval_request(policy: ApprovalPolicy = ANYBODY, **changes: object) -> ApprovalRequest:
    """A request of alice's that waits under this policy."""
    made = ApprovalRequest(
        tenant=TENANT,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
        approval_id=ApprovalId("apr_1"),
        action_id=ACTION,
        transaction_id=TRANSACTION,
        capability_id=CAPABILITY,
        mode=Mode.EXECUTE,
        risk=Risk.MEDIUM,
        plan_id=None,
        plan_digest=None,
        compensation_for=None,
        action_hash="hash",
        input_hash=INPUT_HASH,
        input=json_text(CANONICAL),
        requester=principal().ref,
        identity=identity(),
        policy=policy,
        policy_hash=policy_hash(policy),
        status=ApprovalStatus.PENDING,
        expires_at=after_ms(NOW, policy.ttl_ms),
    )
    return replace(made, **changes)
