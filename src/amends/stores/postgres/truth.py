"""What became of a COMMIT whose answer was lost.

The transaction's token stands in every row it wrote. So the rows are read again, on the primary and
over a new connection, once the lost transaction has surely ended there:

- a receipt or a revision that carries the token: it was committed. A synchronous commit is made
  after it, since what is there may not have reached the standby yet, and only then is it accepted.
- the place of a receipt without the token, or a document that is still at the revision before: it
  was not committed, and never will be.
- everything was written over since: what the server remembers of the transaction's number decides,
  on the timeline on which it was given out. On another one nobody can say, and the caller is told.

That the try *after* a lost COMMIT fails in whatever way proves nothing, so it is never consulted.

Deliberately not here: doing it again.
"""

import asyncio
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from amends.stores.postgres.address import Address
from amends.stores.postgres.connection import whole
from amends.stores.postgres.migrations import TIMELINE
from amends.stores.postgres.statements import SHAPED, begin
from amends.stores.postgres.verdicts import Effects

PATIENCE_TIMES: Final = 20
PAUSE_S: Final = 0.05
COMMITTED: Final = "COMMIT"
CUT_SHORT: Final = "01000"
"""The class of the warning that a commit, which is done here, no longer waits for its standby."""

_STATUS: Final = "SELECT pg_xact_status($1::text::xid8)"
_END: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = $1 AND backend_xid = $2::text::xid8::xid"
)
_TIMELINE: Final = f"SELECT {TIMELINE}"
_RECEIPT: Final = (
    "SELECT written_by FROM amends.receipts WHERE tenant = $1 AND chain = $2 AND number = $3"
)


class Fate(Enum):
    """What became of it."""

    COMMITTED = auto()
    NEVER = auto()
    UNKNOWN = auto()


_MEANINGS: Final = MappingProxyType({"committed": Fate.COMMITTED, "aborted": Fate.NEVER})


class Sent(msgspec.Struct, frozen=True):
    """A transaction for which COMMIT was sent: its token and number, and what it wrote."""

    token: UUID
    xact: str
    pid: int
    timeline: int
    tenants: frozenset[str]
    effects: Effects


async def find_out(connection: Any, sent: Sent, address: Address) -> Fate:
    """Look it up on the primary. Raises what the server or the network does."""
    async with whole(connection, address):
        ended = await _ended(connection, sent)
    if ended is None:
        return Fate.UNKNOWN
    await connection.execute(begin(sent.tenants))
    fate = await _fate(connection, sent)
    if fate is Fate.UNKNOWN and await connection.fetchval(_TIMELINE) == sent.timeline:
        fate = _MEANINGS.get(ended, Fate.UNKNOWN)
    if fate is Fate.COMMITTED:
        await connection.execute("UPDATE amends.store SET confirmed_at = clock_timestamp()")
    # The answer to this one counts: it is durable only when everything before it is.
    return fate if await commit(connection) == COMMITTED else Fate.UNKNOWN


async def commit(connection: Any) -> str:
    """Send COMMIT; what the server says, or `CUT_SHORT`. Raises what the server or network does."""
    warnings: list[str] = []

    def warned(_: object, message: Any) -> None:
        warnings.append(message.sqlstate)

    connection.add_log_listener(warned)
    try:
        status: str = await connection.execute("COMMIT")
    finally:
        if not connection.is_closed():
            connection.remove_log_listener(warned)
    return CUT_SHORT if CUT_SHORT in warnings else status


async def _ended(connection: Any, sent: Sent) -> str | None:
    """How the server says it ended, once it has; one that waits for its client is ended.

    An empty text where the server does not know, none where it goes on.
    """
    for time in range(PATIENCE_TIMES):
        try:
            status = await connection.fetchval(_STATUS, sent.xact)
        except asyncpg.PostgresError:
            return ""  # another server, on which such a number was never given out
        if status != "in progress":
            return str(status or "")
        if time:
            await connection.execute(_END, sent.pid, sent.xact)
        await asyncio.sleep(PAUSE_S)
    return None


async def _fate(connection: Any, sent: Sent) -> Fate:
    for chain, link in sent.effects.receipts:
        by = await connection.fetchval(_RECEIPT, *chain, link.number)
        return Fate.COMMITTED if by == sent.token else Fate.NEVER
    never = False
    for key, change in sent.effects.documents.items():
        table = SHAPED[key.place].table
        row = await connection.fetchrow(
            f"SELECT revision, written_by FROM amends.{table} WHERE tenant = $1 AND id = $2",
            key.tenant,
            key.id,
        )
        revision = row[0] if row else 0
        if row and row[1] == sent.token:
            return Fate.COMMITTED
        never = never or revision <= change.before.revision
        never = never or revision == change.write.revision
    return Fate.NEVER if never else Fate.UNKNOWN
