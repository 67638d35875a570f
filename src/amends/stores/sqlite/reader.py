"""Questions, answered on the caller's own turn by a connection that only reads.

Each question is one statement that is read to its end, so that no reading transaction stays open:
the answer is what was committed when it was asked, the caller's own commits included.

Deliberately not here: any decision on what was read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar

import apsw

from amends.contracts.documents import Document
from amends.contracts.evidence import Receipt, Tail
from amends.stores.port import FeedEntry, Page, Stored
from amends.stores.rows import Row, read_entry, read_receipt, read_row, show_row, to_micros
from amends.stores.shapes import shape_of
from amends.stores.sqlite.connection import let_go
from amends.stores.sqlite.failures import Health
from amends.stores.sqlite.statements import CHAIN, FEED, LAST, STATEMENTS
from amends.stores.wellformed import read_cursor, require_limit

D = TypeVar("D", bound=Document)

Cells: TypeAlias = tuple[Any, ...]

BEYOND: Final = 2**63 - 1
"""Above every place."""


class Reader:
    """The reading connection. Safe to call from any thread."""

    def __init__(
        self, connection: apsw.Connection, health: Health, clock: Callable[[], datetime]
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._lock = Lock()
        self._health = health
        self._clock = clock

    def get(self, type_: type[D], tenant: str, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        shape = shape_of(type_)
        rows = self._ask(STATEMENTS[type_].get, (tenant, id_))
        return read_row(shape, row_of(rows[0]), self._clock()) if rows else None

    def find(self, type_: type[D], tenant: str, key: str, value: str) -> Stored[D] | None:
        """See `Store.find`."""
        shape = shape_of(type_)
        shape.unique_index(key)
        rows = self._ask(STATEMENTS[type_].find[key], (tenant, value))
        return read_row(shape, row_of(rows[0]), self._clock()) if rows else None

    def page(
        self,
        type_: type[D],
        tenant: str,
        where: Mapping[str, str],
        after: str | None,
        limit: int,
    ) -> Page[D]:
        """See `Store.list`."""
        shape = shape_of(type_)
        shape.require_columns(where)
        require_limit(limit)
        below = read_cursor(after)
        bindings = (tenant, BEYOND if below is None else below, *where.values(), limit + 1)
        rows = [row_of(cells) for cells in self._ask(STATEMENTS[type_].page(where), bindings)]
        now = self._clock()
        items = tuple([show_row(shape, row, now) for row in rows[:limit]])
        return Page(items, str(rows[limit - 1].seq) if len(rows) > limit else None)

    def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`. Rows that cannot be read are passed over, however many they are."""
        shape, now = shape_of(type_), self._clock()
        require_limit(limit)
        found: list[Stored[D]] = []
        for row in self._due_rows(type_, to_micros(now), limit):
            shown = show_row(shape, row, now)
            if isinstance(shown, Stored):
                found.append(shown)
            if len(found) == limit:
                break
        return found

    def _due_rows(self, type_: type[Document], now_us: int, limit: int) -> Iterator[Row]:
        place = (-BEYOND, 0)
        while rows := self._ask(STATEMENTS[type_].due, (now_us, *place, limit)):
            for cells in rows:
                row = row_of(cells)
                yield row
            place = (row.due_us or 0, row.seq)

    def tail(self, tenant: str, chain: str) -> Tail | None:
        """See `Store.tail`."""
        rows = self._ask(LAST, (tenant, chain))
        return Tail(rows[0][0], _text(rows[0][1]) or "") if rows else None

    def receipts(self, tenant: str, chain: str, after: int, limit: int) -> Sequence[Receipt]:
        """See `Store.receipts`."""
        require_limit(limit)
        rows = self._ask(CHAIN, (tenant, chain, after, limit))
        return [read_receipt(body, tenant, chain, number) for body, number in rows]

    def feed(self, after: int, limit: int) -> Sequence[FeedEntry]:
        """See `Store.feed`."""
        require_limit(limit)
        return [
            read_entry(position, body, _text(tenant) or "", _text(chain) or "", number)
            for position, body, tenant, chain, number in self._ask(FEED, (after, limit))
        ]

    def close(self) -> None:
        """Close the connection; see `let_go`."""
        with self._lock:
            let_go(self._connection)

    def _ask(self, sql: str, bindings: Cells) -> list[Cells]:
        try:
            with self._lock:
                return self._cursor.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise self._health.judge(error).exception() from error


def row_of(cells: Cells) -> Row:
    """The row behind the cells that `Statements.row` selects."""
    seq, tenant, id_, revision, due_us, body, *columns = cells
    texts = tuple([_text(cell) for cell in columns])
    return Row(seq, _text(tenant) or "", _text(id_) or "", revision, due_us, texts, body)


def _text(cell: bytes | None) -> str | None:
    """A text as it lies there; damaged bytes become marks that agree with no document."""
    return None if cell is None else cell.decode("utf-8", "replace")
