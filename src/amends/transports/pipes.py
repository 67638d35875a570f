"""Private pipes between a process and its child, and the bootstrap that comes through one (FR-3).

The descriptors are inherited and have no name that anybody else could open. Deliberately not here:
starting processes (`children`).
"""

import asyncio
import os
from contextlib import ExitStack
from typing import Final

from amends.contracts.codes import coded
from amends.protocol.bootstrap import Bootstrap, read_bootstrap
from amends.transports.streams import StreamTransport

LONGEST_BOOTSTRAP: Final = 512


class PipeTransport(StreamTransport):
    """Two pipes: one to read from, one to write to."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reading: asyncio.BaseTransport,
    ) -> None:
        super().__init__(reader, writer)
        self._reading = reading

    async def close(self) -> None:
        """See `Transport`."""
        self._reading.close()
        await super().close()


async def open_pipes(read_fd: int, write_fd: int) -> PipeTransport:
    """A transport that owns both descriptors.

    Raises `Unavailable` (`channel.lost`) when they are no pipes or sockets.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    with ExitStack() as given_up:
        try:
            reading_end = given_up.enter_context(os.fdopen(read_fd, "rb", 0))
            writing_end = given_up.enter_context(os.fdopen(write_fd, "wb", 0))
            reading, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), reading_end
            )
            given_up.callback(reading.close)
            writing, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), writing_end
            )
        except (OSError, ValueError):
            raise coded("channel.lost") from None
        given_up.pop_all()
    return PipeTransport(reader, asyncio.StreamWriter(writing, protocol, None, loop), reading)


def take_bootstrap(descriptor: int) -> Bootstrap:
    """Read the whole preamble from an inherited descriptor, and close it.

    Waits until the other end is closed. Raises `PeerViolation` (`channel.bootstrap_malformed`).
    """
    try:
        with os.fdopen(descriptor, "rb", 0) as pipe:
            pieces = b""
            while len(pieces) <= LONGEST_BOOTSTRAP and (piece := pipe.read(LONGEST_BOOTSTRAP)):
                pieces += piece
    except OSError:
        raise coded("channel.bootstrap_malformed") from None
    return read_bootstrap(pieces)
