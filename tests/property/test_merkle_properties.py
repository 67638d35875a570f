"""Our trees beside two others: an independent library, and the recursion that the RFC writes down.

Every size up to 300 is gone through; which leaf and which earlier size is looked at closely is left
to chance.
"""

import hashlib
from functools import cache
from itertools import pairwise
from typing import Final

import pymerkle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.receipts.merkle import Frontier, Tree, is_consistent, is_included, leaf_hash

pytestmark = pytest.mark.rule("RC-3")

LARGEST: Final = 300
ENTRIES: Final = [number.to_bytes(2, "big") for number in range(LARGEST)]
LEAVES: Final = [leaf_hash(entry) for entry in ENTRIES]
TREE: Final = Tree(LEAVES)
SIZES: Final = st.integers(1, LARGEST)


@cache
def theirs() -> pymerkle.InmemoryTree:
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    for entry in ENTRIES:
        tree.append_entry(entry)
    return tree


# ── as RFC 9162 defines them, word for word ──────────────────────────────────────────────────────


def half(size: int) -> int:
    power = 1
    while power * 2 < size:
        power *= 2
    return power


@cache
def mth(low: int, high: int) -> bytes:
    """MTH over the leaves from `low` up to `high` (section 2.1.1)."""
    if high - low == 1:
        return LEAVES[low]
    middle = low + half(high - low)
    return hashlib.sha256(b"\x01" + mth(low, middle) + mth(middle, high)).digest()


def path(m: int, low: int, high: int) -> list[bytes]:
    """PATH(m, D[low:high]) (section 2.1.3.1)."""
    if high - low == 1:
        return []
    k = half(high - low)
    if m < k:
        return [*path(m, low, low + k), mth(low + k, high)]
    return [*path(m - k, low + k, high), mth(low, low + k)]


def subproof(m: int, low: int, high: int, *, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[low:high], b) (section 2.1.4.1)."""
    if m == high - low:
        return [] if whole else [mth(low, high)]
    k = half(high - low)
    if m <= k:
        return [*subproof(m, low, low + k, whole=whole), mth(low + k, high)]
    return [*subproof(m - k, low + k, high, whole=False), mth(low, low + k)]


@pytest.mark.parametrize("first", range(1, LARGEST + 1, 50))
def test_every_size_has_the_root_of_the_others_and_its_proofs_hold(first: int) -> None:
    for size in range(first, first + 50):
        root = TREE.root(size)
        assert root == mth(0, size) == theirs().get_root(size)
        assert Frontier().grown(LEAVES[:size]).root() == root
        for place in {0, size // 3, size - 1}:
            ours = TREE.inclusion(place, size)
            assert list(ours) == path(place, 0, size)
            assert is_included(LEAVES[place], place, ours, size, root)
        for earlier in {1, size // 3 + 1, size}:
            ours = TREE.consistency(earlier, size)
            assert list(ours) == subproof(earlier, 0, size, whole=True)
            assert is_consistent(earlier, TREE.root(earlier), size, root, ours)


@given(SIZES, st.data())
def test_inclusion_is_proved_as_the_library_proves_it(size: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, size - 1))
    ours, root = TREE.inclusion(place, size), TREE.root(size)
    proof = theirs().prove_inclusion(place + 1, size)
    assert proof.path == [LEAVES[place], *ours]
    pymerkle.verify_inclusion(LEAVES[place], root, proof, index=place + 1, size=size)
    other = data.draw(st.integers(0, size - 1).filter(lambda one: one != place) | st.none())
    if other is not None:
        assert not is_included(LEAVES[other], place, ours, size, root)
        assert not is_included(LEAVES[place], other, ours, size, root)


@given(SIZES, SIZES)
def test_consistency_holds_for_the_library_and_for_us(one: int, other: int) -> None:
    """Its proofs are longer than those of the RFC; they have to hold for our roots, as ours do."""
    earlier, later = sorted((one, other))
    before, root = TREE.root(earlier), TREE.root(later)
    proof = theirs().prove_consistency(earlier, later)
    pymerkle.verify_consistency(before, root, proof, prior_size=earlier, later_size=later)
    ours = TREE.consistency(earlier, later)
    assert is_consistent(earlier, before, later, root, ours)
    if before != root:
        assert not is_consistent(earlier, root, later, root, ours)
        with pytest.raises(pymerkle.InvalidProof):
            pymerkle.verify_consistency(root, root, proof, prior_size=earlier, later_size=later)


@given(SIZES, st.data())
def test_a_proof_with_another_bit_in_it_holds_no_more(size: int, data: st.DataObject) -> None:
    earlier = data.draw(st.integers(1, size))
    ours = list(TREE.consistency(earlier, size))
    assert is_consistent(earlier, TREE.root(earlier), size, TREE.root(size), ours)
    if ours:
        at = data.draw(st.integers(0, len(ours) - 1))
        ours[at] = bytes([ours[at][0] ^ 1]) + ours[at][1:]
        assert not is_consistent(earlier, TREE.root(earlier), size, TREE.root(size), ours)


@given(st.lists(st.integers(0, LARGEST), max_size=6))
def test_a_frontier_that_grew_in_steps_is_the_one_that_grew_at_once(stops: list[int]) -> None:
    grown = Frontier()
    for low, high in pairwise([0, *sorted(stops)]):
        grown = grown.grown(LEAVES[low:high])
    last = max(stops, default=0)
    assert grown == Frontier().grown(LEAVES[:last])
    assert grown.root() == TREE.root(last)
