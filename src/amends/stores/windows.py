"""Which chains have a step within a window of time, found without reading the whole feed.

No index knows of when a step is. But receipts are written within moments of their own time, so
their times follow the order of the feed, except that they may be out of order by as long as a call
may take, and by as much as a server's clock is ever set back. `SLACK_MS` is far more than both. The
beginning of the window is looked for by halves, and reading ends where its end is passed.

Deliberately not here: SQL.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from amends.contracts.ids import TenantId
from amends.stores.rows import to_micros
from amends.stores.surveys import ChainName

SLACK_MS: Final = 24 * 60 * 60 * 1000
"""By how much the times of two receipts may contradict their order in the feed."""

AT_ONCE: Final = 500
_PROBED: Final = 20

Pages: TypeAlias = Callable[[int, str, int], Sequence[Sequence[Any]]]
"""Position, tenant, chain and body of the receipts behind a position, in the order of the feed.

Those of a tenant or, for an empty text, of all; at most so many.
"""


class _Step(msgspec.Struct):
    at: datetime


class _Dated(msgspec.Struct):
    """A receipt, of which only the time is of interest."""

    step: _Step


def chains_within(
    pages: Pages, end: int, tenant: TenantId | None, since: datetime | None, until: datetime | None
) -> tuple[ChainName, ...]:
    """See `Logbook.chains_within`. `end` is the last position that there is."""
    low, high = [None if one is None else to_micros(one) // 1000 for one in (since, until)]
    found: set[ChainName] = set()
    after = 0 if low is None else _before(pages, end, low - SLACK_MS)
    while rows := pages(after, tenant or "", AT_ONCE):
        latest = 0
        for after, owner, chain, body in rows:  # noqa: B007  # the last one is where to go on
            at = _milliseconds(body)
            if at is None or ((low is None or at >= low) and (high is None or at < high)):
                found.add(ChainName(TenantId(owner), chain))
            latest = max(latest, at or 0)
        if high is not None and latest >= high + SLACK_MS:
            break
    return tuple(sorted(found))


def _before(pages: Pages, end: int, moment: int) -> int:
    """A position up to which everything is before a moment, as far as times follow the order."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        probed = [(row[0], _milliseconds(row[3])) for row in pages(middle, "", _PROBED)]
        readable = next(((place, at) for place, at in probed if at is not None), None)
        if readable is not None and readable[1] < moment:
            low = readable[0]
        else:
            high = middle
    return low


def _milliseconds(body: bytes) -> int | None:
    """Of when a receipt is; none where that cannot be read."""
    try:
        return to_micros(msgspec.json.decode(body, type=_Dated).step.at) // 1000
    except (msgspec.MsgspecError, ValueError):
        return None
