"""A process that works at a till until it is told to stop, killed, or kills itself.

    python -m amends.testing.victim '{"store": "amends.db", "ledger": "provider.jsonl"}'

Its one argument is a `Setup` as JSON. Each line it reads is a list of errands, which it runs at
once and answers with one line in the same order; a `Trap` says what is to happen at a crash point
of what comes next. When its input ends, or on SIGINT or SIGTERM, it closes the till and goes.

Invariants: what it has answered was durable before; a line is written whole or not at all, also by
a process that dies right after.

Deliberately not here: the process that starts it and reads its lines.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from amends.contracts.enums import Mode
from amends.testing.crash_points import CrashPoint, request_of
from amends.testing.errands import (
    Answer,
    Commit,
    Compensate,
    Errand,
    Execute,
    Plan,
    Reconcile,
    Step,
    Sweep,
    run_errand,
)
from amends.testing.provider_api import Request
from amends.testing.till import Setup, Till, open_till


class Trap(Errand, frozen=True, kw_only=True):
    """Say so when the next attempt of this mode reaches the point, and send oneself a signal there.

    SIGKILL, unless told otherwise, so that the process ends exactly there; 0 sends nothing.
    """

    at: CrashPoint
    mode: Mode
    sends: int = signal.SIGKILL


Told: TypeAlias = Plan | Execute | Commit | Compensate | Reconcile | Step | Sweep | Trap


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The till is open."""

    pid: int


class Sprung(msgspec.Struct, frozen=True, tag=True):
    """The point of a trap is reached; a process that dies there says nothing more."""

    at: CrashPoint


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The answers to one line."""

    answers: tuple[Answer, ...]


Line: TypeAlias = Ready | Sprung | Answered


class Victim:
    """The process, as far as it can be told what to do."""

    def __init__(self) -> None:
        self._trap: Trap | None = None

    def reached(self, point: CrashPoint, request: Request | None) -> None:
        """Spring the trap that was set at this point, once; returns unless that was deadly."""
        trap = self._trap
        if trap is None or trap.at is not point:
            return
        if request is not None and request is not request_of(trap.mode):
            return
        self._trap = None
        say(Sprung(point))
        os.kill(os.getpid(), trap.sends)

    async def work(self, setup: Setup) -> None:
        """Serve one till until the input ends."""
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None
        loop.add_signal_handler(signal.SIGTERM, main.cancel)
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async with open_till(setup, reached=self.reached) as till:
            say(Ready(os.getpid()))
            async for line in lines:
                await self._serve(till, msgspec.json.decode(line, type=tuple[Told, ...]))

    async def _serve(self, till: Till, told: Sequence[Told]) -> None:
        errands = []
        for one in told:
            if isinstance(one, Trap):
                self._trap = one
            else:
                errands.append(one)
        answers = await asyncio.gather(*(run_errand(till, errand) for errand in errands))
        say(Answered(tuple(answers)))


def say(line: Line) -> None:
    """Write one line in a single call, past every buffer that would die with the process."""
    os.write(sys.stdout.fileno(), msgspec.json.encode(line) + b"\n")


def main(argument: str) -> None:
    """Run until told to stop; ends with 128 + the signal's number when a signal said so."""
    setup = msgspec.json.decode(argument, type=Setup)
    try:
        asyncio.run(Victim().work(setup))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
