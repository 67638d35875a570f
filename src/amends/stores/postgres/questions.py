"""Questions over a connection of one's own, where the caller has no event loop: across all tenants.

Each transaction says that it looks after every tenant, so it can read and not write, and nothing is
set for the session, which a pooler may hand to somebody else.

Deliberately not here: what is asked (`survey`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from amends.stores.postgres.address import address_of
from amends.stores.postgres.connection import connect
from amends.stores.postgres.failures import REPORTED, failed

T = TypeVar("T")

# Whoever takes the answers in may be slow: nothing waits for a transaction that only reads.
_UPKEEP: Final = (
    " READ ONLY; SET LOCAL amends.upkeep = 'every tenant';"
    " SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0"
)
_LATEST: Final = "BEGIN ISOLATION LEVEL READ COMMITTED" + _UPKEEP
"""Each question sees what is committed when it is asked."""

_ONE_MOMENT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ" + _UPKEEP


class Questions:
    """A connection to the primary, for one thread and no event loop. Raises as `connect`."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._in_snapshot = False
        try:
            self._connection = self._run(connect(address_of(url)))
        except BaseException:
            self._runner.close()
            raise

    def close(self) -> None:
        """End the connection."""
        self._connection.terminate()
        self._runner.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answers of one moment of the store while the block lasts."""
        self._run(self._connection.execute(_ONE_MOMENT))
        self._in_snapshot = True
        try:
            yield
        finally:
            self._in_snapshot = False
            self._run(self._connection.execute("ROLLBACK"))

    def ask(self, sql: str, *values: int | str | None) -> list[Any]:
        """The rows of one answer. Raises `Unavailable`."""

        async def ask(connection: Any) -> list[Any]:
            return list(await connection.fetch(sql, *values))

        return self.put(ask)

    def put(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """The answer to a question, in the snapshot or else in a transaction of its own.

        Raises what it does, and `Unavailable` for what the server or the network reports.
        """
        return self._run(self._within(question))

    async def _within(self, question: Callable[[Any], Awaitable[T]]) -> T:
        if self._in_snapshot:
            return await question(self._connection)
        await self._connection.execute(_LATEST)
        try:
            return await question(self._connection)
        finally:
            await self._connection.execute("ROLLBACK")

    def _run(self, asking: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(asking)
        except REPORTED as error:
            raise failed(error).exception() from error
