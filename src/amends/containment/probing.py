"""Whether a container holds on this machine: it is run, and tries to get out.

Nothing is concluded from versions, settings or users. Of every property either the attempt was made
and failed, or it counts as broken. A probe takes about a quarter of a second and runs three
short-lived processes; nothing of it stays.
"""

import asyncio
import inspect
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amends.containment import inside
from amends.containment.bubblewrap import arguments
from amends.containment.description import Bind, Containment
from amends.containment.findings import (
    KERNEL_SETTINGS,
    NAMESPACES,
    SEALED,
    ContainmentReport,
    Inside,
    Outside,
    judge,
)
from amends.containment.provisions import lies_in

BUBBLEWRAP: Final = "bwrap"
WELL_KNOWN: Final = ("/boot", "/etc/passwd", "/etc/shadow", "/home", "/root", "/run", "/var")
"""Places of every machine that are tried as well, unless something of the container lies there."""

_LIMIT_S: Final = 10.0
_DEATH_LIMIT_S: Final = 3.0
_TOLD: Final = 200
_PARENT: Final = (
    "import subprocess, sys, time; "
    "subprocess.Popen(sys.argv[2:], pass_fds=[int(sys.argv[1])]); time.sleep(10)"
)
_CHILD: Final = "import os, sys, time; os.write(int(sys.argv[1]), b'.'); time.sleep(10)"


async def probe(
    containment: Containment, *, bubblewrap: Sequence[str] | None = None
) -> ContainmentReport:
    """Run the container and say what holds. Whatever fails is in the report; nothing is raised.

    `bubblewrap` is the command that it is called by, if not by `bwrap` alone.
    """
    bubblewrap = bubblewrap or find_bubblewrap()
    if sys.platform != "linux":
        return ContainmentReport(reason="this system is not Linux")
    tried = _Tried((*bubblewrap, *arguments(containment)), containment)
    try:
        tool = await _output([*bubblewrap, "--version"], tried.environment)
        found = await _look(tried)
        findings = judge(found, await _outside(tried), containment)
    except _Failed as failed:
        return ContainmentReport(reason=str(failed))
    return ContainmentReport(
        tool=tool.decode("utf-8", "replace").strip(),
        findings=findings,
        # Inside it has the number that it has outside.
        as_root=found.user == 0,
    )


def find_bubblewrap() -> tuple[str, ...]:
    """The command by its whole path: it is started without this process's own search path."""
    return (shutil.which(BUBBLEWRAP) or BUBBLEWRAP,)


class _Tried(NamedTuple):
    """A container as it will be for the worker."""

    prefix: tuple[str, ...]
    containment: Containment

    @property
    def environment(self) -> dict[str, str]:
        """What bwrap itself is started with; a process inside can read it."""
        return dict(self.containment.environment)

    def running(self, *program: str) -> tuple[str, ...]:
        """The command that runs this program in it, by the bare interpreter."""
        return (*self.prefix, self.containment.interpreter, "-I", "-S", "-c", *program)


class _Failed(Exception):
    """Why there is nothing to find."""


async def _look(tried: _Tried) -> Inside:
    """What a process in the container finds, with a file and a socket outside to be found."""
    name = f"amends-probe-{secrets.token_hex(16)}"
    with _bait() as bait, closing(_heard(name)):
        asked = msgspec.json.encode(_asked(tried.containment.binds, bait, name))
        program = inspect.getsource(inside)
        printed = await _output(tried.running(program, asked.decode()), tried.environment)
    try:
        return msgspec.json.decode(printed, type=Inside)
    except msgspec.MsgspecError:
        raise _Failed("the probe inside printed something else") from None


@contextmanager
def _bait() -> Iterator[Path]:
    """A file that is open to every user, so that only the container keeps it from being read."""
    with tempfile.TemporaryDirectory(prefix="amends-probe-") as folder:
        Path(folder).chmod(0o755)
        bait = Path(folder, "bait")
        bait.touch(0o644)
        yield bait


def _heard(name: str) -> socket.socket:
    """A socket of this machine's network that needs no port and leaves no file."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.bind("\0" + name)
    end.listen()
    return end


def _asked(binds: Sequence[Bind], bait: Path, name: str) -> dict[str, list[str]]:
    kept = [bind.path for bind in binds if not bind.writable]
    hidden = [
        path
        for path in WELL_KNOWN
        if not any(lies_in(path, bind.path) or lies_in(bind.path, path) for bind in binds)
    ]
    return {
        "namespaces": list(NAMESPACES.values()),
        "write": [*kept, *SEALED, KERNEL_SETTINGS, str(bait.parent), str(bait)],
        "sealed": [*kept, *SEALED],
        "read": [str(bait), *hidden],
        "reach": [name],
    }


async def _outside(tried: _Tried) -> Outside:
    return Outside(
        namespaces=_namespaces(),
        environment=tuple(tried.environment),
        descriptors=(),
        died_with_parent=await _dies_with_its_parent(tried),
    )


def _namespaces() -> dict[str, str]:
    return {name: str(Path("/proc/self/ns", name).readlink()) for name in NAMESPACES.values()}


async def _dies_with_its_parent(tried: _Tried) -> bool:
    """Kill a process that started a container; the pipe ends once nobody inside holds it."""
    ours, theirs = os.pipe()
    try:
        parent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _PARENT, str(theirs)),
            *tried.running(_CHILD, str(theirs)),
            env=tried.environment,
            pass_fds=(theirs,),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        os.close(ours)
        raise _Failed(f"{sys.executable} cannot be run") from None
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        began = await _read(ours, _LIMIT_S)
        parent.kill()
        return began == b"." and await _read(ours, _DEATH_LIMIT_S) == b""
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        await parent.wait()


async def _read(descriptor: int, limit_s: float) -> bytes | None:
    """The next byte, none at the end; None when neither comes in time."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), limit_s)
        return os.read(descriptor, 1)
    except TimeoutError:
        return None
    finally:
        loop.remove_reader(descriptor)


async def _output(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """What a command prints. Raises `_Failed` with the last line of its errors."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            process_group=0,
        )
    except OSError:
        raise _Failed(f"{command[0]} cannot be run") from None
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    except TimeoutError:
        raise _Failed(f"{command[0]} did not end in time") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise _Failed(_last_line(errors) or f"{command[0]} failed")
    return printed


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return "".join(char for char in (lines or [""])[-1] if char.isprintable())[:_TOLD].rstrip(".")
