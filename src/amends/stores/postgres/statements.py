"""The SQL that reads a batch and has it written, made from shapes; every value is bound.

A statement takes whole columns as arrays and joins them to a table through its unique index. That
the planner keeps to the index, whatever it believes about the length of an array, is made sure of
by settings that are local to the transaction; a plan that turned to hash joins took three times as
long. Texts are read back as bytes, so that a damaged one is noticed by us and not by the driver.

Deliberately not here: how a batch is written (`function`), and running any of it.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from amends.stores.postgres.writes import (
    GUARD,
    INSERT,
    REPLACE,
    SHAPED,
    Cells,
    Chain,
    Held,
    Key,
    Linked,
)

BEGIN: Final = """BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off;
SET LOCAL plan_cache_mode = force_generic_plan;
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '2s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
"""
"""A transaction that is not cut off at its end, but ended where its client stands still.

The tenants follow it.
"""

CLOCK_PART, TAIL_PART, HOLDER_PART = -1, 1000, 100
_INSERTED: Final = 2 * len(SHAPED)
_RANKS: Final = MappingProxyType(
    {f"{REPLACE}{shape.table}": 2 * place for place, shape in enumerate(SHAPED)}
    | {f"{GUARD}{shape.table}": 2 * place + 1 for place, shape in enumerate(SHAPED)}
    | {f"{INSERT}{shape.table}": _INSERTED + place for place, shape in enumerate(SHAPED)}
)


class Statement(NamedTuple):
    """SQL with what is bound to it."""

    sql: str
    values: list[Any]


class Text:
    """A statement in the making."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[Any] = []

    def bind(self, value: object, kind: str) -> str:
        """The place of a value of a SQL type."""
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def rows(self, kinds: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
        """The arrays behind which some rows stand, for `unnest`."""
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        places = [
            self.bind(list(column), f"{kind}[]")
            for kind, column in zip(kinds, columns, strict=True)
        ]
        return f"unnest({', '.join(places)})"


def begin(tenants: Collection[str], *, replan: bool = False) -> str:
    """The beginning of a transaction over these tenants, which `prepare` found to be plain.

    With `replan` the plans that the session has kept are made anew.
    """
    renewed = "DISCARD PLANS; " if replan else ""
    return f"{BEGIN}{renewed}SET LOCAL amends.tenants = '{tenants_named(tenants)}'"


def tenants_named(tenants: Iterable[str]) -> str:
    """Tenants as one text, as the policies of the tables read it."""
    return "\x1f".join(sorted(tenants))


def probe(
    keys: Collection[Key], holds: Sequence[Held], chains: Sequence[Chain], now: datetime | None
) -> Statement:
    """Lock the rows of these keys, in one order everywhere, and read what verdicts stand on."""
    text = Text()
    clock = text.bind(now, "timestamptz")
    unions: list[str] = []
    for place, group in groupby(sorted(keys), lambda key: key.place):
        shape, name = SHAPED[place], f"d{place}"
        rows = text.rows(("text", "text"), [(key.tenant, key.id) for key in group])
        unique = ", ".join(f"r.{column}" for column in shape.unique)
        text.parts.append(
            f"{name} AS MATERIALIZED (SELECT k.place, r.revision, ARRAY[{unique}]::text[] AS held"
            f" FROM {rows} WITH ORDINALITY AS k(tenant, id, place) JOIN amends.{shape.table} AS r"
            " ON r.tenant = k.tenant AND r.id = k.id FOR NO KEY UPDATE OF r)"
        )
        unions.append(
            f"SELECT {place}, place, revision, held, NULL::text, NULL::timestamptz FROM {name}"
        )
    for number, held in enumerate(holds):
        table = SHAPED[held.place].table
        tenant, value = text.bind(held.tenant, "text"), text.bind(held.value, "text")
        unions.append(
            f"SELECT {HOLDER_PART}, {number}, NULL, NULL, id, NULL FROM amends.{table}"
            f" WHERE tenant = {tenant} AND {held.name} = {value}"
        )
    if chains:
        rows = text.rows(("text", "text"), chains)
        unions.append(
            f"SELECT {TAIL_PART}, k.place, t.number, NULL, t.hash, NULL FROM {rows}"
            " WITH ORDINALITY AS k(tenant, chain, place), LATERAL (SELECT number, hash FROM"
            " amends.receipts AS r WHERE r.tenant = k.tenant AND r.chain = k.chain"
            " ORDER BY number DESC LIMIT 1) AS t"
        )
    unions.append(f"SELECT {CLOCK_PART}, 0, NULL, NULL, NULL, coalesce({clock}, clock_timestamp())")
    with_ = f"WITH {', '.join(text.parts)} " if text.parts else ""
    return Statement(with_ + " UNION ALL ".join(unions), text.values)


WRITE: Final = (
    "SELECT at, pg_current_xact_id_if_assigned()::text, pg_backend_pid(), clock_timestamp()"
    " FROM amends.write($1, $2, $3, $4, $5, $6, $7)"
)
"""When it was written (null: not at all), the transaction's number, the process on the server, and
its time.
"""


def write(
    tenants: Iterable[str],
    token: UUID,
    rows: Iterable[Cells],
    receipts: Sequence[Linked],
    *,
    now: datetime | None,
    not_after: datetime | None = None,
) -> list[Any]:
    """What to bind for `WRITE`."""
    ordered = sorted(rows, key=_order)
    parts = tuple(dict.fromkeys([cells[0] for cells in ordered]))
    return [tenants_named(tenants), token, now, not_after, parts, ordered, receipts]


def _order(cells: Cells) -> tuple[int, str, str]:
    """Rows that are there are locked in one order everywhere, the one in which `probe` locks them.

    Those that are inserted come after them, and keep the order in which they were asked for.
    """
    kind, tenant, id_, *_ = cells
    rank = _RANKS[kind]
    return (rank, tenant, id_) if rank < _INSERTED else (rank, "", "")


def release(keys: Sequence[Key]) -> Iterable[Statement]:
    """Give up the unique values of some documents, before others take them."""
    for place, group in groupby(sorted(keys), lambda key: key.place):
        text, shape = Text(), SHAPED[place]
        rows = text.rows(("text", "text"), [(key.tenant, key.id) for key in group])
        empty = ", ".join(f"{column} = NULL" for column in shape.unique)
        yield Statement(
            f"UPDATE amends.{shape.table} AS r SET {empty} FROM {rows} AS i(tenant, id)"
            " WHERE r.tenant = i.tenant AND r.id = i.id",
            text.values,
        )


def order(keys: Iterable[Key]) -> Statement:
    """Take turns with every other transaction that asks for the same of any of these keys.

    Two that each insert what the other one needs absent would stand in each other's way otherwise
    until the server noticed.
    """
    return Statement(
        "SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k",
        [sorted({_turn(key) for key in keys})],
    )


def _turn(key: Key) -> int:
    said = "\x1f".join((str(key.place), key.tenant, key.id)).encode()
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big", signed=True)


def reserve(keys: Sequence[Key], token: UUID) -> Iterable[tuple[Statement, int]]:
    """Stand in for documents that must stay absent, so that whoever inserts one has to wait.

    With each statement comes how many rows it must return.
    """
    for place, group in groupby(sorted(keys), lambda key: key.place):
        text, shape = Text(), SHAPED[place]
        by = text.bind(token, "uuid")
        named = [(key.tenant, key.id) for key in group]
        rows = text.rows(("text", "text"), named)
        made = Statement(
            f"INSERT INTO amends.{shape.table} (tenant, id, revision, created_at, updated_at,"
            " body, written_at, written_by) SELECT i.tenant, i.id, 0, now(), now(), '', now(),"
            f" {by} FROM {rows} AS i(tenant, id) ON CONFLICT DO NOTHING RETURNING 1",
            text.values,
        )
        yield made, len(named)


def leave(keys: Sequence[Key], token: UUID) -> Iterable[Statement]:
    """Take away what `reserve` put there."""
    for place in sorted({key.place for key in keys}):
        yield Statement(
            f"DELETE FROM amends.{SHAPED[place].table} WHERE revision = 0 AND tenant = ANY($1)"
            " AND id = ANY($2) AND written_by = $3",
            [[key.tenant for key in keys], [key.id for key in keys], token],
        )
