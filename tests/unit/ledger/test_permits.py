"""Permits: bound to everything, used once, never copied, and the only way to a sealed frame."""

import copy
import pickle
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from amends.contracts.worker_payload import ToolPayload
from amends.ledger.compensations import observe_compensation
from amends.ledger.operations import record_operation
from amends.ledger.permits import DispatchPermit, PermitDesk
from amends.ledger.plans import open_ledger
from amends.ledger.records import Ledger, LedgerState
from amends.ledger.targets import Stage, Target, Verdicts
from amends.testing.refusals import refused_with
from tests.unit.ledger.stage import (
    GRANT,
    INTENT,
    LATER,
    NOW,
    OTHER_PLAN,
    PLAN,
    SESSION,
    Sealer,
    intended,
    permit_for,
    receipt_for,
    yes,
)


def redeem(
    desk: PermitDesk,
    permit: DispatchPermit,
    ledger: Ledger,
    target: Target,
    sealer: Sealer,
    verdicts: Verdicts | None = None,
) -> bytes:
    verdicts = verdicts or yes(ledger, target, Stage.SEAL)
    return desk.redeem(permit, ledger, target, verdicts, sealer, request_id="c-1", now=NOW).frame


@pytest.mark.rule("PM-3", "PM-5")
def test_a_permit_seals_one_frame_that_says_exactly_what_was_approved() -> None:
    ledger, target, key = intended()
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, ledger, target)
    assert repr(permit) == "DispatchPermit(spent=False)"
    sealed = desk.redeem(
        permit, ledger, target, yes(ledger, target, Stage.SEAL), sealer, request_id="c-1", now=NOW
    )
    [request] = sealer.sealed
    assert sealed.request == request
    assert (request.compensation_key, request.payload) == (key, target.payload)
    assert request.head is not None
    assert (request.head.ledger_revision, request.head.attempt_fence) == (ledger.revision, 3)
    assert "undo" not in repr(sealed)
    assert permit.is_spent


def test_version_5_seals_without_a_head() -> None:
    ledger, target, _ = intended()
    desk, sealer = PermitDesk(), Sealer(protocol_version=5)
    redeem(desk, permit_for(desk, ledger, target), ledger, target, sealer)
    assert [request.head for request in sealer.sealed] == [None]


@pytest.mark.rule("PM-3")
def test_a_second_use_is_refused() -> None:
    ledger, target, _ = intended()
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, ledger, target)
    redeem(desk, permit, ledger, target, sealer)
    with refused_with("permit.spent"):
        redeem(desk, permit, ledger, target, sealer)
    assert len(sealer.sealed) == 1


def more_recorded(ledger: Ledger) -> Ledger:
    return record_operation(ledger, PLAN, replace(INTENT, nonce=b"2")).ledger


def same_revision(ledger: Ledger) -> Ledger:
    [operation] = ledger.operations
    return replace(ledger, operations=(replace(operation, step_id="renamed"),))


def other_key(ledger: Ledger) -> Ledger:
    [operation] = ledger.operations
    held = operation.compensation
    assert held is not None
    changed = replace(held, compensation_key="cmp-" + "0" * 64)
    return replace(ledger, operations=(replace(operation, compensation=changed),))


def same(ledger: Ledger) -> Ledger:
    return ledger


MUTATIONS: list[tuple[str, Callable[[Ledger], Ledger], dict[str, object], str]] = [
    ("plan", same, {"plan": OTHER_PLAN}, "ledger.plan_mismatch"),
    ("ledger revision", more_recorded, {}, "permit.drifted"),
    ("ledger content", same_revision, {}, "permit.drifted"),
    ("compensation key", other_key, {}, "permit.drifted"),
    ("operation key", same, {"operation_key": "op-other"}, "ledger.operation_unknown"),
    ("input", same, {"payload": ToolPayload.json({})}, "ledger.compensation_drifted"),
    ("tenant", same, {"tenant_scope": "tenant-other"}, "ledger.compensation_drifted"),
    ("grant", same, {"grant": GRANT.with_compensation_limit(2)}, "ledger.compensation_drifted"),
]


@pytest.mark.rule("PM-3")
@pytest.mark.parametrize(
    ("change_ledger", "change", "code"),
    [one[1:] for one in MUTATIONS],
    ids=[one[0] for one in MUTATIONS],
)
def test_any_bound_field_that_changed_is_refused_and_uses_the_permit_up(
    change_ledger: Callable[[Ledger], Ledger], change: dict[str, object], code: str
) -> None:
    ledger, target, _ = intended()
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, ledger, target)
    verdicts = yes(ledger, target, Stage.SEAL)
    with refused_with(code):
        redeem(desk, permit, change_ledger(ledger), replace(target, **change), sealer, verdicts)
    assert permit.is_spent
    with refused_with("permit.spent"):
        redeem(desk, permit, ledger, target, sealer)
    assert sealer.sealed == []


@pytest.mark.rule("PM-3")
def test_another_desk_another_session_and_a_late_use_are_refused() -> None:
    ledger, target, _ = intended()
    desk = PermitDesk()
    verdicts = yes(ledger, target, Stage.SEAL)
    for other_desk, sealer, now, code in (
        (PermitDesk(), Sealer(), NOW, "permit.elsewhere"),
        (desk, Sealer("worker-2"), NOW, "permit.drifted"),
        (desk, Sealer(), LATER, "permit.expired"),
    ):
        permit = permit_for(desk, ledger, target)
        with refused_with(code):
            other_desk.redeem(permit, ledger, target, verdicts, sealer, request_id="c-1", now=now)
        assert permit.is_spent
        assert sealer.sealed == []


@pytest.mark.rule("PM-1")
@pytest.mark.parametrize(
    ("grant", "action", "code"),
    [(False, True, "ledger.grant_denied"), (True, False, "ledger.action_denied")],
)
def test_a_verifier_that_says_no_at_sealing_stops_the_frame(
    grant: bool, action: bool, code: str
) -> None:
    ledger, target, _ = intended()
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, ledger, target)
    question = yes(ledger, target, Stage.SEAL).question
    with refused_with(code):
        redeem(desk, permit, ledger, target, sealer, Verdicts(question, grant, action))
    assert permit.is_spent
    assert sealer.sealed == []


@pytest.mark.rule("PM-1")
def test_the_verdicts_of_the_permit_do_not_serve_for_sealing() -> None:
    ledger, target, _ = intended()
    desk, sealer = PermitDesk(), Sealer()
    permit = permit_for(desk, ledger, target)
    with refused_with("ledger.verdicts_elsewhere"):
        redeem(desk, permit, ledger, target, sealer, yes(ledger, target, Stage.PERMIT))
    assert sealer.sealed == []


@pytest.mark.rule("PM-3")
@pytest.mark.parametrize(
    "copying", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
def test_a_permit_is_neither_copied_nor_stored(copying: Callable[[object], object]) -> None:
    ledger, target, _ = intended()
    permit = permit_for(PermitDesk(), ledger, target)
    with refused_with("misuse.permit_copied"):
        copying(permit)


def test_a_permit_that_is_given_up_is_used_up() -> None:
    ledger, target, _ = intended()
    desk = PermitDesk()
    permit = permit_for(desk, ledger, target)
    permit.void()
    with refused_with("permit.spent"):
        redeem(desk, permit, ledger, target, Sealer())


# ── giving one ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("PM-4")
@pytest.mark.parametrize(
    "state", [LedgerState.SUCCEEDED, LedgerState.FAILED, LedgerState.CANCELLED]
)
def test_there_is_no_permit_for_what_has_ended(state: LedgerState) -> None:
    ledger, target, _ = intended()
    ended = observe_compensation(ledger, target.operation_key, state)
    with refused_with("permit.terminal"):
        permit_for(PermitDesk(), ended, target)


@pytest.mark.rule("PM-4")
def test_there_is_no_permit_without_the_receipt_of_exactly_this_ledger() -> None:
    ledger, target, _ = intended()
    for other in (open_ledger(PLAN), replace(ledger, revision=ledger.revision + 1)):
        with refused_with("permit.not_persisted"):
            PermitDesk().issue(
                ledger,
                target,
                yes(ledger, target, Stage.PERMIT),
                receipt_for(other),
                session_id=SESSION,
                expires_at=LATER,
            )


@pytest.mark.rule("PM-1")
def test_there_is_no_permit_without_both_verdicts_on_this_stage() -> None:
    ledger, target, _ = intended()
    question = yes(ledger, target, Stage.PERMIT).question
    for verdicts, code in (
        (Verdicts(question), "ledger.grant_denied"),
        (Verdicts(question, grant=True), "ledger.action_denied"),
        (yes(ledger, target, Stage.SEAL), "ledger.verdicts_elsewhere"),
    ):
        with refused_with(code):
            PermitDesk().issue(
                ledger, target, verdicts, receipt_for(ledger), session_id=SESSION, expires_at=LATER
            )
