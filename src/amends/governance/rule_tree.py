"""A file of rules as a tree of plain texts, whatever language it was written in.

Every value keeps its own spelling, so that nothing is read as a number or a truth before somebody
asks for one; and every node keeps its line, so that a fault can be found.

Deliberately not here: parsers (`wiring`), and what the fields mean (`rule_reading`).
"""

from typing import TypeAlias

import msgspec


class Scalar(msgspec.Struct, frozen=True):
    """A text. `quoted` says that its author meant one."""

    text: str
    line: int
    quoted: bool = False


class Items(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple["Node", ...]
    line: int


class Entry(msgspec.Struct, frozen=True):
    """One field. A field may come twice in the tree; that is a fault, and no reader's choice."""

    name: str
    line: int
    node: "Node"


class Fields(msgspec.Struct, frozen=True):
    """Named values, in the order of the file."""

    entries: tuple[Entry, ...]
    line: int


Node: TypeAlias = Scalar | Items | Fields


class FileFault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a file: a code, where, in which rule, and a clause in words."""

    code: str
    line: int
    rule: str | None
    says: str

    def __str__(self) -> str:
        """One line for people."""
        rule = f", rule {self.rule}" if self.rule is not None else ""
        return f"line {self.line}{rule}: {self.says} [{self.code}]"
