"""The one compensation of an operation: recorded once, for ever (HL-2, HL-3, PM-6).

    proposal = propose_compensation(ledger, target, nonce)      # the cheap checks
    verdicts = proposal.question.answered(grant=..., action=...)  # the host asks both verifiers
    ledger, key = record_compensation(ledger, proposal, verdicts)

There is no function that deletes, resets or replaces one, and none that records without verdicts.

Deliberately not here: sending (`permits`).
"""

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import compensation_key, host_input_fingerprint
from amends.contracts.worker_messages import (
    CompensationAnswer,
    CompensationRequest,
    CompensationStateAnswer,
    CompensationStateRequest,
)
from amends.ledger.answers import check_compensation_answer, check_state_answer
from amends.ledger.document import check_room
from amends.ledger.operations import Recorded
from amends.ledger.records import (
    Ledger,
    LedgerCompensation,
    LedgerOperation,
    LedgerState,
    require_operation,
    with_operation,
)
from amends.ledger.table import check_follows
from amends.ledger.targets import (
    Question,
    Stage,
    Target,
    Verdicts,
    check_target,
    check_verdicts,
    make_question,
)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A compensation that could be recorded in the ledger of this revision, if both say yes."""

    question: Question
    revision: int
    grown: Ledger


def propose_compensation(ledger: Ledger, target: Target, nonce: bytes) -> Proposal:
    """Derive the key and check everything that needs no verifier, capacity included.

    The nonce is the host's own, durable, 1 to 128 bytes. Raises `Refused` as `check_target`, as the
    derivation, `ledger.full`, and `ledger.compensation_exists` when the operation has another one.
    """
    operation = check_target(ledger, target)
    grant, canonical = grant_fingerprint(target.grant), target.payload.canonical
    intent = LedgerCompensation(
        compensation_key=compensation_key(
            plan=target.plan.fingerprint,
            operation=operation.operation_key,
            tool=operation.tool,
            tenant_scope=target.tenant_scope,
            grant=grant,
            canonical=canonical,
            nonce=nonce,
        ),
        input_fingerprint=host_input_fingerprint(canonical),
        tenant_scope=target.tenant_scope,
        grant_fingerprint=grant,
        state=LedgerState.PENDING,
    )
    grown = _grown(ledger, operation, intent)
    question = make_question(operation, target, intent.compensation_key, Stage.RECORD)
    return Proposal(question=question, revision=ledger.revision, grown=grown)


def record_compensation(ledger: Ledger, proposal: Proposal, verdicts: Verdicts) -> Recorded:
    """The ledger with the intent, pending; the same ledger if exactly this one is there already.

    Raises `Conflict` (`ledger.changed`) for a ledger that moved since the proposal, and `Refused`
    as `check_verdicts`. Nothing may be sent before what this returns is durable.
    """
    if ledger.revision != proposal.revision:
        raise coded("ledger.changed")
    check_verdicts(proposal.question, verdicts)
    return Recorded(proposal.grown, proposal.question.compensation_key)


def observe_compensation(ledger: Ledger, operation_key: str, state: LedgerState) -> Ledger:
    """The ledger after a state of the compensation was reported; the same one if that was known.

    Only the compensation's state changes. Raises `Refused` (`ledger.operation_unknown`,
    `ledger.compensation_unknown`), `Conflict` (`ledger.transition_refused`).
    """
    operation = require_operation(ledger, operation_key)
    if operation.compensation is None:
        raise coded("ledger.compensation_unknown")
    check_follows(operation.compensation.state, state)
    if operation.compensation.state is state:
        return ledger
    after = replace(operation.compensation, state=state)
    return with_operation(ledger, replace(operation, compensation=after))


def apply_compensation(
    ledger: Ledger, sent: CompensationRequest, answer: CompensationAnswer, grant: CapabilityGrant
) -> Ledger:
    """The ledger after a worker's answer to a sealed request; persist it before anything follows.

    It resumes nothing and retries nothing. Raises `PeerViolation` as `check_compensation_answer`,
    `Refused` (`ledger.compensation_unknown`) when the ledger knows another key, and as
    `observe_compensation`.
    """
    return _applied(ledger, sent, check_compensation_answer(sent, answer, grant))


def apply_compensation_state(
    ledger: Ledger,
    sent: CompensationStateRequest,
    answer: CompensationStateAnswer,
    grant: CapabilityGrant,
) -> Ledger:
    """As `apply_compensation`, after a look-up."""
    return _applied(ledger, sent, check_state_answer(sent, answer, grant))


def _applied(
    ledger: Ledger,
    sent: CompensationRequest | CompensationStateRequest,
    state: LedgerState | None,
) -> Ledger:
    known = require_operation(ledger, sent.operation_key).compensation
    if known is None or known.compensation_key != sent.compensation_key:
        raise coded("ledger.compensation_unknown")
    return ledger if state is None else observe_compensation(ledger, sent.operation_key, state)


def _grown(ledger: Ledger, operation: LedgerOperation, intent: LedgerCompensation) -> Ledger:
    held = operation.compensation
    if held is None:
        grown = with_operation(ledger, replace(operation, compensation=intent))
        check_room(grown)
        return grown
    if replace(held, state=intent.state, superseded=()) != intent:
        raise coded("ledger.compensation_exists")
    return ledger
