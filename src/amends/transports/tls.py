"""A worker on another machine, over TLS 1.3 with pinned certificates on both sides (INT-5).

    listener = await TlsListener.open("tls://0.0.0.0:7443", files)          # the worker
    transport, bootstrap = await listener.accept()

    transport, bootstrap = await connect_tls("tls://worker.example:7443", files, "session-…")

Either side shows a certificate and takes the other's only if it is one of its pins. Nothing is
resumed and nothing is sent early. Behind the handshake the host says the session's name; the key is
derived on both sides and passes nowhere. That a peer is the peer, the session proves once more.

A worker checks the host's certificate *after* the host's handshake is over, so the host learns of a
refusal only when it reads for the first time. That connecting succeeded says nothing: until the
worker's proof has come, nothing may be asked, and what was written behind the handshake may have
arrived. `WorkerChannel` keeps to that.
"""

import asyncio
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.introduction import (
    HEAD,
    Certificates,
    derive_session,
    fingerprint_of,
    introduce,
    introduced,
    name_length,
)
from amends.transports.streams import StreamTransport
from amends.transports.tls_files import ALPN, TlsFiles, TlsIdentity, read_identity

BACKLOG: Final = 16
_LIMIT_S: Final = 10.0

Opened = tuple[StreamTransport, Bootstrap]


class Address(NamedTuple):
    """Where a worker listens."""

    host: str
    port: int


def read_address(text: str) -> Address:
    """From `tls://host:port`. Raises `Misuse` (`misuse.tls_address`)."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise coded("misuse.tls_address") from None
    rest = parts.path or parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme != "tls" or rest or not host or port is None:
        raise coded("misuse.tls_address")
    return Address(host, port)


async def connect_tls(
    address: str, files: TlsFiles, session_id: str, *, limit_s: float = _LIMIT_S
) -> Opened:
    """Connect to a worker and say the session's name.

    That this returns does not say that the worker takes this host. Raises `Misuse`
    (`misuse.tls_address`), `Unavailable` (`channel.lost`) and as `read_identity`, `PeerViolation`
    (`channel.certificate_stranger`). In each case nothing was asked.
    """
    host, port = read_address(address)
    identity = read_identity(files, ssl.Purpose.SERVER_AUTH)
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=identity.context, server_hostname=""
            )
    except ssl.SSLCertVerificationError:
        raise coded("channel.certificate_stranger") from None
    except (OSError, TimeoutError):
        raise coded("channel.lost") from None
    transport = StreamTransport(reader, writer)
    try:
        worker = _pinned(writer, identity)
        await transport.send(introduce(session_id))
    except BaseException:
        await transport.close()
        raise
    ends = Certificates(host=identity.own, worker=worker)
    return transport, derive_session(identity.secret, session_id, ends)


class TlsListener:
    """A worker's end: waits for its host. Close it when done."""

    def __init__(self, identity: TlsIdentity, limit_s: float) -> None:
        self._identity = identity
        self._limit_s = limit_s
        self._opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._met_so_far: set[asyncio.StreamWriter] = set()

    @classmethod
    async def open(
        cls, address: str, files: TlsFiles, *, limit_s: float = _LIMIT_S
    ) -> "TlsListener":
        """Listen there; port 0 is any free one.

        `limit_s` bounds a handshake, and waiting for the name of the session behind it. Raises
        `Misuse` (`misuse.tls_address`), `Unavailable` (`channel.address_unavailable`) and as
        `read_identity`.
        """
        host, port = read_address(address)
        listener = cls(read_identity(files, ssl.Purpose.CLIENT_AUTH), limit_s)
        try:
            listener._server = await asyncio.start_server(
                listener._met,
                host,
                port,
                ssl=listener._identity.context,
                ssl_handshake_timeout=limit_s,
                backlog=BACKLOG,
            )
        except OSError:
            raise coded("channel.address_unavailable") from None
        return listener

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def accept(self) -> Opened:
        """Wait for the host, and take its session. Strangers are hung up on, whoever they are.

        They are met side by side, so that one who says nothing keeps nobody out.
        """
        return await asyncio.shield(self._opened)

    def close(self) -> None:
        """Wait no more, and hang up on everybody but the host that was accepted."""
        if self._server is not None:
            self._server.close()
        self._opened.cancel()
        for writer in self._met_so_far:
            writer.transport.abort()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody whose certificate was verified: the first who says a name is the host."""
        self._met_so_far.add(writer)
        transport = StreamTransport(reader, writer)
        try:
            bootstrap = await self._introduced(reader, writer)
        except (AmendsError, OSError, EOFError, TimeoutError):
            bootstrap = None
        if bootstrap is None or self._opened.done():
            await transport.close()
        else:
            self._opened.set_result((transport, bootstrap))
        self._met_so_far.discard(writer)

    async def _introduced(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Bootstrap:
        ends = Certificates(host=_pinned(writer, self._identity), worker=self._identity.own)
        async with asyncio.timeout(self._limit_s):
            head = await reader.readexactly(HEAD)
            session_id = introduced(await reader.readexactly(name_length(head)))
        return derive_session(self._identity.secret, session_id, ends)


def _pinned(writer: asyncio.StreamWriter, identity: TlsIdentity) -> bytes:
    """The peer's fingerprint, if it is a pin.

    A pinned certificate that can sign others would vouch for them; only itself is taken. Raises
    `PeerViolation` (`channel.certificate_stranger`), also for a peer that speaks something else.
    """
    end = writer.get_extra_info("ssl_object")
    shown = None if end is None else end.getpeercert(binary_form=True)
    found = fingerprint_of(shown or b"")
    if end is None or found not in identity.pins or end.selected_alpn_protocol() != ALPN:
        raise coded("channel.certificate_stranger")
    return found
