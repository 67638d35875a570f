"""What is listed as finished is cited in the source and carried by a test.

The list is `finished.toml`, beside this file. Tests are read as syntax trees, so a marker that is
only mentioned in a comment or a docstring does not count.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FINISHED: Final = tomllib.loads(Path(__file__).with_name("finished.toml").read_text("utf-8"))
MARKER_OF: Final = {"rules": "rule", "cases": "case", "faults": "fault"}


def _ids_marked(tree: ast.AST, marker: str) -> Iterator[object]:
    """Every id in a `pytest.mark.<marker>(...)` of the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{marker}":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def _ids_in_tests(marker: str) -> set[object]:
    trees = (ast.parse(path.read_bytes()) for path in (ROOT / "tests").rglob("test_*.py"))
    return {found for tree in trees for found in _ids_marked(tree, marker)}


def _uncited(ids: list[str], text: str) -> list[str]:
    """The ids that the text does not contain as a whole word."""
    return [one for one in ids if not re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text)]


def test_every_finished_rule_is_cited_in_the_source() -> None:
    sources = sorted((ROOT / "src").rglob("*.py"))
    text = "\n".join(path.read_text("utf-8") for path in sources)
    assert _uncited(FINISHED["rules"], text) == []


@pytest.mark.parametrize("kind", MARKER_OF)
def test_everything_finished_is_carried_by_a_test(kind: str) -> None:
    marked = _ids_in_tests(MARKER_OF[kind])
    assert [one for one in FINISHED[kind] if one not in marked] == []


def test_the_list_of_what_is_finished_has_three_sorted_parts_without_repeats() -> None:
    assert FINISHED.keys() == MARKER_OF.keys()
    assert {kind: sorted(set(ids)) for kind, ids in FINISHED.items()} == FINISHED


def test_a_marker_is_found_on_a_function_a_module_and_a_parameter() -> None:
    tree = ast.parse(
        "pytestmark = [pytest.mark.rule('A-1')]\n"
        "@pytest.mark.rule('A-2', 'A-3')\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.rule('A-4'))])\n"
        "def test_it(x): '''pytest.mark.rule('A-5')'''\n"
    )
    assert set(_ids_marked(tree, "rule")) == {"A-1", "A-2", "A-3", "A-4"}


def test_a_citation_is_a_whole_id_and_not_the_beginning_of_a_longer_one() -> None:
    assert _uncited(["TX-A-1", "TX-A-2"], "see TX-A-12, X-TX-A-1 and (TX-A-2)") == ["TX-A-1"]
