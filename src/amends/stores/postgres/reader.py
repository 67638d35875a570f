"""Questions, each one statement on the primary, answered with what was committed when it was asked.

The statement names its tenant before it reaches any row: the tenant is set, local to the
transaction, by a part that the rest depends on. What is asked over all tenants says so in the same
way. Texts are read as the bytes that lie there.

Deliberately not here: any decision on what was read.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar

from amends.contracts.documents import Document
from amends.contracts.errors import Unavailable
from amends.contracts.evidence import Receipt, Tail
from amends.stores.port import FeedEntry, Page, Stored
from amends.stores.postgres.connection import Connections, Terms, patiently, until
from amends.stores.postgres.failures import REPORTED, failed
from amends.stores.postgres.feed import find_reach
from amends.stores.postgres.server_time import Moment, Told
from amends.stores.postgres.shared_question import SharedQuestion
from amends.stores.postgres.writes import is_storable
from amends.stores.rows import Row, read_entry, read_receipt, read_row, show_row, to_micros
from amends.stores.shapes import Shape, shape_of
from amends.stores.wellformed import read_cursor, require_limit

D = TypeVar("D", bound=Document)

Cells: TypeAlias = Sequence[Any]

BEYOND: Final = 2**63 - 1
"""Above every place."""

_TENANT: Final = "(SELECT set_config('amends.tenants', $1, true) AS tenant OFFSET 0) AS s"
_EVERYBODY: Final = (
    "(SELECT set_config('amends.upkeep', 'every tenant', true) AS upkeep OFFSET 0) AS s"
)
_NOW: Final = "SELECT coalesce($1::timestamptz, clock_timestamp())"
_LAST: Final = (
    f"SELECT r.* FROM {_TENANT}, LATERAL (SELECT number, textsend(hash) FROM amends.receipts"
    " WHERE tenant = s.tenant AND chain = $2 ORDER BY number DESC LIMIT 1) AS r"
)
_CHAIN: Final = (
    f"SELECT r.* FROM {_TENANT}, LATERAL (SELECT textsend(body), number FROM amends.receipts"
    " WHERE tenant = s.tenant AND chain = $2 AND number > $3 ORDER BY number LIMIT $4) AS r"
)
_FEED: Final = (
    "SELECT r.* FROM"
    f" {_EVERYBODY}, LATERAL (SELECT position, textsend(body), textsend(tenant), textsend(chain),"
    " number FROM amends.receipts WHERE s.upkeep IS NOT NULL AND position > $1 AND position <= $2"
    " ORDER BY position LIMIT $3) AS r"
)


class Reader:
    """Connections that only read. Belongs to one event loop."""

    def __init__(self, connections: Connections, terms: Terms) -> None:
        self._connections = connections
        self._terms = terms
        self._time = SharedQuestion(self._ask_time)

    async def get(self, type_: type[D], tenant: str, id_: str) -> Stored[D] | None:
        """See `Store.get`."""
        return await self._one(type_, "id", tenant, id_)

    async def find(self, type_: type[D], tenant: str, key: str, value: str) -> Stored[D] | None:
        """See `Store.find`."""
        shape_of(type_).unique_index(key)
        return await self._one(type_, key, tenant, value)

    async def _one(self, type_: type[D], column: str, tenant: str, value: str) -> Stored[D] | None:
        shape = shape_of(type_)
        if not is_storable(tenant + value):
            return None
        sql = _of_tenant(shape, f"{column} = $2 LIMIT 1", "$3")
        rows = await self._ask(sql, tenant, value, self._terms.now())
        return read_row(shape, row_of(rows[0]), rows[0][0]) if rows else None

    async def page(
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
        if not is_storable("".join((tenant, *where.values()))):
            return Page((), None)
        filters = "".join(f" AND {name} = ${place}" for place, name in enumerate(where, 5))
        sql = _of_tenant(shape, f"seq < $2{filters} ORDER BY seq DESC LIMIT $3", "$4")
        place = BEYOND if below is None else below
        rows = await self._ask(sql, tenant, place, limit + 1, self._terms.now(), *where.values())
        items = tuple([show_row(shape, row_of(cells), cells[0]) for cells in rows[:limit]])
        return Page(items, str(rows[limit - 1][1]) if len(rows) > limit else None)

    async def due(self, type_: type[D], limit: int) -> Sequence[Stored[D]]:
        """See `Store.due`. Rows that cannot be read are passed over, however many they are."""
        shape = shape_of(type_)
        require_limit(limit)
        wanted = limit
        while True:
            rows = await self._ask(_due(shape), self._terms.now(), wanted)
            shown = [show_row(shape, row_of(cells), cells[0]) for cells in rows]
            found = [one for one in shown if isinstance(one, Stored)]
            if len(found) >= limit or len(rows) < wanted:
                return found[:limit]
            wanted *= 2

    async def tail(self, tenant: str, chain: str) -> Tail | None:
        """See `Store.tail`."""
        if not is_storable(tenant + chain):
            return None
        rows = await self._ask(_LAST, tenant, chain)
        return Tail(rows[0][0], _text(rows[0][1]) or "") if rows else None

    async def receipts(self, tenant: str, chain: str, after: int, limit: int) -> Sequence[Receipt]:
        """See `Store.receipts`."""
        require_limit(limit)
        if not is_storable(tenant + chain):
            return []
        rows = await self._ask(_CHAIN, tenant, chain, after, limit)
        return [read_receipt(body, tenant, chain, number) for body, number in rows]

    async def feed(self, after: int, limit: int) -> Sequence[FeedEntry]:
        """See `Store.feed`."""
        require_limit(limit)

        async def asking() -> list[Cells]:
            async with self._connections.asked() as connection:
                reach = await find_reach(connection)
                rows = list(await connection.fetch(_FEED, after, reach.reached, limit))
                return rows[: reach.cut([row[0] for row in rows], after)]

        return [
            read_entry(position, body, _text(tenant) or "", _text(chain) or "", number)
            for position, body, tenant, chain, number in await self._answered(asking)
        ]

    async def settings(self, sql: str, *values: object) -> Sequence[Cells]:
        """What is kept of the store as a whole, which no tenant owns."""
        return await self._ask(sql, *values)

    async def now(self) -> datetime:
        """See `Store.now`."""
        return (await self._moment()).earliest

    async def by_now(self) -> datetime:
        """See `Store.by_now`."""
        return (await self._moment()).latest

    async def _moment(self) -> Moment:
        """The server's time; asked for unless it was told lately, by all at once who have to.

        What was told is the same for every event loop; only who asks needs a connection.
        """
        time, fixed = self._terms.time, self._terms.now() is not None
        moment = None if fixed else time.carried()
        if moment is not None:
            return moment
        self._connections.check()
        told = await self._time.answer()
        return told.fixed if fixed else Moment(told, time.ticks())

    async def _ask_time(self) -> Told:
        sent = self._terms.time.ticks()
        rows = await self._ask(_NOW, self._terms.now())
        return self._terms.time.hear(rows[0][0], sent)

    async def _ask(self, sql: str, *values: object) -> list[Cells]:
        async def asking() -> list[Cells]:
            async with self._connections.asked() as connection:
                return list(await connection.fetch(sql, *values))

        return await self._answered(asking)

    async def _answered(self, asking: Callable[[], Awaitable[list[Cells]]]) -> list[Cells]:
        """The answer, once there is a primary to give it. Raises `Unavailable`."""

        async def coded() -> list[Cells]:
            try:
                return await asking()
            except REPORTED as error:
                raise _unanswered(error) from error

        answer: list[Cells] = await patiently(coded, until(self._terms.patience_s))
        return answer


def _unanswered(error: BaseException) -> Unavailable:
    return failed(error).exception()


def row_of(cells: Cells) -> Row:
    """The row behind the cells that `row_columns` selects; the first is the time of the reading."""
    _, seq, tenant, id_, revision, due_at, body, *columns = cells
    texts = tuple([_text(cell) for cell in columns])
    due_us = None if due_at is None else to_micros(due_at)
    return Row(seq, _text(tenant) or "", _text(id_) or "", revision, due_us, texts, body)


def row_columns(shape: Shape[Any], now: str) -> str:
    """What to select for `row_of`; `now` is a time to use instead of the server's, or null."""
    columns = "".join(f", textsend({name})" for name in shape.columns)
    return (
        f"coalesce({now}::timestamptz, clock_timestamp()), seq, textsend(tenant), textsend(id),"
        f" revision, due_at, textsend(body){columns}"
    )


def _of_tenant(shape: Shape[Any], condition: str, now: str) -> str:
    """Rows of the tenant $1 under a condition."""
    return (
        f"SELECT r.* FROM {_TENANT}, LATERAL (SELECT {row_columns(shape, now)}"
        f" FROM amends.{shape.table} WHERE tenant = s.tenant AND {condition}) AS r"
    )


def _due(shape: Shape[Any]) -> str:
    """What is due: $2 documents, in turn from every tenant that has any, earliest first.

    The tenants are found by skipping along the index from one to the next, so that one with a
    million documents due costs no more than one with a single document, and keeps nobody waiting.
    """
    table = f"amends.{shape.table}"
    return (
        "WITH RECURSIVE s AS MATERIALIZED (SELECT set_config('amends.upkeep', 'every tenant', true)"
        " AS upkeep, coalesce($1::timestamptz, clock_timestamp()) AS now),"
        " tenants AS ((SELECT r.tenant FROM s, LATERAL (SELECT tenant FROM"
        f" {table} WHERE s.upkeep IS NOT NULL AND due_at IS NOT NULL ORDER BY tenant LIMIT 1) AS r)"
        " UNION ALL SELECT r.tenant FROM tenants AS t, LATERAL (SELECT tenant FROM"
        f" {table} WHERE tenant > t.tenant AND due_at IS NOT NULL ORDER BY tenant LIMIT 1) AS r),"
        " ranked AS (SELECT r.*, row_number() OVER (PARTITION BY r.tenant ORDER BY due_at, seq)"
        f" AS rank FROM s, tenants AS t, LATERAL (SELECT * FROM {table} WHERE tenant = t.tenant"
        " AND due_at <= s.now ORDER BY due_at, seq LIMIT $2) AS r),"
        " chosen AS (SELECT * FROM ranked ORDER BY rank, due_at, seq LIMIT $2)"
        f" SELECT {row_columns(shape, '$1')} FROM chosen ORDER BY due_at, seq"
    )


def _text(cell: bytes | None) -> str | None:
    """A text as it lies there; damaged bytes become marks that agree with no document."""
    return None if cell is None else cell.decode("utf-8", "replace")
