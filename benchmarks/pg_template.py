"""The rows of one action in PostgreSQL, as a hand-written loop would write them.

They are taken from a real action, at the moment of its connector's call and after its end. Each
change set becomes one statement, a CTE whose parts are the rows: what an attentive programmer would
write, who knows no rule, hash, signature or tenant.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg
import msgspec

from amends import Amends, Principal
from benchmarks.product import nothing

TABLES: Final = ("transactions", "actions", "reservations")
_OWN: Final = ("id", "action_id", "transaction_id", "chain")
_FIXED: Final = ("seq", "position", "tenant", "id", "created_at")


class Statement(msgspec.Struct, frozen=True):
    """One SQL statement with the values of the sampled rows; `own` are the places of its ids."""

    sql: str
    values: tuple[object, ...]
    own: tuple[int, ...]

    def bindings(self, name: str) -> list[object]:
        """The values with ids that belong to this action alone."""
        changed = list(self.values)
        for place in self.own:
            changed[place] = name
        return changed


class Template(msgspec.Struct, frozen=True):
    """What the claim and the settlement of an action write."""

    claim: Statement
    settlement: Statement
    fill: tuple[str, ...]
    """For each table, what puts the same rows there for the numbers `$1` to `$2`."""


class _Text:
    """A statement in the making."""

    def __init__(self) -> None:
        self._values: list[object] = []
        self._own: list[int] = []
        self._parts: list[str] = []

    def bind(self, name: str, value: object) -> str:
        if name in _OWN and value is not None:
            self._own.append(len(self._values))
        self._values.append(value)
        return f"${len(self._values)}"

    def add(self, sql: str) -> None:
        self._parts.append(sql)

    def made(self) -> Statement:
        *parts, last = self._parts
        with_ = ", ".join(f"p{number} AS ({sql})" for number, sql in enumerate(parts))
        return Statement(f"WITH {with_} {last}", tuple(self._values), tuple(self._own))


async def sampled(url: str, superuser_url: str) -> Template:
    """The template, from an action that is carried out in this empty database."""
    during: dict[str, list[asyncpg.Record]] = {}

    async def look() -> None:
        during.update(await _rows(superuser_url))

    work, principal = nothing(look), Principal.named("bench")
    async with Amends.open(url, [work], principal=principal, recover=False) as amends:
        await amends.execute(work, {"amount": 1, "currency": "eur"}, idempotency_key="k" * 32)
    after = await _rows(superuser_url)
    claim, settlement = _Text(), _Text()
    for table in TABLES:
        _insert(claim, table, during[table][-1])
    _receipts(claim, during["receipts"])
    for table in TABLES[:2]:
        _update(settlement, table, after[table][-1])
    _receipts(settlement, after["receipts"][len(during["receipts"]) :])
    fill = tuple(_fill(table, after[table]) for table in (*TABLES, "receipts"))
    return Template(claim.made(), settlement.made(), fill)


async def _rows(url: str) -> dict[str, list[asyncpg.Record]]:
    connection = await asyncpg.connect(url)
    try:
        return {
            table: await connection.fetch(f"SELECT * FROM amends.{table} ORDER BY 1")  # noqa: S608  # names of our own
            for table in (*TABLES, "receipts")
        }
    finally:
        await connection.close()


def _insert(text: _Text, table: str, row: asyncpg.Record) -> None:
    kept = {name: value for name, value in row.items() if name != "seq"}
    places = ", ".join(text.bind(name, value) for name, value in kept.items())
    text.add(f"INSERT INTO amends.{table} ({', '.join(kept)}) VALUES ({places})")  # noqa: S608  # as above


def _update(text: _Text, table: str, row: asyncpg.Record) -> None:
    kept = {name: value for name, value in row.items() if name not in _FIXED}
    sets = ", ".join(f"{name} = {text.bind(name, value)}" for name, value in kept.items())
    tenant, id_ = text.bind("tenant", row["tenant"]), text.bind("id", row["id"])
    text.add(f"UPDATE amends.{table} SET {sets} WHERE tenant = {tenant} AND id = {id_}")  # noqa: S608  # as above


def _receipts(text: _Text, rows: Sequence[asyncpg.Record]) -> None:
    names = [name for name in rows[0].keys() if name != "position"]  # noqa: SIM118  # a record is no dict
    lines = [", ".join(text.bind(name, row[name]) for name in names) for row in rows]
    values = ", ".join(f"(nextval('amends.receipts_position'), {line})" for line in lines)
    text.add(f"INSERT INTO amends.receipts (position, {', '.join(names)}) VALUES {values}")  # noqa: S608  # as above


def _fill(table: str, rows: Sequence[asyncpg.Record]) -> str:
    """Rows like these under ids of long ago, which new ones come after, as they would."""
    names = [name for name in rows[0].keys() if name not in ("seq", "position")]  # noqa: SIM118  # as above
    own = "lpad(to_hex(n), 36, '0')"
    picked = ", ".join(own if name in _OWN else f"r.{name}" for name in names)
    columns = ", ".join(names)
    if table == "receipts":
        columns, picked = f"position, {columns}", f"nextval('amends.receipts_position'), {picked}"
    sampled = "chain" if table == "receipts" else "id"
    return (
        f"INSERT INTO amends.{table} ({columns}) SELECT {picked}"  # noqa: S608  # as above
        f" FROM generate_series($1::bigint, $2::bigint) AS n, amends.{table} AS r"
        f" WHERE r.{sampled} = '{rows[-1][sampled]}'"
    )


def named(number: int) -> str:
    """An id in time order, such as an action gets, after all that are filled in."""
    return f"{(1 << 60) + number:036x}"
