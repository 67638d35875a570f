"""A pooler in transaction mode that is as unkind as it may be: no two transactions share a process.

Every client has two connections to the server, and each transaction goes to the other one than the
transaction before. Whatever a client leaves in a session is not there when it comes back: prepared
statements, settings, locks.

    with FakePooler(server.port) as pooler:
        store = await open_postgres(f"postgresql://me@127.0.0.1:{pooler.port}/mine?pooled=true")

Deliberately not here: passwords and TLS, and keeping connections for others.
"""

import asyncio
import contextlib
import struct
import threading
from types import TracebackType
from typing import Final, NamedTuple, Self

_SSL: Final = 80877103
_STARTUP: Final = 196608
_READY: Final = b"Z"
_IDLE: Final = b"I"


class _Backend(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class FakePooler:
    """Runs in a thread of its own. Use it in a `with` block."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.switches = 0
        """How often a client was handed to another process of the server."""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _leave(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        client, backends = _Backend(reader, writer), list[_Backend]()
        try:
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await self._greet(client, backends)
                await self._hand_on(client, backends)
        finally:
            for one in (client, *backends):
                one.writer.transport.abort()
            self._tasks.discard(task)

    async def _greet(self, client: _Backend, backends: list[_Backend]) -> None:
        """Open two sessions with what the client opens its own with."""
        while True:
            head = await client.reader.readexactly(8)
            length, code = struct.unpack("!ii", head)
            rest = await client.reader.readexactly(length - 8)
            if code == _STARTUP:
                break
            if code != _SSL:
                raise EOFError  # somebody wants a question cancelled; it will end by itself
            client.writer.write(b"N")
        for _ in range(2):
            backend = _Backend(*await asyncio.open_connection("127.0.0.1", self._server_port))
            backends.append(backend)
            backend.writer.write(head + rest)
        for place, backend in enumerate(backends):
            await self._relay(backend, client if place == 0 else None)

    async def _hand_on(self, client: _Backend, backends: list[_Backend]) -> None:
        turns = [0]
        answering = [
            asyncio.ensure_future(self._answer(backend, client, turns)) for backend in backends
        ]
        try:
            while True:
                _, message = await _read(client.reader)
                backends[turns[-1]].writer.write(message)
        finally:
            for one in answering:
                one.cancel()
            await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, backend: _Backend, client: _Backend, turns: list[int]) -> None:
        """Hand answers on, and the client to the other session at the end of a transaction."""
        try:
            while True:
                if await self._relay(backend, client) == _IDLE:
                    turns.append(1 - turns[-1])
                    self.switches += 1
        except (OSError, EOFError):
            client.writer.transport.abort()

    async def _relay(self, backend: _Backend, client: _Backend | None) -> bytes:
        """Hand an answer on to its end; how the transaction stands then."""
        while True:
            kind, message = await _read(backend.reader)
            if client is not None:
                client.writer.write(message)
            if kind == _READY:
                return message[5:6]


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)
