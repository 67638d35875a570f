"""Steps of a schema, and which of them a store has still to go through.

Each is known by the checksum of its SQL. A store that has gone through a step which this program
does not know is refused, and so is one whose step had another text; nothing is rewritten then.

Deliberately not here: SQL, reading what a store has gone through, and applying a step.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from amends.contracts.errors import Corrupt, Unavailable


class Migration(msgspec.Struct, frozen=True):
    """One step of a schema."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the SQL."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def steps_left(
    taken: Mapping[int, str], migrations: tuple[Migration, ...]
) -> tuple[Migration, ...]:
    """The steps that are not among those taken, which are checksums by number.

    Raises `Unavailable` (`store.schema_too_new`) or `Corrupt` (`store.schema_changed`).
    """
    if unknown := taken.keys() - {migration.number for migration in migrations}:
        raise _too_new(max(unknown), migrations)
    for migration in migrations:
        if taken.get(migration.number, migration.checksum) != migration.checksum:
            raise _changed(migration)
    return tuple(migration for migration in migrations if migration.number not in taken)


def _too_new(number: int, migrations: tuple[Migration, ...]) -> Unavailable:
    return Unavailable(
        "store.schema_too_new",
        "This store was written by a newer version of Amends. Nothing in it was changed.",
        details={"store": number, "program": max(step.number for step in migrations)},
        next_step="Use that version or a later one, or restore a backup made before the upgrade.",
    )


def _changed(migration: Migration) -> Corrupt:
    return Corrupt(
        "store.schema_changed",
        f"Step {migration.number} of this store's schema is not the step this program knows.",
        details={"step": migration.number},
        next_step="Use the released program that made the store, or restore a backup.",
    )
