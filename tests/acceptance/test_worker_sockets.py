"""Real processes of several users at both ends of a worker's socket."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.errors import Unavailable
from amends.contracts.worker_payload import Succeeded
from amends.host.channel import WorkerChannel
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.transports.unix_sockets import UnixListener, connect_unix
from tests.acceptance.containers import python_for_all
from tests.acceptance.test_worker_processes import PLACE, Place
from tests.unit.worker.stage import GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, Both

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has to know the peer")

US: Final = os.geteuid()
DAEMON: Final = 1
"""A user that every Linux has, and that is neither root nor nobody."""

BOOTSTRAP: Final = Bootstrap("session-1", SessionKey(b"\x07" * 32))
STRANGER: Final = """
import socket, sys
end = socket.socket(socket.AF_UNIX)
end.connect(sys.argv[1])
end.settimeout(20)
print(end.recv(1) == b"")
"""
WORKER: Final = """
import os, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
os.umask(0o077)
server.bind(sys.argv[1])
server.listen()
print("listening", flush=True)
end, _ = server.accept()
_, peer, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
data, handed, _, _ = socket.recv_fds(end, 4096, 4)
print(peer, data, len(os.read(handed[0], 512)) if handed else 0, flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="a-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


async def until_there(path: Path, process: asyncio.subprocess.Process) -> None:
    there = path.exists
    while not there():
        assert process.returncode is None
        await asyncio.sleep(0.02)


@pytest.mark.rule("INT-5")
async def test_a_worker_that_waits_at_a_socket_publishes_and_withdraws_once(
    tmp_path: Path, folder: Path
) -> None:
    place, path = Place(tmp_path), str(folder / "worker.sock")
    assert place.amends("init").returncode == 0
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "amends", "worker", "listen", PLACE, *place.options()),
        *("--socket", path, "--host-user", str(US)),
        env=place.environment(),
    )
    await until_there(Path(path), process)
    bootstrap = Bootstrap("session-1", SessionKey(os.urandom(32)))
    transport = await connect_unix(path, bootstrap, worker_user=US)
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with WorkerChannel(
        transport, bootstrap, [GRANT], tenant_scope=SCOPE, nonce=os.urandom(32), open_limit_s=30
    ) as channel:
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Succeeded)
        target = workflow.target(key, SCOPE, GRANT, INVERSE)
        inverse = await workflow.record_compensation(target, NONCE)
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
    assert await process.wait() == 0
    assert place.lines() == [key, inverse]
    assert os.listdir(folder) == ["worker.sock.lock"]  # noqa: PTH208 - a list is what is compared


if US == 0:  # only root can become another user

    @pytest.mark.rule("INT-5")
    async def test_a_process_of_another_user_is_hung_up_on(folder: Path) -> None:
        path = folder / "a.sock"
        with closing(UnixListener.open(str(path), host_user=US)) as listener:
            path.chmod(0o666)
            accepting = asyncio.ensure_future(listener.accept())
            stranger = await asyncio.create_subprocess_exec(
                *(python_for_all(), "-I", "-c", STRANGER, str(path)),
                user=DAEMON,
                group=DAEMON,
                extra_groups=[],
                stdout=subprocess.PIPE,
            )
            printed, _ = await stranger.communicate()
            assert printed == b"True\n"
            assert not accepting.done()
            path.chmod(0o600)
            host = await connect_unix(str(path), BOOTSTRAP, worker_user=US)
            worker, bootstrap = await accepting
            assert bootstrap == BOOTSTRAP
            await host.close()
            await worker.close()

    @pytest.mark.rule("INT-5")
    @pytest.mark.parametrize("expected", [DAEMON, US])
    async def test_a_worker_of_another_user_is_taken_only_if_it_is_the_named_one(
        folder: Path, expected: int
    ) -> None:
        theirs = folder / "theirs"
        theirs.mkdir()
        os.chown(theirs, DAEMON, DAEMON)
        path = str(theirs / "a.sock")
        worker = await asyncio.create_subprocess_exec(
            *(python_for_all(), "-I", "-c", WORKER, path),
            user=DAEMON,
            group=DAEMON,
            extra_groups=[],
            stdout=subprocess.PIPE,
        )
        assert worker.stdout is not None
        try:
            assert await worker.stdout.readline() == b"listening\n"
            if expected == US:
                with pytest.raises(Unavailable) as caught:
                    await connect_unix(path, BOOTSTRAP, worker_user=expected)
                assert caught.value.code == "channel.socket_unsafe"
                return
            host = await connect_unix(path, BOOTSTRAP, worker_user=expected)
            said = await worker.stdout.readline()
            assert said == b"%d b'B' %d\n" % (US, len(BOOTSTRAP.preamble()))
            await host.close()
        finally:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()
