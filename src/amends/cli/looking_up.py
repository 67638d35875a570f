"""Looking up what became of an effect, and waiting until that can be done.

Invariants: a wait only reads; the provider is asked once, when the record says that it may be. A
lease that has run out is first written down as an unknown outcome, as everywhere.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from amends.cli.answers import Answer
from amends.cli.paper import Paper
from amends.cli.results import FLYING, Wanted
from amends.cli.session import Session
from amends.cli.viewing import find, lease_end_of
from amends.cli.waiting import shown_wait
from amends.contracts.codes import coded
from amends.contracts.enums import WireStatus
from amends.contracts.errors import OutcomeUnknown
from amends.contracts.ids import ProviderOperationId
from amends.contracts.json_types import JsonObject
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.times import format_instant
from amends.recovery.sweeper import Sweeper, Swept
from amends.runtime.reading import View

_POLL_S: Final = 0.25


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """One look-up as it was typed; `input` may be unset."""

    id: str
    wait_s: float
    insist: bool
    provider: str | None
    operation_id: str | None
    cursor: str | None
    input: object

    @property
    def operation(self) -> ProviderOperation | None:
        """The reference that an operator supplies, if one was given."""
        if self.provider is None or self.operation_id is None:
            return None
        return ProviderOperation(self.provider, ProviderOperationId(self.operation_id))


async def look_up(session: Session, wish: LookUp) -> Answer:
    """Ask the provider about one transaction, waiting first if told to.

    Raises `transaction.in_progress` while an attempt owns the record, and what refuses a look-up.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wish.wait_s
    view = await _when_free(session, wish, deadline)
    if view.result.status in FLYING:
        view = await _written_down(session, wish, view)
    view = await _when_due(session, wish, view, deadline)
    result = view.result
    capability = session.capability(result.capability_id)
    supplied = None if isinstance(wish.input, msgspec.UnsetType) else wish.input
    asked = session.amends.reconcile(
        result.transaction_id,
        input=supplied,
        insist=wish.insist,
        provider_operation=wish.operation,
        cursor=wish.cursor,
    )
    found = await session.carry(
        asked,
        {"transaction_id": result.transaction_id},
        at_most_ms=capability.service_level.timeout_ms,
    )
    return session.results.answer(found, Wanted.CERTAINTY, view.plan)


async def _when_free(session: Session, wish: LookUp, deadline: float) -> View:
    """The transaction, once no attempt owns it any more or its lease has run out."""
    view = await find(session.amends, wish.id)
    while (lease_end := lease_end_of(view)) is not None and lease_end > datetime.now(UTC):
        if not await _wait(session, deadline, "Waiting for the lease to end"):
            where = {"transaction_id": view.result.transaction_id}
            raise coded("transaction.in_progress", where | {"until": format_instant(lease_end)})
        view = await find(session.amends, wish.id)
    return view


async def _written_down(session: Session, wish: LookUp, view: View) -> View:
    """The same, once its lapsed lease is written down as an unknown outcome."""
    try:
        await session.amends.reconcile(view.result.transaction_id)
    except OutcomeUnknown:
        if wish.wait_s <= 0:
            raise
    return await find(session.amends, wish.id)


async def _when_due(session: Session, wish: LookUp, view: View, deadline: float) -> View:
    """The same, once a look-up is due; the engine says no to one that is not."""
    while not wish.insist and _is_early(view):
        if not await _wait(session, deadline, "Waiting until the look-up is due"):
            break
        view = await find(session.amends, wish.id)
    return view


def _is_early(view: View) -> bool:
    due = view.result.reconcile_after
    unknown = view.result.status is WireStatus.OUTCOME_UNKNOWN
    return unknown and due is not None and datetime.now(UTC) < due


async def _wait(session: Session, deadline: float, sentence: str) -> bool:
    """Pause for a moment; false when the time is over. A signal ends it: nothing was asked."""
    left = deadline - asyncio.get_running_loop().time()
    if left <= 0:
        return False
    async with shown_wait(sentence, left):
        await session.pause(min(_POLL_S, left))
    session.stop.check()
    return True


async def one_round(session: Session) -> Answer:
    """One round over everything that is due in the store, for all tenants."""
    swept = await session.carry(Sweeper(session.engine).sweep(), {}, at_most_ms=_ROUND_MS)
    data: JsonObject = msgspec.to_builtins(swept)
    return Answer(data=data, tell=lambda paper: _tell(paper, swept))


_ROUND_MS: Final = 60_000


def _tell(paper: Paper, swept: Swept) -> None:
    paper.line(f"Looked after {swept.total}.")
    for name, count in msgspec.structs.asdict(swept).items():
        if count:
            paper.field(name.replace("_", " "), str(count))
