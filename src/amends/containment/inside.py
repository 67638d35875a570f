"""The program that a probe runs inside a container: it tries what should fail, and says what came.

It is handed over as text and run by the bare interpreter, so it imports nothing but the standard
library, so that the interpreter starts at once. It changes nothing: what it manages to make,
it takes away again.
"""

import json
import os
import socket
import sys
from contextlib import suppress

_STATUS = ("NoNewPrivs", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def look(asked: dict[str, list[str]]) -> dict[str, object]:
    """Everything that this process can find out about itself."""
    return {
        "namespaces": {name: _namespace(name) for name in asked["namespaces"]},
        "status": _status(),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()),
        "own": [1, os.getpid()],
        "session": os.getsid(0),
        "user": os.getuid(),
        "environment": sorted({*os.environ, *_environment_of("1")}),
        "descriptors": _descriptors(),
        "written": [path for path in asked["write"] if _can_write(path)],
        "not_sealed": [path for path in asked["sealed"] if not _is_sealed(path)],
        "read": [path for path in asked["read"] if _can_read(path)],
        "reached": [name for name in asked["reach"] if _can_reach(name)],
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
    }


def _namespace(name: str) -> str:
    return os.readlink("/proc/self/ns/" + name)


def _status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        pairs = [line.partition(":") for line in file]
    return {name: value.strip() for name, _, value in pairs if name in _STATUS}


def _environment_of(process: str) -> set[str]:
    """What the container's first process was started with; it is open to every other in it."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            pairs = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return set()
    return {pair.partition("=")[0] for pair in pairs if pair}


def _descriptors() -> list[int]:
    """Those that are open, without the one that lists them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            os.fstat(int(name))
            found.append(int(name))
    return sorted(found)


def _can_write(path: str) -> bool:
    """A file is opened and left as it is; in a folder one is made and removed."""
    try:
        if not os.path.isdir(path):
            os.close(os.open(path, os.O_WRONLY))
            return True
        made = os.path.join(path, f".amends-probe-{os.getpid()}")
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(made)
    except OSError:
        return False
    return True


def _is_sealed(path: str) -> bool:
    """Whether it is mounted read-only, or is not there at all."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return True


def _can_read(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _can_reach(name: str) -> bool:
    """Whether an abstract socket of this name answers: its names belong to the network."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        try:
            end.connect("\0" + name)
        except OSError:
            return False
    return True


if __name__ == "__main__":
    json.dump(look(json.loads(sys.argv[1])), sys.stdout)
