"""How many look-ups a provider gets at a time, and whose turn it is.

After an outage everything that had become unknown is due at once. A provider that has just come
back is asked by each process a few times a second for each tenant, and not for all of them in one
breath. Tenants take turns, so that one with a long backlog keeps nobody else waiting (fault 27).
Kept in memory: it spares providers, and nothing depends on it.

Deliberately not here: what is due, and how long one record rests after a failure (`resting`).
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Final, TypeVar

T = TypeVar("T")

BURST: Final = 100
"""So many look-ups of one provider and tenant may begin at once."""

PER_S: Final = 10.0
"""And so many more each second."""


class Pace:
    """A bucket of tokens for each provider and tenant, filled by the store's time."""

    def __init__(self, *, burst: float = BURST, per_s: float = PER_S) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left: dict[Hashable, tuple[float, datetime]] = {}

    def takes(self, key: Hashable, now: datetime) -> bool:
        """Take one token, if there is any. A clock that went back fills nothing."""
        left, since = self._left.get(key, (self._burst, now))
        seconds = max((now - since).total_seconds(), 0.0)
        left = min(left + seconds * self._per_s, self._burst)
        taken = left >= 1
        self._left[key] = (left - taken, now)
        return taken

    def forget_full(self, now: datetime) -> None:
        """Forget the buckets that are full by now, which is as if they had never been used."""
        for key, (left, since) in tuple(self._left.items()):
            if left + (now - since).total_seconds() * self._per_s >= self._burst:
                del self._left[key]


def in_turns(items: Sequence[T], whose: Callable[[T], Hashable]) -> list[T]:
    """The same items, one of each owner after the other; those of one owner keep their order."""
    queues: dict[Hashable, deque[T]] = {}
    for item in items:
        queues.setdefault(whose(item), deque()).append(item)
    waiting, ordered = deque(queues.values()), list[T]()
    while waiting:
        queue = waiting.popleft()
        ordered.append(queue.popleft())
        if queue:
            waiting.append(queue)
    return ordered
