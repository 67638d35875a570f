"""A worker as a process that listens over TLS, killed in its inverse, and found again."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from amends import Amends, RemoteWorker, Settings, WorkerCapability, worker_capability
from amends.contracts.enums import Verdict, WireStatus
from amends.contracts.principals import DEFAULT_TENANT
from amends.transports.tls_files import TlsFiles
from tests.acceptance.test_worker_processes import PLACE, Place, until
from tests.unit.transports.certificates import HOST, STRANGER, WORKER, files
from tests.unit.worker.stage import GRANT

SETTINGS: Final = Settings(recover=False, grace_ms=0)
TIMEOUT: Final = timedelta(seconds=40)


class Elsewhere(Place):
    """The worker's machine: its folder, its address, and the files of its channel."""

    def __init__(self, folder: Path, scope: str, address: str, told: TlsFiles) -> None:
        super().__init__(folder)
        self.scope = scope
        self._listens = (address, *_options(told))

    def options(self) -> tuple[str, ...]:
        return "--state", str(self.state), "--scope", self.scope

    @contextmanager
    def listening(self, hang: str = "") -> Iterator["subprocess.Popen[bytes]"]:
        """One process, which serves one session."""
        command = [sys.executable, "-m", "amends", "worker", "listen-tls", PLACE]
        with subprocess.Popen(
            [*command, *self._listens, *self.options()], env=self.environment(hang)
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def _options(told: TlsFiles) -> tuple[str, ...]:
    return (
        *("--certificate", told.certificate, "--private-key", told.private_key),
        *("--peers", told.peers, "--secret", told.secret),
    )


def free_address() -> str:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tls://127.0.0.1:{probe.getsockname()[1]}"


def capability(remote: RemoteWorker) -> WorkerCapability:
    made = worker_capability(
        GRANT.tool, worker=remote, grant=GRANT, input={}, inverse={}, timeout=TIMEOUT
    )
    made.verify_compensation(lambda _question, _original: True)
    return made


@pytest.mark.rule("INT-1", "INT-3", "INT-5")
async def test_a_worker_elsewhere_that_is_killed_in_its_inverse_has_one_inverse(
    tmp_path: Path,
) -> None:
    address = free_address()
    told = files(tmp_path / "host", HOST, WORKER)
    remote = RemoteWorker({DEFAULT_TENANT: address}, tmp_path / "state", told)
    remote.initialise()
    theirs = files(tmp_path / "worker", WORKER, STRANGER, HOST)
    place = Elsewhere(tmp_path / "worker", remote.scope(DEFAULT_TENANT), address, theirs)
    assert place.amends("init").returncode == 0
    store, served = f"sqlite:///{tmp_path / 'amends.db'}", [capability(remote)]
    async with Amends.open(store, served, settings=SETTINGS) as amends:
        with place.listening() as process:
            published = await amends.execute(GRANT.tool, {"version": "1"})
            assert await asyncio.to_thread(process.wait, 30) == 0
        with place.listening(hang="cmp") as process:
            undoing = asyncio.ensure_future(amends.compensate(published, {"undo": "release"}))
            await until(2, place)
            os.kill(process.pid, signal.SIGKILL)
            undone = await undoing
        assert undone.status is WireStatus.OUTCOME_UNKNOWN
        await asyncio.sleep(5.1)  # its earliest look-up
        with place.listening():
            found = await amends.reconcile(undone)
    assert published.status is WireStatus.COMMITTED
    assert (found.status, found.verdict) == (WireStatus.RECONCILED, Verdict.COMMITTED)
    assert [line[:3] for line in place.lines()] == ["op-", "cmp"]


@pytest.mark.rule("INT-5")
def test_a_worker_whose_secret_others_can_read_does_not_listen(tmp_path: Path) -> None:
    told = files(tmp_path / "worker", WORKER, HOST)
    Path(told.secret).chmod(0o644)
    place = Elsewhere(tmp_path / "worker", "tenant-a", free_address(), told)
    assert place.amends("init").returncode == 0
    with place.listening() as process:
        assert process.wait(30) not in {0, -signal.SIGKILL}
