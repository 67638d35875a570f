"""Bringing a store's file up to this program's schema, and saying beforehand what that would do."""

import asyncio

import msgspec

from amends.stores.rows import system_clock
from amends.stores.sqlite.connection import connect, let_go
from amends.stores.sqlite.migrations import MIGRATIONS
from amends.stores.sqlite.survey import Survey
from amends.wiring.drivers import open_place
from amends.wiring.places import OnServer, Place


class SchemaStep(msgspec.Struct, frozen=True):
    """One step of the schema, and whether the file has gone through it."""

    number: int
    name: str
    taken: bool


def schema_steps(database: Place) -> tuple[SchemaStep, ...]:
    """Every step that this program knows; nothing is written.

    Raises `Unavailable` (`store.schema_too_new`, `store.foreign_file`) and `Corrupt`
    (`store.schema_changed`).
    """
    if isinstance(database, OnServer):
        return _steps_on_server(database)
    with Survey(database) as survey:
        missing = {step.number for step in survey.missing}
    return tuple(
        [SchemaStep(one.number, one.name, one.number not in missing) for one in MIGRATIONS]
    )


def _steps_on_server(place: OnServer) -> tuple[SchemaStep, ...]:
    from amends.stores.postgres import migrations
    from amends.stores.postgres.survey import PostgresSurvey

    with PostgresSurvey(place.url) as survey:
        missing = {step.number for step in survey.missing}
    known = migrations.MIGRATIONS
    return tuple([SchemaStep(one.number, one.name, one.number not in missing) for one in known])


def take_steps(database: Place) -> None:
    """Take all missing steps; durable when it returns. Not from an event loop.

    Raises as opening the store does.
    """
    if isinstance(database, OnServer):
        asyncio.run(_open_and_close(database))
        return
    let_go(connect(database, system_clock).connection)


async def _open_and_close(place: OnServer) -> None:
    await (await open_place(place)).close()
