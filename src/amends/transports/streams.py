"""A transport over asyncio's streams, whatever they run over."""

import asyncio
import contextlib
from typing import Final

from amends.contracts.codes import coded
from amends.transports.port import Transport

_PIECE: Final = 64 * 1024


class StreamTransport(Transport):
    """Owns the streams, and closes them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

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
        """See `Transport`. Whoever receives meanwhile receives the end."""
        self._writer.close()
        self._reader.feed_eof()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
