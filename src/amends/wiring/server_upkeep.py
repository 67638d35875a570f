"""The upkeep of a store that is a database on a server: how it is, and going on after a restore.

Files, backups and checks of pages are the server's own business. What is left is what only Amends
can know: whether the server would lose what it acknowledged, whether it keeps tenants apart,
whether it is still the one on which the store was last used, and what lies in the rows.

Nothing here is to be called from an event loop.
"""

import asyncio
from collections.abc import Callable, Iterator

from amends.contracts.errors import AmendsError, Conflict
from amends.contracts.ids import TenantId
from amends.recovery.freezing import Freezer, Frozen
from amends.stores.postgres.store import open_postgres
from amends.stores.postgres.survey import PostgresSurvey
from amends.wiring.contents import Check, Level
from amends.wiring.keys import key_path
from amends.wiring.places import OnServer, beside
from amends.wiring.quiet import engine_over
from amends.wiring.restored import RESTORED, Phase, Restored
from amends.wiring.shared_keys import appointed, is_here, missing


def examine_server(place: OnServer) -> Iterator[Check]:
    """Check what is to be said of the server; what lies in the store is looked into elsewhere."""
    try:
        with PostgresSurvey(place.url) as survey:
            says = "The server answers, takes writes, and loses nothing that it acknowledged."
            yield Check(name="server", level=Level.OK, says=says)
            yield _schema(survey)
            if not survey.missing:
                yield _timeline(survey)
            yield _role(survey)
    except AmendsError as error:
        says = f"{error.message} [{error.code}]"
        yield Check(name="server", level=Level.FAULT, says=says, todo=error.next_step)


def go_on_after_restore(place: OnServer, phase: Phase) -> Restored:
    """Freeze all that is open in a store whose server was restored or failed over.

    The store is another one afterwards, with a lineage of its own, and can be opened again. One
    that was interrupted is begun anew by calling it again. Raises `Conflict`
    (`restore.store_in_use`), `Unavailable` (`key.missing`, before anything is changed) and
    `Corrupt`.
    """
    with PostgresSurvey(place.url) as survey:
        if survey.others:
            raise Conflict(
                "restore.store_in_use",
                "Others are connected to this database, so nothing was changed.",
                next_step="Stop every process that uses the store, then try again.",
            )
        tenants, from_lineage = survey.tenants, survey.lineage
        key = key_path(beside(place))
        made = not is_here(key)
        if made and survey.signers():
            raise missing(key)
    told = phase("Freezing")
    lineage, frozen = asyncio.run(_take_over(place, tenants, lambda count: told(count, count)))
    return Restored(
        lineage=lineage,
        from_lineage=from_lineage,
        replaced_lineage=None,
        kept=None,
        key_made=made,
        frozen=frozen,
    )


async def _take_over(
    place: OnServer, tenants: tuple[TenantId, ...], told: Callable[[int], None]
) -> tuple[str, Frozen]:
    store = await open_postgres(place.url, taking_over=True)
    try:
        signer = await appointed(store, key_path(beside(place)))
        frozen = await Freezer(engine_over(store, signer), told).freeze(tenants, RESTORED)
        await store.accept_server()
        return await store.lineage(), frozen
    finally:
        await store.close()


def _schema(survey: PostgresSurvey) -> Check:
    if survey.is_empty:
        says = "The database is empty: nothing was stored."
        return Check(name="schema", level=Level.OK, says=says)
    if not survey.missing:
        return Check(name="schema", level=Level.OK, says="The schema is this program's own.")
    steps = ", ".join(f"{step.number} ({step.name})" for step in survey.missing)
    says = f"Steps of the schema are missing: {steps}."
    return Check(name="schema", level=Level.WARN, says=says, todo="Run amends migrate.")


def _timeline(survey: PostgresSurvey) -> Check:
    if not survey.has_moved:
        says = "It is the server, and the timeline, on which the store was last used."
        return Check(name="timeline", level=Level.OK, says=says)
    return Check(
        name="timeline",
        level=Level.FAULT,
        says="The server was restored or failed over since the store was last used.",
        todo="Stop every process that uses the store, then run amends restore without a file.",
    )


def _role(survey: PostgresSurvey) -> Check:
    if not survey.bypasses_tenants:
        return Check(name="tenants", level=Level.OK, says="The server keeps tenants apart.")
    return Check(
        name="tenants",
        level=Level.WARN,
        says="This role is a superuser or has BYPASSRLS, so the server keeps no tenants apart.",
        todo="Let the store use a role that owns its schema and is neither.",
    )
