"""A channel of two queues: both ends of a transport in one event loop.

    host_end, worker_end = make_wire()

Bytes arrive at once and in order. `cut` ends both ends, as the death of a process does; what was
sent before can still be received.
"""

import asyncio
from collections import deque
from typing import Final

from amends.contracts.codes import coded
from amends.transports.port import Transport


class WireEnd(Transport):
    """One end. `sent` keeps every piece that was handed over."""

    def __init__(self) -> None:
        self.sent: Final[list[bytes]] = []
        self.peer: WireEnd | None = None
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self._closed = False
        self._news = asyncio.Event()

    async def send(self, data: bytes) -> None:
        """See `Transport`."""
        if self._closed or self.peer is None or self.peer._closed:
            raise coded("channel.lost")
        self.sent.append(data)
        self.peer.arrive(data)

    async def receive(self) -> bytes:
        """See `Transport`."""
        while not self._pieces:
            if self._ended or self._closed:
                return b""
            self._news.clear()
            await self._news.wait()
        return self._pieces.popleft()

    async def close(self) -> None:
        """See `Transport`."""
        self.cut()

    def arrive(self, data: bytes) -> None:
        """Take bytes as if the peer had sent them."""
        self._pieces.append(data)
        self._news.set()

    def end(self) -> None:
        """Take no more bytes from the peer."""
        self._ended = True
        self._news.set()

    def cut(self) -> None:
        """Close this end, and end the other one's bytes."""
        self._closed = True
        self.end()
        if self.peer is not None:
            self.peer.end()


def make_wire() -> tuple[WireEnd, WireEnd]:
    """Both ends of a new wire."""
    one, other = WireEnd(), WireEnd()
    one.peer, other.peer = other, one
    return one, other
