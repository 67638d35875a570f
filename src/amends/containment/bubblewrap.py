"""A container's description as arguments of `bwrap`. Nothing is decided here, and nothing is run.

Three things are less plain than they look. Without `--cap-drop` a worker that root starts
keeps every capability inside its own user namespace, and could make writable what was bound
read-only. And root's worker is still root to the kernel's settings under `/proc/sys`, which belong
to the whole machine: hence `/proc` is read-only as well.
And bwrap stays in the container as its first process, where everybody can read with which
environment it was started: so it has to be started with the container's, and `--clearenv` is not
enough.
"""

from collections.abc import Iterator
from typing import Final

from amends.containment.description import Bind, Containment

HOSTNAME: Final = "amends-worker"
PRIVATE: Final = ("/dev/shm", "/tmp")  # noqa: S108 - folders of the container, not of the machine
_ALWAYS: Final = (
    "--unshare-user",
    "--disable-userns",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--hostname",
    HOSTNAME,
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
)


def arguments(containment: Containment) -> tuple[str, ...]:
    """What stands between `bwrap` and the worker's command."""
    network = () if containment.whole_network else ("--unshare-net",)
    return (*_ALWAYS, *network, *_environment(containment), *_files(containment), "--")


def _environment(containment: Containment) -> Iterator[str]:
    for name, value in containment.environment:
        yield from ("--setenv", name, value)


def _files(containment: Containment) -> Iterator[str]:
    """The order counts: a later mount hides an earlier one, and sealing comes last."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for folder in PRIVATE:
        yield from ("--size", str(containment.scratch_bytes), "--tmpfs", folder)
    for bind in containment.binds:
        yield from (_option(bind), bind.path, bind.path)
    for link in containment.links:
        yield from ("--symlink", link.target, link.path)
    for sealed in ("/proc", "/dev", "/"):
        yield from ("--remount-ro", sealed)
    yield from ("--chdir", "/")


def _option(bind: Bind) -> str:
    option = "--bind" if bind.writable else "--ro-bind"
    return option + ("-try" if bind.optional else "")
