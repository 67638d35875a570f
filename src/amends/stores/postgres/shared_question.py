"""A question that many have at the same moment, asked once for all of them.

Whoever asks gets an answer that was asked for after that: one that is on its way already was asked
too early for who comes later, so these wait together for the next one. A question is asked whatever
becomes of those who wait for it.

Deliberately not here: what is asked, and keeping an answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedQuestion(Generic[T]):
    """Belongs to one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._asking = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def answer(self) -> T:
        """The answer to a question that is asked from now on. Raises what asking raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._in_turn())
            self._next.add_done_callback(_looked_at)
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> T:
        async with self._asking:
            self._next = None
            return await self._ask()


def _looked_at(task: "asyncio.Task[T]") -> None:
    """Nobody may be left who waits for it."""
    if not task.cancelled():
        task.exception()
