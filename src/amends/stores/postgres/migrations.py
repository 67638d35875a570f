"""The schema as numbered steps, each applied once, in order, by whoever comes first.

Each step is recorded with the checksum of its SQL, and is one transaction that holds an advisory
lock: one that was interrupted left nothing behind and is begun anew. Every step adds to what is
there, so replicas of the version before may go on. A database that has gone through a step which
this program does not know is refused, and so is one whose step had another text.

Deliberately not here: the SQL (`schema`), and steps backwards.
"""

import os
from typing import Final

import asyncpg

from amends.contracts.errors import Unavailable
from amends.contracts.ids import uuid7_hex
from amends.stores.postgres import schema
from amends.stores.rows import to_micros
from amends.stores.schema_steps import Migration, steps_left

LOCK: Final = 0x416D6E64_00000001
"""Held while a step is applied."""

TIMELINE: Final = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int"
SYSTEM: Final = "(SELECT system_identifier::text FROM pg_control_system())"
SYNCHRONOUS: Final = (
    "(current_setting('synchronous_standby_names') <> ''"
    " AND current_setting('synchronous_commit') IN ('on', 'remote_apply'))"
)
"""Whether a commit of this transaction waits until a standby has it on disk."""


# Asked of the tables themselves: a name that was looked up and not found is remembered for the
# rest of a transaction, also when somebody else has made it meanwhile.
_THERE: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'amends'),"
    " EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'amends' AND c.relname = 'migrations')"
)


MIGRATIONS: Final = (
    Migration(1, "documents and receipts", schema.DOCUMENTS_AND_RECEIPTS),
    Migration(2, "the key of all replicas", schema.SIGNER),
    Migration(3, "a batch in one statement", schema.WRITING_AT_ONCE),
)


async def migrate(
    connection: asyncpg.Connection, migrations: tuple[Migration, ...] = MIGRATIONS
) -> None:
    """Bring the database up to this program's schema.

    Raises `Unavailable` (`store.schema_too_new`, `store.foreign_file`) or `Corrupt`
    (`store.schema_changed`) before anything is written.
    """
    while await _is_behind(connection, migrations):
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
            # Read again under the lock: another process may have been faster.
            missing = await missing_steps(connection, migrations)
            if missing == migrations:
                await _begin(connection)
            if missing:
                await _apply(connection, missing[0])


async def _is_behind(connection: asyncpg.Connection, migrations: tuple[Migration, ...]) -> bool:
    async with connection.transaction():
        return bool(await missing_steps(connection, migrations))


async def missing_steps(
    connection: asyncpg.Connection, migrations: tuple[Migration, ...] = MIGRATIONS
) -> tuple[Migration, ...]:
    """The steps that the database has not gone through. Raises as `migrate`, writes nothing."""
    schema_there, books_there = await connection.fetchrow(_THERE)
    if not books_there:
        if schema_there:
            raise _foreign()
        return migrations
    rows = await connection.fetch("SELECT number, checksum FROM amends.migrations")
    taken = {row[0]: row[1] for row in rows}
    return steps_left(taken, migrations)


async def _begin(connection: asyncpg.Connection) -> None:
    await connection.execute(schema.BOOKS)
    now = await connection.fetchval("SELECT clock_timestamp()")
    lineage = uuid7_hex(to_micros(now) // 1000, os.urandom(10))
    await connection.execute(
        "INSERT INTO amends.store"
        " (lineage, created_at, system_identifier, timeline, synchronous, confirmed_at)"
        f" SELECT $1, $2, {SYSTEM}, {TIMELINE}, {SYNCHRONOUS}, $2",
        lineage,
        now,
    )


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(migration.sql)
    await connection.execute(
        "INSERT INTO amends.migrations VALUES ($1, $2, $3, clock_timestamp())",
        migration.number,
        migration.name,
        migration.checksum,
    )


def _foreign() -> Unavailable:
    return Unavailable(
        "store.foreign_file",
        "This database has a schema named amends, and it is not a store of Amends.",
        next_step="Give Amends a database of its own; an empty one will do.",
    )
