"""The SQL that reads and writes one table of documents, made from its shape.

Texts are read back as bytes, so that a damaged one is noticed by us and not by the driver. Names
of tables and columns come from the shapes alone; every value is bound.

Deliberately not here: running any of it.
"""

from collections.abc import Collection, Mapping
from string import Template
from types import MappingProxyType
from typing import Any, Final

import msgspec

from amends.contracts.documents import Document
from amends.stores.shapes import SHAPES, Shape, shape_of

_INSERT: Final = Template(
    "INSERT INTO $table (due_at, tenant, id, revision, created_at, updated_at, $columns, body)"
    " VALUES (?, ?, ?, ?, ?, ?, $marks, ?) ON CONFLICT DO NOTHING"
)
_REPLACE: Final = Template(
    "UPDATE OR IGNORE $table SET due_at = ?, revision = ?, updated_at = ?, $settings, body = ?"
    " WHERE tenant = ? AND id = ? AND revision = ?"
)
_REVISION: Final = Template("SELECT revision FROM $table WHERE tenant = ? AND id = ?")
_ROW: Final = Template(
    "SELECT seq, CAST(tenant AS BLOB), CAST(id AS BLOB), revision, due_at, CAST(body AS BLOB),"
    " $casts FROM $table WHERE "
)
_DUE: Final = "due_at <= ?1 AND (due_at, seq) > (?2, ?3) ORDER BY due_at, seq LIMIT ?4"

TAIL: Final = "SELECT hash FROM receipts WHERE tenant = ? AND chain = ? AND number = ?"
APPEND: Final = (
    "INSERT INTO receipts (tenant, chain, number, hash, body) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
LAST: Final = (
    "SELECT number, CAST(hash AS BLOB) FROM receipts WHERE tenant = ? AND chain = ?"
    " ORDER BY number DESC LIMIT 1"
)
CHAIN: Final = (
    "SELECT CAST(body AS BLOB), number FROM receipts"
    " WHERE tenant = ? AND chain = ? AND number > ? ORDER BY number LIMIT ?"
)
FEED: Final = (
    "SELECT position, CAST(body AS BLOB), CAST(tenant AS BLOB), CAST(chain AS BLOB), number"
    " FROM receipts WHERE position > ? ORDER BY position LIMIT ?"
)


class Statements(msgspec.Struct, frozen=True):
    """What can be asked of one table. Columns stand in the order of the shape."""

    shape: Shape[Any]
    insert: str
    replace: str
    revision: str
    get: str
    find: Mapping[str, str]
    due: str
    row: str

    def page(self, filters: Collection[str]) -> str:
        """A page of one tenant, newest first, below a place, filtered by columns."""
        conditions = ["tenant = ?", "seq < ?", *(f"{name} = ?" for name in filters)]
        return f"{self.row}{' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?"


def _statements(shape: Shape[Any]) -> Statements:
    names = {
        "table": shape.table,
        "columns": ", ".join(shape.columns),
        "marks": ", ".join("?" for _ in shape.columns),
        "settings": ", ".join(f"{name} = ?" for name in shape.columns),
        "casts": ", ".join(f"CAST({name} AS BLOB)" for name in shape.columns),
    }
    row = _ROW.substitute(names)
    return Statements(
        shape=shape,
        insert=_INSERT.substitute(names),
        replace=_REPLACE.substitute(names),
        revision=_REVISION.substitute(names),
        get=row + "tenant = ? AND id = ?",
        find=MappingProxyType({key: f"{row}tenant = ? AND {key} = ?" for key in shape.unique}),
        due=row + _DUE,
        row=row,
    )


STATEMENTS: Final[Mapping[type[Document], Statements]] = MappingProxyType(
    {type_: _statements(shape) for type_, shape in SHAPES.items()}
)


def statements_of(type_: type[Document]) -> Statements:
    """The statements of a type. Raises `Misuse` as `shape_of` does."""
    found = STATEMENTS.get(type_)
    return STATEMENTS[shape_of(type_).type] if found is None else found
