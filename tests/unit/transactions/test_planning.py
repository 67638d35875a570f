"""Making a plan: everything that a later commit is compared with."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    DataContract,
    IdempotencyContract,
    ServiceLevelContract,
    TransactionContract,
)
from amends.contracts.documents import TransactionPlan
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Freeze,
    KeyRequirement,
    SideEffect,
)
from amends.testing.builders import (
    ALL_MODES,
    CANONICAL,
    INPUT_HASH,
    NOW,
    PLAN,
    PLANNING,
    TRANSACTION,
    capability,
    identity,
    principal,
    result,
)
from amends.transactions.hashing import plan_digest
from amends.transactions.planning import PlanFacts, build_plan


def facts(**changes: object) -> PlanFacts:
    made = PlanFacts(
        plan_id=PLAN,
        transaction_id=TRANSACTION,
        action_id=PLANNING,
        requester=principal().ref,
        identity=identity(),
        input_hash=INPUT_HASH,
        input=CANONICAL,
        approval=None,
        governance_digest="governance",
        validation=result(),
        now=NOW,
    )
    return replace(made, **changes)


@pytest.mark.rule("TX-PLAN-1")
def test_a_plan_binds_request_requester_declarations_and_times() -> None:
    declared = capability(
        side_effects=(SideEffect.FINANCIAL,),
        transaction=TransactionContract(
            supported_modes=ALL_MODES,
            requires_plan_before_commit=False,
            dry_run_fidelity=Fidelity.FULL_SIMULATION,
        ),
        compensation=CompensationContract(mode=CompensationMode.BEST_EFFORT),
        data=DataContract(contains_pii=True),
        idempotency=IdempotencyContract(requirement=KeyRequirement.REQUIRED),
        service_level=ServiceLevelContract(timeout_ms=1),
    )
    approval = ApprovalPolicy(ttl_ms=1, reason="high")
    made = build_plan(declared, facts(approval=approval))
    assert (made.plan_id, made.transaction_id, made.action_id) == (PLAN, TRANSACTION, PLANNING)
    assert (made.capability_id, made.requester) == (declared.id, principal().ref)
    assert (made.input_hash, made.snapshot.input) == (INPUT_HASH, CANONICAL.decode())
    assert (made.side_effects, made.fidelity) == ((SideEffect.FINANCIAL,), "full_simulation")
    assert (made.approval_required, made.approval_policy) == (True, approval)
    assert (made.compensation, made.data) == (declared.compensation, declared.data)
    assert (made.idempotency, made.service_level) == (
        declared.idempotency,
        declared.service_level,
    )
    assert (made.identity, made.governance_digest) == (identity(), "governance")
    assert (made.requires_plan_before_commit, made.validation) == (False, result())
    assert (made.created_at, made.digest) == (NOW, plan_digest(made))
    assert build_plan(declared, facts()).approval_required is False


@pytest.mark.rule("TX-PLAN-2")
@pytest.mark.usefixtures("local_zone")
def test_a_plan_lives_fifteen_minutes_or_as_long_as_its_capability_says() -> None:
    assert build_plan(capability(), facts()).expires_at == NOW + timedelta(minutes=15)
    short = capability(plan_ttl_ms=1)
    assert build_plan(short, facts()).expires_at == NOW + timedelta(milliseconds=1)


@pytest.mark.rule("TX-PLAN-2")
@pytest.mark.parametrize(
    ("approval_ttl_ms", "warned"),
    [(None, False), (limits.PLAN_TTL_MS, False), (limits.PLAN_TTL_MS + 1, True)],
)
def test_a_plan_that_ends_before_its_approval_could_carries_a_warning(
    approval_ttl_ms: int | None, warned: bool
) -> None:
    approval = ApprovalPolicy(ttl_ms=approval_ttl_ms) if approval_ttl_ms else None
    made = build_plan(capability(), facts(approval=approval))
    assert made.warnings == (("plan.expires_before_approval",) if warned else ())


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(("ttl_ms", "lives_ms"), [(1_000, 1_000), (10**9, limits.PLAN_TTL_MS)])
def test_a_rule_shortens_the_life_of_a_plan_and_never_lengthens_it(
    ttl_ms: int, lives_ms: int
) -> None:
    made = build_plan(capability(), facts(ttl_ms=ttl_ms))
    assert made.expires_at - made.created_at == timedelta(milliseconds=lives_ms)


def test_a_plan_that_a_rule_shortens_may_end_before_its_approval_could() -> None:
    asked = ApprovalPolicy(ttl_ms=60_000)
    assert build_plan(capability(), facts(approval=asked)).warnings == ()
    short = build_plan(capability(), facts(approval=asked, ttl_ms=1_000))
    assert short.warnings == ("plan.expires_before_approval",)


@pytest.mark.rule("TX-PLAN-5")
def test_a_plan_keeps_what_a_rule_froze_and_its_digest_covers_it() -> None:
    frozen = build_plan(capability(), facts(freeze=Freeze.GOVERNANCE))
    free = build_plan(capability(), facts())
    assert (frozen.freeze, free.freeze) == (Freeze.GOVERNANCE, Freeze.NOTHING)
    assert frozen.digest != free.digest


def planned(redacted: bool) -> tuple[Capability, TransactionPlan]:
    declared = capability(data=DataContract(redaction_required=redacted))
    return declared, build_plan(declared, facts())


@pytest.mark.rule("TX-PLAN-3")
def test_with_redaction_required_the_snapshot_is_the_hash_alone() -> None:
    _, hidden = planned(redacted=True)
    assert (hidden.snapshot.redacted, hidden.snapshot.input) == (True, None)
    assert hidden.snapshot.input_hash == INPUT_HASH
    _, shown = planned(redacted=False)
    assert (shown.snapshot.redacted, shown.snapshot.input) == (False, CANONICAL.decode())
    assert shown.snapshot.input_hash == INPUT_HASH
