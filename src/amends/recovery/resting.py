"""What could not be helped just now, and until when it is left alone.

Kept in memory: it spares a provider, a credential source and the log, and nothing depends on it. It
also keeps what cannot be helped from standing in the way of what can (fault 26).
"""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from amends.contracts.times import after_ms

FIRST_MS: Final = 1_000
LONGEST_MS: Final = 60_000


class Resting:
    """Documents by key, each with the end of its rest; a rest doubles each time, up to a minute."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[datetime, int]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def rest(self, key: str, now: datetime) -> None:
        """Leave it alone for a while, longer than the last time."""
        _, before = self._until.get(key, (now, FIRST_MS // 2))
        span = min(before * 2, LONGEST_MS)
        self._until[key] = (after_ms(now, span), span)

    def rests(self, key: str, now: datetime) -> bool:
        """Whether it is left alone still."""
        until, _ = self._until.get(key, (now, 0))
        return now < until

    def keep(self, keys: Collection[str]) -> None:
        """Forget all but these: whatever is due no longer has been helped."""
        self._until = {key: self._until[key] for key in keys if key in self._until}
