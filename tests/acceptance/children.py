"""Child processes that work at a till, and what their survivors do with what they left.

A child is told what to do line by line and answers line by line; every wait has a deadline, and no
child outlives the block it was started in.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self, TypeVar

import msgspec

import amends
from amends.app.amends import LOCAL
from amends.contracts.documents import TransactionRecord
from amends.stores.port import Stored
from amends.testing.crash_points import CrashPoint
from amends.testing.effects import FileLedger, Kind
from amends.testing.errands import Answer
from amends.testing.till import Setup, Till, effects_in
from amends.testing.victim import Answered, Line, Ready, Sprung, Told
from amends.wiring.places import is_on_a_server

WAIT_S: Final = 30.0
SAME_CODE: Final = str(Path(amends.__file__).parents[1])
NO_CHANGES: Final[Mapping[str, str]] = MappingProxyType({})
L = TypeVar("L", Ready, Sprung, Answered)


class Child:
    """One running victim."""

    def __init__(self, setup: Setup, *, environment: Mapping[str, str] = NO_CHANGES) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "amends.testing.victim", msgspec.json.encode(setup).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": SAME_CODE, **environment},
            bufsize=0,
        )
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self.end()

    def tell(self, *told: Told) -> None:
        """Send one line; all of it is done at once."""
        if not self._open:
            self._hear(Ready)
            self._open = True
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(told) + b"\n")

    def answers(self) -> tuple[Answer, ...]:
        """The answers to the oldest line that has none yet."""
        return self._hear(Answered).answers

    def ask(self, *told: Told) -> tuple[Answer, ...]:
        """Send one line and wait for its answers."""
        self.tell(*told)
        return self.answers()

    def reaches(self, at: CrashPoint) -> None:
        """Wait until the trap that was set at this point springs."""
        assert self._hear(Sprung).at is at

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def death(self) -> int:
        """Wait for an end that the input does not bring; the exit code, negative for a signal."""
        return self._process.wait(WAIT_S)

    def end(self) -> int:
        """End the input and wait; a child that does not go is killed. The exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            return self._process.wait(WAIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._errors.close()

    def _hear(self, kind: type[L]) -> L:
        line = msgspec.json.decode(self._read_line(), type=Line)
        assert isinstance(line, kind), f"{line} where a {kind.__name__} was expected"
        return line

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + WAIT_S
        while b"\n" not in self._unread:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            read = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            assert read, f"the child says nothing more: {self._complaint()}"
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _complaint(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:] or "not even an error"


def url_of(setup: Setup) -> str:
    """The store of a till, as a program names it."""
    return setup.store if is_on_a_server(setup.store) else f"sqlite:///{setup.store}"


def effects(setup: Setup, kind: Kind | None = None) -> int:
    """How often money moved, by the provider's own books."""
    return len(effects_in(FileLedger(setup.ledger), kind))


async def stored(till: Till, transaction_id: str) -> Stored[TransactionRecord] | None:
    """A transaction's record as it lies in the store."""
    return await till.store.get(TransactionRecord, LOCAL.tenant, transaction_id)


async def status(till: Till, transaction_id: str) -> str | None:
    """A record's status; none where there is no record."""
    found = await stored(till, transaction_id)
    return found.document.status.value if found else None


async def next_due(till: Till, transaction_id: str) -> bool:
    """Move the clock on to the moment the record is due, and sweep; false if it never is."""
    found = await stored(till, transaction_id)
    assert found is not None
    if found.due_at is None:
        return False
    left = found.due_at - found.read_at
    till.clock.step(max(0, left // timedelta(milliseconds=1) + 1))
    await till.sweeper.sweep()
    return True


async def recover(till: Till, transaction_id: str) -> list[str | None]:
    """Sweep until nothing of the record is due, and tell its statuses on the way."""
    seen = [await status(till, transaction_id)]
    for _ in range(10):
        if not await next_due(till, transaction_id):
            return seen
        seen.append(await status(till, transaction_id))
    raise AssertionError(f"recovery does not come to an end: {seen}")
