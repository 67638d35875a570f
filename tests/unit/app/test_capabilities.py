"""Capabilities from plain functions: what the decorator reads, and what it lets say whole."""

from datetime import timedelta
from typing import Any

import pytest

from amends.app.capabilities import capability
from amends.connectors.port import Attempt
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    CompensationContract,
    ExecutionContract,
    TransactionContract,
)
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Freeze,
    Handler,
    Mode,
    PrincipalKind,
    Risk,
    SideEffect,
)
from amends.contracts.errors import Refused
from amends.contracts.json_types import JsonObject
from amends.contracts.limits import PLAN_TTL_MS, TIMEOUT_MS


async def double(n: int) -> int:
    """Twice as much."""
    return 2 * n


async def test_a_decorated_function_can_still_be_called_as_what_it_was() -> None:
    made = capability("math.double")(double)
    assert await made(2) == 4
    assert made.__doc__ == "Twice as much."
    assert made.id == "math.double"


def test_short_arguments_become_a_whole_declaration() -> None:
    declared, connector = capability(
        "math.double",
        title="Double",
        side_effects=["read", SideEffect.WRITE],
        risk="high",
        timeout=timedelta(milliseconds=1_500),
        plan_ttl=timedelta(minutes=1),
        approval=ApprovalPolicy(),
        freeze=Freeze.GOVERNANCE,
        required_scopes=["math"],
        principal_kinds=[PrincipalKind.SERVICE],
    )(double).build()
    assert (declared.title, declared.description) == ("Double", "Twice as much.")
    assert declared.side_effects == (SideEffect.READ, SideEffect.WRITE)
    assert (declared.risk, declared.freeze) == (Risk.HIGH, Freeze.GOVERNANCE)
    assert (declared.service_level.timeout_ms, declared.plan_ttl_ms) == (1_500, 60_000)
    assert (declared.required_scopes, declared.principal_kinds) == (
        ("math",),
        (PrincipalKind.SERVICE,),
    )
    assert declared.input_schema == {"type": "integer"}
    assert hasattr(connector, "carry_out")


def test_what_is_not_said_has_a_sane_default() -> None:
    declared, _ = capability("math.double")(double).build()
    assert (declared.title, declared.plan_ttl_ms) == ("math.double", PLAN_TTL_MS)
    assert declared.service_level.timeout_ms == TIMEOUT_MS
    assert declared.transaction is not None
    assert declared.transaction.supported_modes == (
        Mode.EXECUTE,
        Mode.DRY_RUN,
        Mode.PLAN,
        Mode.COMMIT,
    )
    assert declared.transaction.dry_run_fidelity is Fidelity.POLICY_AND_SCHEMA
    assert declared.compensation == CompensationContract()
    assert PrincipalKind.USER in declared.principal_kinds


def test_handlers_make_modes_possible() -> None:
    made = capability("math.double")(double)

    @made.preview
    async def shown(n: int) -> int:
        return n

    @made.reconcile
    async def looked(n: int, attempt: Attempt) -> int:
        return n

    @made.compensate
    async def halved(n: int) -> int:
        return n // 2

    declared, _ = made.build()
    assert declared.transaction is not None
    assert set(declared.transaction.supported_modes) == {
        Mode.EXECUTE,
        Mode.DRY_RUN,
        Mode.PLAN,
        Mode.COMMIT,
        Mode.RECONCILE,
        Mode.COMPENSATE,
    }
    assert declared.transaction.dry_run_fidelity is Fidelity.DOWNSTREAM_VALIDATION
    assert set(declared.handlers) == set(Handler)
    assert declared.compensation.mode is CompensationMode.SUPPORTED
    assert declared.compensation_schema == {"type": "integer"}


def test_a_dedup_window_makes_reconciling_possible_without_a_look_up() -> None:
    window = ExecutionContract(provider_dedup_window_ms=1_000)
    declared, _ = capability("math.double", execution=window)(double).build()
    assert declared.transaction is not None
    assert Mode.RECONCILE in declared.transaction.supported_modes


def test_compensations_say_their_window_number_and_effort() -> None:
    made = capability("math.double")(double)

    @made.compensate(
        window=timedelta(hours=1), requires_approval=True, max_compensations=3, best_effort=True
    )
    async def halved(n: int) -> int:
        return n // 2

    declared, _ = made.build()
    assert declared.compensation == CompensationContract(
        mode=CompensationMode.BEST_EFFORT,
        window_ms=3_600_000,
        requires_approval=True,
        max_compensations=3,
    )
    assert Handler.COMPENSATE in declared.handlers


def test_a_contract_given_whole_is_taken_as_it_is() -> None:
    contract = TransactionContract(supported_modes=(Mode.EXECUTE,))
    schema: JsonObject = {"type": "object"}
    declared, _ = capability(
        "math.double",
        transaction=contract,
        description="said",
        input_schema=schema,
        output_schema={"type": "string"},
    )(double).build()
    assert declared.transaction == contract
    assert (declared.description, declared.input_schema) == ("said", schema)
    assert declared.output_schema == {"type": "string"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"side_effects": ["canary"]}, "side_effects"), ({"risk": "canary"}, "risk")],
)
def test_a_word_that_no_declaration_knows_is_refused_by_its_field(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as caught:
        capability("shop.sell", **changes)
    assert (caught.value.code, caught.value.details) == ("input.invalid_value", {"field": field})
    assert "canary" not in str(caught.value)
