"""The rows of one action, taken from a real one, as statements for the same-rows loop.

They are taken at the moment of its connector's call and after its end, so that the loop's first
change set writes what a claim writes (a status that changes later, a lease that is due, bodies that
grow), and its second what becomes of it.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw
import msgspec

from amends import Amends, Principal
from benchmarks.product import nothing

TABLES: Final = ("transactions", "actions", "reservations")
_ID_COLUMNS: Final = ("id", "action_id", "transaction_id", "chain")


class Statement(msgspec.Struct, frozen=True):
    """One SQL statement with a sampled row's values; `own` are places and lengths of its ids."""

    sql: str
    values: tuple[object, ...]
    own: tuple[tuple[int, int], ...]

    def bindings(self, number: int) -> tuple[object, ...]:
        """The values with ids that belong to action `number`, long as real ones, in time order."""
        changed = list(self.values)
        for place, length in self.own:
            changed[place] = f"{number:0{length}x}"
        return tuple(changed)


Rows = dict[str, list[dict[str, object]]]


def statements() -> tuple[list[Statement], list[Statement]]:
    """The statements of an action's two change sets: what the claim and the settlement write."""
    with tempfile.TemporaryDirectory() as folder:
        during, after = asyncio.run(_sampled(Path(folder) / "sample.db"))
    first = [_insert(table, during[table][-1]) for table in TABLES]
    first += [_insert("receipts", row) for row in during["receipts"]]
    second = [_update(table, after[table][-1]) for table in TABLES[:2]]
    second += [_insert("receipts", row) for row in after["receipts"][len(during["receipts"]) :]]
    return first, second


async def _sampled(path: Path) -> tuple[Rows, Rows]:
    """The rows of an action that is carried out in a new file, during its call and after it."""
    during: Rows = {}

    async def look() -> None:
        during.update(_rows(path))

    work, principal = nothing(look), Principal.named("bench")
    async with Amends.open(
        f"sqlite:///{path}", [work], principal=principal, recover=False
    ) as amends:
        await amends.execute(work, {"amount": 1, "currency": "eur"}, idempotency_key="k" * 32)
    return during, _rows(path)


def _rows(path: Path) -> Rows:
    connection = apsw.Connection(str(path))
    try:
        return {table: _table(connection, table) for table in (*TABLES, "receipts")}
    finally:
        connection.close()


def _table(connection: apsw.Connection, table: str) -> list[dict[str, object]]:
    cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608  # names of our own
    names = [column[0] for column in cursor.get_description()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _insert(table: str, row: dict[str, object]) -> Statement:
    kept = {name: value for name, value in row.items() if name not in ("seq", "position")}
    places = ", ".join("?" for _ in kept)
    return Statement(
        f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({places})",  # noqa: S608  # as above
        tuple(kept.values()),
        _own([*kept], [*kept.values()]),
    )


def _update(table: str, row: dict[str, object]) -> Statement:
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("seq", "tenant", "id", "created_at")
    }
    sets = ", ".join(f"{name} = ?" for name in kept)
    values = (*kept.values(), row["tenant"], row["id"])
    return Statement(
        f"UPDATE {table} SET {sets} WHERE tenant = ? AND id = ?",  # noqa: S608  # as above
        values,
        _own([*kept, "tenant", "id"], values),
    )


def _own(names: Sequence[str], values: Sequence[object]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (place, len(str(value)))
        for place, (name, value) in enumerate(zip(names, values, strict=True))
        if name in _ID_COLUMNS
    )
