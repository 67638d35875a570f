"""Two processes' ends over a Unix socket: whom each takes, and how the session gets there."""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import Misuse, PeerViolation, Unavailable
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.transports.streams import StreamTransport
from amends.transports.unix_sockets import UnixListener, connect_unix

US: Final = os.geteuid()
BOOTSTRAP: Final = Bootstrap("session-1", SessionKey(b"\x07" * 32))


@pytest.fixture
def path() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="a-"))
    yield str(folder / "a.sock")
    shutil.rmtree(folder)


@contextmanager
def bound(path: str) -> Iterator[socket.socket]:
    """A socket file that is as a worker's is."""
    with closing(socket.socket(socket.AF_UNIX)) as end:
        end.bind(path)
        Path(path).chmod(0o600)
        yield end


@asynccontextmanager
async def waiting(path: str, limit_s: float = 10.0) -> AsyncIterator[UnixListener]:
    with closing(UnixListener.open(path, host_user=US, limit_s=limit_s)) as listener:
        yield listener


@asynccontextmanager
async def both(path: str) -> AsyncIterator[tuple[StreamTransport, StreamTransport, Bootstrap]]:
    async with waiting(path) as listener:
        accepting = asyncio.ensure_future(listener.accept())
        host = await connect_unix(path, BOOTSTRAP, worker_user=US)
        worker, bootstrap = await accepting
    try:
        yield host, worker, bootstrap
    finally:
        await host.close()
        await worker.close()


@pytest.mark.rule("INT-5", "FR-3")
async def test_the_session_arrives_and_bytes_pass_both_ways(path: str) -> None:
    async with both(path) as (host, worker, bootstrap):
        assert bootstrap == BOOTSTRAP
        assert bootstrap.key == BOOTSTRAP.key
        await host.send(b"one")
        assert await worker.receive() == b"one"
        await worker.send(b"two")
        assert await host.receive() == b"two"
        await host.close()
        assert await worker.receive() == b""


async def test_the_key_does_not_pass_over_the_socket(path: str) -> None:
    with bound(path) as server:
        server.listen()
        host = await connect_unix(path, BOOTSTRAP, worker_user=US)
        end, _ = server.accept()
        with closing(end):
            assert end.recv(4096) == b"B"
        await host.close()


@pytest.mark.rule("INT-5")
async def test_a_host_says_nothing_to_a_worker_of_another_user(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amends.transports.unix_sockets.check_socket", lambda *_: None)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(path)
        server.listen()
        with pytest.raises(PeerViolation) as caught:
            await connect_unix(path, BOOTSTRAP, worker_user=US + 7)
        assert caught.value.code == "channel.stranger"
        end, _ = server.accept()
        with closing(end):
            assert end.recv(4096) == b""


@pytest.mark.rule("INT-5")
async def test_a_worker_hangs_up_on_strangers_and_goes_on_waiting(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting(path) as listener:
        accepting = asyncio.ensure_future(listener.accept())
        with monkeypatch.context() as patched:
            patched.setattr(listener, "_host_user", US + 7)
            stranger = await connect_unix(path, BOOTSTRAP, worker_user=US)
            assert await stranger.receive() == b""
            assert not accepting.done()
        host = await connect_unix(path, BOOTSTRAP, worker_user=US)
        worker, _ = await accepting
        for one in (stranger, host, worker):
            await one.close()


def nothing(end: socket.socket) -> None:
    end.close()


def no_descriptor(end: socket.socket) -> None:
    end.send(b"B")


def another_byte(end: socket.socket) -> None:
    hand(end, b"C", 1)


def two_descriptors(end: socket.socket) -> None:
    hand(end, b"B", 2)


def many_descriptors(end: socket.socket) -> None:
    hand(end, b"B", 5)


def no_preamble(end: socket.socket) -> None:
    hand(end, b"B", 1)


def no_pipe(end: socket.socket) -> None:
    with Path(os.devnull).open("rb") as file:
        socket.send_fds(end, [b"B"], [file.fileno()])


def hand(end: socket.socket, data: bytes, count: int) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        socket.send_fds(end, [data], [reading] * count)
    finally:
        os.close(reading)


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize(
    "act",
    [
        nothing, no_descriptor, another_byte, two_descriptors, many_descriptors, no_preamble,
        no_pipe,
    ],
)  # fmt: skip
async def test_a_host_that_hands_over_no_session_is_hung_up_on(
    path: str, act: Callable[[socket.socket], None]
) -> None:
    async with waiting(path) as listener:
        before = open_descriptors()
        accepting = asyncio.ensure_future(listener.accept())
        with closing(socket.socket(socket.AF_UNIX)) as end:
            end.connect(path)
            act(end)
            await asyncio.sleep(0.05)
            if act is not nothing:
                end.settimeout(5)
                with suppress(ConnectionResetError):
                    assert await asyncio.to_thread(end.recv, 1) == b""
        assert open_descriptors() == before
        host = await connect_unix(path, BOOTSTRAP, worker_user=US)
        worker, bootstrap = await accepting
        assert bootstrap == BOOTSTRAP
        await host.close()
        await worker.close()


async def test_a_host_that_says_nothing_is_waited_for_a_while_only(path: str) -> None:
    async with waiting(path, limit_s=0.05) as listener:
        accepting = asyncio.ensure_future(listener.accept())
        with closing(socket.socket(socket.AF_UNIX)) as silent:
            silent.connect(path)
            host = await connect_unix(path, BOOTSTRAP, worker_user=US)
            worker, _ = await asyncio.wait_for(accepting, 10)
        await host.close()
        await worker.close()


async def test_waiting_can_be_ended(path: str) -> None:
    async with waiting(path) as listener:
        accepting = asyncio.ensure_future(listener.accept())
        with closing(socket.socket(socket.AF_UNIX)) as silent:
            silent.connect(path)
            await asyncio.sleep(0.02)
            accepting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await accepting
            silent.settimeout(5)
            assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_a_socket_that_nobody_listens_at_is_a_lost_channel(path: str) -> None:
    with bound(path), pytest.raises(Unavailable) as caught:
        await connect_unix(path, BOOTSTRAP, worker_user=US)
    assert caught.value.code == "channel.lost"


@pytest.mark.parametrize("user", [-1, 65534])
async def test_nobody_is_no_peer(path: str, user: int) -> None:
    with pytest.raises(Misuse) as caught:
        UnixListener.open(path, host_user=user)
    assert caught.value.code == "misuse.peer_user"
    with pytest.raises(Misuse):
        await connect_unix(path, BOOTSTRAP, worker_user=user)
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await connect_unix(path, BOOTSTRAP, worker_user=US)


@pytest.mark.parametrize("path", ["\0abstract", "@abstract", "relative.sock"])
async def test_only_a_file_is_a_socket(path: str) -> None:
    with pytest.raises(Misuse) as caught:
        await connect_unix(path, BOOTSTRAP, worker_user=US)
    assert caught.value.code == "misuse.socket_path"
    with pytest.raises(Misuse):
        UnixListener.open(path, host_user=US)


async def test_where_the_kernel_cannot_be_asked_everybody_is_a_stranger(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting(path):
        monkeypatch.setattr(sys, "platform", "darwin")
        with pytest.raises(PeerViolation) as caught:
            await connect_unix(path, BOOTSTRAP, worker_user=US)
    assert caught.value.code == "channel.stranger"
