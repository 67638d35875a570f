"""Hearing of what people wait for as soon as it is committed, wherever that was.

One thing is told of: that an approval request was made or decided. It wakes whoever waits for the
decision, and the notices that tell people. A server lets commits that have something to tell pass
one after the other, so telling of every outcome would make all of them stand in line. Who follows a
transaction asks a few times a second instead; what becomes due does so without anybody saying it.

A message is empty: nobody learns more from it than that it is worth asking. What is heard decides
nothing. Whoever waits asks again anyway, after a while, so a lost message costs time and no more.

Deliberately not here: what has changed.
"""

import asyncio
from typing import Any, Final

from amends.contracts.errors import AmendsError
from amends.stores.postgres.connection import Terms, connect
from amends.stores.postgres.failures import REPORTED
from amends.stores.postgres.function import NEWS

_FAILURES: Final = (AmendsError, *REPORTED)


class Listener:
    """One connection that listens, made when somebody first waits. Belongs to one event loop."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._making = asyncio.Lock()
        self._connection: Any = None
        self._heard = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until something is heard, at most so long; a pooler or a lost server leaves only that."""
        if self._terms.address.pooled:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._listen()
                await self._heard.wait()
        except TimeoutError:
            return
        except _FAILURES:
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _listen(self) -> None:
        async with self._making:
            if self._connection is None or self._connection.is_closed():
                connection = await connect(self._terms.address)
                try:
                    await connection.add_listener(NEWS, self._hear)
                except BaseException:
                    connection.terminate()
                    raise
                self._connection = connection

    def _hear(self, *_: object) -> None:
        """Wake everybody who waits now; who comes later waits for the next time."""
        heard, self._heard = self._heard, asyncio.Event()
        heard.set()
