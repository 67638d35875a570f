"""Bringing a store's file up to this program's schema, and saying beforehand what that would do."""

from pathlib import Path

import msgspec

from amends.stores.rows import system_clock
from amends.stores.sqlite.connection import connect, let_go
from amends.stores.sqlite.migrations import MIGRATIONS
from amends.stores.sqlite.survey import Survey


class SchemaStep(msgspec.Struct, frozen=True):
    """One step of the schema, and whether the file has gone through it."""

    number: int
    name: str
    taken: bool


def schema_steps(database: Path) -> tuple[SchemaStep, ...]:
    """Every step that this program knows; nothing is written.

    Raises `Unavailable` (`store.schema_too_new`, `store.foreign_file`) and `Corrupt`
    (`store.schema_changed`).
    """
    with Survey(database) as survey:
        missing = {step.number for step in survey.missing}
    return tuple(
        [SchemaStep(one.number, one.name, one.number not in missing) for one in MIGRATIONS]
    )


def take_steps(database: Path) -> None:
    """Take all missing steps in one transaction; durable when it returns. Raises as `connect`."""
    let_go(connect(database, system_clock).connection)
