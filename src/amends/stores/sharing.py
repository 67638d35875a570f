"""How many of those that wait go together, in one transaction with one flush.

All in one batch would wait for the same flush, and nobody would compute meanwhile. So where many
ask, half of them go: one half is on its way to the disk while the other one computes.

Pure: who waits, and for what, is the writers' business.
"""

from typing import Final

BATCH: Final = 256
"""At most so many change sets share a transaction, so that other processes get their turn."""

FEW: Final = 8
"""A half is at least so many: for fewer a flush of their own is not worth its cost."""


def are_many(about: int) -> bool:
    """Whether so many are worth two batches."""
    return about >= 2 * FEW


def share(waiting: int, others: int) -> int:
    """How many of those that wait go now, where so many others will soon wait too."""
    about = waiting + others
    return min((about + 1) // 2 if are_many(about) else about, waiting, BATCH)
