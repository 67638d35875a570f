"""Instants: always aware, always UTC, at microsecond precision.

A naive datetime is refused at the edge, since its meaning depends on the machine it runs on.
Durations are integers in milliseconds, with the unit last in the name.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from amends.contracts.errors import Refused

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""From where instants are counted that are written as numbers."""

MILLISECOND: Final = timedelta(milliseconds=1)
"""Multiplied, it gives a span in a third of the time that making one takes."""


def require_instant(value: object, field: str) -> datetime:
    """Return `value` in UTC.

    Raises `Refused` (`input.invalid_time`) for anything but an aware datetime.
    """
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise _invalid(field)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise _invalid(field) from None


def parse_instant(text: object, field: str) -> datetime:
    """Read an RFC 3339 instant. Raises `Refused` (`input.invalid_time`) when it is none."""
    if not isinstance(text, str):
        return require_instant(None, field)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return require_instant(None, field)
    return require_instant(parsed, field)


def after_ms(start: datetime, duration_ms: int) -> datetime:
    """The instant `duration_ms` milliseconds of real time after `start`, in UTC."""
    return start.astimezone(UTC) + duration_ms * MILLISECOND


def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`, the one spelling used in hashes, documents and pages."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _invalid(field: str) -> Refused:
    return Refused(
        "input.invalid_time",
        f"{field} must be a datetime with a time zone.",
        details={"field": field},
        next_step="Give an aware datetime, for example datetime.now(UTC).",
    )
