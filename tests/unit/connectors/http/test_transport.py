"""Requests on real sockets: sent once, whatever becomes of the connection."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from amends.connectors.http.messages import Answer, NoAnswer, NotSent, Outgoing, Reply, SecretHeader
from amends.connectors.http.transport import Transport
from amends.contracts.secrets import Secret
from amends.testing.http_provider import Break, HttpFault, HttpProvider
from tests.unit.connectors.http.certificates import self_signed

METHODS: Final = ["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"]
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
WITHIN_S: Final = 5.0
SHORT_S: Final = 0.4

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _transport(
    *, connect_timeout_ms: int = 2000, max_answer_bytes: int = 1000
) -> AsyncIterator[Transport]:
    transport = Transport(connect_timeout_ms=connect_timeout_ms, max_answer_bytes=max_answer_bytes)
    try:
        yield transport
    finally:
        await transport.aclose()


@asynccontextmanager
async def _server(serve: Serve) -> AsyncIterator[str]:
    """A server of which each connection is served by a function, and cut at the end."""
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head + await reader.readexactly(length)


def _request(base: str, method: str = "POST", **fields: object) -> Outgoing:
    body = None if method in ("GET", "HEAD", "OPTIONS") else b'{"amount":5}'
    told = {"method": method, "url": f"{base}/v1/charges", "headers": {"x-a": "b"}, "body": body}
    return Outgoing(**(told | fields))  # type: ignore[arg-type]  # fields of any type


async def _send(transport: Transport, request: Outgoing, within_s: float = WITHIN_S) -> Reply:
    return await transport.send(request, within_s=within_s, sent_within_s=within_s * 0.8)


async def test_an_answer_comes_with_its_status_headers_and_body() -> None:
    fault = HttpFault(
        status=201, body=b'{"id": 1}', headers=(("Retry-After", "1"), ("RETRY-AFTER", "2"))
    )
    async with HttpProvider([fault]) as provider, _transport() as transport:
        answer = await _send(transport, _request(provider.url))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.body, answer.flaw) == (201, b'{"id": 1}', "")
    assert answer.header("retry-after") == ["1", "2"]
    (seen,) = provider.requests
    assert (seen.method, seen.target, seen.body) == ("POST", "/v1/charges", b'{"amount":5}')
    assert seen.headers["x-a"] == "b"


@pytest.mark.case("DUP-05")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("method", METHODS)
async def test_a_request_is_not_sent_again_when_a_kept_connection_dies_after_it(
    method: str, resets: bool
) -> None:
    """aiohttp by itself sends GET, PUT, DELETE, HEAD and OPTIONS a second time here."""
    arrived: list[tuple[int, bytes]] = []
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        arrived.append((mine, await _read_request(reader)))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        if mine > 1:
            return
        arrived.append((mine, await _read_request(reader)))
        if resets:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    async with _server(serve) as url, _transport() as transport:
        first = await _send(transport, _request(url, method))
        second = await _send(transport, _request(url, method))
        await asyncio.sleep(0.05)
    assert isinstance(first, Answer)
    assert second == NoAnswer("connection_lost")
    assert [connection for connection, _ in arrived] == [1, 1]


@pytest.mark.case("DUP-05")
@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
async def test_a_kept_connection_that_the_server_has_closed_meanwhile_is_not_used(
    method: str,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        writer.write(OK)

    async with _server(serve) as url, _transport() as transport:
        for _ in range(3):
            assert isinstance(await _send(transport, _request(url, method)), Answer)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", [Break.BEFORE_BODY, Break.AFTER_REQUEST, Break.IN_HEADERS])
@pytest.mark.parametrize("resets", [False, True])
async def test_a_connection_that_breaks_before_the_answer_leaves_none(
    where: Break, resets: bool
) -> None:
    faults = [HttpFault(breaks=where, resets=resets)]
    async with HttpProvider(faults) as provider, _transport() as transport:
        reply = await _send(transport, _request(provider.url))
    assert isinstance(reply, NoAnswer)
    assert len(provider.requests) == (0 if where is Break.BEFORE_BODY else 1)


async def test_a_body_that_breaks_off_is_a_flaw_of_an_answer() -> None:
    faults = [HttpFault(breaks=Break.IN_BODY, body=b'{"id": "ch_1"}')]
    async with HttpProvider(faults) as provider, _transport() as transport:
        answer = await _send(transport, _request(provider.url))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.flaw) == (200, "broken_off")


async def test_a_body_that_is_too_large_or_encoded_is_a_flaw() -> None:
    faults = [
        HttpFault(body=b"x" * 1000),
        HttpFault(body=b"x" * 1001),
        HttpFault(body=b"\x1f\x8b", headers=(("Content-Encoding", "gzip"),)),
        HttpFault(body=b"{}", headers=(("Content-Encoding", "Identity"),)),
    ]
    async with HttpProvider(faults) as provider, _transport(max_answer_bytes=1000) as transport:
        answers = [await _send(transport, _request(provider.url)) for _ in faults]
    flaws = [answer.flaw for answer in answers if isinstance(answer, Answer)]
    assert flaws == ["", "too_large", "encoded", ""]
    assert all(seen.headers["accept-encoding"] for seen in provider.requests)


async def test_a_body_without_end_is_cut() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async with _server(serve) as url, _transport() as transport:
        answer = await _send(transport, _request(url))
    assert isinstance(answer, Answer)
    assert (answer.flaw, len(answer.body)) == ("too_large", 1000)


@pytest.mark.parametrize(
    "junk", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nA" + b"a" * 99_999]
)
async def test_an_answer_that_is_not_http_is_none(junk: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        writer.write(junk)
        await writer.drain()
        await reader.read()

    async with _server(serve) as url, _transport() as transport:
        reply = await _send(transport, _request(url))
    assert isinstance(reply, NoAnswer)
    assert "nonsense" not in reply.reason


async def test_no_answer_in_time_is_a_timeout() -> None:
    async with HttpProvider([HttpFault(delay_s=60)]) as provider, _transport() as transport:
        reply = await _send(transport, _request(provider.url), within_s=SHORT_S)
        assert reply == NoAnswer("timeout")
        assert len(provider.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
async def test_a_redirect_is_an_answer_and_is_not_followed(status: int, method: str) -> None:
    async with HttpProvider() as other, _transport() as transport:
        headers = (("Location", f"{other.url}/collect"),)
        fault = HttpFault(status=status, headers=headers)
        async with HttpProvider([fault], reads=[fault]) as provider:
            answer = await _send(transport, _request(provider.url, method))
    assert isinstance(answer, Answer)
    assert answer.status == status
    assert other.requests == []
    assert len(provider.requests) == 1


# ── before there is a connection ─────────────────────────────────────────────────────────────────


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def test_a_refused_connection_sends_nothing() -> None:
    async with _transport() as transport:
        reply = await _send(transport, _request(f"http://127.0.0.1:{_free_port()}"))
    assert reply == NotSent("refused")


async def test_a_name_that_leads_nowhere_sends_nothing() -> None:
    async with _transport() as transport:
        reply = await _send(transport, _request("http://nowhere.invalid"))
    assert reply == NotSent("name_not_found")


async def test_a_connection_that_takes_too_long_sends_nothing() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        async with _transport(connect_timeout_ms=100) as transport:
            reply = await _send(transport, _request(f"http://127.0.0.1:{port}"))
        for one in waiting:
            one.close()
    assert reply == NotSent("timeout")


async def test_a_certificate_that_nobody_vouches_for_sends_nothing(tmp_path: Path) -> None:
    async with HttpProvider(tls=self_signed(tmp_path)) as provider, _transport() as transport:
        reply = await _send(transport, _request(provider.url))
    assert reply == NotSent("tls")
    assert provider.requests == []


async def test_a_server_that_speaks_no_tls_is_sent_nothing() -> None:
    arrived = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        arrived = await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with _server(serve) as url, _transport() as transport:
        reply = await _send(transport, _request(url.replace("http:", "https:")))
    assert reply == NotSent("tls")
    assert arrived
    assert b"charges" not in arrived


@asynccontextmanager
async def _talkative(arrived: list[int]) -> AsyncIterator[str]:
    """A server that says something more after each answer; its statuses count connections."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        while True:
            await _read_request(reader)
            arrived.append(mine)
            writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: 2\r\n\r\n{}" % (200 + mine))
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(b"HTTP/1.1 299 Unasked\r\nContent-Length: 2\r\n\r\n{}")

    async with _server(serve) as url:
        yield url


async def test_a_connection_on_which_the_server_spoke_unasked_is_not_used() -> None:
    """Otherwise what it said would be taken for the answer to the next request."""
    arrived: list[int] = []
    async with _talkative(arrived) as url, _transport() as transport:
        first = await _send(transport, _request(url))
        await asyncio.sleep(0.5)
        second = await _send(transport, _request(url))
    assert [one.status for one in (first, second) if isinstance(one, Answer)] == [201, 202]
    assert arrived == [1, 2]


async def test_a_server_that_speaks_unasked_on_every_connection_is_given_up_unsent() -> None:
    arrived: list[int] = []
    async with _talkative(arrived) as url, _transport() as transport:
        await asyncio.gather(*(_send(transport, _request(url)) for _ in range(9)))
        await asyncio.sleep(0.5)
        given_up = await _send(transport, _request(url))
        assert isinstance(await _send(transport, _request(url)), Answer)
    assert given_up == NotSent("spoke_unasked")
    assert len(arrived) == 10


# ── what is kept and what is not ─────────────────────────────────────────────────────────────────


async def test_a_kept_connection_serves_the_next_request() -> None:
    async with HttpProvider() as provider, _transport() as transport:
        for _ in range(3):
            await _send(transport, _request(provider.url))
    assert {seen.connection for seen in provider.requests} == {1}


async def test_a_closed_transport_opens_new_connections_when_it_is_used_again() -> None:
    async with HttpProvider() as provider, _transport() as transport:
        await _send(transport, _request(provider.url))
        await transport.aclose()
        await transport.aclose()
        assert isinstance(await _send(transport, _request(provider.url)), Answer)
    assert [seen.connection for seen in provider.requests] == [1, 2]


def test_each_event_loop_has_connections_of_its_own() -> None:
    transport = Transport(connect_timeout_ms=1000, max_answer_bytes=1000)

    async def once() -> Reply:
        async with HttpProvider() as provider:
            reply = await _send(transport, _request(provider.url))
            await transport.aclose()
            return reply

    assert all(isinstance(asyncio.run(once()), Answer) for _ in range(2))
    gc.collect()


async def test_cookies_are_not_kept() -> None:
    fault = HttpFault(headers=(("Set-Cookie", "session=1"),))
    async with HttpProvider([fault]) as provider, _transport() as transport:
        for _ in range(2):
            await _send(transport, _request(provider.url))
    assert all("cookie" not in seen.headers for seen in provider.requests)


async def test_nothing_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ann password CANARY\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://ann:CANARY@127.0.0.1:{_free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    async with HttpProvider() as provider, _transport() as transport:
        assert isinstance(await _send(transport, _request(provider.url)), Answer)
    assert "CANARY" not in str(provider.requests)
    assert "authorization" not in provider.requests[0].headers


async def test_an_error_of_any_other_kind_is_told_by_its_name_alone() -> None:
    async with _transport() as transport:
        reply = await _send(transport, _request("", url="http:///CANARY"))
    assert reply == NoAnswer("InvalidUrlClientError")


async def test_a_path_is_sent_as_it_was_encoded() -> None:
    async with HttpProvider() as provider, _transport() as transport:
        url = f"{provider.url}/v1/a%2F..%2Fb%20c/%C3%A9?q=%2B%26"
        await _send(transport, _request(provider.url, "GET", url=url))
    assert provider.requests[0].target == "/v1/a%2F..%2Fb%20c/%C3%A9?q=%2B%26"


async def test_the_credential_is_put_in_where_the_request_is_sent() -> None:
    secret = (SecretHeader("Authorization", "Bearer ", Secret("tok-CANARY"), " x"),)
    async with HttpProvider() as provider, _transport() as transport:
        request = _request(provider.url, secret_headers=secret)
        await _send(transport, request)
    assert provider.requests[0].headers["authorization"] == "Bearer tok-CANARY x"
    assert "CANARY" not in repr(request)


async def test_cancelling_closes_the_connection_and_sends_nothing_else() -> None:
    async with HttpProvider([HttpFault(delay_s=60)]) as provider, _transport() as transport:
        sending = asyncio.ensure_future(_send(transport, _request(provider.url)))
        while not provider.requests:  # noqa: ASYNC110  # the provider sets no event
            await asyncio.sleep(0.005)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert isinstance(await _send(transport, _request(provider.url)), Answer)
    assert [seen.connection for seen in provider.requests] == [1, 2]
