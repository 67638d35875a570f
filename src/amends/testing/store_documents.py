"""Documents to fill a store with: the least of each type that is still whole, made to be varied.

Ids are made of a prefix and a name, so that a test can say which document it means. Receipts are
genuine links, sealed without a key.

Deliberately not here: whether such documents could come about; stores hold no rule.
"""

from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from amends.contracts.actions import TransactionContext
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import (
    CompensationContract,
    DataContract,
    IdempotencyContract,
    ServiceLevelContract,
)
from amends.contracts.delegations import Delegation
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Correction,
    Document,
    Evidence,
    GateVerdict,
    InputSnapshot,
    LegalHold,
    LimitUsage,
    LogCheckpoint,
    Refusal,
    Reservation,
    SlotHolder,
    TransactionPlan,
    TransactionRecord,
    UnclaimedEffect,
    Used,
)
from amends.contracts.enums import Fidelity, Mode, PrincipalKind, Risk, SideEffect, Status
from amends.contracts.evidence import ReceiptType, Step, Tail
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    DelegationId,
    Fence,
    PlanId,
    PrincipalId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import JsonText
from amends.contracts.notices import NoticeCursor
from amends.contracts.principals import PrincipalRef
from amends.receipts.chain import chain_of, seal
from amends.stores.port import AnyDocument, Append
from amends.testing.clock import START

D = TypeVar("D", bound=Document)

TENANT: Final = TenantId("acme")
OTHER_TENANT: Final = TenantId("globex")
ALICE: Final = PrincipalRef(PrincipalId("alice"), PrincipalKind.USER)
CHARGE: Final = CapabilityId("payments.charge")
HASH: Final = "ab" * 32


def a_transaction(
    name: str = "1",
    *,
    tenant: TenantId = TENANT,
    at: datetime = START,
    status: Status = Status.PLANNED,
    plan: TransactionPlan | None = None,
) -> TransactionRecord:
    """A transaction record `txn_<name>` at revision 1."""
    transaction = TransactionId(f"txn_{name}")
    return TransactionRecord(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        transaction_id=transaction,
        action_id=ActionId(f"act_{name}"),
        capability_id=CHARGE,
        connector_capability_id=CHARGE,
        mode=Mode.PLAN,
        context=TransactionContext(mode=Mode.PLAN, transaction_id=transaction),
        principal=ALICE,
        identity=None,
        status=status,
        input_hash=HASH,
        provider_key=HASH,
        plan=plan,
    )


def a_plan(name: str = "1", *, at: datetime = START) -> TransactionPlan:
    """A plan `plan:<name>`."""
    return TransactionPlan(
        plan_id=PlanId(f"plan:{name}"),
        transaction_id=TransactionId(f"txn_{name}"),
        action_id=ActionId(f"act_{name}"),
        capability_id=CHARGE,
        requester=ALICE,
        input_hash=HASH,
        snapshot=InputSnapshot(redacted=True, input_hash=HASH),
        side_effects=(SideEffect.FINANCIAL,),
        approval_required=True,
        approval_policy=ApprovalPolicy(),
        compensation=CompensationContract(),
        fidelity=Fidelity.POLICY_AND_SCHEMA,
        identity=None,
        created_at=at,
        expires_at=at,
        requires_plan_before_commit=True,
        data=DataContract(),
        idempotency=IdempotencyContract(),
        service_level=ServiceLevelContract(),
        governance_digest=HASH,
        digest=HASH,
    )


def an_action(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> ActionDocument:
    """An action document `act_<name>` of `txn_<name>`, with an input that is hard to keep."""
    transaction = TransactionId(f"txn_{name}")
    return ActionDocument(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        action_id=ActionId(f"act_{name}"),
        transaction_id=transaction,
        mode=Mode.PLAN,
        capability_id=CHARGE,
        context=TransactionContext(mode=Mode.PLAN, transaction_id=transaction),
        principal=ALICE,
        scopes=("*",),
        asserted=True,
        identity=None,
        input_hash=HASH,
        input=JsonText('{"amount":500,"note":"\\u0000 “é” 😀  \\\\"}'),
        metadata={"deep": {"list": [1, 2.5, None, True]}, "text": "\x00\ud7ff\ue000"},
    )


def an_approval(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> ApprovalRequest:
    """A pending approval request `apr_<name>` for `act_<name>`."""
    return ApprovalRequest(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        approval_id=ApprovalId(f"apr_{name}"),
        action_id=ActionId(f"act_{name}"),
        transaction_id=TransactionId(f"txn_{name}"),
        capability_id=CHARGE,
        mode=Mode.COMMIT,
        risk=Risk.HIGH,
        plan_id=PlanId(f"plan:{name}"),
        plan_digest=HASH,
        compensation_for=None,
        action_hash=HASH,
        input_hash=HASH,
        input=JsonText("{}"),
        requester=ALICE,
        identity=None,
        policy=ApprovalPolicy(),
        policy_hash=HASH,
        status=ApprovalStatus.PENDING,
        expires_at=at,
    )


def a_reservation(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> Reservation:
    """A reservation `res_<name>` that points at `act_<name>`."""
    return Reservation(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        reservation_id=f"res_{name}",
        action_id=ActionId(f"act_{name}"),
        fingerprint=HASH,
        fence=Fence("fen_1"),
    )


def some_slots(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> CompensationSlots:
    """The slots of `txn_<name>`, with one holder."""
    holder = SlotHolder(action_id=ActionId("act_c"), transaction_id=TransactionId("txn_c"))
    return CompensationSlots(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        transaction_id=TransactionId(f"txn_{name}"),
        target=ActionId(f"act_{name}"),
        limit=1,
        holders=(holder,),
    )


def a_refusal(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> Refusal:
    """A refusal `ref_<name>`."""
    return Refusal(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        refusal_id=f"ref_{name}",
        action_id=None,
        capability_id=CHARGE,
        mode=Mode.EXECUTE,
        principal=ALICE,
        code="policy.denied",
        verdicts=(GateVerdict(gate="policy", answer="deny", code="policy.denied"),),
    )


def a_correction(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> Correction:
    """A correction `cor_<name>` of `txn_<name>`."""
    return Correction(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        correction_id=f"cor_{name}",
        transaction_id=TransactionId(f"txn_{name}"),
        target=ActionId(f"act_{name}"),
        evidence=Evidence(kind="late_answer", at=at, fence=Fence("fen_1"), code="late"),
    )


def an_unclaimed_effect(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> UnclaimedEffect:
    """An effect `eff_<name>` that no record claims."""
    return UnclaimedEffect(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        effect_id=f"eff_{name}",
        provider="stripe",
        event_id=f"evt_{name}",
        certainty="confirmed",
        reported_by=ALICE,
    )


def a_log_checkpoint(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> LogCheckpoint:
    """A checkpoint `ckp_<name>` of a log with one receipt."""
    return LogCheckpoint(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        checkpoint_id=f"ckp_{name}",
        lineage="lineage",
        size=1,
        position=1,
        parts=(HASH,),
        note="a note",
    )


def a_delegation(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> Delegation:
    """A delegation `del_<name>` by Alice."""
    return Delegation(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        delegation_id=DelegationId(f"del_{name}"),
        delegator=ALICE,
        delegator_names=("alice",),
        roles=("treasurer",),
        delegate=PrincipalRef(PrincipalId("bob"), PrincipalKind.USER),
        capabilities=("*",),
        max_risk=Risk.MEDIUM,
        starts_at=at,
        ends_at=at + timedelta(days=1),
        made_by=ALICE,
    )


def a_cursor(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> NoticeCursor:
    """How far the channel `<name>` has come."""
    return NoticeCursor(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        cursor_id=f"notices:{name}",
        channel=name,
        position=7,
    )


def a_usage(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> LimitUsage:
    """What was taken of a limit, `use_<name>`."""
    return LimitUsage(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        usage_id=f"use_{name}",
        rule="small-charges",
        subject="principal:alice",
        spans=(Used(1_000, 2_000, "12.50"),),
    )


def a_hold(name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START) -> LegalHold:
    """A hold on `txn_<name>`."""
    return LegalHold(
        tenant=tenant,
        revision=1,
        created_at=at,
        updated_at=at,
        transaction_id=TransactionId(f"txn_{name}"),
        capability_id=CHARGE,
        placed=True,
        reason="case 7",
        by=ALICE,
        at=at,
    )


def one_of_each(
    name: str = "1", *, tenant: TenantId = TENANT, at: datetime = START
) -> tuple[AnyDocument, ...]:
    """A new document of every type."""
    return (
        a_transaction(name, tenant=tenant, at=at, plan=a_plan(name, at=at)),
        an_action(name, tenant=tenant, at=at),
        an_approval(name, tenant=tenant, at=at),
        a_reservation(name, tenant=tenant, at=at),
        some_slots(name, tenant=tenant, at=at),
        a_refusal(name, tenant=tenant, at=at),
        a_correction(name, tenant=tenant, at=at),
        an_unclaimed_effect(name, tenant=tenant, at=at),
        a_log_checkpoint(name, tenant=tenant, at=at),
        a_delegation(name, tenant=tenant, at=at),
        a_cursor(name, tenant=tenant, at=at),
        a_usage(name, tenant=tenant, at=at),
        a_hold(name, tenant=tenant, at=at),
    )


def changed(document: D, **fields: object) -> D:
    """The document's next revision."""
    return msgspec.structs.replace(document, revision=document.revision + 1, **fields)


def links(
    count: int = 1,
    *,
    name: str = "1",
    tenant: TenantId = TENANT,
    tail: Tail | None = None,
    code: str | None = None,
) -> Append:
    """The next receipts of the chain of `txn_<name>`; another `code` makes other hashes."""
    step = Step(
        type=ReceiptType.PLANNED,
        tenant=tenant,
        transaction_id=TransactionId(f"txn_{name}"),
        at=START.replace(microsecond=123_456),
        actor=ALICE,
        code=code,
        hashes={"input": HASH},
    )
    receipts = seal(tail, [step] * count, signer=None)
    return Append(tenant, chain_of(step.transaction_id), tail.number if tail else 0, receipts)


def tail_of(append: Append) -> Tail:
    """Where the chain ends once this is appended."""
    last = append.receipts[-1]
    return Tail(last.number, last.hash)


def chain_named(name: str) -> str:
    """The chain of `txn_<name>`."""
    return chain_of(TransactionId(f"txn_{name}"))
