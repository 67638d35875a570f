"""A batch of change sets decided in order over what was read and locked, and its net effect.

This is where each change set of a batch gets its own verdict, and where those that touch the same
document follow one another: the second is decided over what the first leaves. What is then written
is the difference between what was there and what is there in the end, so that a document of which
ten revisions were made in one batch is written once.

Pure: nothing is asked and nothing is written here.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias, assert_never

import msgspec

from amends.contracts.evidence import Tail
from amends.stores.port import Accepted, Guard, Loss, Lost
from amends.stores.postgres.writes import (
    Cells,
    Chain,
    Check,
    Extend,
    Held,
    Key,
    Link,
    Linked,
    Prepared,
    Step,
    Write,
    written_cells,
)

Verdict: TypeAlias = Accepted | Lost


class Row(NamedTuple):
    """What is known of a document: its revision (0: absent) and the unique values it holds."""

    revision: int
    holds: tuple[Held, ...] = ()


ABSENT = Row(0)


class Ground(msgspec.Struct):
    """What was read: documents, who holds which unique value, where chains end."""

    rows: MutableMapping[Key, Row] = {}
    holders: MutableMapping[Held, Key | None] = {}
    tails: MutableMapping[Chain, Tail | None] = {}

    def above(self) -> "Ground":
        """A ground on this one, which can be thrown away or let sink into it."""
        return Ground(ChainMap({}, self.rows), ChainMap({}, self.holders), ChainMap({}, self.tails))

    def sink(self, above: "Ground") -> None:
        """Take over what was changed above."""
        for mine, theirs in (
            (self.rows, above.rows),
            (self.holders, above.holders),
            (self.tails, above.tails),
        ):
            assert isinstance(theirs, ChainMap)
            mine.update(theirs.maps[0])


class Change(NamedTuple):
    """One document as it will lie there: what it was, since when it is there, what it becomes."""

    before: Row
    created_at: datetime
    write: Write


class Effects(msgspec.Struct):
    """What a batch leaves behind, in the order in which it first touched things."""

    documents: dict[Key, Change] = {}
    receipts: list[tuple[Chain, Link]] = []
    checks: dict[Key, int] = {}
    """Documents that were looked at and are not written."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written."""
        return not self.documents and not self.receipts

    @property
    def releases(self) -> list[Key]:
        """Documents that give up a unique value which they had."""
        return [
            key
            for key, one in self.documents.items()
            if set(one.before.holds) - set(one.write.holds)
        ]

    def rows(self) -> list[Cells]:
        """The documents as `amends.write` takes them."""
        return [
            written_cells(one.write, one.before.revision, one.created_at)
            for one in self.documents.values()
        ]

    def linked(self) -> list[Linked]:
        """The receipts as `amends.write` takes them; the ends of their chains have been read."""
        return [(*chain, link.number, link.hash, None, link.body) for chain, link in self.receipts]

    def add(self, steps: Iterable[Step], ground: Mapping[Key, Row]) -> None:
        """Take over the steps of a change set that was accepted, over the ground before it."""
        for step in steps:
            match step:
                case Write():
                    self._write(step, ground)
                case Extend():
                    self.receipts.extend((step.chain, link) for link in step.links)
                case Check():
                    if step.key not in self.documents:
                        self.checks.setdefault(step.key, step.expected)
                case _:
                    assert_never(step)

    def _write(self, write: Write, ground: Mapping[Key, Row]) -> None:
        self.checks.pop(write.key, None)
        earlier = self.documents.get(write.key)
        if earlier is None:
            before = ground.get(write.key, Row(write.expected))
            self.documents[write.key] = Change(before, write.created_at, write)
        else:
            self.documents[write.key] = Change(earlier.before, earlier.created_at, write)


def decide(
    batch: Sequence[Prepared], ground: Ground, at: datetime
) -> tuple[list[Verdict], Effects]:
    """The verdict of each, in order, and what all that were accepted leave behind."""
    verdicts: list[Verdict] = []
    effects = Effects({}, [], {})
    for one in batch:
        above, steps = ground.above(), tuple(one.steps)
        lost = _lost(steps, one.not_after, above, at)
        if lost is None:
            effects.add(steps, ground.rows)
            ground.sink(above)
        verdicts.append(lost or Accepted(at))
    return verdicts, effects


def independent(batch: Sequence[Prepared]) -> bool:
    """Whether a batch can be written as it stands, all of it or nothing, without being decided.

    Nothing in it may meet anything else in it or has to stay absent, and what it looks at is
    locked with what it writes, which only one alone may do without an order of all. And it leaves a
    receipt, by which it is found again for good: documents are written over.
    """
    guards = [
        change.revision
        for one in batch
        for change in one.change_set.changes
        if isinstance(change, Guard)
    ]
    if guards and (len(batch) > 1 or 0 in guards):
        return False
    names = [name for one in batch for name in one.named]
    return len(set(names)) == len(names) and any(one.receipts for one in batch)


def _lost(
    steps: Sequence[Step], not_after: datetime | None, ground: Ground, at: datetime
) -> Lost | None:
    if not_after is not None and at >= not_after:
        return Lost(-1, Loss.TOO_LATE)
    for index, step in enumerate(steps):
        if loss := _loss(step, ground):
            return Lost(index, loss)
    return None


def _loss(step: Step, ground: Ground) -> Loss | None:
    match step:
        case Write():
            return _write(step, ground)
        case Extend():
            return _extend(step, ground)
        case Check():
            return _expect(step.expected, ground.rows.get(step.key, ABSENT).revision)
        case _:
            assert_never(step)


def _write(write: Write, ground: Ground) -> Loss | None:
    row = ground.rows.get(write.key, ABSENT)
    if loss := _expect(write.expected, row.revision):
        return loss
    for held in write.holds:
        if ground.holders.get(held, write.key) not in (None, write.key):
            return Loss.UNIQUE
    for held in row.holds:
        ground.holders[held] = None
    for held in write.holds:
        ground.holders[held] = write.key
    ground.rows[write.key] = Row(write.revision, write.holds)
    return None


def _extend(extend: Extend, ground: Ground) -> Loss | None:
    tail = ground.tails.get(extend.chain)
    if extend.after != (tail.number if tail else 0):
        return Loss.TAIL
    if tail is not None and tail.hash != extend.previous:
        return Loss.TAIL
    last = extend.links[-1]
    ground.tails[extend.chain] = Tail(last.number, last.hash)
    return None


def _expect(expected: int, revision: int) -> Loss | None:
    if revision == expected:
        return None
    if expected == 0:
        return Loss.EXISTS
    return Loss.REVISION if revision else Loss.ABSENT
