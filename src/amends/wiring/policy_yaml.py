"""A YAML file as a tree of plain texts, strictly.

One document of mappings, lists and scalars; no anchors, no aliases, no tags, no merge keys. Fields
that come twice are left to the reader, who knows their rule. The parser only splits the text into
events; nothing is ever constructed, and every scalar keeps its spelling.
"""

from collections.abc import Iterator
from typing import Any, Final

from amends.contracts.errors import Misuse
from amends.governance.rule_fields import Faults
from amends.governance.rule_tree import Entry, Fields, Items, Node, Scalar

MOST_BYTES: Final = 4 * 1024 * 1024
DEEPEST: Final = 24
_MALFORMED: Final = "policy.yaml_malformed"
_FORBIDDEN: Final = "policy.yaml_forbidden"
_QUOTES: Final = ("'", '"', "|", ">")


def read_yaml(data: bytes, faults: Faults) -> Node | None:
    """The tree of a file, or none where it has none; what is wrong is added to `faults`.

    Raises `Misuse` (`policy.extra_missing`) where the YAML library is not installed.
    """
    yaml = _library()
    if len(data) > MOST_BYTES:
        faults.add(_MALFORMED, 1, f"the file has more than {MOST_BYTES} bytes")
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = yaml.parse(data.decode(), Loader=loader)
        return _Tree(events, faults).read()
    except _TooDeep as deep:
        faults.add(_FORBIDDEN, deep.line, f"values lie more than {DEEPEST} deep")
    except UnicodeDecodeError:
        faults.add(_MALFORMED, 1, "the file is not UTF-8")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        says = getattr(error, "problem", None) or "this is no YAML"
        faults.add(_MALFORMED, mark.line + 1 if mark else 1, says)
    return None


def _library() -> Any:
    try:
        import yaml
    except ImportError:
        raise Misuse(
            "policy.extra_missing",
            "Rules in files need packages that are not installed.",
            next_step="Install them: pip install 'amends[policy]'.",
        ) from None
    return yaml


class _TooDeep(Exception):
    """Something lies deeper than any rule does."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Tree:
    """Builds the tree of one document out of the parser's events."""

    def __init__(self, events: Iterator[Any], faults: Faults) -> None:
        self._events = events
        self._faults = faults

    def read(self) -> Node | None:
        """The first document's tree. A second document is a fault."""
        tree: Node | None = None
        for event in self._events:
            if type(event).__name__ != "DocumentStartEvent":
                continue
            if tree is not None:
                self._faults.add(_FORBIDDEN, _line(event), "a second document begins here")
                return tree
            tree = self._node(next(self._events), DEEPEST)
        if tree is None:
            self._faults.add(_MALFORMED, 1, "the file is empty")
        return tree

    def _node(self, event: Any, depth: int) -> Node:
        self._check(event, depth)
        line = _line(event)
        match type(event).__name__:
            case "SequenceStartEvent":
                return Items(tuple(self._children(depth)), line)
            case "MappingStartEvent":
                return Fields(tuple(self._entries(depth)), line)
            case "ScalarEvent":
                return Scalar(event.value, line, quoted=event.style in _QUOTES)
            case _:
                return Scalar("", line)

    def _children(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if type(event).__name__.endswith("EndEvent"):
                return
            yield self._node(event, depth - 1)

    def _entries(self, depth: int) -> Iterator[Entry]:
        children = self._children(depth)
        for key in children:
            value = next(children)
            if not isinstance(key, Scalar):
                self._faults.add(_FORBIDDEN, key.line, "a field's name is a single text")
                continue
            yield Entry(key.text, key.line, value)

    def _check(self, event: Any, depth: int) -> None:
        line, kind = _line(event), type(event).__name__
        if kind == "AliasEvent":
            says = "aliases are not taken; quote a text that begins with *"
            self._faults.add(_FORBIDDEN, line, says)
        elif event.anchor is not None:
            says = "anchors are not taken; quote a text that begins with &"
            self._faults.add(_FORBIDDEN, line, says)
        if getattr(event, "tag", None) is not None:
            self._faults.add(
                _FORBIDDEN, line, "tags are not taken; quote a text that begins with !"
            )
        if depth == 0:
            raise _TooDeep(line)


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1
