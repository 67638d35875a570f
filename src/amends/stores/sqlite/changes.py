"""A change set made ready for SQL, and applied inside a transaction that others begin and end.

Encoding and checking happen on the caller's own turn and before the store is held, so that nothing
but the store itself can fail inside. Each step writes under a condition and then asks how many rows
that touched: the common case costs one statement.

Deliberately not here: transactions, and what becomes of a change set that lost.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from amends.stores.port import Append, ChangeSet, Due, Guard, Insert, Loss, Lost, Replace
from amends.stores.rows import due_micros, to_micros
from amends.stores.shapes import ENCODER
from amends.stores.sqlite.statements import APPEND, TAIL, statements_of
from amends.stores.wellformed import check_change_set


class Write(msgspec.Struct, frozen=True, gc=False):
    """An insert, or (with the revision that must be there) a replacement.

    Times that count from the write stay open until then: `due_us`, or `after_us` from now.
    """

    sql: str
    revision_sql: str
    key: tuple[str, str]
    expected: int
    due: Due | None
    bindings: tuple[Any, ...]

    def apply(self, connection: apsw.Connection, cursor: apsw.Cursor, now_us: int) -> Loss | None:
        due_us = None if self.due is None else due_micros(self.due, now_us)
        cursor.execute(self.sql, (due_us, *self.bindings))
        return None if connection.changes() else self._loss(cursor)

    def _loss(self, cursor: apsw.Cursor) -> Loss:
        revision = cursor.execute(self.revision_sql, self.key).get
        if self.expected == 0:
            return Loss.UNIQUE if revision is None else Loss.EXISTS
        if revision is None:
            return Loss.ABSENT
        return Loss.UNIQUE if revision == self.expected else Loss.REVISION


class Extend(msgspec.Struct, frozen=True, gc=False):
    """Receipts at the end of a chain. The unique number guards the end, the hash the joint."""

    joint: tuple[str, str, int] | None
    previous: str
    rows: tuple[tuple[Any, ...], ...]

    def apply(self, connection: apsw.Connection, cursor: apsw.Cursor, now_us: int) -> Loss | None:
        """Write the receipts; see `Write.apply`."""
        if self.joint is not None and cursor.execute(TAIL, self.joint).get != self.previous:
            return Loss.TAIL
        for row in self.rows:
            cursor.execute(APPEND, row)
            if not connection.changes():
                return Loss.TAIL
        return None


class Check(msgspec.Struct, frozen=True, gc=False):
    """A document still at a revision, or still absent."""

    revision_sql: str
    key: tuple[str, str]
    expected: int

    def apply(self, connection: apsw.Connection, cursor: apsw.Cursor, now_us: int) -> Loss | None:
        """Look without writing; see `Write.apply`."""
        revision = cursor.execute(self.revision_sql, self.key).get
        if revision is None:
            return Loss.ABSENT if self.expected else None
        if self.expected == 0:
            return Loss.EXISTS
        return None if revision == self.expected else Loss.REVISION


Step: TypeAlias = Write | Extend | Check


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change set whose every value is encoded and checked."""

    steps: tuple[Step, ...]
    not_after_us: int | None

    def apply(self, connection: apsw.Connection, cursor: apsw.Cursor, now_us: int) -> Lost | None:
        """Apply all steps; on a loss, those before it stay for the caller to take back."""
        if self.not_after_us is not None and now_us >= self.not_after_us:
            return Lost(-1, Loss.TOO_LATE)
        for index, step in enumerate(self.steps):
            if loss := step.apply(connection, cursor, now_us):
                return Lost(index, loss)
        return None


def prepare(change_set: ChangeSet) -> Prepared:
    """Check and encode. Raises `Misuse` as `check_change_set` and `shape_of` do."""
    check_change_set(change_set)
    not_after = change_set.not_after
    return Prepared(
        tuple([_STEPS[type(change)](change) for change in change_set.changes]),
        None if not_after is None else to_micros(not_after),
    )


def _insert(change: Insert) -> Write:
    document = change.document
    sql = statements_of(type(document))
    tenant, id_ = document.tenant, sql.shape.id_of(document)
    made = to_micros(document.created_at)
    # A new document mostly says the same instant twice, and then it is the same object.
    same = document.updated_at is document.created_at
    changed = made if same else to_micros(document.updated_at)
    body = ENCODER.encode(document).decode()
    values = sql.shape.values(document)
    bindings = (tenant, id_, 1, made, changed, *values, body)
    return Write(sql.insert, sql.revision, (tenant, id_), 0, change.due, bindings)


def _replace(change: Replace) -> Write:
    document = change.document
    sql = statements_of(type(document))
    tenant, id_, revision = document.tenant, sql.shape.id_of(document), document.revision
    changed = to_micros(document.updated_at)
    body = ENCODER.encode(document).decode()
    values = sql.shape.values(document)
    bindings = (revision, changed, *values, body, tenant, id_, revision - 1)
    return Write(sql.replace, sql.revision, (tenant, id_), revision - 1, change.due, bindings)


def _extend(change: Append) -> Extend:
    tenant, chain, after = change.tenant, change.chain, change.after
    rows = [
        (tenant, chain, receipt.number, receipt.hash, ENCODER.encode(receipt).decode())
        for receipt in change.receipts
    ]
    joint = (tenant, chain, after) if after else None
    return Extend(joint, change.receipts[0].previous, tuple(rows))


def _check(change: Guard) -> Check:
    sql = statements_of(change.type).revision
    return Check(sql, (change.tenant, change.id), change.revision)


_STEPS: Final[MappingProxyType[type[object], Callable[[Any], Step]]] = MappingProxyType(
    {Insert: _insert, Replace: _replace, Append: _extend, Guard: _check}
)
