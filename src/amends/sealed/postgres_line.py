"""One connection to the server of an anchor, used by any thread, one question at a time.

An anchor is asked from threads and from running event loops, and waits. So the connection has an
event loop in a thread of its own. After any error it is ended; the next question makes another one,
and finds out anew whether this is the server that the anchor was last used on.

Deliberately not here: what is asked (`postgres_anchor`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.sealed.anchor_address import AnchorAddress

LIMIT_S: Final = 10.0
"""How long one question may take, connecting included."""

_REPORTED: Final = (
    OSError,
    EOFError,
    TimeoutError,
    ValueError,  # an address that asyncpg makes nothing of
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_DURABLE: Final = ("fsync", "full_page_writes", "synchronous_commit")
_SETTINGS: Final = "SELECT name FROM unnest($1::text[]) AS name WHERE current_setting(name) = 'off'"
_T = TypeVar("_T")

Question: TypeAlias = Callable[[Any], Coroutine[Any, Any, _T]]
"""What is done with a connection of asyncpg, which has no types."""


class AnchorLine:
    """A connection that is made when it is needed. Close it when done.

    `check` is asked once for each connection, before anything else.
    """

    def __init__(self, address: AnchorAddress, check: Question[None]) -> None:
        self._address = address
        self._check = check
        self._turn = Lock()
        self._connection: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="amends-anchor", daemon=True)
        self._thread.start()

    def ask(self, question: Question[_T]) -> _T:
        """What the question gives.

        Raises what the question raises, and `Unavailable` (`sealed.anchor_unreachable`) when the
        server or the network failed: then whatever was asked may have been carried out.
        """
        with self._turn:
            asked = asyncio.run_coroutine_threadsafe(self._asked(question), self._loop)
            try:
                return asked.result()
            except BaseException:
                asked.cancel()
                raise

    def close(self) -> None:
        """End the connection and its thread. Nothing can be asked after that."""
        with self._turn:
            if self._loop.is_closed():
                return
            asyncio.run_coroutine_threadsafe(self._ended(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _asked(self, question: Question[_T]) -> _T:
        try:
            async with asyncio.timeout(LIMIT_S):
                return await question(await self._open())
        except _REPORTED as error:
            self._drop()
            raise _unreachable(error) from None
        except BaseException:
            self._drop()
            raise

    async def _open(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._drop()
            self._connection = await asyncpg.connect(
                self._address.dsn,
                timeout=LIMIT_S,
                target_session_attrs="read-write",
                server_settings={"search_path": f'"{self._address.schema}"'},
            )
            for name in await self._connection.fetch(_SETTINGS, _DURABLE):
                raise coded("sealed.anchor_unreachable", {"setting": name[0]})
            await self._check(self._connection)
        return self._connection

    def _drop(self) -> None:
        """A connection that failed may still hold what was asked: it is never asked again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _ended(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*_REPORTED):
                await self._connection.close(timeout=1)
        self._drop()


def _unreachable(error: Exception) -> AmendsError:
    """The server's own words are left out: they may quote what was asked."""
    state = getattr(error, "sqlstate", None)
    return coded("sealed.anchor_unreachable", {"sqlstate": state} if state else None)
