"""`Retry-After`: a number of seconds or one of HTTP's three date forms (RFC 9110, 5.6.7, 10.2.3).

Invariants: never raises, never negative, never more than a day; what is not exactly one of the
forms is no delay at all, and the classification of the failure does not depend on it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from amends.contracts.limits import RETRY_AFTER_MAX_MS

_SECONDS: Final = re.compile(r"[0-9]+", re.ASCII)
_MANY_DIGITS: Final = 9
_MONTHS: Final = ("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec").split()
_DAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY: Final = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FORMS: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"{_DAY} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_CENTURY: Final = 100
_HALF_CENTURY: Final = 50
_LAST_SECOND: Final = 59


def retry_after_ms(values: Sequence[str], now: datetime) -> int | None:
    """The delay that a header asks for, or none. Two headers contradict each other: none."""
    if len(values) != 1:
        return None
    text = values[0].strip(" \t")
    if _SECONDS.fullmatch(text):
        return _bounded(int(text) * 1000) if len(text) <= _MANY_DIGITS else RETRY_AFTER_MAX_MS
    at = _date(text, now)
    return None if at is None else _bounded((at - now) // timedelta(milliseconds=1))


def _bounded(delay_ms: int) -> int:
    return min(max(delay_ms, 0), RETRY_AFTER_MAX_MS)


def _date(text: str, now: datetime) -> datetime | None:
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return _instant(match, now)
    return None


def _instant(match: re.Match[str], now: datetime) -> datetime | None:
    """A leap second counts as the one before it."""
    try:
        return datetime(
            _year(match["year"], now),
            _MONTHS.index(match["month"]) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            min(int(match["second"]), _LAST_SECOND),
            tzinfo=UTC,
        )
    except ValueError:  # the 31st of February
        return None


def _year(text: str, now: datetime) -> int:
    """Two digits mean the century in which the year is not more than fifty years ahead."""
    if len(text) > 2:
        return int(text)
    year = now.year // _CENTURY * _CENTURY + int(text)
    return year - _CENTURY if year > now.year + _HALF_CENTURY else year
