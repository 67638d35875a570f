"""The crash table, whole: host and worker die at any point, once and twice, and recovery goes on.

Whatever the schedule, one compensation key has its inverse effect at most once, the original has
its effect at most once, and both sides end in what really happened.
"""

import itertools
from typing import Final

import pytest

from amends.contracts.worker_payload import Failed
from amends.journal.document import decode_journal
from amends.journal.reports import compensation_state
from amends.ledger.document import decode_ledger
from amends.ledger.records import LedgerState
from tests.property.pair import DONE, LIMITS, Dies, World, play

POINTS: Final = play({}).points
WHO: Final = (Dies.HOST, Dies.WORKER, Dies.HOST | Dies.WORKER)


def check(world: World) -> None:
    """What has to be true of every schedule, read from what is durable only."""
    ledger = decode_ledger(world.ledger_file)
    journal = decode_journal(world.journal_file, max_bytes=LIMITS.max_bytes)
    assert all(times <= 1 for times in world.effects.values())
    [operation] = ledger.operations
    key, held = operation.operation_key, operation.compensation
    [record] = journal.records
    assert (operation.state is LedgerState.SUCCEEDED) == (world.effects[key] == 1)
    assert (record.state == DONE) == (world.effects[key] == 1)
    if held is None:
        assert operation.state is LedgerState.FAILED
        assert isinstance(record.state, Failed)
        return
    state = compensation_state(journal, key, held.compensation_key)
    happened = world.effects[held.compensation_key] == 1
    assert (held.state is LedgerState.SUCCEEDED) == happened
    assert (state == DONE) == happened


def test_without_a_crash_everything_happens_once_in_the_order_of_the_rule() -> None:
    world = play({})
    check(world)
    assert sorted(world.effects.values()) == [1, 1]
    inverse = POINTS.index("before the ledger holds the intent")
    assert POINTS[inverse:] == [
        "before the ledger holds the intent",
        "after the ledger holds the intent",
        "before sending",
        "before the journal holds the inverse's admission",
        "after the journal holds the inverse's admission",
        "before the inverse",
        "after the inverse",
        "before the journal holds that the inverse runs",
        "after the journal holds that the inverse runs",
        "before the journal holds the inverse's end",
        "after the journal holds the inverse's end",
        "after the answer",
        "before the ledger holds the inverse's end",
        "after the ledger holds the inverse's end",
    ]


@pytest.mark.fault(28, 29)
@pytest.mark.rule("WS-1", "WJ-2", "HL-2", "PM-3")
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("at", range(len(POINTS)), ids=lambda at: f"{at} {POINTS[at]}")
def test_a_crash_at_any_point_is_recovered_from(at: int, who: Dies) -> None:
    check(play({at: who}))


@pytest.mark.rule("WS-1", "WJ-2", "HL-2", "PM-3")
def test_a_second_crash_during_recovery_changes_nothing_about_it() -> None:
    for first, gap in itertools.product(range(len(POINTS)), range(1, 16)):
        for one, other in itertools.product(WHO, WHO):
            check(play({first: one, first + gap: other}))


def test_an_intent_that_is_open_after_a_crash_is_offered_again_and_found_existing() -> None:
    at = POINTS.index("after the inverse")
    world = play({at: Dies.WORKER})
    assert world.points.count("before the inverse") == 1
    assert "after the journal holds what was found of the inverse" in world.points


def test_an_order_that_acts_before_it_persists_would_be_found_out() -> None:
    schedules = itertools.product(range(len(POINTS)), WHO)
    worlds = [play({at: who}, acts_before_persisting=True) for at, who in schedules]
    assert any(times > 1 for world in worlds for times in world.effects.values())
