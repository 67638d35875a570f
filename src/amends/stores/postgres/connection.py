"""Connections to the primary, on the timeline on which the store was last used.

A server that takes no writes is no primary and never asked. The timeline is compared with the one
the store was last used on: after a failover to a standby that may have been behind, everything that
is open must be frozen before anybody goes on (TX-LEASE-3), so until then the store is refused.
Where every commit had waited for a standby nothing was lost, and the new timeline is just written
down.

A connection is lent for one transaction or one question. One that ended in any error is ended too
and never lent again: it might hold an open transaction.

Deliberately not here: what is asked, and what a server must promise (`demands`).
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec

from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.ids import uuid7_hex
from amends.stores.postgres.address import Address
from amends.stores.postgres.demands import check_server
from amends.stores.postgres.failures import CLOSED, REPORTED, failed, foreign_loop, unreachable
from amends.stores.postgres.migrations import SYNCHRONOUS, SYSTEM, TIMELINE
from amends.stores.postgres.server_time import ServerTime
from amends.stores.rows import to_micros

CONNECT_S: Final = 10.0
PATIENCE_S: Final = 15.0
"""How long a server that cannot be reached is tried again: a failover takes a second or so."""

PAUSE_S: Final = 0.1
_STAND: Final = (
    f"SELECT lineage, synchronous, system_identifier = {SYSTEM} AND timeline = {TIMELINE},"
    f" {TIMELINE}, pg_backend_pid(),"
    " (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
    " FROM amends.store"
)


def _server_time() -> None:
    """No time of ours: the server's counts."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a store is opened; see `open_postgres`."""

    address: Address
    clock: Callable[[], datetime | None] = _server_time
    time: ServerTime = msgspec.field(default_factory=ServerTime)
    readers: int = 4
    patience_s: float = PATIENCE_S
    taking_over: bool = False

    def now(self) -> datetime | None:
        """The time to use instead of the server's, in tests."""
        return self.clock()


async def connect(address: Address) -> Any:
    """One connection to the primary, ready for any transaction.

    Raises `Unavailable` (`store.unavailable`), and as `check_server`.
    """
    try:
        connection = await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_S,
            target_session_attrs="read-write",
            statement_cache_size=0 if address.pooled else 200,
            max_cacheable_statement_size=0,
        )
    except REPORTED as error:
        raise unreachable(error).exception() from error
    except (ValueError, asyncpg.exceptions.TargetServerAttributeNotMatched) as error:
        raise unreachable(error).exception() from error
    try:
        async with whole(connection, address):
            await check_server(connection, address)
    except REPORTED as error:
        connection.terminate()
        raise failed(error).exception() from error
    except BaseException:
        connection.terminate()
        raise
    return connection


@asynccontextmanager
async def whole(connection: Any, address: Address) -> AsyncIterator[None]:
    """Questions of one transaction where a pooler stands between.

    The driver asks in two steps, and a pooler in transaction mode would hand the second one to
    another process of the server. Without a pooler each question stands for itself.
    """
    if not address.pooled:
        yield
        return
    await connection.execute("BEGIN")
    yield
    await connection.execute("COMMIT")


class Standing(NamedTuple):
    """Which store it is, on which timeline of its server, and who serves this connection there."""

    lineage: str
    timeline: int
    pid: int = 0
    began: datetime | None = None


async def check_timeline(connection: Any, *, taking_over: bool = False) -> Standing:
    """Which store it is, once it is sure that this is where it was last used.

    Raises `Unavailable` (`store.timeline_changed`).
    """
    lineage, synchronous, same, timeline, pid, began = await connection.fetchrow(_STAND)
    if not same and not taking_over:
        if not synchronous:
            raise Unavailable(
                "store.timeline_changed",
                "The server was restored or failed over since this store was last used, and what"
                " was acknowledged last may be missing from it.",
                next_step="Stop every process that uses the store, and run amends restore without"
                " a file: it freezes what is open.",
            )
        await accept_timeline(connection)
    return Standing(lineage, timeline, pid, began)


async def take_over(connection: Any) -> None:
    """Make another store of it, which nobody else can open until a server is accepted again."""
    now = await connection.fetchval("SELECT clock_timestamp()")
    await connection.execute(
        "UPDATE amends.store SET lineage = $1, timeline = 0, synchronous = false",
        uuid7_hex(to_micros(now) // 1000, os.urandom(10)),
    )


async def accept_timeline(connection: Any) -> None:
    """Write down that the store is where it is now."""
    await connection.execute(
        f"UPDATE amends.store SET system_identifier = {SYSTEM}, timeline = {TIMELINE},"
        f" synchronous = {SYNCHRONOUS}, confirmed_at = clock_timestamp()"
    )


class Connections:
    """Connections of one kind, lent to one user at a time. Belongs to one event loop."""

    def __init__(self, terms: Terms, most: int) -> None:
        self._terms = terms
        self._idle: list[Any] = []
        self._slots = asyncio.Semaphore(most)
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self.standing = Standing("", 0)
        self.closed = False

    def check(self) -> asyncio.AbstractEventLoop:
        """The loop that they belong to. Raises `Misuse` (`store.foreign_loop`) in any other."""
        if self._loop is not asyncio.get_running_loop() or self._pid != os.getpid():
            raise foreign_loop()
        return self._loop

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[Any]:
        """A connection for questions that see what is committed. Raises as `lent`."""
        async with self.lent() as connection, whole(connection, self._terms.address):
            yield connection

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Any]:
        """A connection for one transaction. After any error it is ended. Raises as `connect`."""
        async with self._slots:
            connection = self._take() or await self._open()
            try:
                yield connection
            except BaseException:
                self._terms.time.forget()
                connection.terminate()
                raise
            if connection.is_closed() or connection.is_in_transaction() or self.closed:
                connection.terminate()
            else:
                self._idle.append(connection)

    async def keep(self, connection: Any) -> None:
        """Take over a connection that is open already."""
        async with whole(connection, self._terms.address):
            self.standing = await check_timeline(connection, taking_over=self._terms.taking_over)
        self._idle.append(connection)

    async def close(self) -> None:
        """End every connection that is idle; those that are lent end when they come back."""
        self.closed = True
        while self._idle:
            connection = self._idle.pop()
            with contextlib.suppress(Exception):
                await connection.close(timeout=1)

    def forget(self) -> None:
        """End every idle connection at once: the server behind them is gone."""
        while self._idle:
            self._idle.pop().terminate()

    def _take(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _open(self) -> Any:
        if self.closed:
            raise CLOSED.exception()
        self._terms.time.forget()
        connection = await connect(self._terms.address)
        try:
            async with whole(connection, self._terms.address):
                self.standing = await check_timeline(
                    connection, taking_over=self._terms.taking_over
                )
        except BaseException:
            connection.terminate()
            raise
        return connection


def until(seconds: float) -> float:
    """The moment in so many seconds, on the event loop's clock."""
    return asyncio.get_running_loop().time() + seconds


async def patiently(call: Callable[[], Awaitable[Any]], deadline: float) -> Any:
    """Call until there is an answer; a server that cannot be reached is tried until the deadline.

    Raises what the call raises.
    """
    while True:
        try:
            return await call()
        except AmendsError as error:
            over = asyncio.get_running_loop().time() >= deadline
            if over or error.code != "store.unavailable":
                raise
        await asyncio.sleep(PAUSE_S)
