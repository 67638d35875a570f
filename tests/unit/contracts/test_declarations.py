"""Declarations and documents as values: defaults, equality, and their way through JSON."""

from datetime import datetime
from itertools import chain, combinations

import msgspec
import pytest

from amends.contracts.actions import Action
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    IdempotencyContract,
    TransactionContract,
)
from amends.contracts.documents import (
    ActionDocument,
    CompensationSlots,
    Reservation,
    TransactionRecord,
)
from amends.contracts.enums import Collision, Fidelity, Mode, SideEffect, Status, WireStatus
from amends.testing.builders import (
    CAPABILITY,
    action,
    approval_request,
    capability,
    plan,
    record_in,
    reservation,
    slots,
)

SUBSETS = list(
    chain.from_iterable(
        combinations([SideEffect.READ, SideEffect.WRITE, SideEffect.FINANCIAL], size)
        for size in range(4)
    )
)


@pytest.mark.parametrize("effects", SUBSETS)
def test_a_capability_reads_only_where_every_side_effect_is_reading(
    effects: tuple[SideEffect, ...],
) -> None:
    expected = all(effect is SideEffect.READ for effect in effects)
    assert capability(side_effects=effects).reads_only is expected


def test_what_nobody_declared_is_assumed_on_the_careful_side() -> None:
    bare = Capability(id=CAPABILITY)
    assert not bare.reads_only
    assert bare.compensation == CompensationContract(max_compensations=1)
    assert bare.execution.in_flight_horizon_ms is None
    assert bare.execution.provider_dedup_window_ms is None
    assert not bare.execution.lookup_by_key
    assert IdempotencyContract().collision is Collision.REVALIDATE_INPUT_HASH
    assert TransactionContract(supported_modes=(Mode.COMMIT,)).requires_plan_before_commit
    assert TransactionContract(supported_modes=()).dry_run_fidelity is Fidelity.POLICY_AND_SCHEMA


def test_two_documents_never_share_what_could_be_changed() -> None:
    one, other = Action(capability_id=CAPABILITY), Action(capability_id=CAPABILITY)
    one.metadata["seen"] = True
    assert other.metadata == {}
    first, second = Capability(id=CAPABILITY), Capability(id=CAPABILITY)
    assert first.input_schema is not second.input_schema


@pytest.mark.parametrize(
    "document",
    [action(), approval_request(), reservation(), slots("a"), capability(), plan()],
    ids=lambda document: type(document).__name__,
)
def test_a_document_reads_back_as_it_was_written(document: msgspec.Struct) -> None:
    text = msgspec.json.encode(document)
    assert msgspec.json.decode(text, type=type(document)) == document


@pytest.mark.parametrize("status", Status)
def test_a_record_reads_back_as_it_was_written_in_every_status(status: Status) -> None:
    text = msgspec.json.encode(record_in(status))
    assert msgspec.json.decode(text, type=TransactionRecord) == record_in(status)


@pytest.mark.case("TIM-01")
@pytest.mark.parametrize("status", Status)
def test_every_instant_in_a_record_is_written_with_its_zone(status: Status) -> None:
    written: list[object] = [msgspec.json.decode(msgspec.json.encode(record_in(status)))]
    while written:
        node = written.pop()
        if isinstance(node, dict):
            times = [str(node[key]) for key in node if str(key).endswith("_at") and node[key]]
            assert all(datetime.fromisoformat(one).utcoffset() is not None for one in times)
            written.extend(node.values())
        elif isinstance(node, list):
            written.extend(node)


def test_a_status_that_this_version_does_not_know_is_not_read_as_another() -> None:
    text = msgspec.json.encode(record_in(Status.COMMITTED)).replace(b'"committed"', b'"settled"')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=TransactionRecord)


def test_the_wire_knows_the_twelve_durable_statuses_and_two_more() -> None:
    durable, wire = {str(one) for one in Status}, {str(one) for one in WireStatus}
    assert len(durable) == 12
    assert wire - durable == {"requires_human", "cancelled"}
    assert durable < wire


def test_documents_cannot_be_changed_in_place() -> None:
    kept: list[ActionDocument | ApprovalRequest | Reservation | CompensationSlots] = [
        action(),
        approval_request(),
        reservation(),
        slots(),
    ]
    for document in kept:
        with pytest.raises(AttributeError):
            document.revision = 99  # type: ignore[misc]  # the refusal is the point
