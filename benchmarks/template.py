"""The rows of one action, taken from a real one, as statements for the same-rows loop."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import apsw
import msgspec

from benchmarks.product import run

TABLES: Final = ("transactions", "actions", "reservations", "receipts")
_ID_COLUMNS: Final = ("id", "action_id", "transaction_id", "chain")


class Statement(msgspec.Struct, frozen=True):
    """One SQL statement with the values of the sampled row; `own` are the places of its ids."""

    sql: str
    values: tuple[object, ...]
    own: tuple[int, ...]

    def bindings(self, number: int) -> tuple[object, ...]:
        """The values with ids that belong to action `number`, in time order."""
        changed = list(self.values)
        for place in self.own:
            changed[place] = f"{number:036x}"
        return tuple(changed)


def statements() -> tuple[list[Statement], list[Statement]]:
    """The statements of an action's two change sets: what the claim and the settlement write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.db"
        asyncio.run(run(f"sqlite:///{path}", count=1, tasks=1))
        connection = apsw.Connection(str(path))
        sampled = {table: _rows(connection, table) for table in TABLES}
    chain = sampled["receipts"][-1]["chain"]
    receipts = [row for row in sampled["receipts"] if row["chain"] == chain]
    first = [_insert(table, sampled[table][-1]) for table in TABLES[:-1]]
    first.append(_insert("receipts", receipts[0]))
    second = [_update(table, sampled[table][-1]) for table in ("transactions", "actions")]
    second += [_insert("receipts", row) for row in receipts[1:]]
    return first, second


def _rows(connection: apsw.Connection, table: str) -> list[dict[str, object]]:
    cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608  # names of our own
    names = [column[0] for column in cursor.get_description()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _insert(table: str, row: dict[str, object]) -> Statement:
    kept = {name: value for name, value in row.items() if name not in ("seq", "position")}
    places = ", ".join("?" for _ in kept)
    return Statement(
        f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({places})",  # noqa: S608  # as above
        tuple(kept.values()),
        tuple(n for n, name in enumerate(kept) if name in _ID_COLUMNS),
    )


def _update(table: str, row: dict[str, object]) -> Statement:
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("seq", "tenant", "id", "created_at")
    }
    sets = ", ".join(f"{name} = ?" for name in kept)
    values = (*kept.values(), row["tenant"], row["id"])
    own = [n for n, name in enumerate(kept) if name in _ID_COLUMNS]
    return Statement(
        f"UPDATE {table} SET {sets} WHERE tenant = ? AND id = ?",  # noqa: S608  # as above
        values,
        (*own, len(values) - 1),
    )
