"""A program, grants and findings to describe and judge containers with."""

from typing import Final

from msgspec.structs import replace

from amends.containment.description import Containment, Link, Program, describe
from amends.containment.findings import NAMESPACES, Inside, Outside
from amends.contracts.worker_grant import CapabilityGrant, Resource, ResourceKind

PROGRAM: Final = Program(
    interpreter="/opt/python/bin/python3",
    read_only=("/opt/python", "/usr/lib"),
    writable=("/var/lib/worker",),
    links=(Link("/lib", "usr/lib"),),
    environment=(("LANG", "C.UTF-8"),),
)


def resource(kind: str, name: str = "one") -> Resource:
    return Resource(ResourceKind(kind), name)


def granted(*resources: Resource, tool: str = "release.publish") -> CapabilityGrant:
    return replace(CapabilityGrant.json(tool), resources=resources)


def bare() -> Containment:
    return describe(PROGRAM, (), {})


def held_inside() -> Inside:
    """What a process finds in a container that holds."""
    return Inside(
        namespaces={name: f"{name}:[2]" for name in NAMESPACES.values()},
        status={
            "NoNewPrivs": "1",
            "CapPrm": "0000000000000000",
            "CapEff": "0000000000000000",
            "CapBnd": "0000000000000000",
            "CapAmb": "0000000000000000",
        },
        processes=(1, 2),
        own=(1, 2),
        session=1,
        user=1001,
        environment=("LANG", "LC_CTYPE", "PWD"),
        descriptors=(0, 1, 2),
        written=(),
        not_sealed=(),
        read=(),
        reached=(),
        interfaces=("lo",),
    )


def held_outside() -> Outside:
    return Outside(
        namespaces={name: f"{name}:[1]" for name in NAMESPACES.values()},
        environment=("LANG",),
        descriptors=(),
        died_with_parent=True,
    )
