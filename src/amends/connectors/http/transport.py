"""Sending a request once, over aiohttp.

Invariants: a request is sent at most once, on every layer. aiohttp repeats GET, PUT, DELETE and
others by itself when a kept-alive connection turns out to be dead; the errors it would do so for
are exchanged, before it sees them, for one that it does not know. Redirects are answers, and
nothing goes to where they point. Neither proxies nor anything else is taken from the environment,
cookies are not kept, and nothing is compressed.

What fails before there is a connection is `NotSent`; from then on everything is `NoAnswer`. A
connection on which the provider spoke before it was asked is not used.

Deliberately not here: what an answer means.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientSession, ClientTimeout
from yarl import URL

from amends.connectors.http.messages import (
    BROKEN_OFF,
    TIMEOUT,
    Answer,
    NoAnswer,
    NotSent,
    Outgoing,
    Reply,
    SecretHeader,
)

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

KEEP_ALIVE_S: Final = 4.0
"""How long an idle connection is kept: a little less than servers commonly do, so that they seldom
close it just when it is used again, which would leave an outcome unknown."""

_CONNECTIONS: Final = 8
"""How many connections are looked at before a request is given up unsent."""

_NEVER_ROUNDED: Final = float("inf")
_Kinds: TypeAlias = tuple[tuple[type[Exception], str], ...]
_BEFORE: Final[_Kinds] = (
    (aiohttp.ClientConnectorDNSError, "name_not_found"),
    (aiohttp.ClientSSLError, "tls"),
    (TimeoutError, TIMEOUT),
    (ConnectionRefusedError, "refused"),
)
_WHILE_USED: Final[_Kinds] = (
    (TimeoutError, TIMEOUT),
    (aiohttp.ClientConnectionError, "connection_lost"),
)


class Transport:
    """Connections to one provider, kept per event loop until they are closed."""

    def __init__(self, *, connect_timeout_ms: int, max_answer_bytes: int) -> None:
        self._connect_s = connect_timeout_ms / 1000
        self._max_bytes = max_answer_bytes
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, ClientSession] = (
            WeakKeyDictionary()
        )

    async def send(self, request: Outgoing, *, within_s: float, sent_within_s: float) -> Reply:
        """Send a request once and read its answer, within so many seconds.

        Without a connection by `sent_within_s`, which is less, it is not sent.
        """
        timeout = ClientTimeout(
            total=within_s,
            connect=min(self._connect_s, sent_within_s),
            ceil_threshold=_NEVER_ROUNDED,
        )
        try:
            async with self._session().request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                timeout=timeout,
                middlewares=(_SendOnce(request.secret_headers),),
            ) as response:
                return await self._answer(response)
        except _Unconnected as unconnected:
            return NotSent(unconnected.reason)
        except _Broken as broken:
            return NoAnswer(broken.reason)
        except Exception as error:  # whatever else it is, the request may have been sent
            return NoAnswer(_reason(error, _WHILE_USED, type(error).__name__))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = ClientSession(
                # How many requests run at once is not decided here.
                connector=_Connector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return session

    async def _answer(self, response: ClientResponse) -> Answer:
        """What was answered, though its body may break off or be too large."""
        body, flaw = bytearray(), ""
        try:
            while not flaw and (chunk := await response.content.readany()):
                body += chunk
                flaw = "too_large" if len(body) > self._max_bytes else ""
        except (aiohttp.ClientError, TimeoutError, OSError):
            flaw = BROKEN_OFF
        if flaw:
            response.close()
        elif response.headers.get("content-encoding", "identity").lower() != "identity":
            flaw = "encoded"
        return Answer(
            status=response.status,
            headers=tuple(response.headers.items()),
            body=bytes(body[: self._max_bytes]),
            flaw=flaw,
        )


class _Unconnected(Exception):
    """There was no connection; nothing was sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Broken(Exception):
    """The connection was used, and no answer came. No kind of error that aiohttp knows."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Connector(aiohttp.TCPConnector):
    """Tells what went wrong before there was a connection from everything after it."""

    async def connect(
        self, req: ClientRequest, traces: "list[Trace]", timeout: ClientTimeout
    ) -> "Connection":
        for _ in range(_CONNECTIONS):
            try:
                connection = await super().connect(req, traces, timeout)
            except Exception as error:
                raise _Unconnected(_reason(error, _BEFORE, "no_connection")) from None
            if connection.protocol is not None and not connection.protocol.should_close:
                return connection
            connection.close()
        raise _Unconnected("spoke_unasked")


def _reason(error: Exception, kinds: _Kinds, otherwise: str) -> str:
    """One word for an error, whose own text may quote a URL or a header."""
    causes: Sequence[object] = (error, getattr(error, "os_error", None))
    for kind, reason in kinds:
        if any(isinstance(cause, kind) for cause in causes):
            return reason
    return otherwise


class _SendOnce:
    """Puts the credential in, at the last moment, and lets nothing be sent a second time."""

    def __init__(self, secret_headers: tuple[SecretHeader, ...]) -> None:
        self._secret_headers = secret_headers

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        for one in self._secret_headers:
            request.headers[one.name] = one.before + one.secret.reveal() + one.after
        try:
            return await handler(request)
        except _Unconnected:
            raise
        except Exception as error:
            raise _Broken(_reason(error, _WHILE_USED, type(error).__name__)) from None
