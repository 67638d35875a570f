"""Anchors: where the floor under a record is kept, apart from the record (ST-2, ST-3).

An anchor is of use only where whoever restores, swaps or loses the record does not do the same to
the anchor: another file, another disk, another database. Its steps are atomic and durable when they
return. A fence is reserved, never established by a write, and never given twice.

Deliberately not here: what a record against its floor means (`opening`).
"""

from enum import StrEnum
from typing import Final, Protocol

import msgspec

from amends.contracts.codes import coded
from amends.contracts.worker_identity import Fingerprint
from amends.sealed.envelopes import NOTHING, Place

NO_FENCE: Final = 0
"""The fence of a place that nobody has opened yet; nobody can write with it after that."""

FENCES_LOST: Final = 2**32
"""More fences than a lost anchor can have given since the record was last written."""


class Floor(msgspec.Struct, frozen=True):
    """The least that a record must be: revision, commitment, and the fence that may write."""

    revision: int
    commitment: Fingerprint
    fence: int


class Protection(StrEnum):
    """Against what an anchor protects."""

    SINGLE_FILES = "single_files"
    RESTORED_DISK = "restored_disk"


FIRST: Final = Floor(0, NOTHING, NO_FENCE)
"""Where a place starts: known, with nothing in it."""


class Anchor(Protocol):
    """All methods raise `Unavailable` (`sealed.anchor_unreachable`) when they cannot tell."""

    def floor(self, place: Place) -> Floor | None:
        """The floor of a place, or None if it was never created."""
        ...

    def create(self, place: Place, floor: Floor) -> None:
        """Create a floor. Raises `Conflict` (`sealed.initialised`) if there is one."""
        ...

    def reserve(self, place: Place) -> Floor:
        """Take the next fence, which ends all before it; returns the floor with it.

        Raises `Refused` (`sealed.not_initialised`) for a place without a floor.
        """
        ...

    def reseat(self, place: Place, floor: Floor, *, who: str, why: str) -> None:
        """Put the floor where a person says, and keep who and why."""
        ...

    def advance(self, place: Place, before: Floor, after: Floor) -> None:
        """Move from exactly `before` to `after`, which has the same fence; again is no change.

        Raises `Conflict`: `sealed.fenced` when the fence is another one, `sealed.anchor_moved`.
        """
        ...


def check_held(found: Floor | None, expected: Floor) -> None:
    """Whether a writer still stands where it thinks.

    Raises `Conflict`: `sealed.fenced`, `sealed.anchor_moved`.
    """
    if found is not None and found.fence != expected.fence:
        raise coded("sealed.fenced")
    if found != expected:
        raise coded("sealed.anchor_moved")


def check_moved(found: Floor | None, moved: Floor) -> None:
    """Whether an anchor is where a writer meant to move it. Raises as `check_held`."""
    if found is None:
        raise coded("sealed.fenced")
    check_held(found, moved)
