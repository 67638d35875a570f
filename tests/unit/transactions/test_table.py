"""The transition table: every event in every status, and what moving does to a record."""

from datetime import timedelta
from itertools import product

import msgspec
import pytest

from amends.contracts.enums import Status, Verdict
from amends.testing.builders import NOW, record, record_in, result
from amends.testing.refusals import refused_with
from amends.transactions.table import TABLE, Event, admits, begin, move, row_of

LATER = NOW + timedelta(seconds=1)
IN_EFFECT = {Status.PREPARED, Status.COMMITTING, Status.COMPENSATING}
IN_ATTEMPT = IN_EFFECT | {Status.RECONCILING}
UNKNOWN = {Status.OUTCOME_UNKNOWN}
FREEZABLE = IN_ATTEMPT | UNKNOWN | {Status.PLANNED, Status.FAILED}

CREATING = {
    Event.DRY_RUN_STORED: Status.DRY_RUN_COMPLETED,
    Event.ROLLBACK_ANSWERED: Status.ROLLBACK_NOT_SUPPORTED,
    Event.PLAN_STORED: Status.PLANNED,
    Event.PLAN_REJECTED: Status.FAILED,
    Event.EXECUTION_PREPARED: Status.PREPARED,
    Event.DIRECT_COMMIT_CLAIMED: Status.COMMITTING,
    Event.COMPENSATION_CLAIMED: Status.COMPENSATING,
}
MOVING: dict[Event, tuple[set[Status], Status | None]] = {
    Event.PLAN_EXPIRED: ({Status.PLANNED}, Status.FAILED),
    Event.PLAN_WITHDRAWN: ({Status.PLANNED}, Status.FAILED),
    Event.PLAN_CLAIMED: ({Status.PLANNED}, Status.COMMITTING),
    Event.EXECUTION_RESUMED: ({Status.PREPARED}, Status.PREPARED),
    Event.EXECUTION_REOPENED: ({Status.FAILED}, Status.PREPARED),
    Event.CHECKPOINTED: (IN_ATTEMPT, None),
    Event.REFERENCE_FILLED: (UNKNOWN, None),
    Event.COMPLETED: ({Status.PREPARED, Status.COMMITTING}, Status.COMMITTED),
    Event.COMPENSATION_COMPLETED: ({Status.COMPENSATING}, Status.COMPENSATED),
    Event.FAILED: (IN_EFFECT, Status.FAILED),
    Event.OUTCOME_LOST: (IN_EFFECT, Status.OUTCOME_UNKNOWN),
    Event.LEASE_LAPSED: (IN_ATTEMPT, Status.OUTCOME_UNKNOWN),
    Event.RECONCILIATION_STARTED: (UNKNOWN, Status.RECONCILING),
    Event.RECONCILED: ({Status.RECONCILING}, Status.RECONCILED),
    Event.RECONCILIATION_OPEN: ({Status.RECONCILING}, Status.OUTCOME_UNKNOWN),
    Event.LATE_ANSWER: (UNKNOWN, Status.RECONCILED),
    Event.EVIDENCE_KEPT: (IN_ATTEMPT | UNKNOWN, None),
    Event.REFERENCE_SUPPLIED: (UNKNOWN, None),
    Event.ESCALATED: (UNKNOWN, None),
    Event.SETTLED_BY_HAND: (UNKNOWN, Status.RECONCILED),
    Event.FROZEN: (FREEZABLE, None),
    Event.RELEASED: (FREEZABLE, None),
}
"""The table once more, written from the specification and not from the code."""

PAIRS = list(product(Event, Status))
MOVES = [(event, status) for event, (before, _) in MOVING.items() for status in sorted(before)]
NO_MOVES = [pair for pair in PAIRS if pair not in set(MOVES)]
TERMINAL = {
    Status.COMMITTED,
    Status.COMPENSATED,
    Status.RECONCILED,
    Status.DRY_RUN_COMPLETED,
    Status.ROLLBACK_NOT_SUPPORTED,
}


def test_every_event_has_exactly_one_row_and_names_its_rule() -> None:
    assert [row.event for row in TABLE] == list(dict.fromkeys(row.event for row in TABLE))
    assert {row.event for row in TABLE} == set(Event) == CREATING.keys() | MOVING.keys()
    assert all(row.rule.startswith("TX-") for row in TABLE)
    assert all(row_of(row.event) is row for row in TABLE)


@pytest.mark.parametrize(("event", "status"), list(CREATING.items()))
def test_a_creating_event_makes_a_first_revision_and_moves_no_record(
    event: Event, status: Status
) -> None:
    assert admits(event, None)
    begun = begin(event, record(revision=7))
    assert (begun.status, begun.revision) == (status, 1)


@pytest.mark.parametrize("event", list(MOVING))
def test_an_event_that_moves_records_creates_none(event: Event) -> None:
    assert not admits(event, None)
    with refused_with("transaction.transition_refused", fresh := record()):
        begin(event, fresh)


@pytest.mark.rule("TX-REV-1")
@pytest.mark.parametrize(("event", "status"), MOVES)
def test_a_row_moves_the_record_by_exactly_one_revision(event: Event, status: Status) -> None:
    assert admits(event, status)
    before = record_in(status)
    after = move(event, before, LATER, cursor="here")
    assert after.status is (MOVING[event][1] or status)
    assert after.revision == before.revision + 1
    assert (after.updated_at, after.cursor) == (LATER, "here")


@pytest.mark.rule("TX-REV-1")
@pytest.mark.parametrize(("event", "status"), NO_MOVES)
def test_without_a_row_the_event_is_refused_and_the_record_stays(
    event: Event, status: Status
) -> None:
    assert not admits(event, status)
    with refused_with("transaction.transition_refused", kept := record_in(status)) as caught:
        move(event, kept, LATER, cursor="elsewhere")
    assert caught.error.details == {"event": event, "status": status}


@pytest.mark.rule("TX-REV-3")
@pytest.mark.parametrize(("event", "status"), list(product(Event, sorted(TERMINAL))))
def test_no_event_moves_a_terminal_record(event: Event, status: Status) -> None:
    assert not admits(event, status)


@pytest.mark.rule("TX-REV-2")
def test_no_event_that_creates_a_record_has_a_row_for_one_that_exists() -> None:
    assert not [(event, status) for event in CREATING for status in Status if admits(event, status)]


@pytest.mark.rule("TX-RECON-2")
def test_reconciled_never_becomes_committed_or_compensated() -> None:
    leaving = [event for event in Event if admits(event, Status.RECONCILED)]
    into = {row.event for row in TABLE if row.after in (Status.COMMITTED, Status.COMPENSATED)}
    assert leaving == []
    assert not [e for e in into for s in (*UNKNOWN, Status.RECONCILING) if admits(e, s)]


def test_an_unknown_outcome_is_left_only_by_finding_out() -> None:
    out = {row.event for row in TABLE if row.after and row.before and UNKNOWN & row.before}
    assert out == {Event.RECONCILIATION_STARTED, Event.LATE_ANSWER, Event.SETTLED_BY_HAND}


def test_a_clock_that_went_back_never_moves_the_time_of_a_record_back() -> None:
    before = record(updated_at=LATER)
    after = move(Event.CHECKPOINTED, before, NOW)
    assert (after.updated_at, after.revision) == (LATER, before.revision + 1)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        pair
        for pair in MOVES
        if MOVING[pair[0]][1] in IN_ATTEMPT | UNKNOWN and pair[1] not in IN_ATTEMPT | UNKNOWN
    ],
)
def test_a_record_whose_outcome_is_open_keeps_no_earlier_result(
    event: Event, status: Status
) -> None:
    """A claimed plan drops the plan's own result; a reopened failure drops its verdict."""
    settled = record_in(status, result=result(), verdict=Verdict.NOT_COMMITTED, settled_at=NOW)
    opened = move(event, settled, LATER)
    assert (opened.result, opened.verdict, opened.settled_at) == (None, None, None)


def test_what_comes_with_an_event_is_written_even_into_an_open_record() -> None:
    moved = move(Event.LEASE_LAPSED, record(), LATER, attention="somebody")
    assert moved.attention == "somebody"
    assert msgspec.json.decode(msgspec.json.encode(moved), type=type(moved)) == moved
