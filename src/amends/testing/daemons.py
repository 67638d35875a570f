"""Programs of others that run beside a test: as whom, until when, and where they are reached.

A server refuses to run as root, so for root it is run as the user `nobody`. It ends with the
process that started it, however that ends.

Deliberately not here: which program it is.
"""

import ctypes
import os
import pwd
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def identity() -> dict[str, Any]:
    """As whom such a program runs, as `subprocess` wants it said."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def hand_over(path: Path) -> None:
    """Let the user as whom it runs read and write a file or folder."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def end_with_parent() -> None:
    """In the child, before it becomes the program: stop in order when the parent is no more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
