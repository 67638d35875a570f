"""Whether a worker is started in its container: required, if possible, or not at all.

Required fails closed: no worker is started where anything is broken. If possible, a worker is
started all the same, in as much of a container as there is, and the report that goes with it says
so. Its environment is the container's in every case; hand it to whatever starts the command, for
what bwrap is started with can be read inside.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, assert_never

from amends.containment.bubblewrap import arguments
from amends.containment.description import Containment
from amends.containment.findings import ContainmentReport
from amends.containment.probing import find_bubblewrap, probe
from amends.contracts.codes import coded
from amends.contracts.json_types import Json


class Contain(StrEnum):
    """How much is asked for."""

    REQUIRED = "required"
    IF_POSSIBLE = "if_possible"
    OFF = "off"


class Enclosure(NamedTuple):
    """What to put before a worker's command, with what environment, and what is known of it."""

    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    report: ContainmentReport


async def enclose(
    containment: Containment, contain: Contain, *, bubblewrap: Sequence[str] | None = None
) -> Enclosure:
    """Probe this container and decide.

    Raises `Unavailable` (`containment.unavailable`) when it is required and does not hold.
    """
    environment = dict(containment.environment)
    bubblewrap = bubblewrap or find_bubblewrap()
    match contain:
        case Contain.OFF:
            report = ContainmentReport(reason="it was switched off")
            return Enclosure((), environment, report)
        case Contain.REQUIRED | Contain.IF_POSSIBLE:
            report = await probe(containment, bubblewrap=bubblewrap)
        case _:
            assert_never(contain)
    if contain is Contain.REQUIRED and not report.contained:
        broken: list[Json] = list(report.broken)
        raise coded("containment.unavailable", {"broken": broken, "reason": report.reason})
    prefix = (*bubblewrap, *arguments(containment)) if report.ran else ()
    return Enclosure(prefix, environment, report)
