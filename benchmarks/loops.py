"""What others would write by hand: the bare loop and the same-rows loop, both on apsw.

*Bare*: one row, two durable commits an action. *Same rows*: the rows, indexes and bytes that one
Amends action writes, without a rule, a hash or a signature.
"""

import time
from pathlib import Path
from typing import Final

import apsw

from amends.stores.sqlite.schema import DOCUMENTS_AND_RECEIPTS
from benchmarks.template import Statement, statements

_BARE: Final = "CREATE TABLE actions (id TEXT PRIMARY KEY, status TEXT, body TEXT)"
_SETTLE: Final = "UPDATE actions SET status = 'committed', body = ? WHERE id = ?"


def connect(path: Path) -> apsw.Connection:
    """A connection with the durability that Amends insists on."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", 2)
    return connection


def bare(path: Path, count: int) -> float:
    """Actions a second of the bare loop."""
    connection = connect(path)
    cursor = connection.cursor()
    cursor.execute(_BARE)
    body = "x" * 300
    started = time.perf_counter()
    for number in range(count):
        id_ = f"txn_{number:032x}"
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("INSERT INTO actions VALUES (?, 'prepared', ?)", (id_, body))
        cursor.execute("COMMIT")
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(_SETTLE, (body, id_))
        cursor.execute("COMMIT")
    return count / (time.perf_counter() - started)


def same_rows(path: Path, count: int) -> float:
    """Actions a second of a loop that writes the rows of an action."""
    first, second = statements()
    connection = connect(path)
    for step in DOCUMENTS_AND_RECEIPTS.split(";"):
        if step.strip():
            connection.execute(step)
    cursor = connection.cursor()
    started = time.perf_counter()
    for number in range(count):
        _write(cursor, first, number)
        _write(cursor, second, number)
    return count / (time.perf_counter() - started)


def _write(cursor: apsw.Cursor, change_set: list[Statement], number: int) -> None:
    cursor.execute("BEGIN IMMEDIATE")
    for statement in change_set:
        cursor.execute(statement.sql, statement.bindings(number))
    cursor.execute("COMMIT")
