"""What a compensation is aimed at, and what the two verifiers are asked about it (PM-1, PM-2).

A `Target` is everything the host has in hand each time: it is never stored. A `Question` is what
the verifiers see, and `Verdicts` answer exactly one question: not another target, and not the same
target at another stage. Nothing is allowed by default.

Deliberately not here: running the verifiers. They resolve current state, so they do IO; the host
runs them, with a time limit, and reads every exception as no.
"""

from enum import StrEnum
from typing import Final

import msgspec
from blake3 import blake3

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import CompensationKey, framed, host_input_fingerprint
from amends.contracts.worker_payload import ToolPayload
from amends.ledger.plans import WorkflowPlan, check_plan
from amends.ledger.records import (
    Ledger,
    LedgerCompensation,
    LedgerOperation,
    LedgerState,
    require_operation,
)

_TAG: Final = b"amends-compensation-question-v1"


class Stage(StrEnum):
    """When the verifiers are asked: each of these times anew."""

    RECORD = "record"
    PERMIT = "permit"
    SEAL = "seal"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, and the exact inverse that is meant for it, under the present policy."""

    plan: WorkflowPlan
    operation_key: str
    tenant_scope: str
    grant: CapabilityGrant
    payload: ToolPayload

    def __repr__(self) -> str:
        return f"Target(operation_key={self.operation_key!r}, tenant_scope={self.tenant_scope!r})"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What both verifiers are asked. The input is theirs to check, and is never printed."""

    stage: Stage
    plan_fingerprint: str
    operation: LedgerOperation
    compensation_key: CompensationKey
    tenant_scope: str
    grant: CapabilityGrant
    payload: ToolPayload

    @property
    def digest(self) -> str:
        """Stands for the whole question."""
        parts = (
            self.stage.encode(),
            self.plan_fingerprint.encode(),
            self.operation.operation_key.encode(),
            self.compensation_key.encode(),
            self.tenant_scope.encode(),
            grant_fingerprint(self.grant).encode(),
            self.payload.canonical,
        )
        return blake3(_TAG + b"".join(map(framed, parts))).hexdigest()

    def answered(self, *, grant: bool, action: bool) -> "Verdicts":
        """The verdicts of the grant verifier and of the action verifier on this question."""
        return Verdicts(self.digest, grant, action)

    def __repr__(self) -> str:
        return f"Question(stage={self.stage.value!r}, compensation_key={self.compensation_key!r})"


class Verdicts(msgspec.Struct, frozen=True):
    """What the two verifiers said about one question; no, unless they said yes."""

    question: str
    grant: bool = False
    action: bool = False


def check_target(ledger: Ledger, target: Target) -> LedgerOperation:
    """The operation of a target that may have a compensation under its grant: the cheap checks.

    Raises `Refused`: `ledger.plan_mismatch`, `ledger.operation_unknown`,
    `ledger.compensation_requires_succeeded`, `ledger.grant_tool_mismatch`,
    `ledger.compensation_not_granted`, `ledger.input_refused`.
    """
    check_plan(ledger, target.plan)
    operation = require_operation(ledger, target.operation_key)
    if operation.state is not LedgerState.SUCCEEDED:
        raise coded("ledger.compensation_requires_succeeded", {"state": operation.state.value})
    if target.grant.tool != operation.tool:
        raise coded("ledger.grant_tool_mismatch")
    if target.grant.max_compensations < 1:
        raise coded("ledger.compensation_not_granted")
    _check_input(target)
    return operation


def check_intent(ledger: Ledger, target: Target) -> LedgerCompensation:
    """The recorded intent that a target is exactly; drift strands it (GR-3).

    Raises as `check_target`, and `Refused`: `ledger.compensation_unknown`,
    `ledger.compensation_drifted` naming the field.
    """
    intent = check_target(ledger, target).compensation
    if intent is None:
        raise coded("ledger.compensation_unknown")
    for field, now in (
        ("input_fingerprint", host_input_fingerprint(target.payload.canonical)),
        ("tenant_scope", target.tenant_scope),
        ("grant_fingerprint", grant_fingerprint(target.grant)),
    ):
        if getattr(intent, field) != now:
            raise coded("ledger.compensation_drifted", {"field": field})
    return intent


def question_of(ledger: Ledger, target: Target, stage: Stage) -> Question:
    """The question about a recorded intent, at this stage. Raises as `check_intent`."""
    key = check_intent(ledger, target).compensation_key
    return make_question(require_operation(ledger, target.operation_key), target, key, stage)


def make_question(
    operation: LedgerOperation, target: Target, key: CompensationKey, stage: Stage
) -> Question:
    """The question about a target whose key is known."""
    return Question(
        stage=stage,
        plan_fingerprint=target.plan.fingerprint,
        operation=operation,
        compensation_key=key,
        tenant_scope=target.tenant_scope,
        grant=target.grant,
        payload=target.payload,
    )


def check_verdicts(question: Question, verdicts: Verdicts) -> None:
    """Whether both verifiers said yes to exactly this question.

    Raises `Refused`: `ledger.verdicts_elsewhere`, `ledger.grant_denied`, `ledger.action_denied`.
    """
    if verdicts.question != question.digest:
        raise coded("ledger.verdicts_elsewhere")
    if verdicts.grant is not True:
        raise coded("ledger.grant_denied", {"stage": question.stage.value})
    if verdicts.action is not True:
        raise coded("ledger.action_denied", {"stage": question.stage.value})


def _check_input(target: Target) -> None:
    grant, payload = target.grant, target.payload
    if payload.format is not grant.format or payload.size > grant.max_input_bytes:
        raise coded("ledger.input_refused", {"limit": grant.max_input_bytes})
