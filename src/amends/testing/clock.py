"""Time and chance that a test decides: a clock that stands still, and ids that count.

Both are called the way the product calls the real ones, and give the same in every run.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from amends.contracts.times import require_instant

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class FixedClock:
    """A clock, called for the time as an aware UTC datetime; it moves only when told to.

    Raises `Refused` (`input.invalid_time`) for an instant without a time zone.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = require_instant(start, "start")

    def __call__(self) -> datetime:
        return self._now

    def step(self, milliseconds: int) -> datetime:
        """Move by so much, backwards if negative, and return the new time."""
        self._now += timedelta(milliseconds=milliseconds)
        return self._now

    def set(self, instant: datetime) -> None:
        """Move to an instant, which may lie in the past."""
        self._now = require_instant(instant, "instant")


class CountingIds:
    """Ids, and random bytes to make ids of, that only count; no two of one source are alike."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def __call__(self, prefix: str) -> str:
        """The next id under a prefix such as `act_`."""
        return f"{prefix}{self._take():032x}"

    def random_bytes(self, count: int) -> bytes:
        """The next number as bytes, big end first; raises `OverflowError` if it does not fit."""
        return self._take().to_bytes(count, "big")

    def _take(self) -> int:
        taken, self._next = self._next, self._next + 1
        return taken
