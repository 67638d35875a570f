"""Questions about the log of a database: every receipt in the order of the feed, its checkpoints.

What is committed at a moment need not be a beginning of the feed: a batch with earlier positions
may still be on its way (`feed`). A proof over such a log would be refuted by the next checkpoint.
So it is known beforehand up to which position everything has ended, and the log ends there; or at a
later checkpoint that is there already, since whoever made it knew the same.

Deliberately not here: what follows from an answer.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from amends.contracts.documents import LogCheckpoint
from amends.contracts.ids import TenantId
from amends.stores.surveys import ChainName, Logged, Surveyed, own_checkpoints
from amends.stores.windows import chains_within

_LOG: Final = (
    "SELECT position, hash FROM amends.receipts"
    " WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3"
)
_AT_ONCE: Final = 5_000
_BODIES: Final = (
    "SELECT position, tenant, chain, textsend(body) FROM amends.receipts"
    " WHERE position > $1 AND ($2 = '' OR tenant = $2) ORDER BY position LIMIT $3"
)
_LAST: Final = "SELECT coalesce(max(position), 0) FROM amends.receipts"
_POSITIONS: Final = (
    "SELECT number, position FROM amends.receipts"
    " WHERE tenant = $1 AND chain = $2 AND position <= $3"
)
_COUNT: Final = "SELECT count(*) FROM amends.receipts WHERE position <= $1"
_BEGAN: Final = "SELECT created_at FROM amends.transactions ORDER BY seq LIMIT 1"

Ask: TypeAlias = Callable[..., list[Any]]
"""One question in SQL with its values, read to its end."""


class DatabaseLogbook:
    """A `Logbook` of a database; see there for what the methods promise.

    Up to the position `reached` everything has ended.
    """

    def __init__(self, survey: Surveyed, ask: Ask, reached: int) -> None:
        self._survey = survey
        self._ask = ask
        self._checkpoints = own_checkpoints(survey)
        self._end = max([reached, *[one.position for one in self._checkpoints]])

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        return self._survey.lineage

    def count(self) -> int:
        """See `Logbook.count`."""
        return int(self._ask(_COUNT, self._end)[0][0])

    def began(self) -> datetime | None:
        """See `Logbook.began`."""
        found: list[tuple[datetime]] = self._ask(_BEGAN)
        return found[0][0] if found else None

    def entries(self) -> Iterator[Logged]:
        """See `Logbook.entries`."""
        after = 0
        while rows := self._ask(_LOG, after, self._end, _AT_ONCE):
            for position, digest in rows:
                yield Logged(position, digest)
            after = rows[-1][0]

    def positions(self, name: ChainName) -> dict[int, int]:
        """See `Logbook.positions`."""
        found = self._ask(_POSITIONS, name.tenant, name.chain, self._end)
        return dict(found)

    def chains_within(
        self, tenant: TenantId | None, since: datetime | None, until: datetime | None
    ) -> tuple[ChainName, ...]:
        """See `Logbook.chains_within`."""
        [(end,)] = self._ask(_LAST)
        return chains_within(partial(self._ask, _BODIES), end, tenant, since, until)

    def checkpoints(self) -> tuple[LogCheckpoint, ...]:
        """See `Logbook.checkpoints`."""
        return self._checkpoints
