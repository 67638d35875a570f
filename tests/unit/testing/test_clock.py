"""Time and ids that a test decides."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from amends.contracts.errors import Refused
from amends.contracts.ids import uuid7_hex
from amends.testing.clock import START, CountingIds, FixedClock


def test_a_fixed_clock_moves_only_when_it_is_told_to() -> None:
    clock = FixedClock()
    assert clock() == clock() == START
    assert clock.step(1500) == START + timedelta(seconds=1.5)
    clock.step(-500)
    assert clock() == START + timedelta(seconds=1)


def test_a_fixed_clock_is_set_to_an_instant_in_utc() -> None:
    clock = FixedClock()
    clock.set(datetime(2027, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock() == datetime(2027, 1, 1, tzinfo=UTC)
    assert clock().tzinfo is UTC


def test_a_clock_without_a_time_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  # the mistake
    with pytest.raises(Refused):
        FixedClock(naive)
    with pytest.raises(Refused):
        FixedClock().set(naive)


def test_counted_ids_differ_and_come_in_the_same_order_every_time() -> None:
    first, second = CountingIds(), CountingIds()
    ids = [first("act_"), first("txn_"), first("act_")]
    assert ids == [second("act_"), second("txn_"), second("act_")]
    assert len(set(ids)) == 3
    assert ids[0] == "act_" + "0" * 31 + "1"


def test_ids_made_of_counted_bytes_differ() -> None:
    ids = CountingIds(first=2**72 - 500)
    assert len({uuid7_hex(0, ids.random_bytes(10)) for _ in range(1000)}) == 1000


def test_a_number_that_does_not_fit_is_not_cut() -> None:
    with pytest.raises(OverflowError):
        CountingIds(first=256).random_bytes(1)
