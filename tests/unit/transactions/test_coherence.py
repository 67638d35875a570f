"""Records that contradict themselves: each way is seen, and nothing is done with such a record."""

from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict
from amends.contracts.errors import Corrupt
from amends.testing.builders import (
    DECLINED,
    NOW,
    OPERATION,
    action,
    attempt,
    capability,
    record_in,
    result,
)
from amends.transactions.coherence import CONTRADICTIONS, contradictions
from amends.transactions.compensation import Target, check_target
from amends.transactions.table import TABLE, Event, admits, move

LATER: Final = NOW + timedelta(minutes=1)
EARLIER: Final = NOW - timedelta(minutes=1)
COMMITTED: Final = record_in(Status.COMMITTED)
COMPENSATED: Final = record_in(Status.COMPENSATED)

CRAFTED: Final[dict[str, TransactionRecord]] = {
    "committed with an error": replace(COMMITTED, error=DECLINED),
    "committed without a result": replace(COMMITTED, result=None),
    "committed with a failed result": replace(COMMITTED, result=result(status=ResultStatus.FAILED)),
    "committed and not committed": replace(COMMITTED, verdict=Verdict.NOT_COMMITTED),
    "compensated without a target": replace(
        COMPENSATED, context=replace(COMPENSATED.context, compensation_for=None)
    ),
    "planned with an operation": record_in(Status.PLANNED, provider_operation=OPERATION),
    "planned with an attempt": record_in(Status.PLANNED, attempt=attempt()),
    "committing by nobody": record_in(Status.COMMITTING, attempt=None),
    "unknown with a verdict": record_in(Status.OUTCOME_UNKNOWN, verdict=Verdict.COMMITTED),
    "prepared and settled": record_in(Status.PREPARED, settled_at=NOW),
    "reconciled without a verdict": record_in(Status.RECONCILED, verdict=None),
    "settled before it was made": replace(COMMITTED, settled_at=EARLIER),
    "changed before it was made": record_in(Status.FAILED, updated_at=EARLIER),
}


@pytest.mark.parametrize("status", Status)
def test_a_record_as_it_really_stands_does_not_contradict_itself(status: Status) -> None:
    assert contradictions(record_in(status)) == ()


@pytest.mark.case("STK-09")
@pytest.mark.parametrize("crafted", CRAFTED.values(), ids=CRAFTED)
def test_a_record_that_contradicts_itself_says_how(crafted: TransactionRecord) -> None:
    assert contradictions(crafted)


def test_every_contradiction_of_the_table_is_seen_in_some_record() -> None:
    seen = {text for crafted in CRAFTED.values() for text in contradictions(crafted)}
    assert seen == {one.text for one in CONTRADICTIONS}


@pytest.mark.case("STK-09")
@pytest.mark.parametrize("crafted", CRAFTED.values(), ids=CRAFTED)
def test_no_event_moves_a_record_that_contradicts_itself(crafted: TransactionRecord) -> None:
    for event in (row.event for row in TABLE if admits(row.event, crafted.status)):
        with pytest.raises(Corrupt) as refused:
            move(event, crafted, LATER)
        assert refused.value.code == "transaction.record_contradictory"
        assert refused.value.details["transaction_id"] == crafted.transaction_id
        assert refused.value.details["contradictions"] == list(contradictions(crafted))


@pytest.mark.case("STK-09")
def test_an_effect_that_contradicts_itself_is_not_offset() -> None:
    crafted = CRAFTED["committed with an error"]
    target = Target(action=action(), record=crafted, slots=None)
    with pytest.raises(Corrupt) as refused:
        check_target(capability(), target, {}, LATER)
    assert refused.value.code == "transaction.record_contradictory"
    whole = replace(target, record=COMMITTED)
    assert check_target(capability(), whole, {}, LATER) is target.action


def test_a_clock_that_went_back_does_not_make_a_record_contradict_itself() -> None:
    """The store's clock may have been set back since the record was made; its end comes after."""
    running = record_in(Status.COMMITTING)
    failed = move(Event.FAILED, running, EARLIER, verdict=Verdict.NOT_COMMITTED, settled_at=EARLIER)
    assert failed.settled_at == running.created_at
    assert contradictions(failed) == ()
