"""Approval requests of a restored store: neither decided nor used until somebody releases them."""

from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.approvals import Answer, ApprovalRequest, ApprovalStatus
from amends.contracts.ids import DecisionId
from amends.contracts.principals import APPROVE_SCOPE
from amends.governance.approvals import (
    OPEN,
    Word,
    check_consumed,
    consume,
    decide,
    expire,
    freeze,
    release,
    withdraw,
)
from amends.testing.builders import ANYBODY, NOW, approval_request, principal
from amends.testing.refusals import refused_with

LATER: Final = NOW + timedelta(minutes=1)
LONG_AFTER: Final = NOW + timedelta(days=30)
BOB: Final = principal("bob", scopes=(APPROVE_SCOPE,))
FROZEN: Final = replace(approval_request(), frozen="restored")

pytestmark = pytest.mark.rule("TX-LEASE-3")


def word(request: ApprovalRequest, answer: Answer) -> Word:
    return Word(
        decision_id=DecisionId("dec_1"),
        answer=answer,
        principal=BOB,
        reason="",
        evidence={},
        seen_revision=request.revision,
        now=LATER,
    )


@pytest.mark.parametrize("status", ApprovalStatus)
def test_only_a_request_that_waits_can_be_frozen(status: ApprovalStatus) -> None:
    before = approval_request(status=status)
    frozen = freeze(before, "restored", LATER)
    if status in OPEN:
        assert frozen == replace(
            before,
            frozen="restored",
            revision=before.revision + 1,
            updated_at=LATER,
            decided_at=frozen.decided_at if frozen else None,
        )
    else:
        assert frozen is None


def test_freezing_twice_changes_nothing() -> None:
    assert freeze(FROZEN, "restored", LATER) is None


@pytest.mark.parametrize("answer", Answer)
def test_nobody_decides_on_a_frozen_request(answer: Answer) -> None:
    with refused_with("approval.frozen", FROZEN):
        decide(FROZEN, word(FROZEN, answer))


@pytest.mark.parametrize("status", [ApprovalStatus.APPROVED, ApprovalStatus.PENDING])
def test_a_frozen_request_is_not_used_up(status: ApprovalStatus) -> None:
    request = replace(FROZEN, status=status)
    with refused_with("approval.frozen", request):
        consume(request, request.action_hash, ANYBODY, LATER)


def test_a_frozen_request_is_not_taken_back_since_nobody_knows_whether_it_was_used() -> None:
    with refused_with("approval.frozen", FROZEN):
        withdraw(FROZEN, LATER)


def test_a_frozen_request_does_not_expire() -> None:
    assert expire(FROZEN, LONG_AFTER) is None
    assert expire(replace(FROZEN, frozen=None), LONG_AFTER) is not None


def test_a_released_request_goes_on_as_before() -> None:
    released = release(FROZEN, LATER)
    assert released == replace(FROZEN, frozen=None, revision=FROZEN.revision + 1, updated_at=LATER)
    assert released is not None
    decided = decide(released, word(released, Answer.APPROVED))
    assert consume(decided, decided.action_hash, ANYBODY, LATER).status is ApprovalStatus.CONSUMED
    assert release(released, LATER) is None


def test_the_use_of_a_request_before_the_backup_still_counts_for_its_own_record() -> None:
    """A consumed request is not frozen: the record that it serves is."""
    consumed = approval_request(status=ApprovalStatus.CONSUMED)
    assert freeze(consumed, "restored", LATER) is None
    check_consumed(consumed, consumed.action_hash, ANYBODY, LATER)
