"""The line that shows a wait: how long it has taken, and how long it may take at most.

It is drawn on standard error and on a terminal only, and taken away again. It never decides when a
wait ends.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from amends.cli.paper import Forgiving

_EVERY_S: Final = 0.1
_BEFORE_S: Final = 0.3
"""What is over sooner than this is not worth a line."""

_WIDTH: Final = 24
_ERASE: Final = "\r\x1b[2K"


@asynccontextmanager
async def shown_wait(
    sentence: str, at_most_s: float | None = None
) -> AsyncIterator[Callable[[], None]]:
    """Show the wait while the block lasts.

    Gives what makes room for other lines: call it before something else is printed.
    """
    if not sys.stderr.isatty():
        yield _nothing
        return
    stream = Forgiving(sys.stderr)

    def make_room() -> None:
        stream.write(_ERASE)
        stream.flush()

    drawing = asyncio.create_task(_draw(stream, sentence, at_most_s))
    try:
        yield make_room
    finally:
        drawing.cancel()
        await asyncio.wait((drawing,))
        make_room()


def _nothing() -> None:
    """Where nothing is drawn there is room."""


async def _draw(stream: Forgiving, sentence: str, at_most_s: float | None) -> None:
    began = time.monotonic()
    await asyncio.sleep(_BEFORE_S)
    while True:
        stream.write(_ERASE + line(sentence, time.monotonic() - began, at_most_s))
        stream.flush()
        await asyncio.sleep(_EVERY_S)


def line(sentence: str, elapsed_s: float, at_most_s: float | None) -> str:
    """The line at one moment; a wait that has no end in sight has no bar."""
    if at_most_s is None:
        return f"{sentence} {elapsed_s:.0f} s"
    filled = round(_WIDTH * min(elapsed_s / at_most_s, 1.0))
    bar = "#" * filled + "." * (_WIDTH - filled)
    return f"{sentence} [{bar}] {elapsed_s:.0f} s of at most {at_most_s:.0f} s"
