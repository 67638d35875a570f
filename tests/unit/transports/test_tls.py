"""Both ends of a TLS channel on the loopback: whom each takes, and what a refusal may mean."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import (
    AmendsError,
    Misuse,
    OutcomeUnknown,
    PeerViolation,
    Unavailable,
)
from amends.contracts.worker_identity import OperationKey
from amends.contracts.worker_messages import DispatchOperation, OperationRequest
from amends.host.channel import WorkerChannel
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.introduction import HEAD
from amends.protocol.versions import Version
from amends.transports.streams import StreamTransport
from amends.transports.tls import Opened, TlsListener, connect_tls, read_address
from amends.transports.tls_files import ALPN, TlsFiles
from tests.unit.transports.certificates import (
    HOST,
    STRANGER,
    WORKER,
    Party,
    files,
    party,
    server_context,
)
from tests.unit.worker.stage import GRANT, INPUT, SCOPE

NAME: Final = "session-1"
ANYWHERE: Final = "tls://127.0.0.1:0"
KEY: Final = OperationKey("op-" + "1" * 64)


class Ends:
    """The files of both sides."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = files(folder / "host", HOST, WORKER)
        self.worker = files(folder / "worker", WORKER, HOST)

    def as_host(self, own: Party, *peers: Party) -> TlsFiles:
        return files(self.folder / "host", own, *peers or (WORKER,))

    def as_worker(self, own: Party, *peers: Party) -> TlsFiles:
        return files(self.folder / "worker", own, *peers or (HOST,))


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path)


@asynccontextmanager
async def listening(told: TlsFiles, limit_s: float = 5.0) -> AsyncIterator[TlsListener]:
    with closing(await TlsListener.open(ANYWHERE, told, limit_s=limit_s)) as listener:
        yield listener


def address(listener: TlsListener) -> str:
    return f"tls://127.0.0.1:{listener.port}"


@asynccontextmanager
async def both(ends: Ends) -> AsyncIterator[tuple[Opened, Opened]]:
    async with listening(ends.worker) as listener:
        host = await connect_tls(address(listener), ends.host, NAME)
        worker = await listener.accept()
    try:
        yield host, worker
    finally:
        await asyncio.gather(host[0].close(), worker[0].close())


def ssl_of(transport: StreamTransport) -> ssl.SSLObject:
    end = transport._writer.get_extra_info("ssl_object")  # the test looks at the wire itself
    assert isinstance(end, ssl.SSLObject)
    return end


# ── who is taken ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-5", "FR-3")
async def test_bytes_pass_both_ways_under_a_key_that_never_did(ends: Ends) -> None:
    async with both(ends) as ((host, of_host), (worker, of_worker)):
        assert of_host == of_worker
        assert (of_host.session_id, of_host.version) == (NAME, Version.SEALED)
        await host.send(b"one")
        assert await worker.receive() == b"one"
        await worker.send(b"two")
        assert await host.receive() == b"two"
        await host.close()
        assert await worker.receive() == b""


@pytest.mark.rule("INT-5")
async def test_it_is_tls_1_3_without_tickets_or_resumption(ends: Ends) -> None:
    async with both(ends) as ((host, _), (worker, _)):
        await worker.send(b"x")
        assert await host.receive() == b"x"
        for end in (ssl_of(host), ssl_of(worker)):
            assert end.version() == "TLSv1.3"
            assert end.selected_alpn_protocol() == ALPN
            assert not end.session_reused
        session = ssl_of(host).session
        assert session is None or not session.has_ticket


async def refused_at_first_read(told: TlsFiles, listener: TlsListener) -> None:
    """The host believes itself connected, and hears the truth when it reads."""
    transport, _ = await connect_tls(address(listener), told, NAME)
    assert await asyncio.wait_for(transport.receive(), 5) == b""
    await transport.close()


@pytest.mark.rule("INT-5")
async def test_a_host_that_is_not_pinned_learns_it_only_at_its_first_read(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        accepting = asyncio.ensure_future(listener.accept())
        await refused_at_first_read(ends.as_host(STRANGER), listener)
        assert not accepting.done()
        host, _ = await connect_tls(address(listener), ends.as_host(HOST), NAME)
        worker, _ = await accepting
        await asyncio.gather(host.close(), worker.close())


@pytest.mark.rule("INT-5")
async def test_a_worker_that_is_not_pinned_is_told_nothing(ends: Ends) -> None:
    async with listening(ends.as_worker(STRANGER)) as listener:
        with pytest.raises(PeerViolation, match="certificate_stranger"):
            await connect_tls(address(listener), ends.host, NAME)
        assert not listener._opened.done()


AUTHORITY: Final = party("authority", signs=True)


@pytest.mark.rule("INT-5")
async def test_a_pinned_certificate_vouches_for_nobody_else(ends: Ends) -> None:
    signed = party("signed", signer=AUTHORITY)
    async with listening(ends.as_worker(signed)) as listener:
        with pytest.raises(PeerViolation, match="certificate_stranger"):
            await connect_tls(address(listener), ends.as_host(HOST, AUTHORITY), NAME)
    async with listening(ends.as_worker(WORKER, AUTHORITY)) as listener:
        await refused_at_first_read(ends.as_host(signed), listener)
        assert not listener._opened.done()


@pytest.mark.rule("INT-5")
async def test_a_certificate_that_has_expired_is_not_taken_even_where_it_is_pinned(
    ends: Ends,
) -> None:
    old = party("old", days=-1)
    async with listening(ends.as_worker(old)) as listener:
        with pytest.raises(PeerViolation, match="certificate_stranger"):
            await connect_tls(address(listener), ends.as_host(HOST, old), NAME)
    async with listening(ends.as_worker(WORKER, old)) as listener:
        await refused_at_first_read(ends.as_host(old), listener)


@pytest.mark.rule("INT-5")
async def test_the_same_key_under_another_certificate_is_a_stranger(ends: Ends) -> None:
    renewed = party("host", key=HOST.key)
    async with listening(ends.worker) as listener:
        await refused_at_first_read(ends.as_host(renewed), listener)


@pytest.mark.rule("INT-5")
async def test_pins_rotate_without_a_gap(ends: Ends) -> None:
    renewed = party("worker")
    during = ends.as_host(HOST, WORKER, renewed)
    for own in (WORKER, renewed):
        async with listening(ends.as_worker(own)) as listener:
            host, _ = await connect_tls(address(listener), during, NAME)
            worker, _ = await listener.accept()
            await asyncio.gather(host.close(), worker.close())
    after = ends.as_host(HOST, renewed)
    async with listening(ends.as_worker(WORKER)) as listener:
        with pytest.raises(PeerViolation, match="certificate_stranger"):
            await connect_tls(address(listener), after, NAME)


@asynccontextmanager
async def other_server(context: ssl.SSLContext) -> AsyncIterator[str]:
    """A server of some other make at the worker's address."""

    async def met(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=context)
    try:
        yield f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize("alpn", [None, "h2"])
async def test_a_worker_that_speaks_something_else_is_a_stranger(
    ends: Ends, alpn: str | None
) -> None:
    context = server_context(ends.folder / "other", WORKER, alpn=alpn)
    async with other_server(context) as where:
        with pytest.raises(PeerViolation, match="certificate_stranger"):
            await connect_tls(where, ends.host, NAME)


@pytest.mark.rule("INT-5")
async def test_an_older_tls_is_spoken_in_neither_direction(ends: Ends) -> None:
    context = server_context(ends.folder / "other", WORKER, alpn=ALPN)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with other_server(context) as where:
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await connect_tls(where, ends.host, NAME)
    async with listening(ends.worker) as listener:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.load_cert_chain(ends.host.certificate, ends.host.private_key)
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection("127.0.0.1", listener.port, ssl=client)
        assert not listener._opened.done()


# ── who is in the way ────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-5", "WS-4")
async def test_who_says_nothing_keeps_nobody_out(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        _, silent = await asyncio.open_connection("127.0.0.1", listener.port)
        host, _ = await connect_tls(address(listener), ends.host, NAME)
        worker, bootstrap = await asyncio.wait_for(listener.accept(), 3)
        assert bootstrap.session_id == NAME
        silent.close()
        await asyncio.gather(host.close(), worker.close())


@asynccontextmanager
async def known_client(ends: Ends, port: int, alpn: str = ALPN) -> AsyncIterator[StreamTransport]:
    """Somebody with the host's certificate who says what a host would not."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.load_cert_chain(ends.host.certificate, ends.host.private_key)
    client.set_alpn_protocols([alpn])
    transport = StreamTransport(*await asyncio.open_connection("127.0.0.1", port, ssl=client))
    try:
        yield transport
    finally:
        await transport.close()


async def test_a_host_that_speaks_something_else_is_hung_up_on(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        async with known_client(ends, listener.port, alpn="h2") as client:
            assert await asyncio.wait_for(client.receive(), 5) == b""
        assert not listener._opened.done()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"AMNDTLS1\x03A B", b""])
async def test_who_introduces_himself_as_nobody_is_hung_up_on(ends: Ends, said: bytes) -> None:
    async with listening(ends.worker, limit_s=0.5) as listener:
        async with known_client(ends, listener.port) as client:
            if said:
                await client.send(said)
            assert await asyncio.wait_for(client.receive(), 5) == b""
        assert not listener._opened.done()


async def test_a_second_host_is_hung_up_on(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        first, _ = await connect_tls(address(listener), ends.host, NAME)
        worker, _ = await listener.accept()
        second, _ = await connect_tls(address(listener), ends.host, "session-2")
        assert await asyncio.wait_for(second.receive(), 5) == b""
        await asyncio.gather(first.close(), second.close(), worker.close())


async def test_nobody_there_is_lost_and_an_address_that_is_taken_is_said(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        where = address(listener)
        with pytest.raises(Unavailable, match="address_unavailable"):
            await TlsListener.open(where, ends.worker)
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await connect_tls(where, ends.host, NAME)


async def test_a_worker_that_does_not_finish_the_handshake_is_lost(ends: Ends) -> None:
    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0)
    where = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await connect_tls(where, ends.host, NAME, limit_s=0.2)
    server.close()
    await asyncio.sleep(0.05)  # it sees the end, and hangs up


@pytest.mark.parametrize(
    "text",
    ["", "host:1", "tcp://h:1", "tls://h", "tls://:1", "tls://h:x", "tls://h:99999", "tls://h:1/p"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="tls_address"):
        read_address(text)


def test_an_address_may_be_of_either_family() -> None:
    assert read_address("tls://[::1]:7443") == ("::1", 7443)
    assert read_address("tls://worker.example:7443") == ("worker.example", 7443)


# ── what a refusal means ─────────────────────────────────────────────────────────────────────────


def channel_over(opened: Opened) -> WorkerChannel:
    transport, bootstrap = opened
    nonce = b"h" * 32 if bootstrap.version is Version.SEALED else b""
    return WorkerChannel(
        transport, bootstrap, [GRANT], tenant_scope=SCOPE, nonce=nonce, answer_limit_s=5.0
    )


@pytest.mark.rule("INT-5")
async def test_before_the_workers_proof_a_refusal_says_that_nothing_was_asked(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        opened = await connect_tls(address(listener), ends.as_host(STRANGER), NAME)
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await channel_over(opened).open()


@pytest.mark.rule("INT-5")
async def test_what_was_written_behind_the_handshake_is_uncertain_when_the_worker_refuses(
    ends: Ends,
) -> None:
    """Version 5 reads nothing before it asks, so it asks a worker that has refused already."""
    async with listening(ends.worker) as listener:
        transport, _ = await connect_tls(address(listener), ends.as_host(STRANGER), NAME)
        lines = Bootstrap(NAME, SessionKey(b"\x07" * 32), Version.LINES)
        channel = channel_over((transport, lines))
        await channel.open()
        request = OperationRequest(
            **channel.names(), tool=GRANT.tool, operation_key=KEY, payload=INPUT
        )
        with pytest.raises(OutcomeUnknown, match=r"worker\.no_answer"):
            await channel.ask(DispatchOperation(request))
        await channel.close()
        assert not listener._opened.done()


@pytest.mark.rule("INT-5")
async def test_another_secret_opens_nothing(ends: Ends) -> None:
    async with listening(ends.worker) as listener:
        told = files(ends.folder / "host", HOST, WORKER, secret="6f" * 32)
        host = await connect_tls(address(listener), told, NAME)
        worker = await listener.accept()
    assert host[1] != worker[1]
    assert host[1].session_id == worker[1].session_id
    await asyncio.gather(host[0].close(), worker[0].close())


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize("reads", [HEAD, HEAD + len(NAME), 200])
async def test_a_worker_that_goes_while_both_prove_themselves_was_asked_nothing(
    ends: Ends, reads: int
) -> None:
    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(reads)
        writer.transport.abort()

    context = server_context(ends.folder / "other", WORKER, alpn=ALPN)
    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=context)
    where = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    opened = await connect_tls(where, ends.host, NAME)
    with pytest.raises(AmendsError) as lost:
        await channel_over(opened).open()
    assert not isinstance(lost.value, OutcomeUnknown)
    server.close()
