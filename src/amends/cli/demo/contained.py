"""Runs a module as a program that only this machine can reach and that never outlives its parent.

Started as a file, in a process of its own: ``python -P contained.py MODULE [ARGUMENT ...]``.

Invariants: every address the program binds becomes a free or the asked port of 127.0.0.1, and is
announced in one line on standard output; when standard input ends, which it also does when the
parent is killed, the process ends at once. A parent-death signal would do the same on Linux only,
and would fire when the *thread* that started the child ends.

Not here: anything about the program that runs, and anything of this package, whose import would
only cost start-up time.
"""

import os
import runpy
import socket
import sys
import threading

LOOPBACK = "127.0.0.1"
ANNOUNCEMENT = "listening on port "


class LoopbackSocket(socket.socket):
    """A socket that listens on the IPv4 loopback, whatever address it is told."""

    def __init__(
        self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None
    ) -> None:
        # A host without IPv6 refuses the family that a dual-stack server asks for.
        if fileno is None and family == socket.AF_INET6:
            family = socket.AF_INET
        super().__init__(family, type, proto, fileno)

    def bind(self, address: object, /) -> None:
        """Bind the port of `address` on loopback and announce the port that was obtained."""
        match address:
            case (str(), int(port), *_):
                super().bind((LOOPBACK, port))
                print(f"{ANNOUNCEMENT}{self.getsockname()[1]}", flush=True)
            case _:
                raise OSError("a contained program binds nothing but an internet address")


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def _run(module: str, arguments: list[str]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    socket.socket = LoopbackSocket  # type: ignore[misc]  # where the program looks the class up
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])
