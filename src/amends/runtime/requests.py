"""A request on its way through the pipeline: as it came, and as it was admitted."""

from datetime import datetime

import msgspec

from amends.contracts.actions import Action, TransactionContext
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.documents import GateVerdict, RequestInfo
from amends.contracts.enums import Mode
from amends.contracts.ids import ActionId, TenantId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import Caller, PrincipalRef
from amends.contracts.secrets import Credential
from amends.governance.policy import PolicyDecision
from amends.runtime.registry import Registered
from amends.transactions.hashing import Intent, governance_digest
from amends.transactions.replay import AskedAgain


class Request(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An action with what authentication established about its sender.

    `insist` lets an operator reconcile before the time; `recovering` marks the scheduler's own.
    """

    action: Action
    caller: Caller
    info: RequestInfo | None = None
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None
    insist: bool = False
    recovering: bool = False


class Admitted(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request that passed every gate before acceptance.

    `context.transaction_id` is set, chosen or made up; `chosen` keeps the caller's own choice.
    `serving` carries the action out: in a compensation it may be another capability than the
    `registered` one that governs. `canonical` are the bytes that everything derives from.
    `idempotency_key` is the request's, or the one that the action was accepted with before.
    `judged_under` is the policy's revision when it was asked for the `decision`. `mode`, `caller`,
    `tenant` and `requester` are the request's own, laid out because every step reads them.
    """

    request: Request
    mode: Mode
    caller: Caller
    tenant: TenantId
    requester: PrincipalRef
    registered: Registered
    serving: Registered
    action_id: ActionId
    context: TransactionContext
    chosen: TransactionId | None
    input: Json
    canonical: bytes
    input_hash: str
    idempotency_key: str | None
    metadata: dict[str, Json]
    info: RequestInfo | None
    decision: PolicyDecision
    judged_under: str
    credential: Credential | None
    verdicts: tuple[GateVerdict, ...]
    now: datetime

    @property
    def transaction_id(self) -> TransactionId:
        """The transaction of this action."""
        assert self.context.transaction_id is not None
        return self.context.transaction_id

    @property
    def approval(self) -> ApprovalPolicy | None:
        """The approval that the policy requires."""
        return self.decision.approval

    @property
    def governance_digest(self) -> str:
        """Digest of all that governs this request beyond its input."""
        revision = self.decision.revision
        return governance_digest(self.registered.digest, revision, self.caller.identity)

    @property
    def asked(self) -> AskedAgain:
        """The request as replay gates compare it: ids that the caller left out stay out."""
        return AskedAgain(
            action_id=self.action_id,
            capability_id=self.registered.capability.id,
            context=self.request.action.transaction,
            principal=self.requester,
            identity=self.caller.identity,
            input_hash=self.input_hash,
            idempotency_key=self.request.action.idempotency_key,
        )

    @property
    def intent(self) -> Intent:
        """Exactly what would run."""
        return Intent(
            tenant=self.tenant,
            action_id=self.action_id,
            transaction_id=self.transaction_id,
            capability_id=self.registered.capability.id,
            mode=self.mode,
            plan_id=self.context.plan_id,
            compensation_for=self.context.compensation_for,
            requester=self.requester,
            identity=self.caller.identity,
            input_hash=self.input_hash,
        )
