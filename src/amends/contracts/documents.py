"""The durable documents of one action and its transaction.

Every document belongs to a tenant and carries a revision that only grows. Documents are values:
rules make a new one, and compare-and-set on the revision moves it into the store.
"""

from datetime import datetime
from typing import Final

import msgspec

from amends.contracts.actions import ActionResult, TransactionContext
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    CompensationContract,
    DataContract,
    IdempotencyContract,
    ServiceLevelContract,
)
from amends.contracts.enums import Fidelity, Freeze, Handler, Mode, SideEffect, Status, Verdict
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    Fence,
    PlanId,
    TenantId,
    TransactionId,
)
from amends.contracts.json_types import Json, JsonText
from amends.contracts.outcomes import ErrorInfo, ProviderOperation
from amends.contracts.principals import Identity, PrincipalRef

STORE_TENANT: Final = TenantId("*")
"""Whose documents are that belong to the whole store; no tenant can be called so."""


class Document(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What all stored documents share; fields at their default are not written.

    A new one has revision 1; each change adds exactly one. `forgotten_at` says when retention
    replaced what people and providers had written in it.
    """

    tenant: TenantId
    revision: int
    created_at: datetime
    updated_at: datetime
    forgotten_at: datetime | None = None


class InputSnapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The input a plan was made for: the hash, and the canonical bytes unless redacted."""

    redacted: bool
    input_hash: str
    input: JsonText | None = None


class TransactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit must match. Immutable; it stays readable after use and after expiry.

    `freeze` is what a rule froze, beyond the capability's own declaration.
    """

    plan_id: PlanId
    transaction_id: TransactionId
    action_id: ActionId
    capability_id: CapabilityId
    requester: PrincipalRef
    input_hash: str
    snapshot: InputSnapshot
    side_effects: tuple[SideEffect, ...]
    approval_required: bool
    approval_policy: ApprovalPolicy | None
    compensation: CompensationContract
    fidelity: Fidelity
    identity: Identity | None
    created_at: datetime
    expires_at: datetime
    requires_plan_before_commit: bool
    data: DataContract
    idempotency: IdempotencyContract
    service_level: ServiceLevelContract
    validation: ActionResult | None = None
    governance_digest: str
    digest: str
    warnings: tuple[str, ...] = ()
    freeze: Freeze = Freeze.NOTHING


class Attempt(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The licence for one call of a connector, written before the call.

    `fence` is new each time. The lease runs `lease_ms` from the store's time of the write; while
    the attempt lives its end is the document's due time, and `lease_ended_at` keeps it afterwards.
    """

    number: int
    owner: str
    fence: Fence
    handler: Handler
    action_id: ActionId
    started_at: datetime
    timeout_ms: int
    lease_ms: int
    redrive: bool = False
    lease_ended_at: datetime | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something learnt about the effect: of which attempt (`fence`), from which event."""

    kind: str
    at: datetime
    fence: Fence | None = None
    event: str | None = None
    code: str | None = None
    operation: ProviderOperation | None = None


class OperatorRuling(msgspec.Struct, frozen=True, kw_only=True):
    """An unknown outcome settled by hand: what was found, by whom, on which evidence."""

    verdict: Verdict
    reference: str
    note: str
    by: PrincipalRef
    at: datetime
    risk_accepted: bool = False


class TransactionRecord(Document, frozen=True, kw_only=True):
    """The durable coordination record around one or more attempts.

    `action_id` is the action that owns the record now: after a claim the committing one, while
    the planning one stays in the plan. `settled_at` never moves once set. `attention` is a code
    that says why a person is needed. `cursor` is the connector's own.
    """

    transaction_id: TransactionId
    action_id: ActionId
    capability_id: CapabilityId
    connector_capability_id: CapabilityId
    mode: Mode
    context: TransactionContext
    principal: PrincipalRef
    identity: Identity | None
    status: Status
    input_hash: str
    provider_key: str
    plan: TransactionPlan | None = None
    result: ActionResult | None = None
    verdict: Verdict | None = None
    declared_not_applied: bool = False
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None
    reconcile_after: datetime | None = None
    reconcile_attempts: int = 0
    negative_lookup_at: datetime | None = None
    voided: bool = False
    error: ErrorInfo | None = None
    idempotency_key: str | None = None
    attempt: Attempt | None = None
    attempts: int = 0
    effect_attempts: int = 0
    first_attempt_at: datetime | None = None
    last_effect_lease_end: datetime | None = None
    settled_at: datetime | None = None
    attention: str | None = None
    frozen: str | None = None
    ruling: OperatorRuling | None = None
    evidence: tuple[Evidence, ...] = ()


class GateVerdict(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One gate's answer, kept in order so that "why was this refused" can be shown."""

    gate: str
    answer: str
    code: str | None = None
    reason: str = ""
    rules: tuple[str, ...] = ()


class ReservationRef(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which idempotency reservation an action holds, under which fence."""

    reservation_id: str
    fence: Fence


class Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for cancelling, and when. It decides before the claim only."""

    by: PrincipalRef
    at: datetime
    reason: str = ""


class ActionDocument(Document, frozen=True, kw_only=True):
    """One accepted action: what was asked, what the gates said, how it ended.

    `input` is the admitted canonical JSON, absent when the capability requires redaction.
    `approval_requested` keeps the caller's own wish for a second pair of eyes. `attempted` says
    that a claim was made for it at least once. `reconcile_result` is kept apart for a
    reconciliation that came under this same action id.
    """

    action_id: ActionId
    transaction_id: TransactionId
    mode: Mode
    capability_id: CapabilityId
    context: TransactionContext
    principal: PrincipalRef
    scopes: tuple[str, ...]
    asserted: bool
    identity: Identity | None
    input_hash: str
    input: JsonText | None = None
    idempotency_key: str | None = None
    approval_requested: bool = False
    reservation: ReservationRef | None = None
    verdicts: tuple[GateVerdict, ...] = ()
    approval_id: ApprovalId | None = None
    attempted: bool = False
    cancellation: Cancellation | None = None
    result: ActionResult | None = None
    reconcile_result: ActionResult | None = None
    settled_at: datetime | None = None
    requested: "RequestInfo | None" = None
    metadata: dict[str, Json] = {}


class RequestInfo(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the first-class wrapper adds to its action."""

    reason: str | None = None
    metadata: dict[str, Json] = {}


class Reservation(Document, frozen=True, kw_only=True):
    """One scoped idempotency key and the action it points at.

    Whether it is in progress, settled or free is read from that action, so the two can never
    disagree.
    """

    reservation_id: str
    action_id: ActionId
    fingerprint: str
    fence: Fence
    ttl_ms: int | None = None


class SlotHolder(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A compensation that occupies one slot of its target.

    `ended`: it came to nothing and keeps the slot for good, since a worker has its one intent.
    """

    action_id: ActionId
    transaction_id: TransactionId
    ended: bool = False


class CompensationSlots(Document, frozen=True, kw_only=True):
    """The compensations of one target; every compensation claim compares and sets it.

    It is kept per target *transaction*, since the planning and the committing action of one
    transaction name the same effect. `frozen` names why no compensation may begin until an
    operator rules.
    """

    transaction_id: TransactionId
    target: ActionId
    limit: int
    holders: tuple[SlotHolder, ...] = ()
    frozen: str | None = None


class Used(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a limit claims took within one span of time, in milliseconds since 1970.

    All of it counts as taken at the span's end. `amount` is an exact decimal.
    """

    from_ms: int
    until_ms: int
    amount: str


class LimitUsage(Document, frozen=True, kw_only=True):
    """What was taken lately of one limit of a rule by one subject; every such claim compares it.

    `usage_id` is made of the limit and the subject, so that a limit that was changed in its terms
    counts anew.
    """

    usage_id: str
    rule: str
    subject: str
    spans: tuple[Used, ...] = ()


class Refusal(Document, frozen=True, kw_only=True):
    """A request that was refused before acceptance: no input, and its action id stays free."""

    refusal_id: str
    action_id: ActionId | None
    capability_id: str | None
    mode: Mode | None
    principal: PrincipalRef
    code: str
    verdicts: tuple[GateVerdict, ...]


class UnclaimedEffect(Document, frozen=True, kw_only=True):
    """An effect that a provider reported and no record claims: a tombstone for a person to look at.

    `effect_id` is made of provider and event, so that the same event is kept once.
    """

    effect_id: str
    provider: str
    event_id: str
    certainty: str
    provider_key: str | None = None
    operation: ProviderOperation | None = None
    code: str | None = None
    reported_by: PrincipalRef


class Correction(Document, frozen=True, kw_only=True):
    """Evidence that contradicts a terminal record; the record itself does not change.

    Until every correction of a target was ruled on and allows it, nothing offsets that target.
    """

    correction_id: str
    transaction_id: TransactionId
    target: ActionId
    evidence: Evidence
    ruled_by: PrincipalRef | None = None
    ruling: str | None = None
    allows_compensation: bool = False


class LogCheckpoint(Document, frozen=True, kw_only=True):
    """What a store's log was when somebody looked: a signed root over its first receipts (RC-3).

    It is of the store and of no tenant. `position` is the place in the feed of the last receipt in
    it, `parts` are what a tree needs to grow on (in hex), and `note` is what is handed out.
    """

    checkpoint_id: str
    lineage: str
    size: int
    position: int
    parts: tuple[str, ...]
    note: str


class LegalHold(Document, frozen=True, kw_only=True):
    """What keeps a transaction from being forgotten, whatever its capability declares.

    There is one for each transaction that was ever held; it is placed again where it was lifted.
    Retention compares it, so that of a hold and a forgetting that race exactly one is first.
    """

    transaction_id: TransactionId
    capability_id: CapabilityId
    placed: bool
    reason: str
    by: PrincipalRef
    at: datetime
