"""Reads trees of a file of rules field by field, and collects every fault on the way.

A field that nobody knows is a fault wherever it stands, since a rule that is misspelt would
otherwise be none. What cannot be read is left out of what is returned; a file with a fault is never
used.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from amends.governance.rule_scalars import Unfit
from amends.governance.rule_tree import Entry, Fields, FileFault, Items, Node, Scalar

T = TypeVar("T")
UNKNOWN: Final = "policy.field_unknown"
TWICE: Final = "policy.field_twice"
MISSING: Final = "policy.field_missing"
INVALID: Final = "policy.value_invalid"
_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Faults:
    """The faults of one file, in the order in which they are found."""

    def __init__(self) -> None:
        self.found: list[FileFault] = []
        self.rule: str | None = None

    def add(self, code: str, line: int, says: str) -> None:
        """One more, in the rule that is being read."""
        self.found.append(FileFault(code, line, self.rule, says))


class Table:
    """The fields of one mapping, each of which is taken once."""

    def __init__(self, node: Node, name: str, faults: Faults) -> None:
        self.faults = faults
        self.line = node.line
        self._name = name
        self._entries: dict[str, Entry] = {}
        if not isinstance(node, Fields):
            faults.add(INVALID, node.line, f"{name} has to have fields")
            return
        for entry in node.entries:
            if entry.name in self._entries:
                faults.add(TWICE, entry.line, f"{_shown(entry.name)} comes twice")
            self._entries[entry.name] = entry

    def node(self, name: str) -> Node | None:
        """A field's value, which is then known."""
        entry = self._entries.pop(name, None)
        return None if entry is None else entry.node

    def need(self, name: str) -> Node | None:
        """A field that has to be there."""
        found = self.node(name)
        if found is None:
            self.faults.add(MISSING, self.line, f"{self._name} needs {name}")
        return found

    def one(self, name: str, read: Callable[[Scalar], T], *, needed: bool = False) -> T | None:
        """A single value."""
        node = self.need(name) if needed else self.node(name)
        return None if node is None else scalar(node, name, read, self.faults)

    def many(self, name: str, read: Callable[[Scalar], T]) -> tuple[T, ...]:
        """One value or a list of them; an empty list is a fault, since it would fit everything."""
        node = self.node(name)
        if node is None:
            return ()
        items = node.items if isinstance(node, Items) else (node,)
        if not items:
            self.faults.add(INVALID, node.line, f"{name} lists nothing; leave it out")
        found = [scalar(item, name, read, self.faults) for item in items]
        return tuple(one for one in found if one is not None)

    def rest(self) -> None:
        """Whatever was not asked for is a fault."""
        for entry in self._entries.values():
            self.faults.add(UNKNOWN, entry.line, f"{self._name} has no field {_shown(entry.name)}")


def _shown(name: str) -> str:
    """A field's name as it may stand in a log: one that could be a name."""
    return name if _NAME.fullmatch(name) else "of that name"


def scalar(node: Node, name: str, read: Callable[[Scalar], T], faults: Faults) -> T | None:
    """One value, or none and a fault."""
    if not isinstance(node, Scalar):
        faults.add(INVALID, node.line, f"{name} has to be a single value")
        return None
    try:
        return read(node)
    except Unfit as unfit:
        faults.add(INVALID, node.line, f"{name} {unfit.says}")
        return None


def given(values: Mapping[str, object]) -> dict[str, object]:
    """The values that are there, so that records keep their own defaults for the others."""
    return {name: value for name, value in values.items() if value is not None and value != ()}
