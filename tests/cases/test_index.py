"""Every public failure is carried by a test, or waits for something that is named.

Tests are read as syntax trees, so a marker that is only mentioned does not count.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

HERE: Final = Path(__file__).parent
SURFACES: Final = {"library", "connector", "cli", "store", "http", "worker"}
WAITS_FOR: Final = {"http"}
CASE_ID: Final = re.compile(r"[A-Z0-9]{3}-\d{2}")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the index."""

    surface: str
    where: str


INDEX: Final = msgspec.convert(
    tomllib.loads((HERE / "index.toml").read_text("utf-8")), dict[str, Entry]
)


def marked_in(tree: ast.AST) -> Iterator[str]:
    """The ids of every `pytest.mark.case(...)` in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case":
            for arg in node.args:
                assert isinstance(arg, ast.Constant)
                assert isinstance(arg.value, str)
                yield arg.value


def marked() -> set[str]:
    paths = HERE.parent.rglob("test_*.py")
    return {one for path in paths for one in marked_in(ast.parse(path.read_bytes()))}


def test_every_case_that_is_done_is_carried_by_a_test() -> None:
    done = {one for one, entry in INDEX.items() if entry.where == "done"}
    assert done - marked() == set()


def test_every_marker_names_a_case_of_the_index() -> None:
    assert marked() - INDEX.keys() == set()


def test_every_case_is_done_or_waits_for_something_that_is_named() -> None:
    assert {entry.where for entry in INDEX.values()} <= {"done", *WAITS_FOR}
    assert {entry.surface for entry in INDEX.values()} <= SURFACES


def test_what_waits_is_listed_for_people_and_nothing_else_is_said_to_wait() -> None:
    told = (HERE / "README.md").read_text("utf-8").partition("## What waits")[2]
    told = told.partition("## Notes")[0]
    waiting = {one for one, entry in INDEX.items() if entry.where != "done"}
    assert set(CASE_ID.findall(told)) == waiting


def test_the_index_is_sorted_and_holds_ids_only() -> None:
    assert list(INDEX) == sorted(INDEX)
    assert [one for one in INDEX if not CASE_ID.fullmatch(one)] == []
