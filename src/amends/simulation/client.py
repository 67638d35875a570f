"""What every client of a small world does: ask an engine, and remember what was asked."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import PrincipalKind
from amends.contracts.ids import ActionId, PrincipalId
from amends.contracts.json_types import Json
from amends.contracts.principals import APPROVE_SCOPE, Caller, Principal
from amends.contracts.results import Result
from amends.runtime.engine import Engine
from amends.runtime.requests import Request
from amends.simulation.chronicle import TENANT
from amends.simulation.town import Town

Move: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Habits: TypeAlias = Mapping[Callable[[], Move | None], float]
"""Who may make which moves, and how often; a move that makes no sense now is None."""

ALICE: Final = Caller(
    principal=Principal(id=PrincipalId("alice"), tenant=TENANT, scopes=()), trusted=True
)
BOB: Final = Caller(
    principal=Principal(id=PrincipalId("bob"), tenant=TENANT, scopes=(APPROVE_SCOPE,))
)
OLGA: Final = Caller(
    principal=Principal(id=PrincipalId("olga"), tenant=TENANT, kind=PrincipalKind.OPERATOR)
)


class Client:
    """One way of being a client; all clients of a town share what it remembers."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.lot = town.lot

    async def send(self, request: Request) -> None:
        """Send it; now and then twice at once, or from a caller without patience."""
        drawn = self.lot.random()
        if drawn < 0.06:
            self.town.count("a request was sent twice")
            await asyncio.gather(self.perform(request), self.perform(request))
        elif drawn < 0.12:
            await self.perform(request, patience_s=self.lot.choice((0.0, 3.0, 11.0)))
        else:
            await self.perform(request)

    async def perform(self, request: Request, *, patience_s: float | None = None) -> Result | None:
        """Ask for it once; none where no answer came."""
        context, asker = request.action.transaction, request.caller.principal.id
        about = request.action.action_id or context.transaction_id
        who = f"{asker} {context.mode} {about}"
        call = partial(perform, request)
        return await self.town.ask(who, call, patience_s=patience_s)

    def records(self) -> list[TransactionRecord]:
        """Every record of the town."""
        return list(self.town.chronicle.documents(TransactionRecord))

    def action(self, action_id: ActionId | None) -> ActionDocument | None:
        """An action as it stands."""
        return self.town.chronicle.document(ActionDocument, action_id or "")

    def input_of(self, action_id: ActionId) -> Json:
        """What was asked under an action id, as its asker remembers it."""
        return next(
            (one.action.input for one in self.town.asked if one.action.action_id == action_id), None
        )


async def perform(request: Request, engine: Engine) -> Result:
    """Ask an engine for something."""
    return await engine.perform(request)
