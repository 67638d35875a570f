"""A declaration that was made with spellings, or with values of the wrong type."""

from typing import Any

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    ExecutionContract,
    IdempotencyContract,
)
from amends.contracts.enums import Collision, Freeze, KeyRequirement
from amends.contracts.errors import Misuse
from amends.testing.builders import capability
from amends.transactions.registration import well_typed

WRONG: Any = "wrong"
DECLARED = capability()


@pytest.mark.rule("TX-CONTRACT-2")
def test_a_spelling_becomes_the_member_that_rules_compare_with() -> None:
    spelled: Any = {
        "freeze": "governance",
        "idempotency": IdempotencyContract(
            requirement="required",  # type: ignore[arg-type]  # what an untyped program writes
            collision="reject_conflict",  # type: ignore[arg-type]  # as above
        ),
    }
    typed = well_typed(replace(DECLARED, **spelled))
    assert typed.freeze is Freeze.GOVERNANCE
    assert typed.idempotency.requirement is KeyRequirement.REQUIRED
    assert typed.idempotency.collision is Collision.REJECT_CONFLICT


def test_a_declaration_of_the_right_types_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    declared = replace(DECLARED, input_schema=schema, output_schema=schema)
    assert well_typed(declared) == declared


@pytest.mark.rule("TX-CONTRACT-2")
@pytest.mark.parametrize(
    ("declared", "place"),
    [
        (replace(DECLARED, freeze=WRONG), "$.freeze"),
        (replace(DECLARED, compensation=CompensationContract(mode=WRONG)), "$.compensation.mode"),
        (replace(DECLARED, execution=ExecutionContract(lookup_by_key=WRONG)), "lookup_by_key"),
        (replace(DECLARED, plan_ttl_ms=WRONG), "$.plan_ttl_ms"),
        (replace(DECLARED, compensation=WRONG), "$.compensation"),
        (replace(DECLARED, title=object()), "$"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(
    declared: Capability, place: str
) -> None:
    with pytest.raises(Misuse) as refused:
        well_typed(declared)
    assert refused.value.code == "capability.invalid"
    assert place in str(refused.value.details["faults"])
    assert WRONG not in str(refused.value.details["faults"])
