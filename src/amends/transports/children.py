"""A worker as a child process over private pipes (INT-5).

    child = await start_child([sys.executable, "-m", "amends", "worker", "run", …], bootstrap)

The command is given three more options, which name the descriptors that it inherits:
`--bootstrap-fd`, `--read-fd`, `--write-fd`. The key passes through the first and nowhere else: not
through arguments, environment or files. A command in front of it, such as one that contains the
child, only has to leave these descriptors open.

The child's standard input is empty, and what it prints goes to this process's standard error.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from amends.contracts.codes import coded
from amends.protocol.bootstrap import Bootstrap
from amends.transports.pipes import PipeTransport, open_pipes

_GRACE_S: Final = 5.0
_STANDARD_ERROR: Final = 2
_OPTIONS: Final = ("--bootstrap-fd", "--read-fd", "--write-fd")


class ChildWorker:
    """A child that was started, and the transport to it."""

    def __init__(self, process: asyncio.subprocess.Process, transport: PipeTransport) -> None:
        self.process: Final = process
        self.transport: Final = transport

    async def stop(self, grace_s: float = _GRACE_S) -> int:
        """End the channel, let the child write down what it began, then kill it; its exit code.

        When this returns, the process is reaped: nothing of it can act any more.
        """
        try:
            await self.transport.close()
            with suppress(TimeoutError):
                return await asyncio.wait_for(self.process.wait(), grace_s)
        finally:
            self.kill()  # also where whoever stops it is stopped meanwhile
        return await self.process.wait()

    def kill(self) -> None:
        """Send SIGKILL, if it still runs, to it and to what it started before that is contained.

        A `bwrap` that is killed by itself, as it starts, leaves a half-made container waiting for
        it for ever, with the pipes in hand.
        """
        _kill(self.process)


async def start_child(
    command: Sequence[str], bootstrap: Bootstrap, *, environment: Mapping[str, str] | None = None
) -> ChildWorker:
    """Start a worker and hand it its session.

    Without an environment it gets this process's own. Raises `Unavailable` (`channel.lost`) when
    it cannot be started.
    """
    with ExitStack() as ours:
        with ExitStack() as theirs:
            try:
                secret, told = _pipe(theirs, ours)
                to_child, from_host = _pipe(theirs, ours)
                to_host, from_child = _pipe(ours, theirs)
                process = await _start(command, (secret, to_child, from_child), environment)
            except OSError:
                raise coded("channel.lost") from None
        try:
            # The preamble is shorter than what a pipe takes at once.
            with suppress(BrokenPipeError):
                os.write(told, bootstrap.preamble())
            os.close(told)
            ours.pop_all()
            return ChildWorker(process, await open_pipes(to_host, from_host))
        except BaseException:
            _kill(process)
            await process.wait()
            raise


async def _start(
    command: Sequence[str], handed: Sequence[int], environment: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    options = zip(_OPTIONS, map(str, handed), strict=True)
    return await asyncio.create_subprocess_exec(
        *command,
        *(word for option in options for word in option),
        pass_fds=handed,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,
        env=None if environment is None else dict(environment),
        process_group=0,
    )


def _kill(process: asyncio.subprocess.Process) -> None:
    """Its whole group, whose number is nobody else's until it is reaped."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed with these two."""
    ends = os.pipe()
    reader.callback(os.close, ends[0])
    writer.callback(os.close, ends[1])
    return ends
