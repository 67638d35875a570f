"""Instants as numbers, and rows that are read with suspicion."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from amends.stores.port import Due
from amends.stores.rows import due_micros, from_micros, system_clock, to_micros


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_as_microseconds(instant: datetime) -> None:
    assert from_micros(to_micros(instant)) == instant


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_microseconds_order_as_the_instants_do(one: datetime, other: datetime) -> None:
    assert (to_micros(one) < to_micros(other)) == (one < other)


def test_the_same_instant_in_another_zone_is_the_same_number() -> None:
    there = datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    assert to_micros(there) == to_micros(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_due_time_is_an_instant_or_counts_from_now() -> None:
    assert due_micros(None, 7) is None
    assert due_micros(Due(after_ms=2), 7) == 2_007
    assert due_micros(Due(at=from_micros(5)), 7) == 5


def test_the_clock_of_the_machine_is_aware() -> None:
    assert system_clock().utcoffset() == timedelta(0)
