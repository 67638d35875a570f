"""When a transaction may be forgotten: after its time, and when nothing can still need it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.approvals import ApprovalStatus
from amends.contracts.declarations import Capability, CompensationContract, DataContract
from amends.contracts.documents import Correction, Evidence, LegalHold
from amends.contracts.enums import CompensationMode, Mode, Status, Verdict
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.times import after_ms
from amends.testing.builders import (
    ACTION,
    CAPABILITY,
    NOW,
    TENANT,
    TRANSACTION,
    action,
    approval_request,
    capability,
    principal,
    record_in,
    slots,
)
from amends.transactions.replay import TERMINAL
from amends.transactions.retention import NEEDS, Whole, is_due, needed_for

pytestmark = pytest.mark.rule("RD-3")
SPAN: Final = 1_000
OVER: Final = after_ms(NOW, SPAN)
KEEPS: Final = DataContract(retention_ms=SPAN)
PLAIN: Final = capability(data=KEEPS, compensation=CompensationContract())
WINDOW: Final = capability(
    data=KEEPS,
    compensation=CompensationContract(mode=CompensationMode.SUPPORTED, window_ms=5 * SPAN),
)
ENDLESS: Final = capability(
    data=KEEPS, compensation=CompensationContract(mode=CompensationMode.SUPPORTED)
)
DONE: Final = Whole(record=record_in(Status.COMMITTED), actions=(action(),))
RETRYABLE: Final = record_in(
    Status.FAILED,
    mode=Mode.EXECUTE,
    error=ErrorInfo(code="later", retryable=True),
    verdict=Verdict.NOT_COMMITTED,
)
HOLD: Final = LegalHold(
    tenant=TENANT,
    revision=1,
    created_at=NOW,
    updated_at=NOW,
    transaction_id=TRANSACTION,
    capability_id=CAPABILITY,
    placed=True,
    reason="case 7",
    by=principal().ref,
    at=NOW,
)
CORRECTION: Final = Correction(
    tenant=TENANT,
    revision=1,
    created_at=NOW,
    updated_at=NOW,
    correction_id="cor_1",
    transaction_id=TRANSACTION,
    target=ACTION,
    evidence=Evidence(kind="late_applied", at=NOW),
)
UNKNOWN: Final = record_in(Status.OUTCOME_UNKNOWN)

NEEDED: Final[Mapping[str, tuple[Whole, Capability]]] = {
    "held": (replace(DONE, hold=HOLD), PLAIN),
    "open": (replace(DONE, record=UNKNOWN), PLAIN),
    "frozen": (replace(DONE, record=record_in(Status.FAILED, frozen="restored")), PLAIN),
    "retryable": (replace(DONE, record=RETRYABLE), PLAIN),
    "approval_waits": (replace(DONE, approvals=(approval_request(),)), PLAIN),
    "contradicted": (replace(DONE, corrections=(CORRECTION,)), PLAIN),
    "compensation_open": (replace(DONE, slots=slots("c"), compensations=(UNKNOWN,)), ENDLESS),
    "window_open": (DONE, WINDOW),
}
EXPIRED: Final = approval_request(status=ApprovalStatus.EXPIRED)
FREE: Final[Mapping[str, tuple[Whole, Capability]]] = {
    "it ended, and nothing was asked since": (DONE, PLAIN),
    "its hold was lifted": (replace(DONE, hold=replace(HOLD, placed=False)), PLAIN),
    "no window was declared, so nothing says how long": (DONE, ENDLESS),
    "its approval has expired": (replace(DONE, approvals=(EXPIRED,)), PLAIN),
    "its correction was ruled on": (
        replace(DONE, corrections=(replace(CORRECTION, ruled_by=principal().ref),)),
        PLAIN,
    ),
    "it was offset, and that has ended": (
        replace(DONE, slots=slots("c"), compensations=(record_in(Status.COMPENSATED),)),
        WINDOW,
    ),
    "nobody knows from when its window runs": (
        replace(DONE, record=record_in(Status.COMMITTED, settled_at=None, result=None)),
        WINDOW,
    ),
    "it never came to a record": (Whole(record=None, actions=(action(),)), WINDOW),
}


@pytest.mark.parametrize("code", NEEDED)
def test_what_is_needed_is_kept_and_the_reason_is_told(code: str) -> None:
    whole, declared = NEEDED[code]
    need = needed_for(whole, declared, OVER)
    assert need is not None
    assert need.code == code


def test_every_reason_has_an_example() -> None:
    assert [one.code for one in NEEDS] == list(NEEDED)


@pytest.mark.parametrize("why", FREE)
def test_what_nothing_needs_may_be_forgotten(why: str) -> None:
    whole, declared = FREE[why]
    assert needed_for(whole, declared, OVER) is None


def test_a_frozen_request_keeps_its_transaction_too() -> None:
    frozen = replace(EXPIRED, frozen="restored")
    need = needed_for(replace(DONE, approvals=(frozen,)), PLAIN, OVER)
    assert need is not None
    assert need.code == "frozen"


def test_a_window_ends_like_every_window() -> None:
    assert needed_for(DONE, WINDOW, after_ms(NOW, 5 * SPAN - 1)) is not None
    assert needed_for(DONE, WINDOW, after_ms(NOW, 5 * SPAN)) is None


@pytest.mark.parametrize("status", Status)
def test_no_status_but_a_terminal_one_is_ever_forgotten(status: Status) -> None:
    whole = replace(DONE, record=record_in(status))
    assert (needed_for(whole, PLAIN, OVER) is None) == (status in TERMINAL)


@pytest.mark.parametrize(
    ("now", "due"), [(NOW, False), (after_ms(NOW, SPAN - 1), False), (OVER, True)]
)
def test_the_time_runs_from_the_settlement(now: datetime, due: bool) -> None:
    assert is_due(DONE, PLAIN, now) is due


def test_without_a_declared_time_nothing_is_ever_due() -> None:
    assert not is_due(DONE, capability(), NOW.replace(year=2999))


def test_what_was_forgotten_whole_is_not_due_again_and_what_came_later_is() -> None:
    forgotten = replace(DONE.record, forgotten_at=NOW) if DONE.record else None
    gone = Whole(record=forgotten, actions=(action(forgotten_at=NOW),))
    assert not is_due(gone, PLAIN, OVER)
    assert is_due(replace(gone, actions=(*gone.actions, action())), PLAIN, OVER)


def test_without_a_record_the_time_runs_from_the_last_that_happened() -> None:
    later = approval_request(status=ApprovalStatus.DENIED, updated_at=after_ms(NOW, 10))
    waited = Whole(record=None, actions=(action(),), approvals=(later,))
    assert not is_due(waited, PLAIN, OVER)
    assert is_due(waited, PLAIN, after_ms(OVER, 10))


def test_a_record_that_never_settled_counts_from_its_last_change() -> None:
    answered = record_in(Status.ROLLBACK_NOT_SUPPORTED, settled_at=None)
    assert Whole(record=answered, actions=(action(),)).settled_at == NOW
