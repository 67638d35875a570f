"""`Retry-After` in every form, well and badly written."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.connectors.http.retry_after import retry_after_ms
from amends.contracts.limits import RETRY_AFTER_MAX_MS

NOW = datetime(2026, 10, 21, 7, 27, tzinfo=UTC)
MINUTE = 60_000


@pytest.mark.case("RTA-01")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", MINUTE),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", MINUTE),
        ("Wed Oct 21 07:28:00 2026", MINUTE),
        ("Sun Nov  1 07:27:00 2026", 11 * 24 * 60 * MINUTE),
        ("Wed, 21 Oct 2026 07:27:60 GMT", MINUTE - 1000),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("120", 120_000),
        (" 120 ", 120_000),
        ("0", 0),
        ("000000120", 120_000),
        ("86401", RETRY_AFTER_MAX_MS),
        ("9" * 5000, RETRY_AFTER_MAX_MS),
    ],
)
def test_seconds_and_the_three_forms_of_dates_are_honoured_and_bounded(
    value: str, expected: int
) -> None:
    assert retry_after_ms([value], NOW) == min(expected, RETRY_AFTER_MAX_MS)


@pytest.mark.case("RTA-01")
@pytest.mark.parametrize(
    "value",
    [
        "-5",
        "",
        " ",
        "1.5",
        "1e3",
        "+5",
        "١٢",
        "12s",
        "0x10",
        "1_000",
        "12\n",
        "Wed, 31 Feb 2026 07:28:00 GMT",
        "Wed, 21 Oct 2026 07:28:00",
        "Wed, 21 Oct 2026 07:28:00 CET",
        "wed, 21 oct 2026 07:28:00 GMT",
        "Wed, 21 Oct 2026 25:28:00 GMT",
        "2026-10-21T07:28:00Z",
    ],
)
def test_anything_else_is_no_delay(value: str) -> None:
    assert retry_after_ms([value], NOW) is None


@pytest.mark.case("RTA-01")
def test_two_headers_contradict_each_other_and_none_says_nothing() -> None:
    assert retry_after_ms(["120", "120"], NOW) is None
    assert retry_after_ms([], NOW) is None


@given(st.text() | st.from_regex(r"[A-Za-z, 0-9:GMT-]{0,40}"), st.datetimes())
def test_whatever_is_sent_nothing_is_raised_and_nothing_is_negative(
    value: str, now: datetime
) -> None:
    delay = retry_after_ms([value], now.replace(tzinfo=UTC))
    assert delay is None or 0 <= delay <= RETRY_AFTER_MAX_MS


def test_two_digits_of_a_year_more_than_fifty_years_ahead_mean_the_past() -> None:
    almost = NOW + timedelta(hours=1)
    assert (
        retry_after_ms([almost.strftime("Wednesday, %d-Oct-%y %H:%M:%S GMT")], NOW) == 60 * MINUTE
    )
    assert retry_after_ms(["Monday, 21-Oct-77 07:28:00 GMT"], NOW) == 0
    assert retry_after_ms(["Monday, 21-Oct-75 07:28:00 GMT"], NOW) == RETRY_AFTER_MAX_MS
