"""Recording operations, licensing their dispatch, and what is reported of them (HL-1, HL-4).

Recording comes before sending: the host persists the ledger that `record_operation` returns, and
`request_operation` asks for the receipt. Whatever is refused leaves the ledger as it was, since a
ledger never changes in place.

Deliberately not here: frames, sending, and when to look an operation up.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.persistence import PersistReceipt, content_digest
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_identity import host_input_fingerprint, operation_key
from amends.contracts.worker_messages import (
    LedgerHead,
    OperationAnswer,
    OperationRequest,
    ReconciliationRequest,
)
from amends.contracts.worker_payload import ToolPayload
from amends.ledger.answers import check_operation_answer
from amends.ledger.document import check_room, encode_ledger
from amends.ledger.plans import WorkflowPlan, check_plan
from amends.ledger.records import (
    MAX_OPERATIONS,
    Ledger,
    LedgerOperation,
    LedgerState,
    find_operation,
    require_operation,
    with_operation,
)
from amends.ledger.table import check_follows

HEADS_SINCE: Final = 6
"""The protocol version from which requests carry the ledger's head (FR-5)."""


class OperationIntent(msgspec.Struct, frozen=True, kw_only=True):
    """What a step wants done. The nonce is the host's own, durable, 1 to 128 bytes."""

    step_id: str
    tool: str
    payload: ToolPayload
    nonce: bytes

    def __repr__(self) -> str:
        return f"OperationIntent(step_id={self.step_id!r}, tool={self.tool!r})"


class Recorded(NamedTuple):
    """A ledger to be persisted, and the key under which the entry stands in it."""

    ledger: Ledger
    key: str


class Envoy(NamedTuple):
    """In which session, under which version, and as which request something is asked."""

    protocol_version: int
    session_id: str
    request_id: str


def record_operation(ledger: Ledger, plan: WorkflowPlan, intent: OperationIntent) -> Recorded:
    """The ledger with this operation, pending. The same intent again changes nothing.

    Raises `Refused`: `ledger.plan_mismatch`, `ledger.step_unknown`, `ledger.full`, and what the
    derivation of the key refuses.
    """
    check_plan(ledger, plan)
    if not plan.has_step(intent.step_id):
        raise coded("ledger.step_unknown")
    canonical = intent.payload.canonical
    key = operation_key(
        plan=plan.fingerprint,
        step_id=intent.step_id,
        tool=intent.tool,
        canonical=canonical,
        nonce=intent.nonce,
    )
    if find_operation(ledger, key) is not None:
        return Recorded(ledger, key)
    operation = LedgerOperation(
        step_id=intent.step_id,
        tool=intent.tool,
        operation_key=key,
        input_fingerprint=host_input_fingerprint(canonical),
    )
    return Recorded(_grown(ledger, operation), key)


def request_operation(
    ledger: Ledger,
    operation_key: str,
    payload: ToolPayload,
    receipt: PersistReceipt,
    envoy: Envoy,
) -> OperationRequest:
    """The request that offers a recorded operation to a worker; it may be offered again.

    Raises `Refused`: `ledger.operation_unknown`, `ledger.input_differs`, `permit.not_persisted`
    unless the receipt is for exactly this ledger, `permit.terminal`.
    """
    operation = require_operation(ledger, operation_key)
    if operation.input_fingerprint != host_input_fingerprint(payload.canonical):
        raise coded("ledger.input_differs")
    if operation.state not in (LedgerState.PENDING, LedgerState.RUNNING):
        raise coded("permit.terminal")
    return OperationRequest(
        protocol_version=envoy.protocol_version,
        session_id=envoy.session_id,
        request_id=envoy.request_id,
        tool=operation.tool,
        operation_key=operation.operation_key,
        payload=payload,
        head=head_of(ledger, receipt, envoy.protocol_version),
    )


def head_of(ledger: Ledger, receipt: PersistReceipt, protocol_version: int) -> LedgerHead | None:
    """Where this ledger stands durably; None for versions that carry no head.

    Raises `Refused` (`permit.not_persisted`).
    """
    digest = content_digest(encode_ledger(ledger))
    if receipt.digest != digest:
        raise coded("permit.not_persisted")
    if protocol_version < HEADS_SINCE:
        return None
    return LedgerHead(receipt.fence, ledger.revision, digest)


def observe_operation(ledger: Ledger, operation_key: str, state: LedgerState) -> Ledger:
    """The ledger after a state was reported; the same ledger if that was known.

    Raises `Refused` (`ledger.operation_unknown`), `Conflict` (`ledger.transition_refused`).
    """
    operation = require_operation(ledger, operation_key)
    check_follows(operation.state, state)
    if operation.state is state:
        return ledger
    return with_operation(ledger, replace(operation, state=state))


def apply_operation(
    ledger: Ledger,
    sent: OperationRequest | ReconciliationRequest,
    answer: OperationAnswer,
    grant: CapabilityGrant,
) -> Ledger:
    """The ledger after a worker's answer to an offer or a look-up; persist it before anything else.

    Raises `PeerViolation` as `check_operation_answer`, and as `observe_operation`.
    """
    state = check_operation_answer(sent, answer, grant)
    return ledger if state is None else observe_operation(ledger, sent.operation_key, state)


def _grown(ledger: Ledger, operation: LedgerOperation) -> Ledger:
    if len(ledger.operations) >= MAX_OPERATIONS:
        raise coded("ledger.full", {"limit": MAX_OPERATIONS})
    grown = replace(
        ledger, revision=ledger.revision + 1, operations=(*ledger.operations, operation)
    )
    check_room(grown)
    return grown
