"""Stores in files and on a server, filled as programs fill them; no test in here."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import apsw

from amends.app.amends import LOCAL, Amends
from amends.contracts.enums import PrincipalKind
from amends.contracts.outcomes import NotApplied
from amends.contracts.principals import APPROVE_SCOPE, Principal
from amends.contracts.results import Result
from amends.testing.workbench import CHARGE
from amends.wiring.places import OnServer, Place
from tests.unit.runtime.desk import DONE, LATER, UNSURE, Desk

T = TypeVar("T")
OLGA: Final = Principal.named("olga", kind=PrincipalKind.OPERATOR)
BOB: Final = Principal.named("bob", scopes=[APPROVE_SCOPE])
TENANT: Final = LOCAL.tenant
ORDER: Final = {"amount": 500}


def url(place: Place) -> str:
    return place.url if isinstance(place, OnServer) else f"sqlite:///{place}"


def work(place: Place, doing: Callable[[Amends], Awaitable[T]], *answers: object) -> T:
    """Open the store as a program does, do something, and close it."""

    async def run() -> T:
        desk = Desk(answers or (DONE,), reconcile=[DONE], compensate=[DONE])
        async with Amends.open(url(place), [desk.served()], recover=False) as amends:
            return await doing(amends)

    return asyncio.run(run())


async def try_again(amends: Amends) -> Result:
    """What fails in a way that may be tried again, under its own ids and key."""
    return await amends.execute(
        CHARGE, ORDER, transaction_id="txn_again", action_id="act_again", idempotency_key="key"
    )


def fill(place: Place) -> None:
    """Something in every state that matters to a restore: done, planned, unknown, reopenable."""

    async def doing(amends: Amends) -> None:
        await amends.execute(CHARGE, ORDER, transaction_id="txn_done", action_id="act_done")
        await amends.plan(CHARGE, ORDER, transaction_id="txn_plan")
        await amends.execute(CHARGE, ORDER, transaction_id="txn_lost", action_id="act_lost")
        await try_again(amends)
        await amends.execute(
            CHARGE,
            ORDER,
            transaction_id="txn_asks",
            action_id="act_asks",
            approval_required=True,
        )

    work(place, doing, DONE, UNSURE, NotApplied(error=LATER))


def change(path: Path, sql: str, *bindings: int | str | None) -> None:
    """Change the file behind the store's back."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    connection.execute(sql, bindings)
    assert connection.changes() or connection.total_changes()
    connection.close()
