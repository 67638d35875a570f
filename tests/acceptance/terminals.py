"""`amends` as people run it: a process of its own, at a terminal or between pipes.

A process can be held at a point inside its handler or its credential source, so that a signal
arrives exactly there. No process outlives the block it was started in.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import amends
from tests.unit.cli import shop
from tests.unit.cli.shell import PRINCIPALS, SHOP, Said

ROOT: Final = Path(__file__).parents[2]
SAME_CODE: Final = f"{Path(amends.__file__).parents[1]}{os.pathsep}{ROOT}"
WAIT_S: Final = 30.0
AT_TERMINAL: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal to this session
os.execv(sys.executable, [sys.executable, "-m", "amends", *sys.argv[1:]])
"""


class Shop:
    """A folder with a store, the provider's books, and places to hold a process at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.books_file = folder / "books"
        self._hold = folder / "hold"
        self._hold.mkdir()
        principals = folder / "principals.toml"
        principals.write_text(PRINCIPALS)
        principals.chmod(0o600)
        self.environment = {
            **os.environ,
            "PYTHONPATH": SAME_CODE,
            "AMENDS_STORE": f"sqlite:///{folder / 'amends.db'}",
            "AMENDS_APP": f"{SHOP}:capabilities",
            "AMENDS_SETTINGS": f"{SHOP}:settings",
            "AMENDS_PRINCIPALS": str(principals),
            "NO_COLOR": "1",
            shop.BOOKS: str(self.books_file),
            shop.HOLD: str(self._hold),
        }

    @property
    def books(self) -> list[str]:
        """Every time money moved."""
        return self.books_file.read_text().splitlines() if self.books_file.exists() else []

    def hold(self, point: str) -> None:
        """Whoever reaches the point from now on stays there."""
        (self._hold / f"{point}.reached").unlink(missing_ok=True)
        (self._hold / f"{point}.hold").touch()

    def let_go(self, point: str) -> None:
        """Whoever is held there goes on."""
        (self._hold / f"{point}.hold").unlink()

    def wait_for(self, point: str) -> None:
        """Wait until somebody reaches the point."""
        deadline = time.monotonic() + WAIT_S
        while not (self._hold / f"{point}.reached").exists():
            assert time.monotonic() < deadline, f"nobody came to {point}"
            time.sleep(0.01)

    def run(self, *tokens: str, stdin: str = "") -> Said:
        """Run one command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "amends", *tokens],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_S * 2,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def json(self, *tokens: str) -> Said:
        """The same, for programs."""
        return self.run(*tokens, "--json")

    def status(self, transaction_id: str) -> str:
        """Where a transaction stands."""
        found: str = self.json("tx", "show", transaction_id).data["result"]["status"]
        return found

    def planned(self, transaction_id: str, amount: int = 5) -> None:
        """A plan that is there."""
        order = f'{{"amount": {amount}}}'
        ids = ("--transaction-id", transaction_id)
        assert self.json("plan", "payments.charge", "--input", order, *ids).code == 0

    def start(self, *tokens: str) -> "Running":
        """Begin a command between pipes."""
        return Running(self, tokens)


class Running:
    """A command that is under way."""

    def __init__(self, place: Shop, tokens: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "amends", *tokens],
            env=place.environment,
            cwd=place.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._err = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def says(self, words: str) -> None:
        """Wait until it has said this on standard error."""
        assert self._process.stderr is not None
        deadline = time.monotonic() + WAIT_S
        handle = self._process.stderr.fileno()
        while words not in self._err:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([handle], [], [], left)
            read = os.read(handle, 65536).decode() if ready else ""
            assert read, f"it does not say {words!r}, but {self._err!r}"
            self._err += read

    def end(self) -> Said:
        """Wait for its end."""
        out, err = self._process.communicate(timeout=WAIT_S)
        return Said(self._process.returncode, out, self._err + err)

    def closes_output(self) -> None:
        """Its reader leaves."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def death(self) -> int:
        """Wait for its end without reading what it says."""
        return self._process.wait(WAIT_S)


class Terminal:
    """A command at a terminal; what it shows is what a person would see, colours included."""

    def __init__(self, place: Shop, *tokens: str) -> None:
        self.shown = ""
        environment = {**place.environment, "TERM": "xterm-256color"}
        del environment["NO_COLOR"]
        self._handle, far_side = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *tokens],
            env=environment,
            cwd=place.folder,
            stdin=far_side,
            stdout=far_side,
            stderr=far_side,
            start_new_session=True,
        )
        os.close(far_side)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._handle >= 0:
            os.close(self._handle)

    def shows(self, words: str) -> None:
        """Wait until this is on the screen."""
        deadline = time.monotonic() + WAIT_S
        while words not in self.shown:
            assert self._read(deadline), f"it does not show {words!r}, but {self.shown!r}"

    def types(self, keys: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._handle, keys.encode())

    def closes(self) -> int:
        """The window is closed; the exit code of the command that was in it."""
        os.close(self._handle)
        self._handle = -1
        return self._process.wait(WAIT_S)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        while self._read(time.monotonic() + WAIT_S):
            pass
        return self._process.wait(WAIT_S)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([self._handle], [], [], left)
        try:
            read = os.read(self._handle, 65536) if ready else b""
        except OSError:  # the other end of a terminal that nobody has open any more
            read = b""
        self.shown += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)
