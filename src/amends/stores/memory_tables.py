"""The tables behind memory stores, and how a change set enters them whole or not at all.

Changes are applied one after the other with a list of what to take back. No await lies inside, so
nothing is ever seen half done.

Deliberately not here: reading, which `memory` does.
"""

from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any, assert_never

from amends.contracts.documents import Document
from amends.contracts.evidence import Tail
from amends.stores.port import (
    Accepted,
    AnyDocument,
    Append,
    Change,
    ChangeSet,
    Due,
    Guard,
    Insert,
    Loss,
    Lost,
    Replace,
)
from amends.stores.rows import Row, due_micros, to_micros
from amends.stores.shapes import ENCODER, SHAPES, shape_of
from amends.stores.wellformed import check_change_set


class Memory:
    """What several memory stores can stand on.

    `unique` leads from a tenant, table, column and value to the id that holds it; `due` repeats the
    rows that have a due time; `feed` leads from a position to a receipt's key.
    """

    def __init__(self, clock: Callable[[], datetime], lineage: str = "memory") -> None:
        self.clock = clock
        self.lineage = lineage
        self.tables: dict[type[Document], dict[tuple[str, str], Row]] = {
            type_: {} for type_ in SHAPES
        }
        self.due: dict[type[Document], dict[tuple[str, str], Row]] = {type_: {} for type_ in SHAPES}
        self.unique: dict[tuple[str, str, str, str], str] = {}
        self._held: dict[tuple[str, str, str, str], str] = {}
        self.tails: dict[tuple[str, str], Tail] = {}
        self.receipts: dict[tuple[str, str, int], bytes] = {}
        self.feed: dict[int, tuple[str, str, int]] = {}
        self._undo: list[tuple[MutableMapping[Any, Any], Any, Any]] = []

    def apply(self, change_set: ChangeSet) -> Accepted | Lost:
        """Make all changes, or take back those made and say which one lost."""
        check_change_set(change_set)
        now = self.clock()
        if change_set.not_after is not None and now >= change_set.not_after:
            return Lost(-1, Loss.TOO_LATE)
        self._undo.clear()
        try:
            for index, change in enumerate(change_set.changes):
                if loss := self._change(change, to_micros(now)):
                    self._take_back()
                    return Lost(index, loss)
        except BaseException:
            self._take_back()
            raise
        return Accepted(now)

    def _change(self, change: Change, now_us: int) -> Loss | None:
        match change:
            case Insert():
                return self._insert(change.document, change.due, now_us)
            case Replace():
                return self._replace(change.document, change.due, now_us)
            case Append():
                return self._append(change)
            case Guard():
                return self._guard(change)
            case _:
                assert_never(change)

    def _insert(self, document: AnyDocument, due: Due | None, now_us: int) -> Loss | None:
        shape = shape_of(type(document))
        table = self.tables[type(document)]
        if (document.tenant, shape.id_of(document)) in table:
            return Loss.EXISTS
        return self._write(document, due, now_us, seq=len(table) + 1)

    def _replace(self, document: AnyDocument, due: Due | None, now_us: int) -> Loss | None:
        shape = shape_of(type(document))
        row = self.tables[type(document)].get((document.tenant, shape.id_of(document)))
        if row is None:
            return Loss.ABSENT
        if row.revision != document.revision - 1:
            return Loss.REVISION
        return self._write(document, due, now_us, seq=row.seq)

    def _write(
        self, document: AnyDocument, due: Due | None, now_us: int, *, seq: int
    ) -> Loss | None:
        shape = shape_of(type(document))
        key = (document.tenant, shape.id_of(document))
        due_us, columns = due_micros(due, now_us), shape.values(document)
        row = Row(seq, *key, document.revision, due_us, columns, ENCODER.encode(document))
        for name in shape.unique:
            if not self._claim((row.tenant, shape.table, name), shape.columns.index(name), row):
                return Loss.UNIQUE
        self._put(self.tables[shape.type], key, row)
        self._put(self.due[shape.type], key, None if due_us is None else row)
        return None

    def _claim(self, index: tuple[str, str, str], place: int, row: Row) -> bool:
        """Take a unique value for a row; the value that the row had before is free again."""
        value = row.columns[place]
        if value is not None and self.unique.get((*index, value), row.id) != row.id:
            return False
        held = self._held.get((*index, row.id))
        if held is not None:
            self._put(self.unique, (*index, held), None)
        self._put(self._held, (*index, row.id), value)
        if value is not None:
            self._put(self.unique, (*index, value), row.id)
        return True

    def _append(self, append: Append) -> Loss | None:
        chain = (append.tenant, append.chain)
        tail = self.tails.get(chain)
        if (0 if tail is None else tail.number) != append.after:
            return Loss.TAIL
        if tail is not None and append.receipts[0].previous != tail.hash:
            return Loss.TAIL
        for receipt in append.receipts:
            key = (*chain, receipt.number)
            self._put(self.receipts, key, ENCODER.encode(receipt))
            self._put(self.feed, len(self.feed) + 1, key)
        last = append.receipts[-1]
        self._put(self.tails, chain, Tail(last.number, last.hash))
        return None

    def _guard(self, guard: Guard) -> Loss | None:
        row = self.tables[shape_of(guard.type).type].get((guard.tenant, guard.id))
        if row is None:
            return Loss.ABSENT if guard.revision else None
        if guard.revision == 0:
            return Loss.EXISTS
        return None if row.revision == guard.revision else Loss.REVISION

    def _put(self, mapping: MutableMapping[Any, Any], key: object, value: object) -> None:
        """Set or (None) remove an entry, remembering what was there."""
        self._undo.append((mapping, key, mapping.get(key)))
        _set(mapping, key, value)

    def _take_back(self) -> None:
        while self._undo:
            _set(*self._undo.pop())


def _set(mapping: MutableMapping[Any, Any], key: object, value: object) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
