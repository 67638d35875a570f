"""A transport over asyncio's streams, whatever they run over."""

import asyncio
from typing import Final

from amends.contracts.codes import coded
from amends.transports.port import Transport

_FLUSH_S: Final = 1.0
_PIECE: Final = 64 * 1024


class StreamTransport(Transport):
    """Owns the streams, and closes them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_closed = False

    async def send(self, data: bytes) -> None:
        """See `Transport`."""
        if self._writer.is_closing():
            raise coded("channel.lost")
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise coded("channel.lost") from None

    async def receive(self) -> bytes:
        """See `Transport`."""
        try:
            return await self._reader.read(_PIECE)
        except OSError:
            return b""

    async def close(self) -> None:
        """See `Transport`. Whoever receives meanwhile receives the end.

        A peer that takes nothing more is not waited for.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.close()
        self._reader.feed_eof()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._writer.wait_closed()
        except (TimeoutError, asyncio.CancelledError) as given_up:
            self._writer.transport.abort()
            if isinstance(given_up, asyncio.CancelledError):
                raise
        except OSError:
            return  # it broke before, and is closed
