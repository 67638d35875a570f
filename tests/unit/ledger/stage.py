"""A plan, its ledger and what surrounds them, for the tests of the ledger; no test in here."""

from datetime import UTC, datetime, timedelta
from typing import Final

from amends.contracts.persistence import PersistReceipt, content_digest
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import CompensationRequest
from amends.contracts.worker_payload import ToolPayload
from amends.ledger.compensations import propose_compensation, record_compensation
from amends.ledger.document import encode_ledger
from amends.ledger.operations import OperationIntent, observe_operation, record_operation
from amends.ledger.permits import DispatchPermit, PermitDesk
from amends.ledger.plans import WorkflowPlan, make_plan, open_ledger
from amends.ledger.records import Ledger, LedgerState
from amends.ledger.targets import Stage, Target, Verdicts, question_of

NOW: Final = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
LATER: Final = NOW + timedelta(minutes=5)
SESSION: Final = "worker-1"
SCOPE: Final = "tenant-release"
NONCE: Final = b"release-42:publish:undo:1"

PLAN: Final = make_plan([("publish", "let release = true")])
OTHER_PLAN: Final = make_plan([("publish", "let release = false")])
GRANT: Final = CapabilityGrant.json("release.publish").with_compensation_limit(1)
INPUT: Final = ToolPayload.json({"version": "1.2.3"})
INVERSE: Final = ToolPayload.json({"undo": "release"})
INTENT: Final = OperationIntent(
    step_id="publish", tool=GRANT.tool, payload=INPUT, nonce=b"release-42:publish:1"
)


class Sealer:
    """A session that counts what it sealed."""

    def __init__(self, session_id: str = SESSION, protocol_version: int = 6) -> None:
        self.session_id = session_id
        self.protocol_version = protocol_version
        self.sealed: list[CompensationRequest] = []

    def seal_compensation(self, request: CompensationRequest) -> bytes:
        self.sealed.append(request)
        return b"frame %d" % len(self.sealed)


def ledger_with(state: LedgerState | None = LedgerState.SUCCEEDED) -> tuple[Ledger, str]:
    """A ledger with one operation in this state."""
    ledger, key = record_operation(open_ledger(PLAN), PLAN, INTENT)
    return (ledger if state is None else observe_operation(ledger, key, state)), key


def target_of(
    key: str,
    *,
    plan: WorkflowPlan = PLAN,
    tenant_scope: str = SCOPE,
    grant: CapabilityGrant = GRANT,
    payload: ToolPayload = INVERSE,
) -> Target:
    return Target(
        plan=plan, operation_key=key, tenant_scope=tenant_scope, grant=grant, payload=payload
    )


def intended() -> tuple[Ledger, Target, str]:
    """A ledger with a recorded intent, its target and the compensation key."""
    ledger, key = ledger_with()
    target = target_of(key)
    proposal = propose_compensation(ledger, target, NONCE)
    yes = proposal.question.answered(grant=True, action=True)
    recorded = record_compensation(ledger, proposal, yes)
    return recorded.ledger, target, recorded.key


def receipt_for(ledger: Ledger, *, fence: int = 3) -> PersistReceipt:
    return PersistReceipt(
        namespace="workflow-ledger",
        name="release-42",
        revision=ledger.revision + 1,
        digest=content_digest(encode_ledger(ledger)),
        fence=fence,
    )


def yes(ledger: Ledger, target: Target, stage: Stage) -> Verdicts:
    return question_of(ledger, target, stage).answered(grant=True, action=True)


def permit_for(desk: PermitDesk, ledger: Ledger, target: Target) -> DispatchPermit:
    return desk.issue(
        ledger,
        target,
        yes(ledger, target, Stage.PERMIT),
        receipt_for(ledger),
        session_id=SESSION,
        expires_at=LATER,
    )
