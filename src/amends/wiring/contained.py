"""A child worker put together with its container, and with what is known of it (INT-5).

    worker = await start_contained(command, bootstrap, containment)
    async with WorkerChannel(worker.child.transport, bootstrap, grants, …) as channel: …

Start it from the thread that stays: the kernel ends a container with the thread that started it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from amends.containment.description import Containment
from amends.containment.entering import Contain, enclose
from amends.containment.findings import ContainmentReport
from amends.protocol.bootstrap import Bootstrap
from amends.transports.children import ChildWorker, start_child


class ContainedWorker(NamedTuple):
    """A child, and what was found of its container just before it was started."""

    child: ChildWorker
    report: ContainmentReport


async def start_contained(
    command: Sequence[str],
    bootstrap: Bootstrap,
    containment: Containment,
    contain: Contain = Contain.REQUIRED,
    *,
    bubblewrap: Sequence[str] | None = None,
) -> ContainedWorker:
    """Probe the container and start the command in it, or as `contain` says.

    Raises `Unavailable` (`containment.unavailable`) when it is required and does not hold, and as
    `start_child`. Nothing was started then.
    """
    enclosure = await enclose(containment, contain, bubblewrap=bubblewrap)
    child = await start_child(
        [*enclosure.prefix, *command], bootstrap, environment=enclosure.environment
    )
    return ContainedWorker(child, enclosure.report)
