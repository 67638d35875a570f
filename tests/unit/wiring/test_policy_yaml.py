"""YAML, strictly: plain texts with their lines, and nothing that YAML can do besides."""

import pytest

from amends.governance.rule_fields import Faults
from amends.governance.rule_tree import Entry, Fields, Items, Node, Scalar
from amends.wiring.policy_yaml import MOST_BYTES, read_yaml


def read(text: str | bytes) -> tuple[Node | None, list[tuple[int, str]]]:
    faults = Faults()
    tree = read_yaml(text.encode() if isinstance(text, str) else text, faults)
    return tree, [(fault.line, fault.code) for fault in faults.found]


def test_values_keep_their_spelling_and_their_lines() -> None:
    tree, faults = read("# rules\na: 1.50\nb:\n  - 'no'\n  - {c: yes}\n")
    assert tree == Fields(
        (
            Entry("a", 2, Scalar("1.50", 2)),
            Entry(
                "b",
                3,
                Items(
                    (Scalar("no", 4, quoted=True), Fields((Entry("c", 5, Scalar("yes", 5)),), 5)), 4
                ),
            ),
        ),
        2,
    )
    assert faults == []


def test_a_field_that_comes_twice_is_kept_twice() -> None:
    tree, _ = read("a: 1\na: 2\n")
    assert isinstance(tree, Fields)
    assert [entry.name for entry in tree.entries] == ["a", "a"]


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"


@pytest.mark.rule("PO-2")
@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [(1, "policy.yaml_malformed")]),
        ("# nothing\n", [(1, "policy.yaml_malformed")]),
        ("a: [1\n", [(2, "policy.yaml_malformed")]),
        ("a: 1\n b: 2\n", [(2, "policy.yaml_malformed")]),
        ("a: \t1\n\tb: 2", [(2, "policy.yaml_malformed")]),
        (b"a: \xff", [(1, "policy.yaml_malformed")]),
        ("a: \x00", [(1, "policy.yaml_malformed")]),
        (b"a" * (MOST_BYTES + 1), [(1, "policy.yaml_malformed")]),
        ("a: &x 1\n", [(1, "policy.yaml_forbidden")]),
        ("a: &x [1]\nb: *x\n", [(1, "policy.yaml_forbidden"), (2, "policy.yaml_forbidden")]),
        ("a: !!python/name:os.system 1\n", [(1, "policy.yaml_forbidden")]),
        ("a: !thing {b: 1}\n", [(1, "policy.yaml_forbidden")]),
        ("a: 1\n---\nb: 2\n", [(2, "policy.yaml_forbidden")]),
        ("[a]: 1\n", [(1, "policy.yaml_forbidden")]),
        ("a: " + "[" * 30 + "]" * 30, [(1, "policy.yaml_forbidden")]),
        (
            BOMB,
            [(1, "policy.yaml_forbidden")]
            + [(2, "policy.yaml_forbidden")] * 3
            + [(3, "policy.yaml_forbidden")] * 3,
        ),
    ],
)
def test_what_yaml_can_do_besides_is_a_fault(
    text: str | bytes, faults: list[tuple[int, str]]
) -> None:
    assert read(text)[1] == faults


def test_a_deep_bomb_of_lists_ends_at_once() -> None:
    [(line, code)] = read("[" * 100_000)[1]
    assert line == 1
    assert code in ("policy.yaml_forbidden", "policy.yaml_malformed")
