"""Pipes as a transport, the bootstrap through one of them, and a child that inherits all three."""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import PeerViolation, Unavailable
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.transports.children import start_child
from amends.transports.pipes import PipeTransport, open_pipes, take_bootstrap

BOOTSTRAP: Final = Bootstrap("session-1", SessionKey(b"\x07" * 32))
ECHO: Final = """
import os, sys
fds = dict(zip(sys.argv[-6::2], map(int, sys.argv[-5::2])))
boot = b""
while piece := os.read(fds["--bootstrap-fd"], 512):
    boot += piece
os.write(fds["--write-fd"], boot)
print("to standard output")
while piece := os.read(fds["--read-fd"], 512):
    os.write(fds["--write-fd"], piece.upper())
"""


@asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[PipeTransport, PipeTransport]]:
    """Two transports over two pipes."""
    (one_reads, other_writes), (other_reads, one_writes) = os.pipe(), os.pipe()
    one = await open_pipes(one_reads, one_writes)
    other = await open_pipes(other_reads, other_writes)
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


async def test_bytes_pass_both_ways_in_order() -> None:
    async with two_ends() as (one, other):
        await one.send(b"there")
        assert await other.receive() == b"there"
        large = os.urandom(500_000)
        sending = asyncio.ensure_future(other.send(large))
        got = b""
        while len(got) < len(large):
            got += await one.receive()
        await sending
        assert got == large


async def send_much(transport: PipeTransport) -> None:
    for _ in range(3):
        await transport.send(b"x" * 100_000)


def of_process(pid: int) -> bytes:
    """What others can see of a process."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_end_of_the_peer_is_received_and_sending_then_fails() -> None:
    async with two_ends() as (one, other):
        await other.send(b"last")
        await other.close()
        assert await one.receive() == b"last"
        assert await one.receive() == b""
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await send_much(one)


async def test_a_transport_that_is_closed_receives_the_end_and_sends_nothing() -> None:
    async with two_ends() as (one, _):
        receiving = asyncio.ensure_future(one.receive())
        await asyncio.sleep(0)
        await one.close()
        assert await receiving == b""
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await one.send(b"x")
        await one.close()


async def test_what_is_no_pipe_is_refused(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await open_pipes(file, other)


@pytest.mark.rule("FR-3")
def test_the_bootstrap_comes_through_a_pipe_that_holds_nothing_else() -> None:
    reads, writes = os.pipe()
    os.write(writes, BOOTSTRAP.preamble())
    os.close(writes)
    assert take_bootstrap(reads) == BOOTSTRAP


@pytest.mark.rule("FR-3")
@pytest.mark.parametrize("more", [b"x", b"x" * 2000])
def test_a_pipe_that_holds_more_is_refused(more: bytes) -> None:
    reads, writes = os.pipe()
    os.write(writes, BOOTSTRAP.preamble() + more)
    os.close(writes)
    with pytest.raises(PeerViolation, match="bootstrap_malformed"):
        take_bootstrap(reads)


def test_a_descriptor_that_is_not_there_is_refused() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    os.close(writes)
    with pytest.raises(PeerViolation, match="bootstrap_malformed"):
        take_bootstrap(reads)


@pytest.mark.rule("FR-3")
async def test_a_child_gets_its_key_through_a_descriptor_and_nowhere_else() -> None:
    child = await start_child([sys.executable, "-c", ECHO], BOOTSTRAP)
    try:
        got = b""
        while len(got) < len(BOOTSTRAP.preamble()):
            got += await child.transport.receive()
        assert got == BOOTSTRAP.preamble()
        await child.transport.send(b"hello")
        assert await child.transport.receive() == b"HELLO"
        seen = of_process(child.process.pid)
        assert BOOTSTRAP.key.reveal() not in seen
        assert BOOTSTRAP.key.reveal().hex().encode() not in seen
    finally:
        assert await child.stop() == 0


@pytest.mark.fault(61)
async def test_a_child_that_does_not_end_is_killed_and_reaped() -> None:
    child = await start_child(STUBBORN, BOOTSTRAP)
    assert await child.stop(grace_s=0.05) < 0
    child.kill()


async def test_a_command_that_is_not_there_is_no_worker() -> None:
    open_before = descriptors()
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await start_child(["/nowhere/worker"], BOOTSTRAP)
    assert descriptors() == open_before


STUBBORN: Final = [sys.executable, "-c", "import time\nwhile True: time.sleep(1)"]


def children() -> set[int]:
    """The processes that this one has started and not reaped."""
    return {
        int(child)
        for task in Path("/proc/self/task").iterdir()
        for child in (task / "children").read_text().split()
    }


async def test_a_start_that_is_given_up_anywhere_leaves_neither_process_nor_descriptor() -> None:
    warm = await start_child(STUBBORN, BOOTSTRAP)
    await warm.stop(grace_s=0.0)
    before, running, given_up = descriptors(), children(), 0
    for turns in range(20):
        starting = asyncio.ensure_future(start_child(STUBBORN, BOOTSTRAP))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        try:
            await (await starting).stop(grace_s=0.0)
        except asyncio.CancelledError:
            given_up += 1
        await asyncio.sleep(0.01)
        assert (children(), descriptors()) == (running, before), turns
    assert given_up > 3


def without_gaps(held: ExitStack) -> int:
    """The highest descriptor, once all below it are in use."""
    highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
    found = 0
    while found < highest:
        found = os.open("/dev/null", os.O_RDONLY)
        held.callback(os.close, found)
    return found


async def test_where_no_more_descriptors_can_be_had_there_is_no_worker() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as gaps:
        highest = without_gaps(gaps)
        before = descriptors()
        for more in range(6):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + more, limits[1]))
            try:
                with pytest.raises(Unavailable, match=r"channel\.lost"):
                    await start_child(STUBBORN, BOOTSTRAP)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert descriptors() == before


async def test_a_child_is_killed_also_when_whoever_stops_it_is_stopped() -> None:
    child = await start_child(STUBBORN, BOOTSTRAP)
    stopping = asyncio.ensure_future(child.stop(grace_s=60.0))
    await asyncio.sleep(0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await asyncio.wait_for(child.process.wait(), 5) < 0


FORKS: Final = """
import os, sys, time
if os.fork():
    os.write(int(sys.argv[-1]), b"x")
time.sleep(60)
"""


async def test_what_a_child_started_is_killed_with_it_and_the_pipe_ends_at_once() -> None:
    """As with a bwrap that is killed between making its container and letting it go on."""
    child = await start_child([sys.executable, "-c", FORKS], BOOTSTRAP)
    assert await child.transport.receive() == b"x"
    child.kill()
    assert await asyncio.wait_for(child.transport.receive(), 5) == b""
    assert await child.stop() < 0


async def test_a_child_gets_the_environment_that_it_is_given() -> None:
    child = await start_child(
        [sys.executable, "-c", "import os, sys; sys.exit('HOME' in os.environ)"],
        BOOTSTRAP,
        environment={},
    )
    assert await child.stop() == 0


async def test_a_peer_that_takes_nothing_is_not_waited_for() -> None:
    async with two_ends() as (one, _):
        sending = asyncio.ensure_future(one.send(b"x" * 2_000_000))
        await asyncio.sleep(0.05)
        assert not sending.done()
        await asyncio.wait_for(one.close(), 5)
        await asyncio.wait({sending}, timeout=5)
        assert sending.done()
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await one.send(b"x")
