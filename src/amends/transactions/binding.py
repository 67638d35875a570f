"""What a commit must match: the fourteen checks of plan binding, in order, each with its code.

The fourteenth, the atomic claim, is made by the store's compare-and-set; its code is the loser's.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from amends.contracts.codes import coded
from amends.contracts.documents import TransactionPlan, TransactionRecord
from amends.contracts.enums import Freeze, Status
from amends.contracts.ids import CapabilityId, PlanId, TransactionId
from amends.contracts.json_types import Json
from amends.contracts.principals import Identity, PrincipalRef

CLAIM_LOST: Final = "transaction.plan_already_claimed"


class CommitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the committing request brings, and the record its plan id led to."""

    plan_id: PlanId | None
    capability_id: CapabilityId
    principal: PrincipalRef
    transaction_id: TransactionId | None
    input_hash: str
    identity: Identity | None
    governance_digest: str
    freeze: Freeze
    record: TransactionRecord | None
    now: datetime


def _record(facts: CommitFacts) -> TransactionRecord:
    assert facts.record is not None
    return facts.record


def _plan(facts: CommitFacts) -> TransactionPlan:
    plan = _record(facts).plan
    assert plan is not None
    return plan


def _expired_before(facts: CommitFacts) -> bool:
    error = _record(facts).error
    return error is not None and error.code == "transaction.plan_expired"


def _same_account(facts: CommitFacts) -> bool:
    planned = _plan(facts).identity
    return (
        planned is None
        or facts.identity is None
        or planned.external_account == facts.identity.external_account
    )


def _same_tenant(facts: CommitFacts) -> bool:
    planned = _plan(facts).identity
    return planned is None or facts.identity is None or planned.tenant == facts.identity.tenant


def _frozen(facts: CommitFacts) -> bool:
    """Whether the capability, or a rule when the plan was made, froze governance (TX-PLAN-5)."""
    return Freeze.GOVERNANCE in (facts.freeze, _plan(facts).freeze)


class Check(NamedTuple):
    """One check: its number in the spec, its code, and what has to hold."""

    number: str
    code: str
    holds: Callable[[CommitFacts], bool]


CHECKS: Final[tuple[Check, ...]] = (
    Check("1", "transaction.plan_required", lambda f: f.plan_id is not None),
    Check("2", "transaction.plan_not_found", lambda f: f.record is not None),
    Check(
        "3",
        "transaction.plan_capability_mismatch",
        lambda f: _record(f).capability_id == f.capability_id,
    ),
    Check(
        "4a",
        "transaction.plan_expired",
        lambda f: _record(f).status is Status.PLANNED or not _expired_before(f),
    ),
    Check(
        "4b",
        "transaction.plan_not_committable",
        lambda f: _record(f).status is Status.PLANNED,
    ),
    Check("5", "transaction.plan_missing_payload", lambda f: _record(f).plan is not None),
    Check(
        "6",
        "transaction.plan_principal_mismatch",
        lambda f: _plan(f).requester == f.principal,
    ),
    Check("7", "transaction.plan_expired", lambda f: f.now < _plan(f).expires_at),
    Check(
        "8",
        "transaction.plan_transaction_mismatch",
        lambda f: f.transaction_id in (None, _plan(f).transaction_id),
    ),
    Check(
        "9",
        "transaction.plan_input_hash_mismatch",
        lambda f: _plan(f).input_hash == f.input_hash,
    ),
    Check(
        "10",
        "transaction.plan_identity_missing",
        lambda f: (_plan(f).identity is None) == (f.identity is None),
    ),
    Check("11", "transaction.plan_tenant_mismatch", _same_tenant),
    Check("12", "transaction.plan_external_account_mismatch", _same_account),
    Check(
        "13",
        "transaction.plan_governance_changed",
        lambda f: not _frozen(f) or _plan(f).governance_digest == f.governance_digest,
    ),
    Check("frozen", "transaction.frozen", lambda f: _record(f).frozen is None),
)


def check_commit(facts: CommitFacts) -> TransactionRecord:
    """The record whose plan may be claimed now.

    Raises the code of the first check that does not hold (TX-COMMIT); changes nothing.
    """
    for check in CHECKS:
        if not check.holds(facts):
            raise coded(check.code, _details(facts, check))
    return _record(facts)


def _details(facts: CommitFacts, check: Check) -> dict[str, Json]:
    details: dict[str, Json] = {"check": check.number}
    if facts.record is not None:
        details["transaction_id"] = facts.record.transaction_id
        details["status"] = facts.record.status.value
    return details
