"""Merkle trees: known roots, and what is no tree or no proof."""

import hashlib
from typing import Final

import pytest

from amends.receipts.merkle import (
    EMPTY_ROOT,
    Frontier,
    Tree,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
)

pytestmark = pytest.mark.rule("RC-3")

LEAVES: Final = [leaf_hash(bytes([number])) for number in range(7)]
TREE: Final = Tree(LEAVES)
ROOT: Final = TREE.root(7)


def test_leaves_and_nodes_are_hashed_behind_different_bytes() -> None:
    assert leaf_hash(b"x") == hashlib.sha256(b"\x00x").digest()
    assert node_hash(b"l", b"r") == hashlib.sha256(b"\x01lr").digest()
    assert EMPTY_ROOT.hex() == hashlib.sha256(b"").hexdigest()


def test_a_tree_of_three_is_split_at_the_largest_power_of_two() -> None:
    one, two, three = LEAVES[:3]
    assert Tree(LEAVES[:3]).root(3) == node_hash(node_hash(one, two), three)
    assert Frontier().grown(LEAVES[:3]) == Frontier(3, (node_hash(one, two), three))


def test_the_tree_without_leaves_has_a_root_and_no_proofs() -> None:
    assert Tree([]).root(0) == TREE.root(0) == Frontier().root() == EMPTY_ROOT
    assert is_consistent(0, EMPTY_ROOT, 7, ROOT, ())
    assert not is_consistent(0, ROOT, 7, ROOT, ())
    assert not is_consistent(0, EMPTY_ROOT, 7, ROOT, (ROOT,))


@pytest.mark.parametrize(("size", "parts"), [(-1, ()), (1, ()), (2, (ROOT, ROOT)), (0, (ROOT,))])
def test_a_frontier_that_no_tree_has_is_refused(size: int, parts: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="frontier"):
        Frontier(size, parts)


@pytest.mark.parametrize("size", [-1, 8])
def test_a_tree_answers_only_for_sizes_that_it_had(size: int) -> None:
    for asked in (
        lambda: TREE.root(size),
        lambda: TREE.inclusion(0, size),
        lambda: TREE.inclusion(size, 7),
        lambda: TREE.consistency(3, size),
        lambda: TREE.consistency(size, 7),
        lambda: TREE.consistency(0, 7),
    ):
        with pytest.raises(ValueError, match="never had"):
            asked()


@pytest.mark.parametrize(("place", "size"), [(-1, 7), (7, 7), (3, 7), (2, 4), (2, 0), (2, 9)])
def test_a_path_proves_nothing_of_another_place_or_height(place: int, size: int) -> None:
    """Sizes of one height share paths: which one it is, the checkpoint says."""
    path = TREE.inclusion(2, 7)
    assert is_included(LEAVES[2], 2, path, 7, ROOT)
    assert not is_included(LEAVES[2], place, path, size, ROOT)


@pytest.mark.parametrize("place", range(7))
def test_a_path_that_is_longer_or_shorter_proves_nothing(place: int) -> None:
    path = TREE.inclusion(place, 7)
    assert not is_included(LEAVES[place], place, path[:-1], 7, ROOT)
    assert not is_included(LEAVES[place], place, (*path, ROOT), 7, ROOT)


@pytest.mark.parametrize("earlier", range(1, 7))
def test_a_consistency_that_is_longer_or_shorter_or_of_others_proves_nothing(earlier: int) -> None:
    before, path = TREE.root(earlier), TREE.consistency(earlier, 7)
    assert is_consistent(earlier, before, 7, ROOT, path)
    assert not is_consistent(earlier, before, 7, ROOT, path[:-1])
    assert not is_consistent(earlier, before, 7, ROOT, (*path, ROOT))
    assert not is_consistent(earlier, ROOT, 7, ROOT, path)
    assert not is_consistent(earlier, before, 7, before, path)
    assert not is_consistent(earlier, before, 7, ROOT, ())
    assert not is_consistent(7, ROOT, earlier, before, path)


def test_a_tree_begins_with_itself_without_a_path() -> None:
    assert is_consistent(7, ROOT, 7, ROOT, ())
    assert not is_consistent(7, ROOT, 7, TREE.root(6), ())
    assert not is_consistent(7, ROOT, 7, ROOT, (ROOT,))
