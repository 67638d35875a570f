"""Declarations: each demand violated alone, at its boundary, and all of them at once."""

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    DataContract,
    ExecutionContract,
    IdempotencyContract,
    RecoveryContract,
    ServiceLevelContract,
    TransactionContract,
)
from amends.contracts.enums import CompensationMode, Fidelity, Handler, Mode, SideEffect
from amends.contracts.errors import Misuse
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.testing.builders import ALL_MODES, CAPABILITY, capability
from amends.testing.refusals import refused_with
from amends.transactions.registration import check_declaration, find_faults

CENTURY = 100 * 366 * 24 * 3600 * 1000
SUPPORTED = CompensationContract(mode=CompensationMode.SUPPORTED)


def modes(*supported: Mode, **changes: object) -> TransactionContract:
    return replace(TransactionContract(supported_modes=supported), **changes)


def compensating(**changes: object) -> dict[str, object]:
    return {"compensation": replace(SUPPORTED, **changes)}


def executing(**changes: object) -> dict[str, object]:
    return {"execution": replace(ExecutionContract(lookup_by_key=True), **changes)}


def recovering(**changes: object) -> dict[str, object]:
    return {"recovery": replace(RecoveryContract(), **changes)}


def serving(**changes: object) -> dict[str, object]:
    return {"service_level": replace(ServiceLevelContract(), **changes)}


PLANLESS = tuple(mode for mode in ALL_MODES if mode is not Mode.PLAN)
REMOTE: Json = {"$ref": "https://example.org/schema.json"}
WITHOUT_EXECUTE = (Handler.RECONCILE, Handler.COMPENSATE)
WITHOUT_RECONCILE = (Handler.EXECUTE, Handler.COMPENSATE)
WITHOUT_COMPENSATE = (Handler.EXECUTE, Handler.RECONCILE)

ONE_FAULT: list[tuple[str, dict[str, object]]] = [
    ("mode_twice", {"transaction": modes(*ALL_MODES, Mode.EXECUTE)}),
    ("side_effects_missing", {"side_effects": ()}),
    ("execute_missing", {"handlers": WITHOUT_EXECUTE}),
    (
        "execute_missing",
        {
            "handlers": WITHOUT_EXECUTE,
            "transaction": modes(Mode.COMMIT, Mode.PLAN, Mode.COMPENSATE),
        },
    ),
    (
        "preview_missing",
        {"transaction": modes(*ALL_MODES, dry_run_fidelity=Fidelity.DOWNSTREAM_VALIDATION)},
    ),
    (
        "preview_missing",
        {"transaction": modes(*ALL_MODES, dry_run_fidelity=Fidelity.FULL_SIMULATION)},
    ),
    ("compensate_missing", {"handlers": WITHOUT_COMPENSATE}),
    (
        "compensate_missing",
        {"handlers": WITHOUT_COMPENSATE, **compensating(mode=CompensationMode.BEST_EFFORT)},
    ),
    ("compensate_mode", {"compensation": CompensationContract()}),
    ("compensate_mode", {"transaction": modes(Mode.EXECUTE)}),
    ("reconcile_missing", {"handlers": WITHOUT_RECONCILE}),
    ("plan_missing", {"transaction": modes(*PLANLESS)}),
    ("window_invalid", compensating(window_ms=0)),
    ("limit_invalid", compensating(max_compensations=0)),
    ("worker_limit", {"served_by": "worker", **compensating(max_compensations=2)}),
    (
        "worker_tool",
        {
            "served_by": "worker",
            **compensating(compensation_capability_id=CapabilityId("payments.other")),
        },
    ),
    ("timeout_invalid", serving(timeout_ms=0)),
    ("plan_ttl_invalid", {"plan_ttl_ms": 0}),
    ("key_ttl_invalid", {"idempotency": IdempotencyContract(ttl_ms=0)}),
    ("dedup_window_invalid", executing(provider_dedup_window_ms=0)),
    ("approval_ttl_invalid", {"approval": ApprovalPolicy(ttl_ms=0)}),
    ("duration_invalid", executing(in_flight_horizon_ms=-1)),
    ("duration_invalid", executing(consistency_delay_ms=-1)),
    ("duration_invalid", executing(in_flight_horizon_ms=CENTURY + 1)),
    ("duration_invalid", executing(provider_dedup_window_ms=CENTURY + 1)),
    ("duration_invalid", compensating(window_ms=CENTURY + 1)),
    ("duration_invalid", {"idempotency": IdempotencyContract(ttl_ms=CENTURY + 1)}),
    ("duration_invalid", {"data": DataContract(retention_ms=-1)}),
    ("duration_invalid", {"approval": ApprovalPolicy(ttl_ms=CENTURY + 1)}),
    ("duration_invalid", {"plan_ttl_ms": CENTURY + 1}),
    ("duration_invalid", serving(timeout_ms=CENTURY + 1)),
    ("duration_invalid", serving(max_queue_delay_ms=-1)),
    ("duration_invalid", serving(expected_latency_ms=-1)),
    ("duration_invalid", recovering(initial_delay_ms=-1)),
    ("duration_invalid", recovering(max_delay_ms=CENTURY + 1)),
    ("recovery_invalid", recovering(max_attempts=0)),
    ("own_compensation", compensating(compensation_capability_id=CAPABILITY)),
    ("rollback_declared", {"transaction": modes(*ALL_MODES, Mode.ROLLBACK_NOT_SUPPORTED)}),
    ("id_invalid", {"id": CapabilityId("no spaces")}),
    ("redact_invalid", {"data": DataContract(redact=("no pointer",))}),
    ("input_schema_invalid", {"input_schema": REMOTE}),
    ("output_schema_invalid", {"output_schema": {"type": "nonsense"}}),
    ("compensation_schema_invalid", {"compensation_schema": REMOTE}),
]

NO_FAULT: list[dict[str, object]] = [
    {},
    {"transaction": modes(*PLANLESS, requires_plan_before_commit=False)},
    {
        "handlers": (*WITHOUT_COMPENSATE, Handler.COMPENSATE, Handler.PREVIEW),
        "transaction": modes(*ALL_MODES, dry_run_fidelity=Fidelity.FULL_SIMULATION),
    },
    {
        "handlers": WITHOUT_COMPENSATE,
        **compensating(compensation_capability_id=CapabilityId("payments.other")),
    },
    {"handlers": WITHOUT_RECONCILE, **executing(provider_dedup_window_ms=1)},
    {"served_by": "worker"},
    {"served_by": "http", **compensating(max_compensations=2)},
    {
        "transaction": modes(Mode.EXECUTE, Mode.ROLLBACK_NOT_SUPPORTED),
        "compensation": CompensationContract(mode=CompensationMode.ROLLBACK_NOT_SUPPORTED),
    },
    {
        "transaction": modes(Mode.EXECUTE),
        "compensation": CompensationContract(),
    },
    {
        "handlers": (Handler.COMPENSATE,),
        "transaction": modes(Mode.DRY_RUN, Mode.COMPENSATE),
    },
    executing(in_flight_horizon_ms=0, consistency_delay_ms=0),
    executing(in_flight_horizon_ms=CENTURY),
    compensating(window_ms=1),
    {"approval": ApprovalPolicy(ttl_ms=1)},
    recovering(max_attempts=1, initial_delay_ms=0),
    {"data": DataContract(redact=("/card/number", "/items/*/note"))},
    {"output_schema": {"type": "object"}, "compensation_schema": {"type": "object"}},
    {"output_schema": None},
]


def codes_of(declared: Capability) -> list[str]:
    return [fault.code for fault in find_faults(declared)]


@pytest.mark.rule("TX-CONTRACT-2")
@pytest.mark.parametrize(("code", "changes"), ONE_FAULT)
def test_each_demand_violated_alone_is_the_one_fault(code: str, changes: dict[str, object]) -> None:
    assert codes_of(capability(**changes)) == [code]


@pytest.mark.parametrize("changes", NO_FAULT)
def test_a_well_made_declaration_has_no_fault(changes: dict[str, object]) -> None:
    assert codes_of(capability(**changes)) == []
    check_declaration(capability(**changes))


def without_contract(*effects: SideEffect) -> Capability:
    return capability(side_effects=effects, transaction=None, compensation=CompensationContract())


@pytest.mark.rule("TX-CONTRACT-1")
@pytest.mark.parametrize("effect", SideEffect)
def test_whatever_does_more_than_read_needs_a_transaction_contract(effect: SideEffect) -> None:
    reads = effect is SideEffect.READ
    assert codes_of(without_contract(effect)) == ([] if reads else ["contract_missing"])
    assert codes_of(without_contract(SideEffect.READ, effect)) == (
        [] if reads else ["contract_missing"]
    )


@pytest.mark.rule("TX-CONTRACT-1")
def test_without_a_contract_only_execute_counts_as_supported() -> None:
    reader = without_contract(SideEffect.READ)
    assert codes_of(replace(reader, handlers=(Handler.RECONCILE,))) == ["execute_missing"]
    assert codes_of(replace(reader, compensation=SUPPORTED)) == ["compensate_mode"]


def test_a_contract_without_any_mode_is_a_fault_of_its_own() -> None:
    none_at_all = capability(transaction=modes(), compensation=CompensationContract())
    assert codes_of(none_at_all) == ["modes_missing"]


EVERYTHING_WRONG = capability(
    id=CapabilityId("-bad"),
    side_effects=(SideEffect.FINANCIAL,),
    handlers=(),
    transaction=TransactionContract(
        supported_modes=(
            Mode.COMMIT,
            Mode.COMMIT,
            Mode.RECONCILE,
            Mode.ROLLBACK_NOT_SUPPORTED,
        ),
        dry_run_fidelity=Fidelity.FULL_SIMULATION,
    ),
    compensation=CompensationContract(
        mode=CompensationMode.BEST_EFFORT, window_ms=0, max_compensations=0
    ),
    execution=ExecutionContract(in_flight_horizon_ms=-1),
    service_level=ServiceLevelContract(timeout_ms=0),
    idempotency=IdempotencyContract(ttl_ms=0),
    approval=ApprovalPolicy(ttl_ms=0),
    recovery=RecoveryContract(max_attempts=0),
    data=DataContract(redact=("x",)),
    plan_ttl_ms=0,
    served_by="worker",
    input_schema=REMOTE,
    output_schema=REMOTE,
    compensation_schema=REMOTE,
)


@pytest.mark.rule("TX-CONTRACT-2")
def test_all_faults_are_reported_at_once_and_in_a_stable_order() -> None:
    found = codes_of(EVERYTHING_WRONG)
    assert found == [
        "mode_twice",
        "execute_missing",
        "preview_missing",
        "compensate_missing",
        "compensate_mode",
        "reconcile_missing",
        "plan_missing",
        "window_invalid",
        "limit_invalid",
        "worker_limit",
        "timeout_invalid",
        "plan_ttl_invalid",
        "key_ttl_invalid",
        "approval_ttl_invalid",
        "duration_invalid",
        "recovery_invalid",
        "rollback_declared",
        "id_invalid",
        "redact_invalid",
        "input_schema_invalid",
        "output_schema_invalid",
        "compensation_schema_invalid",
    ]
    with refused_with("capability.invalid") as caught:
        check_declaration(EVERYTHING_WRONG)
    assert isinstance(caught.error, Misuse)
    listed = caught.error.details["faults"]
    assert isinstance(listed, list)
    assert [str(fault).partition(":")[0] for fault in listed] == found


def test_every_fault_explains_itself() -> None:
    faults = [fault for _, changes in ONE_FAULT for fault in find_faults(capability(**changes))]
    assert all(len(fault.text.split()) > 3 for fault in faults)
