"""Questions about the log of a file: every receipt in the order of the feed, and its checkpoints.

What a receipt's hash is said to be is read from its column, with which the end of a chain is
compared when a chain grows; whether the receipt has that hash is for whoever reads the chains.

Deliberately not here: what follows from an answer.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from amends.contracts.documents import LogCheckpoint
from amends.contracts.ids import TenantId
from amends.stores.port import Stored
from amends.stores.rows import from_micros, to_micros
from amends.stores.shapes import shape_of
from amends.stores.sqlite.survey import AT_ONCE, Survey
from amends.stores.surveys import ChainName

_LOG: Final = "SELECT position, hash FROM receipts WHERE position > ? ORDER BY position LIMIT ?"
_POSITIONS: Final = "SELECT number, position FROM receipts WHERE tenant = ? AND chain = ?"
_COUNT: Final = "SELECT count(*) FROM receipts"
_BEGAN: Final = "SELECT created_at FROM transactions ORDER BY seq LIMIT 1"
_TABLE: Final = "SELECT count(*) FROM sqlite_schema WHERE name = ?"
_WITHIN: Final = (
    "SELECT DISTINCT tenant, chain FROM receipts WHERE (?1 IS NULL OR tenant = ?1)"
    " AND CASE WHEN json_valid(body) THEN"
    " (?2 IS NULL OR unixepoch(json_extract(body, '$.step.at'), 'subsec') >= ?2)"
    " AND (?3 IS NULL OR unixepoch(json_extract(body, '$.step.at'), 'subsec') < ?3)"
    " ELSE 1 END ORDER BY tenant, chain"
)


class Logged(NamedTuple):
    """A receipt's position in the feed, and what its hash is said to be."""

    position: int
    hash: str


def count_receipts(survey: Survey) -> int:
    """How many receipts there are."""
    [(count,)] = survey.ask(_COUNT)
    return int(count)


def began(survey: Survey) -> datetime | None:
    """When the first transaction of the store began."""
    found = survey.ask(_BEGAN)
    return from_micros(found[0][0]) if found else None


def logged(survey: Survey) -> Iterator[Logged]:
    """Every receipt, in the order of the feed."""
    after = 0
    while rows := survey.ask(_LOG, after, AT_ONCE):
        for position, digest in rows:
            yield Logged(position, str(digest))
        after = rows[-1][0]


def positions(survey: Survey, name: ChainName) -> dict[int, int]:
    """Where the receipts of a chain stand in the feed, by their numbers."""
    return dict(survey.ask(_POSITIONS, name.tenant, name.chain))


def chains_within(
    survey: Survey, tenant: TenantId | None, since: datetime | None, until: datetime | None
) -> tuple[ChainName, ...]:
    """The chains with a step at or after `since` and before `until`, by whole milliseconds.

    A chain with a receipt that cannot be read is among them: nobody can tell of when it is.
    """
    bounds = [None if one is None else to_micros(one) // 1000 / 1000 for one in (since, until)]
    found = survey.ask(_WITHIN, tenant, *bounds)
    return tuple([ChainName(TenantId(owner), chain) for owner, chain in found])


def checkpoints(survey: Survey) -> tuple[LogCheckpoint, ...]:
    """The checkpoints of this lineage, the smallest first; what cannot be read is passed over.

    A file of a schema that knows none has none.
    """
    [(there,)] = survey.ask(_TABLE, shape_of(LogCheckpoint).table)
    rows = survey.documents(LogCheckpoint) if there else iter(())
    lineage = survey.lineage
    found = [row.document for row in rows if isinstance(row, Stored)]
    own = [one for one in found if one.lineage == lineage]
    return tuple(sorted(own, key=lambda one: one.size))
