"""The SQL that reads and writes a batch, made from shapes; every value is bound.

A statement takes whole columns as arrays and joins them to a table through its unique index. That
the planner keeps to the index, whatever it believes about the length of an array, is made sure of
by settings that are local to the transaction; a plan that turned to hash joins took three times as
long. Texts are read back as bytes, so that a damaged one is noticed by us and not by the driver.

Deliberately not here: running any of it, and what a count that is not the expected one means.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import UUID

from amends.contracts.approvals import ApprovalRequest
from amends.stores.postgres.migrations import SYNCHRONOUS
from amends.stores.postgres.verdicts import Change, Effects
from amends.stores.postgres.writes import PLACES, TYPES, Chain, Held, Key
from amends.stores.shapes import SHAPES

FEED_LOCK: Final = 0x416D6E64_00000002
"""Shared by everybody who has a position in the feed and has not committed it yet."""

NEWS: Final = "amends_news"
"""The channel on which listeners hear of what people wait for."""

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

_AWAITED: Final = PLACES[ApprovalRequest]
CLOCK_PART, TAIL_PART, HOLDER_PART = -1, 1000, 100
SHAPED: Final = tuple(SHAPES[type_] for type_ in TYPES)


class Statement(NamedTuple):
    """SQL with what is bound to it, and how many rows each of its parts must touch."""

    sql: str
    values: list[Any]
    counts: list[int]


class Text:
    """A statement in the making."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[Any] = []
        self.counted: list[str] = []
        self.counts: list[int] = []

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

    def count(self, name: str, sql: str, number: int) -> None:
        """Add a part that must touch so many rows."""
        self.parts.append(f"{name} AS MATERIALIZED ({sql})")
        self.counted.append(name)
        self.counts.append(number)


def begin(tenants: Collection[str], *, replan: bool = False) -> str:
    """The beginning of a transaction over these tenants, which `prepare` found to be plain.

    With `replan` the plans that the session has kept are made anew.
    """
    named = "\x1f".join(sorted(tenants))
    renewed = "DISCARD PLANS; " if replan else ""
    return f"{BEGIN}{renewed}SET LOCAL amends.tenants = '{named}'"


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
    return Statement(with_ + " UNION ALL ".join(unions), text.values, [])


def write(effects: Effects, now: datetime | None, token: UUID, *, checked: bool) -> Statement:
    """Write what a batch leaves behind, everything under the condition it was decided under.

    Without `checked` rows that are only looked at, and the ends of chains, are checked as well;
    otherwise they were read and locked before. The answer is one row: how many rows each part
    touched, the time of the write, the time at its end, the transaction's number, the process on
    the server, and whether commits wait for a standby.
    """
    text = Text()
    clock, by = text.bind(now, "timestamptz"), text.bind(token, "uuid")
    text.parts.append(
        f"clock AS MATERIALIZED (SELECT coalesce({clock}, clock_timestamp()) AS at, {by} AS by)"
    )
    changes = effects.documents.items()
    for place in sorted({key.place for key, _ in changes}):
        here = [(key, one) for key, one in changes if key.place == place]
        _replace(text, place, sorted(pair for pair in here if pair[1].before.revision))
        _insert(text, place, [pair for pair in here if not pair[1].before.revision])
    if not checked:
        _check(text, effects)
    if effects.receipts:
        _append(text, effects)
    if any(key.place == _AWAITED for key in effects.documents):
        text.count("news", f"SELECT pg_notify('{NEWS}', '') IS NULL", 1)
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in text.counted)
    return Statement(
        f"WITH {', '.join(text.parts)} SELECT ARRAY[{counts}]::bigint[], clock.at,"
        f" coalesce({clock}, clock_timestamp()), pg_current_xact_id()::text, pg_backend_pid(),"
        f" {SYNCHRONOUS} FROM clock",
        text.values,
        text.counts,
    )


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
            [],
        )


def order(keys: Iterable[Key]) -> Statement:
    """Take turns with every other transaction that asks for the same of any of these keys.

    Two that each insert what the other one needs absent would stand in each other's way otherwise
    until the server noticed.
    """
    return Statement(
        "SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k",
        [sorted({_turn(key) for key in keys})],
        [],
    )


def _turn(key: Key) -> int:
    said = "\x1f".join((str(key.place), key.tenant, key.id)).encode()
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big", signed=True)


def reserve(keys: Sequence[Key], token: UUID) -> Iterable[Statement]:
    """Stand in for documents that must stay absent, so that whoever inserts one has to wait."""
    for place, group in groupby(sorted(keys), lambda key: key.place):
        text, shape = Text(), SHAPED[place]
        by = text.bind(token, "uuid")
        named = [(key.tenant, key.id) for key in group]
        rows = text.rows(("text", "text"), named)
        yield Statement(
            f"INSERT INTO amends.{shape.table} (tenant, id, revision, created_at, updated_at,"
            " body, written_at, written_by) SELECT i.tenant, i.id, 0, now(), now(), '', now(),"
            f" {by} FROM {rows} AS i(tenant, id) ON CONFLICT DO NOTHING RETURNING 1",
            text.values,
            [len(named)],
        )


def leave(keys: Sequence[Key], token: UUID) -> Iterable[Statement]:
    """Take away what `reserve` put there."""
    for place in sorted({key.place for key in keys}):
        yield Statement(
            f"DELETE FROM amends.{SHAPED[place].table} WHERE revision = 0 AND tenant = ANY($1)"
            " AND id = ANY($2) AND written_by = $3",
            [[key.tenant for key in keys], [key.id for key in keys], token],
            [],
        )


_KINDS: Final = ("text", "text", "bigint", "timestamptz", "timestamptz", "bigint", "text")


def _row(key: Key, one: Change) -> tuple[object, ...]:
    due = one.write.due
    at, after = (None, None) if due is None else (due.at, due.after_ms)
    write = one.write
    return (key.tenant, key.id, write.revision, write.updated_at, at, after, write.body)


_DUE: Final = "coalesce(i.due_at, clock.at + i.due_ms * interval '1 millisecond')"


def _replace(text: Text, place: int, pairs: Sequence[tuple[Key, Change]]) -> None:
    if not pairs:
        return
    shape = SHAPED[place]
    rows = text.rows(
        (*_KINDS, "bigint", *("text" for _ in shape.columns)),
        [(*_row(key, one), one.before.revision, *one.write.columns) for key, one in pairs],
    )
    columns = ", ".join(shape.columns)
    settings = ", ".join(f"{name} = i.{name}" for name in shape.columns)
    text.count(
        f"u{place}",
        f"UPDATE amends.{shape.table} AS r SET due_at = {_DUE}, revision = i.revision,"
        f" updated_at = i.updated_at, {settings}, body = i.body, written_at = clock.at,"
        f" written_by = clock.by FROM clock, {rows}"
        f" AS i(tenant, id, revision, updated_at, due_at, due_ms, body, before, {columns})"
        " WHERE r.tenant = i.tenant AND r.id = i.id AND r.revision = i.before RETURNING 1",
        len(pairs),
    )


def _insert(text: Text, place: int, pairs: Sequence[tuple[Key, Change]]) -> None:
    if not pairs:
        return
    shape = SHAPED[place]
    rows = text.rows(
        (*_KINDS, "timestamptz", *("text" for _ in shape.columns)),
        [(*_row(key, one), one.created_at, *one.write.columns) for key, one in pairs],
    )
    columns = ", ".join(shape.columns)
    text.count(
        f"i{place}",
        f"INSERT INTO amends.{shape.table} (tenant, id, revision, created_at, updated_at, due_at,"
        f" {columns}, body, written_at, written_by) SELECT i.tenant, i.id, i.revision,"
        f" i.created_at, i.updated_at, {_DUE}, {', '.join(f'i.{one}' for one in shape.columns)},"
        f" i.body, clock.at, clock.by FROM clock, {rows}"
        f" AS i(tenant, id, revision, updated_at, due_at, due_ms, body, created_at, {columns})"
        " ON CONFLICT DO NOTHING RETURNING 1",
        len(pairs),
    )


def _check(text: Text, effects: Effects) -> None:
    for place, group in groupby(sorted(effects.checks), lambda key: key.place):
        named = [(key.tenant, key.id, effects.checks[key]) for key in group]
        rows = text.rows(("text", "text", "bigint"), named)
        text.count(
            f"g{place}",
            f"SELECT 1 FROM {rows} AS k(tenant, id, revision) JOIN amends.{SHAPED[place].table}"
            " AS r ON r.tenant = k.tenant AND r.id = k.id AND r.revision = k.revision"
            " FOR SHARE OF r",
            len(named),
        )
    joints = [(*chain, *joint) for chain, joint in effects.joints.items() if joint[0]]
    if joints:
        rows = text.rows(("text", "text", "bigint", "text"), joints)
        text.count(
            "joints",
            f"SELECT 1 FROM {rows} AS k(tenant, chain, number, hash) JOIN amends.receipts AS r"
            " ON r.tenant = k.tenant AND r.chain = k.chain AND r.number = k.number"
            " AND r.hash = k.hash",
            len(joints),
        )


def _append(text: Text, effects: Effects) -> None:
    """Positions are taken under the lock of the feed, so that readers know who has one."""
    rows = text.rows(
        ("text", "text", "bigint", "text", "text"),
        [(*chain, link.number, link.hash, link.body) for chain, link in effects.receipts],
    )
    text.parts.append(
        f"feed AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({FEED_LOCK}) IS NULL AS held)"
    )
    text.count(
        "receipts",
        "INSERT INTO amends.receipts (position, tenant, chain, number, hash, body, written_at,"
        " written_by) SELECT nextval('amends.receipts_position'), i.tenant, i.chain, i.number,"
        f" i.hash, i.body, clock.at, clock.by FROM feed, clock, {rows}"
        " AS i(tenant, chain, number, hash, body) WHERE feed.held IS NOT NULL"
        " ON CONFLICT DO NOTHING RETURNING 1",
        len(effects.receipts),
    )
