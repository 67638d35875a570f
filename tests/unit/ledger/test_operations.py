"""Operations of a plan: recorded before they are sent, moved by answers, never taken out."""

import itertools

import pytest
from msgspec.structs import replace

from amends.contracts.worker_identity import worker_input_fingerprint
from amends.contracts.worker_messages import (
    AnsweredStatus,
    Indeterminate,
    NoRecord,
    OperationAnswer,
    OperationRequest,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Running,
    Status,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.ledger.operations import (
    Envoy,
    OperationIntent,
    apply_operation,
    observe_operation,
    record_operation,
    request_operation,
)
from amends.ledger.plans import make_plan, open_ledger
from amends.ledger.records import MAX_OPERATIONS, Ledger, LedgerState, require_operation
from amends.ledger.table import FOLLOWING, TERMINAL
from amends.testing.refusals import refused_with
from tests.unit.ledger.stage import (
    GRANT,
    INPUT,
    INTENT,
    INVERSE,
    OTHER_PLAN,
    PLAN,
    SESSION,
    ledger_with,
    receipt_for,
)

ENVOY = Envoy(6, SESSION, "dispatch-1")
S = LedgerState


@pytest.mark.rule("HL-1", "HL-4")
def test_an_operation_is_recorded_pending_and_by_fingerprint_only() -> None:
    ledger, key = record_operation(open_ledger(PLAN), PLAN, INTENT)
    operation = require_operation(ledger, key)
    assert operation.state is S.PENDING
    assert operation.compensation is None
    assert ledger.revision == 1
    assert "1.2.3" not in repr(ledger)
    assert "1.2.3" not in repr(INTENT)
    assert repr(PLAN) == f"WorkflowPlan(fingerprint={PLAN.fingerprint!r})"


def test_the_same_intent_again_changes_nothing() -> None:
    ledger, key = record_operation(open_ledger(PLAN), PLAN, INTENT)
    assert record_operation(ledger, PLAN, INTENT) == (ledger, key)


def test_another_nonce_is_another_operation() -> None:
    ledger, key = record_operation(open_ledger(PLAN), PLAN, INTENT)
    more, other = record_operation(ledger, PLAN, replace(INTENT, nonce=b"2"))
    assert other != key
    assert [one.operation_key for one in more.operations] == [key, other]


def test_a_ledger_of_another_plan_and_an_unknown_step_are_refused() -> None:
    with refused_with("ledger.plan_mismatch"):
        record_operation(open_ledger(OTHER_PLAN), PLAN, INTENT)
    with refused_with("ledger.step_unknown"):
        record_operation(open_ledger(PLAN), PLAN, replace(INTENT, step_id="other"))


@pytest.mark.rule("HL-4")
def test_a_full_ledger_refuses_before_anything_changes() -> None:
    ledger = open_ledger(PLAN)
    for number in range(MAX_OPERATIONS):
        ledger, _ = record_operation(ledger, PLAN, replace(INTENT, nonce=b"%d" % number))
    with refused_with("ledger.full"):
        record_operation(ledger, PLAN, replace(INTENT, nonce=b"one more"))
    assert len(ledger.operations) == ledger.revision == MAX_OPERATIONS


@pytest.mark.rule("HL-4")
def test_a_ledger_that_would_not_fit_is_refused() -> None:
    step, tool = "s" * 128, "t" * 128
    plan = make_plan([(step, "x")])
    intent = OperationIntent(step_id=step, tool=tool, payload=INPUT, nonce=b"n")
    ledger, key = record_operation(open_ledger(plan), plan, intent)
    operation = require_operation(ledger, key)
    stuffed = replace(ledger, operations=(replace(operation, tool="t" * 65_000),))
    with refused_with("ledger.full"):
        record_operation(stuffed, plan, replace(intent, nonce=b"m"))


@pytest.mark.rule("HL-1")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(LedgerState, LedgerState)))
def test_every_state_is_followed_as_the_rule_says(before: S, after: S) -> None:
    ledger, key = ledger_with(None if before is S.PENDING else before)
    allowed = before is after or before is S.PENDING or (before is S.RUNNING and after in TERMINAL)
    assert (after in FOLLOWING[before]) == allowed
    if not allowed:
        with refused_with("ledger.transition_refused"):
            observe_operation(ledger, key, after)
        return
    moved = observe_operation(ledger, key, after)
    assert require_operation(moved, key).state is after
    assert moved.revision == ledger.revision + (before is not after)


def test_an_unknown_operation_is_refused() -> None:
    with refused_with("ledger.operation_unknown"):
        observe_operation(open_ledger(PLAN), "op-1", S.RUNNING)


# ── sending and answers ──────────────────────────────────────────────────────────────────────────


def sent_from(ledger: Ledger, key: str) -> OperationRequest:
    return request_operation(ledger, key, INPUT, receipt_for(ledger), ENVOY)


def answer_to(sent: OperationRequest, status: AnsweredStatus) -> OperationAnswer:
    return OperationAnswer(
        protocol_version=sent.protocol_version,
        session_id=sent.session_id,
        request_id=sent.request_id,
        tool=sent.tool,
        operation_key=sent.operation_key,
        status=status,
    )


@pytest.mark.rule("PM-4")
def test_a_request_needs_the_receipt_of_exactly_this_ledger() -> None:
    ledger, key = ledger_with(None)
    with refused_with("permit.not_persisted"):
        request_operation(ledger, key, INPUT, receipt_for(open_ledger(PLAN)), ENVOY)
    sent = sent_from(ledger, key)
    assert sent.head is not None
    assert (sent.head.attempt_fence, sent.head.ledger_revision) == (3, ledger.revision)


def test_version_5_sends_no_head() -> None:
    ledger, key = ledger_with(None)
    old = Envoy(5, SESSION, "r")
    assert request_operation(ledger, key, INPUT, receipt_for(ledger), old).head is None


def test_another_input_and_an_ended_operation_are_not_sent() -> None:
    ledger, key = ledger_with(None)
    with refused_with("ledger.input_differs"):
        request_operation(ledger, key, INVERSE, receipt_for(ledger), ENVOY)
    ended = observe_operation(ledger, key, S.FAILED)
    with refused_with("permit.terminal"):
        request_operation(ended, key, INPUT, receipt_for(ended), ENVOY)


STATUSES: list[tuple[Status, LedgerState]] = [
    (Running(), S.RUNNING),
    (Succeeded(ToolPayload.json({"ok": True})), S.SUCCEEDED),
    (SucceededOversize(worker_input_fingerprint(b"x"), 70_000), S.SUCCEEDED),
    (Failed("no"), S.FAILED),
    (Cancelled(), S.CANCELLED),
]


@pytest.mark.parametrize(("status", "state"), STATUSES)
def test_an_answer_moves_the_operation_and_nothing_else(status: Status, state: S) -> None:
    ledger, key = ledger_with(None)
    sent = sent_from(ledger, key)
    after = apply_operation(ledger, sent, answer_to(sent, status), GRANT)
    assert require_operation(after, key) == replace(require_operation(ledger, key), state=state)


@pytest.mark.parametrize("status", [Indeterminate(), NoRecord()])
def test_an_answer_that_cannot_say_proves_nothing(status: AnsweredStatus) -> None:
    ledger, key = ledger_with(None)
    sent = sent_from(ledger, key)
    assert apply_operation(ledger, sent, answer_to(sent, status), GRANT) is ledger


@pytest.mark.rule("PM-6")
@pytest.mark.parametrize(
    "change",
    [
        {"protocol_version": 5},
        {"session_id": "worker-2"},
        {"request_id": "dispatch-2"},
        {"tool": "release.other"},
        {"operation_key": "op-other"},
    ],
)
def test_an_answer_that_does_not_echo_the_request_is_refused(change: dict[str, object]) -> None:
    ledger, key = ledger_with(None)
    sent = sent_from(ledger, key)
    answer = replace(answer_to(sent, Running()), **change)
    with refused_with("ledger.answer_mismatch") as caught:
        apply_operation(ledger, sent, answer, GRANT)
    assert caught.error.details["field"] in change


@pytest.mark.rule("PM-6")
@pytest.mark.parametrize(
    "output", [ToolPayload.text("x"), ToolPayload.json(["x" * 65_536])], ids=["format", "size"]
)
def test_an_output_outside_the_grant_is_refused(output: ToolPayload) -> None:
    ledger, key = ledger_with(None)
    sent = sent_from(ledger, key)
    with refused_with("ledger.output_refused"):
        apply_operation(ledger, sent, answer_to(sent, Succeeded(output)), GRANT)


@pytest.mark.rule("PM-6")
def test_an_output_of_exactly_the_limit_is_taken() -> None:
    ledger, key = ledger_with(None)
    sent = sent_from(ledger, key)
    output = ToolPayload.json(["x" * (GRANT.max_output_bytes - 4)])
    assert output.size == GRANT.max_output_bytes
    after = apply_operation(ledger, sent, answer_to(sent, Succeeded(output)), GRANT)
    assert require_operation(after, key).state is S.SUCCEEDED
