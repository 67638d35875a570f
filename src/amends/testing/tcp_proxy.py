"""A small TCP proxy in front of a PostgreSQL server, which can cut a connection in mid COMMIT.

    async with TcpProxy(server.port) as proxy:
        proxy.cut_next(Cut.AFTER_COMMIT)
        store = await open_postgres(proxy.beside(url))

It reads no more of the protocol than the messages that it waits for: a COMMIT, and a statement that
writes a batch outside of any transaction, which is a COMMIT as well. One that is cut before never
reaches the server; one that is cut after was carried out, and its answer is kept back. With
`STATEMENT`, any statement with values is cut so, which commits by itself outside of a transaction.

Deliberately not here: TLS, and any other database.
"""

import asyncio
import contextlib
from enum import Enum, auto
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

COMMIT: Final = b"COMMIT\x00"
STATEMENT: Final = b"S\x00\x00\x00\x04"
_ENDS: Final = (b"COMMIT", b"ROLLBACK")
_WRITE: Final = b"amends.write("
_CHUNK: Final = 65_536


class Cut(Enum):
    """Where a connection is cut."""

    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()


class _Spoken:
    """What a client says over one connection, one message or more at a time."""

    def __init__(self, waits_for: bytes) -> None:
        self._waits_for = waits_for
        self._writes: set[bytes] = set()
        self._began = False

    def commits(self, data: bytes) -> bool:
        """Whether this makes something durable."""
        if self._waits_for != COMMIT:
            return data.endswith(self._waits_for)
        kind, text = data[:1], data[5:]
        if kind == b"Q":
            self._began = not text.startswith(_ENDS) and (self._began or text.startswith(b"BEGIN"))
            return text.endswith(COMMIT)
        if kind == b"P" and _WRITE in text:
            self._writes.add(text.partition(b"\x00")[0])
        return kind == b"B" and not self._began and text.split(b"\x00", 2)[1] in self._writes


class TcpProxy:
    """Hands connections on until it is told to cut one. Use it in an `async with` block."""

    def __init__(self, port: int, host: str = "127.0.0.1", waits_for: bytes = COMMIT) -> None:
        self._waits_for = waits_for
        self._target = (host, port)
        self._armed: list[Cut] = []
        self._spared = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked = 0
        """How often a client has said something, which is then answered."""
        self.cuts = 0
        """How many connections were cut as told."""
        self.refusing = False
        """Whether new connections are closed at once."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut_all()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def beside(self, url: str) -> str:
        """The URL of the server, by way of the proxy."""
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{self.port}"))

    def cut_next(self, *cuts: Cut, spare: int = 0) -> None:
        """Cut the next COMMITs in these ways, one after the other, once so many went through."""
        self._spared = spare
        self._armed.extend(cuts)

    def cut_all(self) -> None:
        """Cut every connection that there is."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            to_server = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_server[1]}
        kept_back = asyncio.Event()
        both = (
            asyncio.create_task(self._forward(reader, to_server[1], kept_back)),
            asyncio.create_task(self._answer(to_server[0], writer, kept_back)),
        )
        self._tasks |= set(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, to_server[1]):
            end.transport.abort()
            self._writers.discard(end)
        await asyncio.wait(both)
        self._tasks -= set(both)

    async def _forward(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, kept_back: asyncio.Event
    ) -> None:
        spoken = _Spoken(self._waits_for)
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                self.asked += 1
                cut = self._cut() if spoken.commits(data) else None
                if cut is Cut.BEFORE_COMMIT:
                    return
                if cut is Cut.AFTER_COMMIT:
                    kept_back.set()
                server.write(data)
                await server.drain()

    def _cut(self) -> Cut | None:
        """How to cut now, if at all."""
        if not self._armed:
            return None
        if self._spared:
            self._spared -= 1
            return None
        self.cuts += 1
        return self._armed.pop(0)

    async def _answer(
        self, server: asyncio.StreamReader, writer: asyncio.StreamWriter, kept_back: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await server.read(_CHUNK):
                if kept_back.is_set():
                    return
                writer.write(data)
                await writer.drain()
