"""Risky choices: for each rule a declaration that makes it, and one that does not."""

from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    DataContract,
    ExecutionContract,
    IdempotencyContract,
    ServiceLevelContract,
    TransactionContract,
)
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Handler,
    KeyRequirement,
    RetrySafety,
    Risk,
    SideEffect,
)
from amends.testing.builders import ALL_MODES, capability
from amends.transactions.registration import find_faults
from amends.transactions.risks import CODES, RISKS, Weight, risks_of, unknown_accepted

DAY_MS: Final = 24 * 3600 * 1000
PLANNED: Final = TransactionContract(
    supported_modes=ALL_MODES, dry_run_fidelity=Fidelity.DOWNSTREAM_VALIDATION
)
KNOWN: Final = ExecutionContract(
    retry_safety=RetrySafety.UNSAFE,
    provider_dedup_window_ms=DAY_MS,
    lookup_by_key=True,
    in_flight_horizon_ms=60_000,
    consistency_delay_ms=1_000,
)
OFFSETS: Final = CompensationContract(mode=CompensationMode.SUPPORTED, window_ms=DAY_MS)
CAREFUL: Final = capability(
    side_effects=(SideEffect.FINANCIAL,),
    risk=Risk.HIGH,
    required_scopes=("pay",),
    transaction=PLANNED,
    compensation=OFFSETS,
    idempotency=IdempotencyContract(requirement=KeyRequirement.REQUIRED),
    execution=KNOWN,
    data=DataContract(contains_pii=True, redaction_required=True, retention_ms=DAY_MS),
    approval=ApprovalPolicy(ttl_ms=60_000),
    plan_ttl_ms=DAY_MS,
    handlers=tuple(Handler),
)
READS: Final = capability(
    side_effects=(SideEffect.READ,),
    handlers=(Handler.EXECUTE,),
    transaction=None,
    compensation=CompensationContract(),
)
LENIENT: Final = replace(CAREFUL, approval=None, risk=Risk.MEDIUM)

RISKY: Final[dict[str, Capability]] = {
    "financial_unapproved": LENIENT,
    "irreversible_unapproved": replace(
        LENIENT, side_effects=(SideEffect.DELETE,), compensation=CompensationContract()
    ),
    "separation_off": replace(CAREFUL, approval=ApprovalPolicy(separation_of_duties=False)),
    "plan_expires_before_approval": replace(CAREFUL, plan_ttl_ms=59_999),
    "timeout_beyond_plan": replace(
        CAREFUL, service_level=ServiceLevelContract(timeout_ms=DAY_MS + 1)
    ),
    "plan_not_required": replace(
        CAREFUL, transaction=replace(PLANNED, requires_plan_before_commit=False)
    ),
    "key_not_required": replace(CAREFUL, idempotency=IdempotencyContract()),
    "key_ends_early": replace(
        CAREFUL,
        idempotency=IdempotencyContract(requirement=KeyRequirement.REQUIRED, ttl_ms=DAY_MS - 1),
    ),
    "outcome_cannot_be_found": replace(
        CAREFUL,
        handlers=(Handler.EXECUTE,),
        execution=replace(KNOWN, provider_dedup_window_ms=None),
    ),
    "lookup_without_key": replace(CAREFUL, execution=replace(KNOWN, lookup_by_key=False)),
    "lookup_without_delay": replace(CAREFUL, execution=replace(KNOWN, consistency_delay_ms=0)),
    "horizon_missing": replace(CAREFUL, execution=replace(KNOWN, in_flight_horizon_ms=None)),
    "retry_safety_unknown": replace(
        CAREFUL, execution=replace(KNOWN, retry_safety=RetrySafety.UNKNOWN)
    ),
    "http_not_deduplicated": replace(
        CAREFUL, served_by="http", execution=replace(KNOWN, provider_dedup_window_ms=None)
    ),
    "scopes_missing": replace(CAREFUL, required_scopes=()),
    "personal_data_shown": replace(
        CAREFUL, data=DataContract(contains_pii=True, retention_ms=DAY_MS)
    ),
    "personal_data_kept": replace(
        CAREFUL, data=DataContract(contains_pii=True, redaction_required=True)
    ),
    "compensation_without_window": replace(CAREFUL, compensation=replace(OFFSETS, window_ms=None)),
    "preview_weak": replace(
        CAREFUL, transaction=replace(PLANNED, dry_run_fidelity=Fidelity.SCHEMA_ONLY)
    ),
}
SAFE: Final[dict[str, Capability]] = {
    "a careful one": CAREFUL,
    "one that only reads": READS,
    "one whose risk asks for approval by itself": replace(CAREFUL, approval=None),
    "one whose keys are kept for exactly a day": replace(
        CAREFUL,
        idempotency=IdempotencyContract(requirement=KeyRequirement.REQUIRED, ttl_ms=DAY_MS),
    ),
    "one whose plan lives as long as its approval": replace(CAREFUL, plan_ttl_ms=60_000),
    "one that names what is hidden": replace(
        CAREFUL, data=DataContract(contains_pii=True, redact=("/iban",), retention_ms=1)
    ),
    "one that deletes what can be brought back": replace(
        LENIENT, side_effects=(SideEffect.DELETE,)
    ),
    "one that a provider deduplicates in place of a look-up": replace(
        CAREFUL, handlers=(Handler.EXECUTE, Handler.COMPENSATE)
    ),
}


def codes(declared: Capability) -> list[str]:
    return [one.code for one in risks_of(declared)]


def test_every_rule_has_a_declaration_that_makes_its_choice() -> None:
    assert set(RISKY) == CODES
    assert len(RISKS) == len(CODES)


@pytest.mark.parametrize("code", RISKY)
def test_a_risky_choice_is_told_alone_and_can_be_registered_all_the_same(code: str) -> None:
    assert codes(RISKY[code]) == [code]


@pytest.mark.parametrize("name", SAFE)
def test_a_choice_that_is_not_risky_is_not_told(name: str) -> None:
    assert codes(SAFE[name]) == []


def test_what_is_careful_has_no_fault_either() -> None:
    assert find_faults(CAREFUL) == ()


def test_every_rule_says_why_and_what_to_do_in_whole_sentences() -> None:
    for one in RISKS:
        assert one.why.endswith(".")
        assert one.todo.endswith(".")
    notes = {one.code for one in RISKS if one.weight is Weight.NOTE}
    assert notes == {"preview_weak"}


def test_what_is_accepted_has_to_be_a_risk_that_there_is() -> None:
    accepted = replace(CAREFUL, accepted_risks=("horizon_missing", "horizont_missing"))
    assert unknown_accepted(accepted) == ("horizont_missing",)
