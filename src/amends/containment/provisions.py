"""What the names of a grant's resources stand for on this machine.

A grant names its resources and never a path (GR-1). The operator says, once, what each name is
here. What a worker finds has the same path inside as outside, so an adapter works contained or not.

Deliberately not here: looking whether anything is there. bubblewrap does that when it starts.
"""

import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from amends.contracts.codes import coded
from amends.contracts.worker_grant import Resource, ResourceKind

WHOLE_OR_PRIVATE: Final = frozenset({"/", "/tmp"})  # noqa: S108 - a name that is refused
OF_THE_KERNEL: Final = ("/proc", "/dev", "/sys")


class FileRoot(msgspec.Struct, frozen=True):
    """A folder or a file. It can be read, and changed only if this says so."""

    path: str
    writable: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)


class Executable(msgspec.Struct, frozen=True):
    """One program file. Libraries of the system are there anyway; other programs are not."""

    path: str

    def __post_init__(self) -> None:
        check_path(self.path)


class SecretFile(msgspec.Struct, frozen=True):
    """A file that holds a secret. There is no other way in: arguments and environments are seen."""

    path: str

    def __post_init__(self) -> None:
        check_path(self.path)


class OriginSocket(msgspec.Struct, frozen=True):
    """The Unix socket of a proxy that the operator runs, and that leads to this origin only."""

    path: str

    def __post_init__(self) -> None:
        check_path(self.path)


class WholeNetwork(msgspec.Struct, frozen=True):
    """The machine's whole network. bubblewrap cannot tell one origin from another."""


Provision: TypeAlias = FileRoot | Executable | SecretFile | OriginSocket | WholeNetwork

FITTING: Final[Mapping[ResourceKind, tuple[type[Provision], ...]]] = MappingProxyType(
    {
        ResourceKind.FILE_ROOT: (FileRoot,),
        ResourceKind.EXECUTABLE: (Executable,),
        ResourceKind.NETWORK_ORIGIN: (OriginSocket, WholeNetwork),
        ResourceKind.SECRET: (SecretFile,),
    }
)
"""What a resource of each kind can be."""


def provision_of(resource: Resource, provisions: Mapping[Resource, Provision]) -> Provision:
    """What this resource is here.

    Raises `Refused` (`containment.resource_unknown`) when nobody said, or said another kind.
    """
    provision = provisions.get(resource)
    if provision is None or not isinstance(provision, FITTING[resource.kind]):
        details = {"kind": resource.kind.value, "id": resource.id}
        raise coded("containment.resource_unknown", details)
    return provision


def check_path(path: str) -> str:
    """The same path. Raises `Misuse` (`containment.path_refused`)."""
    spelled = posixpath.normpath(path) == path and path.startswith("/") and path[:2] != "//"
    of_the_kernel = any(lies_in(path, root) for root in OF_THE_KERNEL)
    if not spelled or "\0" in path or path in WHOLE_OR_PRIVATE or of_the_kernel:
        raise coded("containment.path_refused")
    return path


def lies_in(path: str, root: str) -> bool:
    """Whether a path is this one or below it, both spelled plainly."""
    return path == root or path.startswith(root.rstrip("/") + "/")
