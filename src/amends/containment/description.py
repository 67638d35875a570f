"""A container described: what a worker's process sees, from its program and its grants alone.

    containment = describe(program, manifest.grants, provisions)

Nothing is there but what is named: the program, the worker's own folders, and what the resources of
the grants stand for. One process serves all grants of a session, so it sees what all of them name;
tools that must not share belong to different workers.

No path may lie inside one that the worker can write: it could put a link there, and have the link's
target next time.

Deliberately not here: how it is enforced (`bubblewrap`), and whether it is (`probing`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

import msgspec

from amends.containment.provisions import (
    Executable,
    FileRoot,
    OriginSocket,
    Provision,
    SecretFile,
    WholeNetwork,
    check_path,
    lies_in,
    provision_of,
)
from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, Resource

PATH: Final = "PATH"
SCRATCH_BYTES: Final = 64 * 1024 * 1024
NETWORK_FILES: Final = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
"""What names and certificates are looked up in. Bound in with the network, where they exist."""


class Part(StrEnum):
    """Why something is in the container."""

    PROGRAM = "program"
    STATE = "state"
    GRANT = "grant"
    NETWORK = "network"


class Bind(NamedTuple):
    """A path of the machine that is there under the same name."""

    path: str
    part: Part
    writable: bool = False
    optional: bool = False


class Link(NamedTuple):
    """A symbolic link that the system's layout needs."""

    path: str
    target: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker needs to run at all, whatever it is granted.

    `read_only` is the interpreter, its libraries and the adapters' code. `writable` are the folders
    of its journal and its anchor. Values of `environment` are seen by other users of the machine.
    Raises `Misuse` (`containment.path_refused`).
    """

    interpreter: str
    read_only: tuple[str, ...]
    writable: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for path in (*self.read_only, *self.writable):
            check_path(path)


class Containment(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the container has. What it does not name is not there.

    `scratch_bytes` bounds each of the two folders in memory that are private to the container.
    """

    interpreter: str
    binds: tuple[Bind, ...]
    links: tuple[Link, ...]
    environment: tuple[tuple[str, str], ...]
    whole_network: bool = False
    scratch_bytes: int = SCRATCH_BYTES


def describe(
    program: Program,
    grants: Iterable[CapabilityGrant],
    provisions: Mapping[Resource, Provision],
) -> Containment:
    """The container of a worker that serves these grants (INT-5).

    Raises `Refused` (`containment.resource_unknown`) for a resource that nobody provides, and
    `Misuse` (`containment.paths_overlap`) when a path lies inside one that can be written.
    """
    resources = dict.fromkeys(one for grant in grants for one in grant.resources)
    given = [provision_of(resource, provisions) for resource in resources]
    network = any(isinstance(one, WholeNetwork) for one in given)
    binds = [*_of_program(program), *(bind for one in given for bind in _of_provision(one))]
    if network:
        binds += [Bind(path, Part.NETWORK, optional=True) for path in NETWORK_FILES]
    return Containment(
        interpreter=program.interpreter,
        binds=_in_order(binds),
        links=program.links,
        environment=_environment(program, given),
        whole_network=network,
    )


def _of_program(program: Program) -> Iterator[Bind]:
    yield from (Bind(path, Part.PROGRAM) for path in program.read_only)
    yield from (Bind(path, Part.STATE, writable=True) for path in program.writable)


def _of_provision(provision: Provision) -> Iterator[Bind]:
    match provision:
        case FileRoot(path, writable):
            yield Bind(path, Part.GRANT, writable=writable)
        case Executable(path) | SecretFile(path) | OriginSocket(path):
            yield Bind(path, Part.GRANT)
        case WholeNetwork():
            return
        case _:
            assert_never(provision)


def _in_order(binds: Sequence[Bind]) -> tuple[Bind, ...]:
    """Each path once, a folder before what lies in it."""
    known: dict[str, Bind] = {}
    for bind in binds:
        first = known.setdefault(bind.path, bind)
        if first.writable != bind.writable:
            raise coded("containment.paths_overlap")
    roots = [bind.path for bind in known.values() if bind.writable]
    if any(lies_in(path, root) for path in known for root in roots if path != root):
        raise coded("containment.paths_overlap")
    return tuple(sorted(known.values(), key=lambda bind: bind.path.split("/")))


def _environment(program: Program, given: Iterable[Provision]) -> tuple[tuple[str, str], ...]:
    """The program's own, and the folders of the granted programs to search in."""
    folders = [one.path.rpartition("/")[0] or "/" for one in given if isinstance(one, Executable)]
    searched = ":".join(dict.fromkeys(folders))
    return (*program.environment, *([(PATH, searched)] if searched else []))
