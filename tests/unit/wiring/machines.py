"""A host's machine and a worker's, on one loopback; no test in here."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

from amends import RemoteWorker, WorkerCapability, worker_capability
from amends.contracts.errors import AmendsError
from amends.contracts.results import Result
from amends.testing.workbench import TENANT, Workbench
from amends.transports.port import Transport
from amends.wiring.workers import TlsDoor, WorkerPlace, initialise_worker, serve_tls
from amends.worker.adapters import Adapters
from tests.unit.host.loop_worker import RELEASE, Release, Withdrawal
from tests.unit.transports.certificates import HOST, WORKER, files
from tests.unit.worker.stage import GRANT, Provider


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Machines:
    """The host's, and the worker's with its supervisor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = Provider()
        self.address = f"tls://127.0.0.1:{free_port()}"
        self.host = files(folder / "host", HOST, WORKER)
        self.worker = files(folder / "worker", WORKER, HOST)
        self.remote = RemoteWorker({TENANT: self.address}, folder / "state", self.host)
        self.remote.initialise()
        scope = self.remote.scope(TENANT)
        self.place = WorkerPlace(directory=folder / "worker" / "state", scope=scope)
        initialise_worker(self.place)
        self.transports: list[Transport] = []

    @property
    def capability(self) -> WorkerCapability:
        made = worker_capability(
            GRANT.tool, worker=self.remote, grant=GRANT, input=Release, inverse=Withdrawal
        )
        made.verify_compensation(lambda _question, _original: True)
        return made

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        """The worker, started again after each session."""
        task = asyncio.ensure_future(self._serve())
        try:
            yield
            await asyncio.sleep(0.1)  # it waits again then, and holds nothing
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            for transport in self.transports:
                await transport.close()

    async def _serve(self) -> None:
        while True:
            with suppress(AmendsError):
                adapters = Adapters(self.provider.adapter)
                await serve_tls(adapters, self.place, TlsDoor(self.address, self.worker))

    @asynccontextmanager
    async def bench(self) -> AsyncIterator[Workbench]:
        async with Workbench(served=[self.capability.build()]) as bench:
            yield bench
        await self.remote.aclose()


async def published(bench: Workbench) -> Result:
    return await bench.alice.execute(GRANT.tool, RELEASE)
