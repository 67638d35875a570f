"""The schema as numbered steps, each applied once, in order, by whoever comes first.

Each step is recorded with the checksum of its SQL. A file that has gone through a step which this
program does not know is refused, and so is one whose step had another text; nothing is rewritten
then. All missing steps are applied in one transaction that holds the write lock, so that however
many processes start at once, each step happens once.

Deliberately not here: the SQL (`schema`), and steps backwards; a downgrade restores a backup.
"""

import os
from datetime import datetime
from typing import Final

import apsw

from amends.contracts.errors import Unavailable
from amends.contracts.ids import uuid7_hex
from amends.stores.rows import to_micros
from amends.stores.schema_steps import Migration, steps_left
from amends.stores.sqlite import schema

APPLICATION_ID: Final = 0x416D6E64
"""`Amnd` in the header: how a file is known to be ours."""

MIGRATIONS: Final = (
    Migration(1, "documents and receipts", schema.DOCUMENTS_AND_RECEIPTS),
    Migration(2, "checkpoints of the log", schema.LOG_CHECKPOINTS),
    Migration(3, "delegations and notices", schema.DELEGATIONS_AND_NOTICES),
    Migration(4, "usages of limits", schema.LIMIT_USAGES),
    Migration(5, "legal holds", schema.LEGAL_HOLDS),
)


def migrate(
    connection: apsw.Connection,
    now: datetime,
    migrations: tuple[Migration, ...] = MIGRATIONS,
) -> str:
    """Bring the file up to this program's schema and return its lineage id.

    Raises `Unavailable` (`store.schema_too_new`, `store.foreign_file`) or `Corrupt`
    (`store.schema_changed`) before anything is written.
    """
    if missing_steps(connection, migrations):
        connection.transaction_mode = "IMMEDIATE"
        with connection:
            # Read again under the lock: another process may have been faster.
            missing = missing_steps(connection, migrations)
            if missing == migrations:
                _begin(connection, now)
            for migration in missing:
                _apply(connection, migration, now)
    return str(connection.execute("SELECT lineage FROM store").get)


def missing_steps(
    connection: apsw.Connection, migrations: tuple[Migration, ...] = MIGRATIONS
) -> tuple[Migration, ...]:
    """The steps that the file has not gone through. Raises as `migrate`, and writes nothing."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema").get:
        return migrations
    if connection.pragma("application_id") != APPLICATION_ID:
        raise _foreign()
    taken = dict(connection.execute("SELECT number, checksum FROM migrations"))
    return steps_left(taken, migrations)


def _begin(connection: apsw.Connection, now: datetime) -> None:
    connection.pragma("application_id", APPLICATION_ID)
    connection.execute(schema.BOOKS)
    now_us = to_micros(now)
    lineage = uuid7_hex(now_us // 1000, os.urandom(10))
    connection.execute("INSERT INTO store VALUES (?, ?)", (lineage, now_us))


def _apply(connection: apsw.Connection, migration: Migration, now: datetime) -> None:
    connection.execute(migration.sql)
    connection.execute(
        "INSERT INTO migrations VALUES (?, ?, ?, ?)",
        (migration.number, migration.name, migration.checksum, to_micros(now)),
    )


def _foreign() -> Unavailable:
    return Unavailable(
        "store.foreign_file",
        "This file holds something, and it is not a store of Amends.",
        next_step="Give Amends a file of its own; a path that does not exist yet will do.",
    )
