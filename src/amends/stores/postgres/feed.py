"""The feed of all receipts, in an order that never changes once somebody has seen a part of it.

Positions come from a sequence, and are taken after the rows of a batch are locked, so that what
followed on something stands behind it. But two batches may commit in another order than they took
their positions, and a reader that had passed the later one would never see the earlier. So every
batch takes its positions under a lock that it shares with all the others and holds until it has
ended. A reader looks how far positions are given out, then who holds the lock, and then reads no
further than that before those have ended: what they hold is behind what it reads, or there to see.

A batch takes milliseconds, and that is how long a reader waits. Where one takes longer, because its
client stands still, the reader answers with what stands before the first gap. The server ends such
a client after ten seconds.

Deliberately not here: who follows, and how far they have come.
"""

import asyncio
from typing import Any, Final

from amends.stores.postgres.function import FEED_LOCK

PAUSE_S: Final = 0.002
PATIENCE_TIMES: Final = 100
_REACHED: Final = (
    "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM amends.receipts_position"
)
_HOLDERS: Final = (
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND classid = {FEED_LOCK >> 32}::oid AND objid = {FEED_LOCK & 0xFFFF_FFFF}::oid"
    " AND objsubid = 1"
)


class Reach:
    """How far the feed can be read now."""

    def __init__(self, reached: int, *, settled: bool) -> None:
        self.reached = reached
        self.settled = settled
        """Whether every position up to there has been committed or never will be."""

    def cut(self, positions: list[int], after: int) -> int:
        """How many of these positions may be shown, which were read in order from `after`."""
        if self.settled:
            return len(positions)
        count = 0
        for position in positions:
            if position != after + count + 1:
                break
            count += 1
        return count


async def find_reach(connection: Any, patience_times: int = PATIENCE_TIMES) -> Reach:
    """Wait for those who hold positions now, so many times; see the top of this module."""
    reached = int(await connection.fetchval(_REACHED))
    holders = {row[0] for row in await connection.fetch(_HOLDERS)}
    for _ in range(patience_times):
        if not holders:
            return Reach(reached, settled=True)
        await asyncio.sleep(PAUSE_S)
        holders &= {row[0] for row in await connection.fetch(_HOLDERS)}
    return Reach(reached, settled=False)
