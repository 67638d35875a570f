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
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from amends.contracts.codes import coded
from amends.protocol.bootstrap import Bootstrap
from amends.transports.pipes import PipeTransport, open_pipes

_GRACE_S: Final = 5.0


class ChildWorker:
    """A child that was started, and the transport to it."""

    def __init__(self, process: asyncio.subprocess.Process, transport: PipeTransport) -> None:
        self.process: Final = process
        self.transport: Final = transport

    async def stop(self, grace_s: float = _GRACE_S) -> int:
        """End the channel, let the child write down what it began, then kill it; its exit code.

        When this returns, the process is reaped: nothing of it can act any more.
        """
        await self.transport.close()
        with suppress(TimeoutError):
            return await asyncio.wait_for(self.process.wait(), grace_s)
        self.kill()
        return await self.process.wait()

    def kill(self) -> None:
        """Send SIGKILL, if it still runs."""
        with suppress(ProcessLookupError):
            self.process.kill()


async def start_child(
    command: Sequence[str], bootstrap: Bootstrap, *, environment: Mapping[str, str] | None = None
) -> ChildWorker:
    """Start a worker and hand it its session.

    Without an environment it gets this process's own. Raises `Unavailable` (`channel.lost`) when
    it cannot be started.
    """
    secret, told = os.pipe()
    to_child, from_host = os.pipe()
    to_host, from_child = os.pipe()
    theirs, ours = (secret, to_child, from_child), (told, from_host, to_host)
    options = zip(("--bootstrap-fd", "--read-fd", "--write-fd"), map(str, theirs), strict=True)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            *(word for option in options for word in option),
            pass_fds=theirs,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=None if environment is None else dict(environment),
        )
    except OSError:
        _close(*ours)
        raise coded("channel.lost") from None
    finally:
        _close(*theirs)
    _tell(told, bootstrap)
    return ChildWorker(process, await open_pipes(to_host, from_host))


def _tell(descriptor: int, bootstrap: Bootstrap) -> None:
    """The preamble is shorter than what a pipe takes at once. A child that died hears nothing."""
    with suppress(OSError), os.fdopen(descriptor, "wb", 0) as pipe:
        pipe.write(bootstrap.preamble())


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
