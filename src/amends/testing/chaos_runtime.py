"""A runtime in a process of its own that may be killed, or stopped for a while, at any moment.

It works at a till as any victim does and is told what to do line by line. It never outlives the
process that started it, not even while it is stopped.

Deliberately not here: what it is told, and when it has to suffer (`chaos`).
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import IO, Final, Self

import msgspec

import amends
from amends.testing.errands import Answer, AnyErrand
from amends.testing.till import Setup
from amends.testing.victim import Answered, Line, Ready

WAIT_S: Final = 90.0
_PR_SET_PDEATHSIG: Final = 1
_SAME_CODE: Final = str(Path(amends.__file__).parents[1])


class ChaosRuntime:
    """One such process. `killed` says that its death is our doing."""

    def __init__(self, process: asyncio.subprocess.Process, complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints
        self.killed = False

    @classmethod
    async def start(cls, setup: Setup) -> Self:
        """Start one and return at once; `opened` waits until it works."""
        complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the runtime
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "amends.testing.victim",
            msgspec.json.encode(setup).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, "PYTHONPATH": _SAME_CODE},
            preexec_fn=_die_with_parent,
        )
        return cls(process, complaints)

    async def opened(self) -> bool:
        """Whether the till is open; false where the process ended instead."""
        return isinstance(await self._line(), Ready)

    async def ask(self, *errands: AnyErrand) -> tuple[Answer, ...] | None:
        """The answers to these errands, which are run at once; none where the process died."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(errands) + b"\n")
        line = await self._line()
        return line.answers if isinstance(line, Answered) else None

    def kill(self) -> None:
        """End it with SIGKILL, stopped or not."""
        self.killed = True
        self._send(signal.SIGKILL)

    async def stand_still(self, seconds: float) -> None:
        """Stop it with SIGSTOP for so long."""
        self._send(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._send(signal.SIGCONT)

    async def end(self) -> None:
        """End its input and wait; whoever does not go is killed, which is a failure."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), WAIT_S)
        finally:
            self._send(signal.SIGKILL)
            await self._process.wait()

    async def complaint(self) -> str:
        """What it has written about its own end, once that has come; empty where it was killed."""
        code = await self._process.wait()
        if self.killed or code == 0:
            return ""
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace")[-1500:]
        return f"a runtime ended with {code}: {said}"

    def close(self) -> None:
        """Let go of what it has written."""
        self._complaints.close()

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _line(self) -> Line | None:
        assert self._process.stdout is not None
        said = await asyncio.wait_for(self._process.stdout.readline(), WAIT_S)
        # A line that was cut off is none.
        return msgspec.json.decode(said, type=Line) if said.endswith(b"\n") else None


def _die_with_parent() -> None:
    """In the child, before it becomes the runtime: nobody is left to wake one that is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
