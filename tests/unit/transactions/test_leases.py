"""Leases, due times, and the freeze after a restore: what time does to a record by itself."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import RecoveryContract
from amends.contracts.enums import Mode, ResultStatus, Status
from amends.contracts.outcomes import ErrorInfo
from amends.testing.builders import NOW, OPERATION, attempt, plan, record, record_in, result
from amends.testing.refusals import refused_with
from amends.transactions.leases import (
    ABANDONED,
    due_at,
    freeze,
    holds_lease,
    lapse,
    lease_ms,
    release,
)
from amends.transactions.reconciliation import EXHAUSTED
from amends.transactions.table import Event, admits

LATER = NOW + timedelta(seconds=60)
LEASE_END = NOW + timedelta(seconds=35)
IN_ATTEMPT = (Status.PREPARED, Status.COMMITTING, Status.COMPENSATING, Status.RECONCILING)
BUSY = ErrorInfo(code="provider_busy", retryable=True)
REOPENABLE = record_in(Status.FAILED, error=BUSY, result=result(ResultStatus.FAILED, error=BUSY))


@pytest.mark.rule("TX-LEASE-1")
def test_a_lease_is_the_time_limit_and_a_grace() -> None:
    assert lease_ms(30_000) == 35_000
    assert lease_ms(30_000, grace_ms=0) == 30_000


@pytest.mark.rule("TX-LEASE-2")
@pytest.mark.parametrize("status", Status)
def test_an_attempt_that_outlived_its_lease_is_unknown_and_nothing_else_lapses(
    status: Status,
) -> None:
    before = record_in(status)
    if status not in IN_ATTEMPT:
        with refused_with("transaction.transition_refused", before):
            lapse(before, LATER, LEASE_END)
        return
    after = lapse(before, LATER, LEASE_END)
    assert (after.status, after.revision) == (Status.OUTCOME_UNKNOWN, before.revision + 1)
    assert (after.verdict, after.result, after.settled_at) == (None, None, None)
    assert after.error is not None
    assert after.error.code == ABANDONED
    assert after.attempt is not None
    assert after.attempt.lease_ended_at == LEASE_END


@pytest.mark.rule("TX-LEASE-2")
@pytest.mark.parametrize("status", [Status.PREPARED, Status.COMMITTING, Status.COMPENSATING])
def test_a_lapsed_effect_is_looked_up_soon_and_its_lease_end_counts_for_the_horizon(
    status: Status,
) -> None:
    before = record_in(status, provider_operation=OPERATION, cursor="page-2")
    after = lapse(before, LATER, LEASE_END)
    assert after.last_effect_lease_end == LEASE_END
    assert after.reconcile_after == LATER + timedelta(seconds=5)
    assert (after.provider_operation, after.cursor) == (OPERATION, "page-2")


def test_a_lapsed_look_up_does_not_move_the_horizon_but_a_lapsed_redrive_does() -> None:
    looking = record_in(Status.RECONCILING, last_effect_lease_end=NOW)
    assert lapse(looking, LATER, LEASE_END).last_effect_lease_end == NOW
    redriving = replace(looking, attempt=attempt(redrive=True))
    assert lapse(redriving, LATER, LEASE_END).last_effect_lease_end == LEASE_END


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.parametrize(
    ("attempts", "delay", "attention"), [(1, 2, None), (2, 4, None), (3, 8, EXHAUSTED)]
)
def test_look_ups_that_keep_lapsing_are_spread_out_and_end_with_a_person(
    attempts: int, delay: int, attention: str | None
) -> None:
    recovery = RecoveryContract(initial_delay_ms=1000, max_delay_ms=60_000, max_attempts=3)
    before = record_in(Status.RECONCILING, reconcile_attempts=attempts)
    after = lapse(before, LATER, LEASE_END, recovery)
    assert after.reconcile_after == LATER + timedelta(seconds=delay)
    assert after.attention == attention


def test_without_a_declaration_at_hand_the_usual_back_off_holds() -> None:
    before = record_in(Status.RECONCILING, reconcile_attempts=1)
    assert lapse(before, LATER, LEASE_END).reconcile_after == LATER + timedelta(seconds=10)


@pytest.mark.rule("TX-LEASE-2")
@pytest.mark.parametrize("status", Status)
def test_only_a_status_with_a_running_attempt_holds_a_lease(status: Status) -> None:
    assert holds_lease(record_in(status)) is (status in IN_ATTEMPT)
    assert not holds_lease(record_in(status, frozen="restored"))
    assert not holds_lease(record_in(status, attempt=None))


@pytest.mark.parametrize("status", Status)
def test_when_recovery_has_to_look_by_itself(status: Status) -> None:
    expected: dict[Status, datetime] = {
        Status.PLANNED: plan().expires_at,
        Status.OUTCOME_UNKNOWN: NOW + timedelta(seconds=5),
    }
    assert due_at(record_in(status)) == expected.get(status)
    assert due_at(record_in(status, frozen="restored")) is None


def test_a_record_that_calls_for_a_person_is_not_looked_up_by_itself() -> None:
    assert due_at(record_in(Status.OUTCOME_UNKNOWN, attention=EXHAUSTED)) is None
    assert due_at(record_in(Status.PLANNED, plan=None)) is None


# ── the freeze ───────────────────────────────────────────────────────────────────────────────────

FROZEN_BY_A_RESTORE = {*IN_ATTEMPT, Status.PLANNED, Status.OUTCOME_UNKNOWN}


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("status", Status)
def test_a_restore_freezes_what_is_not_terminal(status: Status) -> None:
    before = record_in(status)
    frozen = freeze(before, LATER, "restored")
    if status not in FROZEN_BY_A_RESTORE:
        assert frozen is None
        return
    assert frozen is not None
    assert (frozen.frozen, frozen.status) == ("restored", status)
    assert replace(frozen, frozen=None, revision=before.revision, updated_at=NOW) == before
    assert freeze(frozen, LATER, "again") is None


@pytest.mark.rule("TX-LEASE-3", "TX-REV-3")
@pytest.mark.parametrize(
    ("change", "frozen"),
    [
        ({}, True),
        ({"mode": Mode.COMMIT}, False),
        ({"mode": Mode.COMPENSATE}, False),
        ({"idempotency_key": None}, False),
        ({"provider_operation": OPERATION}, False),
        ({"error": replace(BUSY, retryable=False)}, False),
        ({"error": None}, False),
        ({"result": result(ResultStatus.CANCELLED, error=BUSY)}, False),
    ],
)
def test_a_restore_freezes_a_failure_only_where_a_retry_could_reopen_it(
    change: dict[str, object], frozen: bool
) -> None:
    assert (freeze(replace(REOPENABLE, **change), LATER, "restored") is not None) is frozen


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("status", sorted(FROZEN_BY_A_RESTORE | {Status.FAILED}))
def test_an_operator_releases_what_was_frozen(status: Status) -> None:
    before = record_in(status, frozen="restored")
    released = release(before, LATER)
    assert (released.frozen, released.status) == (None, status)
    assert released.revision == before.revision + 1
    with refused_with("transaction.not_frozen", released):
        release(released, LATER)


def test_every_status_that_can_be_frozen_can_be_released() -> None:
    for status in Status:
        assert admits(Event.FROZEN, status) == admits(Event.RELEASED, status)
    with refused_with("transaction.not_frozen", record()):
        release(record(), LATER)
