"""What a caller sees: the wire status of every combination, the own result, and what is next."""

from itertools import product

import pytest
from msgspec.structs import replace

from amends.contracts.actions import ActionResult
from amends.contracts.documents import ActionDocument
from amends.contracts.enums import Mode, ResultStatus, Status, Verdict, WireStatus
from amends.contracts.ids import ActionId, ApprovalId, PlanId
from amends.contracts.json_types import json_text
from amends.contracts.outcomes import ErrorInfo
from amends.testing.builders import (
    ACTION,
    DECLINED,
    NOW,
    OPERATION,
    PLAN,
    PLANNING,
    action,
    plan,
    record_in,
    result,
)
from amends.transactions.projection import NEXT_STEPS, next_steps, project, wire_status

VERDICTS: tuple[Verdict | None, ...] = (None, *Verdict)
RESULTS: tuple[ResultStatus | None, ...] = (None, *ResultStatus)
COMBINATIONS = list(product(Status, VERDICTS, RESULTS, (False, True)))
OPEN = (
    Status.PREPARED,
    Status.COMMITTING,
    Status.COMPENSATING,
    Status.OUTCOME_UNKNOWN,
    Status.RECONCILING,
)
PREVIEW = json_text(b'{"preview":true}')
PLANNER = action(action_id=PLANNING, mode=Mode.PLAN, result=result(output=PREVIEW), attempted=False)
LOSER = action(action_id=ActionId("act_loser"), attempted=False)


def ended(status: ResultStatus | None) -> ActionResult | None:
    return result(status) if status else None


# ── wire status ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("status", "verdict", "result_status", "waiting"), COMBINATIONS)
def test_a_record_shows_its_own_status_with_exactly_two_exceptions(
    status: Status, verdict: Verdict | None, result_status: ResultStatus | None, waiting: bool
) -> None:
    """A possible effect is never masked, whatever is stored beside it."""
    known = record_in(status, verdict=verdict, result=ended(result_status))
    certainly_nothing = status is Status.FAILED and verdict is Verdict.NOT_COMMITTED
    if status is Status.PLANNED and waiting:
        expected = WireStatus.REQUIRES_HUMAN
    elif certainly_nothing and result_status is ResultStatus.CANCELLED:
        expected = WireStatus.CANCELLED
    else:
        expected = WireStatus(status.value)
    assert wire_status(known, action(), waiting=waiting) is expected
    assert project(action(), known, waiting=waiting).status is expected


@pytest.mark.parametrize(("result_status", "waiting"), list(product(RESULTS, (False, True))))
def test_without_a_record_only_waiting_and_cancelling_are_shown(
    result_status: ResultStatus | None, waiting: bool
) -> None:
    accepted = action(result=ended(result_status), attempted=False)
    expected = WireStatus.CANCELLED if result_status == "cancelled" else WireStatus.FAILED
    if waiting:
        expected = WireStatus.REQUIRES_HUMAN
    assert wire_status(None, accepted, waiting=waiting) is expected
    assert wire_status(None, None, waiting=waiting) in (
        WireStatus.REQUIRES_HUMAN,
        WireStatus.FAILED,
    )


@pytest.mark.parametrize(("status", "waiting"), list(product(Status, (False, True))))
def test_an_open_outcome_is_never_shown_as_known(status: Status, waiting: bool) -> None:
    shown = project(action(), record_in(status), waiting=waiting)
    if status in OPEN:
        assert shown.status.value == status.value
        assert (shown.verdict, shown.effect_is_there, shown.raw_output) == (None, False, None)


# ── the own result ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stored", [result(), result(ResultStatus.FAILED, error=DECLINED)])
@pytest.mark.parametrize("status", OPEN)
@pytest.mark.parametrize("of", [action(), PLANNER])
def test_while_the_outcome_is_open_no_earlier_result_is_shown(
    of: ActionDocument, status: Status, stored: ActionResult
) -> None:
    """Neither a plan's preview nor a failure that was reopened."""
    shown = project(replace(of, result=stored), record_in(status, plan=plan()))
    assert (shown.result_status, shown.raw_output) == (None, None)


@pytest.mark.parametrize("status", [Status.COMMITTED, Status.RECONCILED, Status.FAILED])
def test_the_planning_and_the_committing_action_show_the_same_ending(status: Status) -> None:
    known = record_in(status, plan=plan())
    committer = action(result=result(ResultStatus.CANCELLED))
    shown = [project(of, known) for of in (committer, PLANNER)]
    assert shown[0].raw_output == shown[1].raw_output
    assert shown[0].result_status == shown[1].result_status
    assert known.result is not None
    assert shown[0].result_status is known.result.status


def test_a_waiting_plan_shows_its_preview() -> None:
    planned = record_in(Status.PLANNED, result=None)
    assert project(PLANNER, planned).raw_output == PREVIEW
    own = record_in(Status.PLANNED, result=result(output=PREVIEW))
    assert project(replace(PLANNER, result=None), own).raw_output == PREVIEW


@pytest.mark.rule("TX-VIEW-1")
@pytest.mark.parametrize("status", Status)
def test_an_action_that_only_named_the_transaction_never_shows_anothers_result(
    status: Status,
) -> None:
    known = record_in(status)
    shown = project(LOSER, known)
    assert (shown.result_status, shown.raw_output, shown.output_hash) == (None, None, None)
    assert shown.error == known.error
    refused = ErrorInfo(code="transaction.plan_already_claimed")
    own = replace(LOSER, result=result(ResultStatus.FAILED, error=refused))
    assert project(own, known).error == refused
    assert project(own, known).result_status is ResultStatus.FAILED


def test_a_look_up_under_its_own_id_shows_its_own_result() -> None:
    asking = action(
        action_id=ActionId("act_look"),
        mode=Mode.RECONCILE,
        result=result(ResultStatus.FAILED, error=ErrorInfo(code="transaction.outcome_unknown")),
    )
    shown = project(asking, record_in(Status.OUTCOME_UNKNOWN))
    assert (shown.status, shown.result_status) == (
        WireStatus.OUTCOME_UNKNOWN,
        ResultStatus.FAILED,
    )
    assert shown.error is not None
    assert shown.error.code == "transaction.outcome_unknown"


@pytest.mark.rule("TX-VIEW-2")
def test_everything_that_is_known_of_the_record_is_shown() -> None:
    known = record_in(
        Status.COMMITTED,
        plan=plan(warnings=("plan.expires_before_approval",), approval_required=True),
        cursor="page-2",
        reconcile_after=NOW,
        attention="output_invalid",
        error=DECLINED,
        result=result(output_hash="hash", output_invalid="output.not_storable"),
    )
    shown = project(action(approval_id=ApprovalId("apr_1")), known, replayed=True)
    assert (shown.action_id, shown.transaction_id) == (ACTION, known.transaction_id)
    assert (shown.capability_id, shown.mode) == (known.capability_id, Mode.EXECUTE)
    assert (shown.revision, shown.verdict) == (known.revision, Verdict.COMMITTED)
    assert (shown.plan_id, shown.plan_expires_at) == (PLAN, plan().expires_at)
    assert (shown.approval_id, shown.approval_required, shown.replayed) == ("apr_1", True, True)
    assert (shown.output_hash, shown.output_invalid) == ("hash", "output.not_storable")
    assert (shown.provider_operation, shown.cursor) == (OPERATION, "page-2")
    assert (shown.reconcile_after, shown.attention) == (NOW, "output_invalid")
    assert shown.warnings == ("plan.expires_before_approval",)
    assert shown.error == DECLINED
    assert not shown.output_redacted


def test_without_a_record_the_action_tells_what_it_can() -> None:
    context = replace(action().context, mode=Mode.COMMIT, plan_id=PlanId("plan:chosen"))
    waiting = action(context=context, approval_id=ApprovalId("apr_1"), attempted=False)
    shown = project(waiting, None, waiting=True)
    assert shown.status is WireStatus.REQUIRES_HUMAN
    assert shown.result_status is ResultStatus.PENDING_APPROVAL
    assert (shown.plan_id, shown.plan_expires_at) == ("plan:chosen", None)
    assert (shown.revision, shown.verdict, shown.approval_required) == (None, None, True)
    stopped = replace(waiting, result=result(ResultStatus.FAILED, error=DECLINED))
    assert project(stopped, None).error == DECLINED
    assert not project(action(result=None), None).approval_required


# ── what can be done next ────────────────────────────────────────────────────────────────────────


def test_every_wire_status_says_what_can_be_done() -> None:
    assert NEXT_STEPS.keys() == set(WireStatus)
    assert all(next_steps(status, None) == NEXT_STEPS[status] for status in WireStatus)


@pytest.mark.parametrize(
    ("status", "mode", "verdict", "calls"),
    [
        (Status.FAILED, Mode.EXECUTE, Verdict.NOT_COMMITTED, ["execute"]),
        (Status.FAILED, Mode.EXECUTE, Verdict.PARTIAL, ["compensate"]),
        (Status.FAILED, Mode.COMPENSATE, Verdict.PARTIAL, []),
        (Status.COMMITTED, Mode.COMMIT, Verdict.COMMITTED, ["compensate"]),
        (Status.COMPENSATED, Mode.COMPENSATE, Verdict.COMMITTED, []),
        (Status.RECONCILED, Mode.EXECUTE, Verdict.COMMITTED, ["get", "compensate"]),
        (Status.RECONCILED, Mode.COMMIT, Verdict.PARTIAL, ["get", "compensate"]),
        (Status.RECONCILED, Mode.EXECUTE, Verdict.NOT_COMMITTED, ["get"]),
        (Status.RECONCILED, Mode.COMPENSATE, Verdict.COMMITTED, ["get"]),
        (Status.OUTCOME_UNKNOWN, Mode.EXECUTE, None, ["reconcile", "settle"]),
    ],
)
def test_what_is_next_depends_on_what_is_known_of_the_effect(
    status: Status, mode: Mode, verdict: Verdict | None, calls: list[str]
) -> None:
    shown = project(action(), record_in(status, mode=mode, verdict=verdict))
    assert [step.call for step in shown.next] == calls


@pytest.mark.parametrize("status", OPEN)
def test_nothing_that_could_repeat_an_effect_is_offered_while_its_outcome_is_open(
    status: Status,
) -> None:
    repeating = {"execute", "commit", "compensate", "plan"}
    calls = {step.call for step in project(action(), record_in(status)).next}
    assert calls.isdisjoint(repeating)
