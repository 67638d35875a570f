"""Merkle trees in the form of RFC 9162: what one root says of a list that only grows (RC-3).

A leaf is hashed behind the byte 0 and a node behind the byte 1, so that neither can pass for the
other. `Frontier` grows a tree and knows its root, but keeps only the roots of its complete halves:
a few hashes however long the list is. `Tree` keeps all of them, for whoever makes proofs. Proofs
are checked with nothing but the roots.

Pure: no clock, no IO. Deliberately not here: what a leaf is, and who signs a root (`checkpoint`).
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

Hash: TypeAlias = bytes
LEAF_PREFIX: Final = b"\x00"
NODE_PREFIX: Final = b"\x01"
EMPTY_ROOT: Final[Hash] = hashlib.sha256().digest()
"""The root of a tree without leaves."""


def leaf_hash(data: bytes) -> Hash:
    """The hash of a leaf."""
    return hashlib.sha256(LEAF_PREFIX + data).digest()


def node_hash(left: Hash, right: Hash) -> Hash:
    """The hash of a node over its two halves."""
    return hashlib.sha256(NODE_PREFIX + left + right).digest()


class Frontier(msgspec.Struct, frozen=True):
    """A tree as far as it has grown: its size, and the roots of its complete parts, largest first.

    There is one part for each bit that is set in the size. Raises `ValueError` for anything else.
    """

    size: int = 0
    parts: tuple[Hash, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.parts) != self.size.bit_count():
            raise ValueError("a frontier has one part for each bit of its size")

    def grown(self, leaves: Iterable[Hash]) -> "Frontier":
        """The tree with more leaves, given by their hashes, behind those that are there."""
        size, parts = self.size, list(self.parts)
        for leaf in leaves:
            joined, complete = leaf, size
            while complete & 1:
                joined = node_hash(parts.pop(), joined)
                complete >>= 1
            parts.append(joined)
            size += 1
        return Frontier(size, tuple(parts))

    def root(self) -> Hash:
        """The root of the whole tree."""
        if not self.parts:
            return EMPTY_ROOT
        *larger, root = self.parts
        for part in reversed(larger):
            root = node_hash(part, root)
        return root


class Tree:
    """A tree with all of its nodes, made once of the hashes of its leaves; for making proofs.

    It answers for every size that the list once had. Sizes and places that it never had raise
    `ValueError`.
    """

    __slots__ = ("_levels",)

    def __init__(self, leaves: Iterable[Hash]) -> None:
        self._levels: list[Sequence[Hash]] = [list(leaves)]
        while len(below := self._levels[-1]) > 1:
            self._levels.append(list(map(node_hash, below[::2], below[1::2])))

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return len(self._levels[0])

    def root(self, size: int) -> Hash:
        """The root over the first `size` leaves."""
        _require(0 <= size <= self.size)
        return self._root(0, size) if size else EMPTY_ROOT

    def inclusion(self, place: int, size: int) -> tuple[Hash, ...]:
        """The path that leads from the leaf at a place, counted from 0, to the root of `size`."""
        _require(0 <= place < size <= self.size)
        path: list[Hash] = []
        low, high = 0, size
        while high - low > 1:
            middle = low + _split(high - low)
            if place < middle:
                path.append(self._root(middle, high))
                high = middle
            else:
                path.append(self._root(low, middle))
                low = middle
        return tuple(reversed(path))

    def consistency(self, earlier: int, later: int) -> tuple[Hash, ...]:
        """The path which shows that the tree of the later size begins with that of the earlier."""
        _require(0 < earlier <= later <= self.size)
        path: list[Hash] = []
        low, high = 0, later
        while earlier < high:
            middle = low + _split(high - low)
            if earlier <= middle:
                path.append(self._root(middle, high))
                high = middle
            else:
                path.append(self._root(low, middle))
                low = middle
        if low:
            path.append(self._root(low, high))
        return tuple(reversed(path))

    def _root(self, low: int, high: int) -> Hash:
        """The root over a part that begins where a complete one of its length could begin."""
        size = high - low
        if size & (size - 1) == 0:
            return self._levels[size.bit_length() - 1][low // size]
        middle = low + _split(size)
        return node_hash(self._root(low, middle), self._root(middle, high))


def is_included(leaf: Hash, place: int, path: Sequence[Hash], size: int, root: Hash) -> bool:
    """Whether a path leads from a leaf at a place to a root (RFC 9162, section 2.1.3.2)."""
    if not 0 <= place < size:
        return False
    node, last, joined = place, size - 1, leaf
    for step in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            joined = node_hash(step, joined)
            node, last = _up_to_right_half(node, last)
        else:
            joined = node_hash(joined, step)
        node, last = node >> 1, last >> 1
    return last == 0 and joined == root


def is_consistent(
    earlier: int, earlier_root: Hash, later: int, later_root: Hash, path: Sequence[Hash]
) -> bool:
    """Whether a path shows that one tree begins with another (RFC 9162, section 2.1.4.2)."""
    if not 0 < earlier <= later:
        return earlier == 0 and not path and earlier_root == EMPTY_ROOT
    if earlier == later:
        return not path and earlier_root == later_root
    steps = list(path)
    if earlier & (earlier - 1) == 0:
        steps.insert(0, earlier_root)
    if not steps:
        return False
    node, last = _up_to_left_half(earlier - 1, later - 1)
    first = second = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            first, second = node_hash(step, first), node_hash(step, second)
            node, last = _up_to_right_half(node, last)
        else:
            second = node_hash(second, step)
        node, last = node >> 1, last >> 1
    return last == 0 and first == earlier_root and second == later_root


def _up_to_right_half(node: int, last: int) -> tuple[int, int]:
    """Past the levels on which the last node stands alone, up to where it is a right half."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _up_to_left_half(node: int, last: int) -> tuple[int, int]:
    """Up to the first level on which a node is a left half: there its complete part ends."""
    while node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _split(size: int) -> int:
    """The size of the left half: the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("the tree never had that size or place")
