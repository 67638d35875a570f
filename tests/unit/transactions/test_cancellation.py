"""Cancelling an action, withdrawing a plan, and a plan whose time has passed."""

from datetime import timedelta

import pytest

from amends.contracts.documents import Cancellation
from amends.contracts.enums import PrincipalKind, ResultStatus, Status, Verdict
from amends.contracts.principals import OPERATE_SCOPE, Principal
from amends.testing.builders import NOW, action, principal, record_in, result
from amends.testing.refusals import refused_with
from amends.transactions.cancellation import (
    Cancelling,
    cancel,
    check_not_cancelled,
    expire_plan,
    withdraw,
)

LATER = NOW + timedelta(seconds=1)
OPERATOR = principal("olga", kind=PrincipalKind.OPERATOR)
BY_SCOPE = principal("omar", scopes=(OPERATE_SCOPE,))
STRANGERS = [
    principal("mallory"),
    principal(kind=PrincipalKind.AGENT),
    principal("recovery", kind=PrincipalKind.RECOVERY),
]


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize("by", [principal(), OPERATOR, BY_SCOPE])
def test_before_the_claim_cancelling_ends_the_action(by: Principal) -> None:
    waiting = action(attempted=False)
    came_to, document = cancel(waiting, by, "changed my mind", LATER)
    assert came_to is Cancelling.CANCELLED
    assert document.result is not None
    assert document.result.status is ResultStatus.CANCELLED
    assert (document.settled_at, document.updated_at) == (LATER, LATER)
    assert document.revision == waiting.revision + 1
    assert document.cancellation == Cancellation(by=by.ref, at=LATER, reason="changed my mind")
    with refused_with("action.cancelled", document):
        check_not_cancelled(document)


@pytest.mark.rule("TX-CANCEL-1")
def test_after_the_claim_cancelling_is_a_request_that_settles_nothing() -> None:
    running = action(attempted=True)
    came_to, document = cancel(running, principal(), "", LATER)
    assert came_to is Cancelling.REQUESTED
    assert (document.result, document.settled_at) == (None, None)
    assert document.cancellation is not None
    assert document.revision == running.revision + 1
    check_not_cancelled(document)
    assert cancel(document, OPERATOR, "again", LATER) == (Cancelling.REQUESTED, document)


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize("status", [ResultStatus.COMPLETED, ResultStatus.FAILED])
@pytest.mark.parametrize("attempted", [True, False])
def test_cancelling_a_finished_action_changes_nothing(
    status: ResultStatus, attempted: bool
) -> None:
    ended = action(attempted=attempted, result=result(status))
    assert cancel(ended, principal(), "", LATER) == (Cancelling.ALREADY_ENDED, ended)


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize("by", STRANGERS)
@pytest.mark.parametrize("attempted", [True, False])
def test_only_the_requester_or_an_operator_cancels(by: Principal, attempted: bool) -> None:
    with refused_with("action.cancel_not_allowed", asked := action(attempted=attempted)):
        cancel(asked, by, "", LATER)


def test_an_action_that_nobody_cancelled_goes_on() -> None:
    check_not_cancelled(action(attempted=False))
    check_not_cancelled(action())


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-CANCEL-2")
@pytest.mark.parametrize("by", [principal(), OPERATOR, BY_SCOPE])
def test_a_withdrawn_plan_certainly_did_nothing_and_shows_as_cancelled(by: Principal) -> None:
    planned = record_in(Status.PLANNED)
    after = withdraw(planned, by, LATER)
    assert (after.status, after.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
    assert after.result is not None
    assert after.result.status is ResultStatus.CANCELLED
    assert after.error == after.result.error
    assert after.error is not None
    assert after.error.code == "transaction.plan_withdrawn"
    assert (after.settled_at, after.plan) == (LATER, planned.plan)
    assert after.revision == planned.revision + 1


@pytest.mark.rule("TX-CANCEL-2")
@pytest.mark.parametrize("by", STRANGERS)
def test_only_its_requester_or_an_operator_withdraws_a_plan(by: Principal) -> None:
    with refused_with("transaction.withdraw_not_allowed", planned := record_in(Status.PLANNED)):
        withdraw(planned, by, LATER)


@pytest.mark.rule("TX-CANCEL-2")
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PLANNED])
def test_only_a_plan_that_waits_can_be_withdrawn_or_expire(status: Status) -> None:
    other = record_in(status)
    with refused_with("transaction.withdraw_state_invalid", other):
        withdraw(other, principal(), LATER)
    with refused_with("transaction.transition_refused", other):
        expire_plan(other, LATER)


@pytest.mark.rule("TX-PLAN-6")
def test_an_expired_plan_fails_without_effect_and_stays_readable() -> None:
    planned = record_in(Status.PLANNED)
    after = expire_plan(planned, LATER)
    assert (after.status, after.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
    assert after.error is not None
    assert after.error.code == "transaction.plan_expired"
    assert after.result is not None
    assert after.result.status is ResultStatus.FAILED
    assert after.plan == planned.plan


@pytest.mark.rule("TX-LEASE-3")
def test_a_frozen_plan_is_neither_withdrawn_nor_expired_since_it_may_have_been_committed() -> None:
    frozen = record_in(Status.PLANNED, frozen="restored")
    with refused_with("transaction.frozen", frozen):
        withdraw(frozen, OPERATOR, LATER)
    with refused_with("transaction.frozen", frozen):
        expire_plan(frozen, LATER)
