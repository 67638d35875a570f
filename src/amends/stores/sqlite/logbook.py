"""Questions about the log of a file: every receipt in the order of the feed, and its checkpoints.

One process at a time writes to a file, so the order of the positions is that of the commits.
Deliberately not here: what follows from an answer.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from amends.contracts.documents import LogCheckpoint
from amends.contracts.ids import TenantId
from amends.stores.rows import from_micros
from amends.stores.shapes import shape_of
from amends.stores.surveys import ChainName, Logged, Surveyed, own_checkpoints
from amends.stores.windows import chains_within

_LOG: Final = "SELECT position, hash FROM receipts WHERE position > ? ORDER BY position LIMIT ?"
_AT_ONCE: Final = 500
_POSITIONS: Final = "SELECT number, position FROM receipts WHERE tenant = ? AND chain = ?"
_COUNT: Final = "SELECT count(*) FROM receipts"
_BEGAN: Final = "SELECT created_at FROM transactions ORDER BY seq LIMIT 1"
_TABLE: Final = "SELECT count(*) FROM sqlite_schema WHERE name = ?"
_LAST: Final = "SELECT coalesce(max(position), 0) FROM receipts"
_BODIES: Final = (
    "SELECT position, tenant, chain, CAST(body AS BLOB) FROM receipts"
    " WHERE position > ?1 AND (?2 = '' OR tenant = ?2) ORDER BY position LIMIT ?3"
)

Ask: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""One question in SQL with its bindings, read to its end."""


class FileLogbook:
    """A `Logbook` of a file; see there for what the methods promise."""

    def __init__(self, survey: Surveyed, ask: Ask) -> None:
        self._survey = survey
        self._ask = ask

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        return self._survey.lineage

    def count(self) -> int:
        """See `Logbook.count`."""
        [(count,)] = self._ask(_COUNT)
        return int(count)

    def began(self) -> datetime | None:
        """See `Logbook.began`."""
        found = self._ask(_BEGAN)
        return from_micros(found[0][0]) if found else None

    def entries(self) -> Iterator[Logged]:
        """See `Logbook.entries`."""
        after = 0
        while rows := self._ask(_LOG, after, _AT_ONCE):
            for position, digest in rows:
                yield Logged(position, str(digest))
            after = rows[-1][0]

    def positions(self, name: ChainName) -> dict[int, int]:
        """See `Logbook.positions`."""
        return dict(self._ask(_POSITIONS, name.tenant, name.chain))

    def chains_within(
        self, tenant: TenantId | None, since: datetime | None, until: datetime | None
    ) -> tuple[ChainName, ...]:
        """See `Logbook.chains_within`."""
        [(end,)] = self._ask(_LAST)
        return chains_within(partial(self._ask, _BODIES), end, tenant, since, until)

    def checkpoints(self) -> tuple[LogCheckpoint, ...]:
        """See `Logbook.checkpoints`. A file of a schema that knows none has none."""
        [(there,)] = self._ask(_TABLE, shape_of(LogCheckpoint).table)
        return own_checkpoints(self._survey) if there else ()
