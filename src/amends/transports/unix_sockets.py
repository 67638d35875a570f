"""A worker that runs by itself, reached over a Unix socket (INT-5).

    listener = UnixListener.open("/run/worker/a.sock", host_user=1001)      # the worker
    transport, bootstrap = await listener.accept()

    transport = await connect_unix("/run/worker/a.sock", bootstrap, worker_user=1002)   # the host

Each side asks the kernel as whom the other one runs, and says nothing to anybody else. The session
reaches the worker as to a child, through a private one-way pipe (FR-3): its reading end is handed
over the socket, and the key is not. That a peer is the peer, the session still has to prove.
"""

import array
import asyncio
import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError
from amends.protocol.bootstrap import Bootstrap
from amends.transports.pipes import take_bootstrap
from amends.transports.socket_files import SocketFile, check_socket, check_socket_path
from amends.transports.streams import StreamTransport

_CREDENTIALS: Final = struct.Struct("3i")
_HANDED: Final = b"B"
_OVERFLOW: Final = Path("/proc/sys/kernel/overflowuid")
_ROOM_FOR: Final = 2
"""Descriptors that are taken, so that a second one is seen and refused."""


class UnixListener:
    """A worker's end: waits for its host. Close it when done."""

    def __init__(self, file: SocketFile, host_user: int, limit_s: float) -> None:
        self._file = file
        self._host_user = host_user
        self._limit_s = limit_s

    @classmethod
    def open(
        cls, path: str, *, host_user: int, group: int | None = None, limit_s: float = 10.0
    ) -> "UnixListener":
        """Listen at a path. The socket's mode is 0600, or 0660 for a group that the host is in.

        `limit_s` bounds waiting for the session of a host that has connected. Raises `Misuse`
        (`misuse.peer_user`), and as `SocketFile.bind`.
        """
        _check_user(host_user)
        file = SocketFile.bind(path, group=group)
        file.end.setblocking(False)
        return cls(file, host_user, limit_s)

    async def accept(self) -> tuple[StreamTransport, Bootstrap]:
        """Wait for the host, and take its session. Strangers are hung up on, whoever they are."""
        loop = asyncio.get_running_loop()
        while True:
            end, _ = await loop.sock_accept(self._file.end)
            try:
                _check_peer(end, self._host_user)
                async with asyncio.timeout(self._limit_s):
                    bootstrap = await _taken(end)
                return await _transport(end), bootstrap
            except (AmendsError, TimeoutError, OSError):
                end.close()
            except BaseException:
                end.close()
                raise

    def close(self) -> None:
        """Wait no more, and take the socket's file away."""
        self._file.close()


async def connect_unix(path: str, bootstrap: Bootstrap, *, worker_user: int) -> StreamTransport:
    """Connect to a worker and hand it its session.

    Raises `Misuse` (`misuse.socket_path`, `misuse.peer_user`), `Unavailable` (`channel.lost`,
    `channel.socket_unsafe`), `PeerViolation` (`channel.stranger`). In each case nothing was sent.
    """
    place = check_socket_path(path)
    _check_user(worker_user)
    check_socket(place, worker_user)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        end.connect(path)
        _check_peer(end, worker_user)
        _hand_over(end, bootstrap)
        return await _transport(end)
    except OSError:
        end.close()
        raise coded("channel.lost") from None
    except BaseException:
        end.close()
        raise


def _check_user(user: int) -> None:
    """The kernel shows as nobody whom it cannot name, so nobody is not a peer."""
    nobody = 65534
    with suppress(OSError, ValueError):
        nobody = int(_OVERFLOW.read_text("ascii"))
    if user < 0 or user == nobody:
        raise coded("misuse.peer_user")


def _check_peer(end: socket.socket, user: int) -> None:
    """Raises `PeerViolation` (`channel.stranger`); also where the kernel cannot be asked."""
    if sys.platform != "linux":
        raise coded("channel.stranger")
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, peer, _ = _CREDENTIALS.unpack(told)
    if peer != user:
        raise coded("channel.stranger")


def _hand_over(end: socket.socket, bootstrap: Bootstrap) -> None:
    """All of it is in the pipe before its end is sent: it is shorter than what a pipe takes."""
    theirs, ours = os.pipe()
    try:
        with os.fdopen(ours, "wb", 0) as pipe:
            pipe.write(bootstrap.preamble())
        socket.send_fds(end, [_HANDED], [theirs])
    finally:
        os.close(theirs)


async def _taken(end: socket.socket) -> Bootstrap:
    """Raises `PeerViolation` (`channel.bootstrap_malformed`)."""
    await _readable(end)
    handed = _handed(end)
    if len(handed) != 1 or not stat.S_ISFIFO(os.fstat(handed[0]).st_mode):
        _close(handed)
        raise coded("channel.bootstrap_malformed")
    os.set_blocking(handed[0], False)
    return take_bootstrap(handed[0])


def _handed(end: socket.socket) -> list[int]:
    """The descriptors that came, closed on `exec` from the start."""
    room = socket.CMSG_SPACE(_ROOM_FOR * array.array("i").itemsize)
    data, told, flags, _ = end.recvmsg(len(_HANDED), room, socket.MSG_CMSG_CLOEXEC)
    found = array.array("i")
    for level, kind, held in told:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(held[: len(held) - len(held) % found.itemsize])
    if data != _HANDED or flags & socket.MSG_CTRUNC:
        _close(found)
        raise coded("channel.bootstrap_malformed")
    return list(found)


async def _readable(end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(end, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(end)


async def _transport(end: socket.socket) -> StreamTransport:
    reader, writer = await asyncio.open_unix_connection(sock=end)
    return StreamTransport(reader, writer)


def _close(descriptors: "list[int] | array.array[int]") -> None:
    for descriptor in descriptors:
        os.close(descriptor)
