"""Starts and stops the demonstration's provider: a localstripe server of its own on loopback.

Invariants: the server is another process and is never imported here (its licence is GPL, and an
honest demonstration needs a provider that survives our crash); it starts with no data, on a port
that nobody else holds; readiness and end are waited for, never longer than stated; the server ends
with `stop`, at the latest with this process, however that ends.

Not here: calls that charge or refund (see `stripe_calls`).
"""

import atexit
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from amends.cli.demo import contained
from amends.contracts.errors import Misuse, Unavailable

SERVER_MODULE = "localstripe"
API_KEY = "sk_test_amends_demo"
READY_WITHIN_S = 20.0
STOPPED_WITHIN_S = 5.0
POLL_S = 0.02
PROBE_TIMEOUT_S = 2.0

_ANNOUNCED = re.compile(rf"^{contained.ANNOUNCEMENT}(\d+)$", re.MULTILINE)


class LocalProvider:
    """One running server; use `start` to get one and a ``with`` block, or `stop`, to end it."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self._process = process
        self.log_path = log_path
        self.port = 0
        atexit.register(self.stop)

    @classmethod
    def start(
        cls, *, ready_within_s: float = READY_WITHIN_S, server_module: str = SERVER_MODULE
    ) -> Self:
        """Start an empty server and return when it answers and can write.

        Raises:
            Misuse: the server is not installed.
            Unavailable: it ended, or did not answer within `ready_within_s`; its log is kept.
        """
        if find_spec(server_module) is None:
            raise Misuse(
                "demo.provider_missing",
                "The provider of the demonstration is not installed.",
                next_step="Install amends[demo].",
            )
        provider = cls(*_spawn(server_module))
        try:
            provider._wait_until_ready(time.monotonic() + ready_within_s)
        except Unavailable:
            provider._end_process()
            raise
        except BaseException:
            provider.stop()
            raise
        return provider

    @property
    def base_address(self) -> str:
        """Where the API is served, for the client's option ``base_addresses["api"]``."""
        return f"http://{contained.LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process id, which is its process group's too."""
        return self._process.pid

    def stop(self) -> None:
        """End the server with all its data and remove its log. A second call does nothing."""
        self._end_process()
        self.log_path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _end_process(self) -> None:
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOPPED_WITHIN_S)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._is_ready():
            if self._process.poll() is not None:
                raise self._unavailable("ended instead of answering")
            if time.monotonic() >= deadline:
                raise self._unavailable("did not answer in time")
            time.sleep(POLL_S)

    def _is_ready(self) -> bool:
        announced = _ANNOUNCED.search(self.log_path.read_text(errors="replace"))
        if announced is None:
            return False
        self.port = int(announced[1])
        return _answers(self.port)

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(
            "demo.provider_unavailable",
            f"The provider of the demonstration {what}.",
            next_step=f"Read its log: {self.log_path}",
        )


def _spawn(server_module: str) -> tuple[subprocess.Popen[bytes], Path]:
    handle, name = tempfile.mkstemp(prefix="amends-demo-provider-", suffix=".log")
    # Standard input is the lifeline: the kernel closes our end when this process dies.
    with os.fdopen(handle, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", contained.__file__, server_module, "--from-scratch", "--port=0"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, Path(name)


def _answers(port: int) -> bool:
    # To delete what is not there changes nothing, but makes the server write its file, as every
    # charge will: one that cannot would take the money and answer with an error.
    connection = http.client.HTTPConnection(contained.LOOPBACK, port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request(
            "DELETE", "/v1/charges/none", headers={"Authorization": f"Bearer {API_KEY}"}
        )
        return connection.getresponse().status == http.client.NOT_FOUND
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
