"""What became of a COMMIT whose answer was lost.

The transaction's token stands in every row it wrote. So the rows are read again, on the primary and
over a new connection, once the lost transaction has surely ended there: the server says so of its
number, or the process that would have carried out a lone statement is gone, and with it whatever
was still on its way to it.

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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from amends.stores.postgres.address import Address
from amends.stores.postgres.connection import whole
from amends.stores.postgres.migrations import TIMELINE
from amends.stores.postgres.statements import begin
from amends.stores.postgres.verdicts import Effects
from amends.stores.postgres.writes import SHAPED

PATIENCE_TIMES: Final = 20
PAUSE_S: Final = 0.05
CUT_SHORT: Final = "01000"
"""The class of the warning that a commit, which is done here, no longer waits for its standby."""

_STATUS: Final = "SELECT pg_xact_status($1::text::xid8)"
_END: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = $1 AND backend_xid = $2::text::xid8::xid"
)
_END_ALONE: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
)
_IS_THERE: Final = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)"
)
_TIMELINE: Final = f"SELECT {TIMELINE}"
_RECEIPT: Final = (
    "SELECT written_by, written_at FROM amends.receipts"
    " WHERE tenant = $1 AND chain = $2 AND number = $3"
)


class Fate(Enum):
    """What became of it."""

    COMMITTED = auto()
    NEVER = auto()
    UNKNOWN = auto()


_MEANINGS: Final = MappingProxyType({"committed": Fate.COMMITTED, "aborted": Fate.NEVER})


class Sent(msgspec.Struct, frozen=True):
    """A transaction for which COMMIT was sent: its token, and what it wrote.

    It is known by its number, or, where a statement was sent that is a transaction by itself, by
    the process of the server that serves the connection, and since when it does (`began`).
    """

    token: UUID
    xact: str
    pid: int
    began: datetime | None
    timeline: int
    tenants: frozenset[str]
    effects: Effects


async def find_out(connection: Any, sent: Sent, address: Address) -> tuple[Fate, datetime | None]:
    """Look it up on the primary; with when it was written, where a receipt tells.

    Raises what the server or the network does.
    """
    async with whole(connection, address):
        ended = await (_ended(connection, sent) if sent.xact else _gone(connection, sent))
    if ended is None:
        return Fate.UNKNOWN, None
    await connection.execute(begin(sent.tenants))
    fate, at = await _fate(connection, sent)
    if fate is Fate.UNKNOWN and await connection.fetchval(_TIMELINE) == sent.timeline:
        fate = _MEANINGS.get(ended, Fate.UNKNOWN)
    if fate is Fate.COMMITTED:
        await connection.execute("UPDATE amends.store SET confirmed_at = clock_timestamp()")
    # The answer to this one counts: it is durable only when everything before it is.
    if not await commit(connection):
        return Fate.UNKNOWN, None
    return fate, at


async def commit(connection: Any) -> bool:
    """Send COMMIT; whether the answer says that it is durable: it may be ROLLBACK, or a warning.

    Raises what the server or the network does.
    """
    with heard(connection) as warnings:
        status = await connection.execute("COMMIT")
    return status == "COMMIT" and CUT_SHORT not in warnings


@contextmanager
def heard(connection: Any) -> Iterator[list[str]]:
    """The classes of the warnings that come meanwhile."""
    warnings: list[str] = []

    def warned(_: object, message: Any) -> None:
        warnings.append(message.sqlstate)

    connection.add_log_listener(warned)
    try:
        yield warnings
    finally:
        if not connection.is_closed():
            connection.remove_log_listener(warned)


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


async def _gone(connection: Any, sent: Sent) -> str | None:
    """An empty text once the process that served a statement is gone, none where it stays.

    It may not even have received the statement; what is still on its way then finds nobody.
    """
    for time in range(PATIENCE_TIMES):
        if not await connection.fetchval(_IS_THERE, sent.pid, sent.began):
            return ""
        if time:
            await connection.execute(_END_ALONE, sent.pid, sent.began)
        await asyncio.sleep(PAUSE_S)
    return None


async def _fate(connection: Any, sent: Sent) -> tuple[Fate, datetime | None]:
    for chain, link in sent.effects.receipts:
        row = await connection.fetchrow(_RECEIPT, *chain, link.number)
        found = row is not None and row[0] == sent.token
        return (Fate.COMMITTED, row[1]) if found else (Fate.NEVER, None)
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
            return Fate.COMMITTED, None
        never = never or revision <= change.before.revision
        never = never or revision == change.write.revision
    return (Fate.NEVER if never else Fate.UNKNOWN), None
