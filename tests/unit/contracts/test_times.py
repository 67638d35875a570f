"""Instants: aware, UTC, spelled one way, whatever zone the machine is in."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.errors import Refused
from amends.contracts.times import after_ms, format_instant, parse_instant, require_instant
from amends.testing.refusals import refused_with

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KOLKATA = timezone(timedelta(hours=5, minutes=30))


class Zoneless(tzinfo):
    """A zone that does not know its own offset, which makes a datetime naive."""

    def utcoffset(self, _dt: datetime | None) -> timedelta | None:
        return None

    def dst(self, _dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _dt: datetime | None) -> str | None:
        return None


@pytest.fixture(
    params=["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"], autouse=True
)
def _local_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.case("TIM-01")
@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00+00:00",
        "2026-03-01T17:30:00+05:30",
        "2026-03-01T07:00:00.000-05:00",
    ],
)
def test_one_instant_is_read_the_same_in_every_zone(text: str) -> None:
    read = parse_instant(text, "at")
    assert (read, read.tzinfo) == (NOON, UTC)
    assert format_instant(read) == "2026-03-01T12:00:00Z"


@pytest.mark.case("TIM-01", "TIM-02")
@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00",
        "2026-03-01",
        "12:00:00Z",
        "noon",
        "",
        "2026-02-30T12:00:00Z",
        "2026-03-01T25:00:00Z",
        1772366400,
        1772366400.0,
        True,
        None,
        b"2026-03-01T12:00:00Z",
        NOON,
    ],
)
def test_a_text_that_is_no_instant_is_refused(value: object) -> None:
    with refused_with("input.invalid_time") as caught:
        parse_instant(value, "at")
    assert caught.error.details == {"field": "at"}


@pytest.mark.case("TIM-02")
@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 3, 1, 12),  # noqa: DTZ001  # the naive value is the point
        datetime(2026, 3, 1, 12, tzinfo=Zoneless()),
        date(2026, 3, 1),
        1772366400,
        "2026-03-01T12:00:00Z",
        None,
    ],
)
def test_a_value_without_a_zone_is_refused_at_the_boundary(value: object) -> None:
    with refused_with("input.invalid_time") as caught:
        require_instant(value, "at")
    assert caught.error.details == {"field": "at"}


@pytest.mark.case("TIM-02")
def test_an_instant_of_another_zone_is_the_same_instant_in_utc() -> None:
    taken = require_instant(datetime(2026, 3, 1, 17, 30, tzinfo=KOLKATA), "at")
    assert (taken, taken.tzinfo) == (NOON, UTC)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, NOON),
        (1, NOON + timedelta(milliseconds=1)),
        (15 * 60 * 1000, datetime(2026, 3, 1, 12, 15, tzinfo=UTC)),
        (-1000, NOON - timedelta(seconds=1)),
        (100 * 366 * 86_400_000, NOON + timedelta(days=36_600)),
    ],
)
def test_a_duration_is_added_in_elapsed_milliseconds(duration_ms: int, expected: datetime) -> None:
    assert after_ms(NOON, duration_ms) == expected


moments = st.datetimes(
    min_value=datetime(1, 1, 2),  # noqa: DTZ001  # bounds of a strategy are naive
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001  # Hypothesis takes bounds without a zone
    timezones=st.sampled_from([UTC, KOLKATA, timezone(timedelta(hours=-12))]),
)


@given(moments)
def test_every_instant_is_written_with_a_z_and_read_back(moment: datetime) -> None:
    written = format_instant(moment)
    assert written.endswith("Z")
    assert parse_instant(written, "at") == moment


def test_an_instant_beyond_the_calendar_is_refused_as_no_instant() -> None:
    with pytest.raises(Refused) as caught:
        parse_instant("9999-12-31T23:59:59-12:00", "original_completed_at")
    assert caught.value.code == "input.invalid_time"
