"""The one compensation: recorded after both verifiers, once, for ever."""

import inspect

import pytest
from msgspec.structs import replace

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_messages import (
    CompensationAnswer,
    CompensationRequest,
    CompensationStateAnswer,
    CompensationStateRequest,
    Indeterminate,
    NoRecord,
    TerminalRecord,
)
from amends.contracts.worker_payload import Failed, Pending, Running, Succeeded, ToolPayload
from amends.ledger import compensations, operations
from amends.ledger.compensations import (
    apply_compensation,
    apply_compensation_state,
    observe_compensation,
    propose_compensation,
    record_compensation,
)
from amends.ledger.operations import observe_operation, record_operation
from amends.ledger.permits import PermitDesk
from amends.ledger.records import Ledger, LedgerState, require_operation
from amends.ledger.recovery import Recovery, recovery_of
from amends.ledger.targets import Stage, Target, Verdicts, check_intent, question_of
from amends.testing.refusals import refused_with
from tests.unit.ledger.stage import (
    GRANT,
    INTENT,
    INVERSE,
    NONCE,
    NOW,
    OTHER_PLAN,
    PLAN,
    Sealer,
    intended,
    ledger_with,
    permit_for,
    target_of,
    yes,
)

S = LedgerState


@pytest.mark.rule("HL-2", "HL-3")
def test_an_intent_is_recorded_under_a_succeeded_operation() -> None:
    ledger, target, key = intended()
    operation = require_operation(ledger, target.operation_key)
    assert operation.compensation is not None
    assert operation.compensation.compensation_key == key
    assert operation.compensation.state is S.PENDING
    assert "undo" not in repr(operation)
    assert "undo" not in repr(target)


@pytest.mark.fault(48)
@pytest.mark.rule("HL-2")
@pytest.mark.parametrize("state", [None, S.RUNNING, S.FAILED, S.CANCELLED])
def test_only_a_succeeded_operation_gets_one(state: S | None) -> None:
    ledger, key = ledger_with(state)
    with refused_with("ledger.compensation_requires_succeeded"):
        propose_compensation(ledger, target_of(key), NONCE)


REFUSED = [
    ({"plan": OTHER_PLAN}, "ledger.plan_mismatch"),
    ({"grant": CapabilityGrant("other.tool", max_compensations=1)}, "ledger.grant_tool_mismatch"),
    ({"grant": CapabilityGrant("release.publish")}, "ledger.compensation_not_granted"),
    ({"payload": ToolPayload.text("undo")}, "ledger.input_refused"),
    ({"payload": ToolPayload.json(["x" * 16_384])}, "ledger.input_refused"),
    ({"tenant_scope": "No Token"}, "worker.token_invalid"),
]


@pytest.mark.rule("HL-3")
@pytest.mark.parametrize(("change", "code"), REFUSED)
def test_cheap_checks_refuse_before_any_verifier_is_asked(
    change: dict[str, object], code: str
) -> None:
    ledger, key = ledger_with()
    with refused_with(code):
        propose_compensation(ledger, replace(target_of(key), **change), NONCE)


@pytest.mark.rule("HL-3")
def test_an_inverse_of_exactly_the_limit_can_be_recorded() -> None:
    ledger, key = ledger_with()
    payload = ToolPayload.json(["x" * (GRANT.max_input_bytes - 4)])
    assert payload.size == GRANT.max_input_bytes
    assert propose_compensation(ledger, target_of(key, payload=payload), NONCE).grown != ledger


@pytest.mark.rule("HL-3", "PM-1")
@pytest.mark.parametrize(
    ("grant", "action", "code"),
    [
        (False, True, "ledger.grant_denied"),
        (True, False, "ledger.action_denied"),
        (False, False, "ledger.grant_denied"),
    ],
)
def test_either_no_records_nothing(grant: bool, action: bool, code: str) -> None:
    ledger, key = ledger_with()
    proposal = propose_compensation(ledger, target_of(key), NONCE)
    with refused_with(code):
        record_compensation(
            ledger, proposal, proposal.question.answered(grant=grant, action=action)
        )


@pytest.mark.rule("PM-1")
def test_verdicts_are_no_by_default_and_answer_one_question_only() -> None:
    ledger, key = ledger_with()
    proposal = propose_compensation(ledger, target_of(key), NONCE)
    with refused_with("ledger.grant_denied"):
        record_compensation(ledger, proposal, Verdicts(proposal.question.digest))
    elsewhere = replace(proposal.question, stage=Stage.PERMIT).answered(grant=True, action=True)
    with refused_with("ledger.verdicts_elsewhere"):
        record_compensation(ledger, proposal, elsewhere)


@pytest.mark.rule("PM-2")
def test_the_verifiers_see_everything_and_print_nothing_of_the_input() -> None:
    ledger, target, key = intended()
    question = question_of(ledger, target, Stage.PERMIT)
    assert question.plan_fingerprint == PLAN.fingerprint
    assert question.operation == require_operation(ledger, target.operation_key)
    assert question.compensation_key == key
    assert (question.tenant_scope, question.grant) == (target.tenant_scope, target.grant)
    assert question.payload == INVERSE
    assert "undo" not in repr(question)
    assert key in repr(question)


@pytest.mark.fault(46, 47)
@pytest.mark.rule("HL-2")
def test_there_is_no_second_key_no_reset_and_no_delete() -> None:
    ledger, target, _ = intended()
    for change, nonce in (
        ({}, b"another nonce"),
        ({"payload": ToolPayload.json({"undo": "all"})}, NONCE),
        ({"tenant_scope": "tenant-other"}, NONCE),
        ({"grant": GRANT.with_compensation_limit(2)}, NONCE),
    ):
        with refused_with("ledger.compensation_exists"):
            propose_compensation(ledger, replace(target, **change), nonce)
    verbs = {
        name
        for module in (operations, compensations)
        for name, _ in inspect.getmembers(module, inspect.isfunction)
    }
    assert not [name for name in verbs if name.startswith(("delete", "reset", "remove", "clear"))]


def test_exactly_the_same_intent_again_changes_nothing_whatever_its_state() -> None:
    ledger, target, key = intended()
    for state in (S.PENDING, S.RUNNING, S.SUCCEEDED):
        moved = observe_compensation(ledger, target.operation_key, state)
        proposal = propose_compensation(moved, target, NONCE)
        verdicts = proposal.question.answered(grant=True, action=True)
        assert record_compensation(moved, proposal, verdicts) == (moved, key)


def test_a_ledger_that_moved_since_the_proposal_is_a_conflict() -> None:
    ledger, key = ledger_with()
    proposal = propose_compensation(ledger, target_of(key), NONCE)
    moved, _ = record_operation(ledger, PLAN, replace(INTENT, nonce=b"2"))
    with refused_with("ledger.changed"):
        record_compensation(moved, proposal, proposal.question.answered(grant=True, action=True))


@pytest.mark.rule("HL-4")
def test_an_intent_that_would_not_fit_is_refused_before_any_change() -> None:
    ledger, key = ledger_with()
    operation = require_operation(ledger, key)
    stuffed = replace(ledger, operations=(replace(operation, step_id="s" * 65_000),))
    with refused_with("ledger.full"):
        propose_compensation(stuffed, target_of(key), NONCE)


@pytest.mark.rule("GR-3")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"payload": ToolPayload.json({"undo": "all"})}, "input_fingerprint"),
        ({"tenant_scope": "tenant-other"}, "tenant_scope"),
        ({"grant": GRANT.with_compensation_limit(2)}, "grant_fingerprint"),
    ],
)
def test_drift_strands_the_stored_intent(change: dict[str, object], field: str) -> None:
    ledger, target, _ = intended()
    with refused_with("ledger.compensation_drifted") as caught:
        check_intent(ledger, replace(target, **change))
    assert caught.error.details == {"field": field}


def test_what_has_no_intent_is_neither_asked_about_nor_observed() -> None:
    ledger, key = ledger_with()
    with refused_with("ledger.compensation_unknown"):
        check_intent(ledger, target_of(key))
    with refused_with("ledger.compensation_unknown"):
        observe_compensation(ledger, key, S.RUNNING)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def sealed_from(ledger: Ledger, target: Target) -> CompensationRequest:
    desk = PermitDesk()
    permit = permit_for(desk, ledger, target)
    verdicts = yes(ledger, target, Stage.SEAL)
    sealed = desk.redeem(permit, ledger, target, verdicts, Sealer(), request_id="c-1", now=NOW)
    return sealed.request


def answer_to(sent: CompensationRequest) -> CompensationAnswer:
    return CompensationAnswer(
        protocol_version=sent.protocol_version,
        session_id=sent.session_id,
        request_id=sent.request_id,
        tool=sent.tool,
        operation_key=sent.operation_key,
        compensation_key=sent.compensation_key,
        tenant_scope=sent.tenant_scope,
        grant_fingerprint=sent.grant_fingerprint,
        status=Succeeded(ToolPayload.json({"undone": True})),
    )


@pytest.mark.rule("PM-6")
def test_an_answer_changes_the_state_of_the_compensation_only() -> None:
    ledger, target, _ = intended()
    sent = sealed_from(ledger, target)
    after = apply_compensation(ledger, sent, answer_to(sent), GRANT)
    operation = require_operation(ledger, target.operation_key)
    held = operation.compensation
    assert held is not None
    ended = replace(held, state=S.SUCCEEDED)
    assert require_operation(after, target.operation_key) == replace(operation, compensation=ended)
    assert after.revision == ledger.revision + 1
    again = apply_compensation(after, sent, answer_to(sent), GRANT)
    assert again is after
    unsure = replace(answer_to(sent), status=Indeterminate())
    assert apply_compensation(ledger, sent, unsure, GRANT) is ledger


@pytest.mark.rule("PM-6")
@pytest.mark.parametrize(
    "change",
    [
        {"protocol_version": 5},
        {"session_id": "worker-2"},
        {"request_id": "c-2"},
        {"tool": "release.other"},
        {"operation_key": "op-other"},
        {"compensation_key": "cmp-" + "0" * 64},
        {"tenant_scope": "tenant-other"},
        {"grant_fingerprint": "0" * 64},
        {"status": Succeeded(ToolPayload.text("x"))},
    ],
)
def test_an_answer_that_is_not_exactly_to_this_request_is_refused(
    change: dict[str, object],
) -> None:
    ledger, target, _ = intended()
    sent = sealed_from(ledger, target)
    code = "ledger.output_refused" if "status" in change else "ledger.answer_mismatch"
    with refused_with(code):
        apply_compensation(ledger, sent, replace(answer_to(sent), **change), GRANT)


@pytest.mark.rule("PM-6")
def test_what_a_journal_knows_of_the_inverse_moves_it_as_an_answer_does() -> None:
    ledger, target, _ = intended()
    sent = sealed_from(ledger, target)
    named = {
        field: getattr(sent, field)
        for field in CompensationStateRequest.__struct_fields__
        if field != "head"
    }
    asked = CompensationStateRequest(**named)
    for state, after in (
        (NoRecord(), S.PENDING),
        (Pending(), S.PENDING),
        (Indeterminate(), S.PENDING),
        (Running(), S.RUNNING),
        (TerminalRecord(Failed("no")), S.FAILED),
        (TerminalRecord(Succeeded(ToolPayload.json({}))), S.SUCCEEDED),
    ):
        moved = apply_compensation_state(
            ledger, asked, CompensationStateAnswer(**named, state=state), GRANT
        )
        held = require_operation(moved, target.operation_key).compensation
        assert held is not None
        assert held.state is after
    other = CompensationStateAnswer(**{**named, "tenant_scope": "other"}, state=NoRecord())
    with refused_with("ledger.answer_mismatch"):
        apply_compensation_state(ledger, asked, other, GRANT)


def test_an_answer_for_a_key_that_the_ledger_does_not_hold_is_refused() -> None:
    ledger, target, _ = intended()
    sent = sealed_from(ledger, target)
    bare, _ = ledger_with()
    with refused_with("ledger.compensation_unknown"):
        apply_compensation(bare, sent, answer_to(sent), GRANT)
    other = replace(sent, compensation_key="cmp-" + "0" * 64)
    with refused_with("ledger.compensation_unknown"):
        apply_compensation(ledger, other, answer_to(other), GRANT)


def test_a_terminal_compensation_accepts_only_itself() -> None:
    ledger, target, _ = intended()
    sent = sealed_from(ledger, target)
    ended = observe_compensation(ledger, target.operation_key, S.FAILED)
    with refused_with("ledger.transition_refused"):
        apply_compensation(ended, sent, replace(answer_to(sent), status=Running()), GRANT)


# ── after a crash ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [None, S.RUNNING, S.FAILED, S.CANCELLED])
def test_an_original_that_did_not_succeed_is_looked_up(state: S | None) -> None:
    ledger, key = ledger_with(state)
    assert recovery_of(require_operation(ledger, key)) is Recovery.LOOK_UP_ORIGINAL


def test_a_succeeded_original_without_intent_may_get_one() -> None:
    ledger, key = ledger_with()
    assert recovery_of(require_operation(ledger, key)) is Recovery.MAY_RECORD


@pytest.mark.parametrize(
    ("state", "recovery"),
    [
        (S.PENDING, Recovery.OFFER_AGAIN),
        (S.RUNNING, Recovery.OFFER_AGAIN),
        (S.SUCCEEDED, Recovery.REPORT),
        (S.FAILED, Recovery.EXPLICIT_POLICY),
        (S.CANCELLED, Recovery.EXPLICIT_POLICY),
    ],
)
def test_an_intent_is_offered_again_only_while_it_is_open(state: S, recovery: Recovery) -> None:
    ledger, target, _ = intended()
    moved = observe_compensation(ledger, target.operation_key, state)
    assert recovery_of(require_operation(moved, target.operation_key)) is recovery


def test_an_original_never_leaves_succeeded_once_it_has_an_intent() -> None:
    ledger, target, _ = intended()
    with refused_with("ledger.transition_refused"):
        observe_operation(ledger, target.operation_key, S.FAILED)
