"""What a probe found, property by property, and what it comes to.

Three words: a property is *held*; it is *open* because a grant says so; or it is *broken*, which
contains nothing. Deliberately not here: looking.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from amends.containment.description import Containment
from amends.contracts.json_types import JsonObject

KERNEL_SETTINGS: Final = "/proc/sys/kernel/core_pattern"
SEALED: Final = ("/", "/dev", "/proc")
_NO_CAPABILITIES: Final = ("CapPrm", "CapEff", "CapBnd", "CapAmb")


class Property(StrEnum):
    """What a container can promise, each shown by itself."""

    PID = "pid"
    NET = "net"
    IPC = "ipc"
    UTS = "uts"
    MOUNT = "mount"
    USER = "user"
    READ_ONLY = "read_only"
    HIDDEN = "hidden"
    NO_NEW_PRIVILEGES = "no_new_privileges"
    NO_CAPABILITIES = "no_capabilities"
    NEW_SESSION = "new_session"
    ENVIRONMENT = "environment"
    DESCRIPTORS = "descriptors"
    DIES_WITH_PARENT = "dies_with_parent"


MEANING: Final[Mapping[Property, str]] = MappingProxyType(
    {
        Property.PID: "it sees no process but its own",
        Property.NET: "it reaches no network",
        Property.IPC: "it shares no memory, semaphores or queues of the system",
        Property.UTS: "it cannot name the machine",
        Property.MOUNT: "it has mounts of its own",
        Property.USER: "its user ids are its own, and it can make no further namespace",
        Property.READ_ONLY: "it can write to its own folders only",
        Property.HIDDEN: "it reads no file that is not named",
        Property.NO_NEW_PRIVILEGES: "no program gives it more rights",
        Property.NO_CAPABILITIES: "it has no capability, not even in its own namespaces",
        Property.NEW_SESSION: "it cannot type into a terminal",
        Property.ENVIRONMENT: "it has the named variables only",
        Property.DESCRIPTORS: "it has the descriptors only that it was handed",
        Property.DIES_WITH_PARENT: "it ends when its parent is killed",
    }
)
NAMESPACES: Final[Mapping[Property, str]] = MappingProxyType(
    {
        Property.PID: "pid",
        Property.NET: "net",
        Property.IPC: "ipc",
        Property.UTS: "uts",
        Property.MOUNT: "mnt",
        Property.USER: "user",
    }
)
"""What the kernel calls them."""


class State(StrEnum):
    """Whether a property holds."""

    HELD = "held"
    OPEN = "open"
    BROKEN = "broken"


class Finding(msgspec.Struct, frozen=True):
    """One property, and whether it holds."""

    property: Property
    state: State


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """What the process in the container found out, as it printed it."""

    namespaces: dict[str, str]
    status: dict[str, str]
    processes: tuple[int, ...]
    own: tuple[int, ...]
    session: int
    user: int
    environment: tuple[str, ...]
    descriptors: tuple[int, ...]
    written: tuple[str, ...]
    not_sealed: tuple[str, ...]
    read: tuple[str, ...]
    reached: tuple[str, ...]
    interfaces: tuple[str, ...]


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What the prober knows: its namespaces, what it handed over, whether the child died."""

    namespaces: dict[str, str]
    environment: tuple[str, ...]
    descriptors: tuple[int, ...]
    died_with_parent: bool


class ContainmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one container on this machine. Without findings nothing is contained.

    `tool` is what enforces it, with its version. `as_root` says that the worker is root to the
    files that it may write. `reason` says why there are no findings. `known` is false where nobody
    can look: that is neither a container nor none.
    """

    tool: str = ""
    findings: tuple[Finding, ...] = ()
    as_root: bool = False
    reason: str = ""
    known: bool = True

    @property
    def ran(self) -> bool:
        """Whether there was a container at all."""
        return bool(self.findings)

    @property
    def contained(self) -> bool:
        """Whether everything holds that the grants do not open."""
        return self.ran and not self.broken

    @property
    def broken(self) -> tuple[Property, ...]:
        """What does not hold."""
        return tuple(one.property for one in self.findings if one.state is State.BROKEN)

    @property
    def open(self) -> tuple[Property, ...]:
        """What a grant opens."""
        return tuple(one.property for one in self.findings if one.state is State.OPEN)

    def document(self) -> JsonObject:
        """For programs: as it stands in the answer of a command or in a view of the worker."""
        return {
            "contained": self.contained if self.known else None,
            "tool": self.tool,
            "as_root": self.as_root,
            "reason": self.reason,
            "findings": {one.property.value: one.state.value for one in self.findings},
        }

    @property
    def summary(self) -> str:
        """One sentence for a person."""
        if not self.known:
            return f"Not known: {self.reason}."
        if not self.ran:
            return f"Not contained: {self.reason}."
        if self.broken:
            return f"Not contained: these do not hold: {', '.join(self.broken)}."
        opened = f", but for what its grants open: {', '.join(self.open)}" if self.open else ""
        return f"Contained by {self.tool}{' as root' if self.as_root else ''}{opened}."


_Holds: TypeAlias = Callable[[Inside, Outside], bool]


def judge(inside: Inside, outside: Outside, containment: Containment) -> tuple[Finding, ...]:
    """Every property, in the order of the list."""
    return tuple(Finding(one, _state(one, inside, outside, containment)) for one in Property)


def _state(one: Property, inside: Inside, outside: Outside, containment: Containment) -> State:
    if one is Property.NET and containment.whole_network:
        return State.OPEN
    holds = _HOLDS.get(one)
    held = _apart(one, inside, outside) and (holds is None or holds(inside, outside))
    return State.HELD if held else State.BROKEN


def _apart(one: Property, inside: Inside, outside: Outside) -> bool:
    """Whether the namespace is another one; true of what is no namespace."""
    name = NAMESPACES.get(one)
    return name is None or (
        name in inside.namespaces and inside.namespaces[name] != outside.namespaces.get(name)
    )


def _sees_itself(inside: Inside, _: Outside) -> bool:
    return set(inside.processes) <= set(inside.own)


def _reaches_nobody(inside: Inside, _: Outside) -> bool:
    return not inside.reached and set(inside.interfaces) <= {"lo"}


def _writes_nothing(inside: Inside, _: Outside) -> bool:
    return not inside.written and not inside.not_sealed


def _reads_nothing(inside: Inside, _: Outside) -> bool:
    return not inside.read


def _gains_nothing(inside: Inside, _: Outside) -> bool:
    return inside.status.get("NoNewPrivs") == "1"


def _has_no_capability(inside: Inside, _: Outside) -> bool:
    return all(_is_zero(inside.status.get(name)) for name in _NO_CAPABILITIES)


def _is_zero(text: str | None) -> bool:
    return bool(text) and not str(text).strip("0")


def _leads_its_session(inside: Inside, _: Outside) -> bool:
    """The kernel says 0 of a session whose leader is outside."""
    return inside.session in inside.own


def _is_told_no_more(inside: Inside, outside: Outside) -> bool:
    return set(inside.environment) <= {*outside.environment, *_SET_BY_OTHERS}


def _was_handed_no_more(inside: Inside, outside: Outside) -> bool:
    return set(inside.descriptors) <= {0, 1, 2, *outside.descriptors}


def _died(_: Inside, outside: Outside) -> bool:
    return outside.died_with_parent


_SET_BY_OTHERS: Final = frozenset({"LC_CTYPE", "PWD"})
"""Names that bubblewrap and Python set by themselves; they carry nothing from outside."""

_HOLDS: Final[Mapping[Property, _Holds]] = MappingProxyType(
    {
        Property.PID: _sees_itself,
        Property.NET: _reaches_nobody,
        Property.READ_ONLY: _writes_nothing,
        Property.HIDDEN: _reads_nothing,
        Property.NO_NEW_PRIVILEGES: _gains_nothing,
        Property.NO_CAPABILITIES: _has_no_capability,
        Property.NEW_SESSION: _leads_its_session,
        Property.ENVIRONMENT: _is_told_no_more,
        Property.DESCRIPTORS: _was_handed_no_more,
        Property.DIES_WITH_PARENT: _died,
    }
)
"""What has to be true besides the namespace."""
