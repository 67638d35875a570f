"""What people take into their own hands: ruling, releasing, cancelling, withdrawing.

Invariants: whoever may not do it hears so before being asked; what is ruled on is the record as it
was shown, by its revision.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from amends.cli.answers import Answer
from amends.cli.asking import Deed, confirm
from amends.cli.paper import Paper, clean
from amends.cli.results import Wanted
from amends.cli.session import Session
from amends.cli.viewing import ACTION, PLAN, TRANSACTION, find
from amends.contracts.codes import coded
from amends.contracts.enums import Verdict
from amends.contracts.json_types import JsonObject
from amends.contracts.principals import RELEASE_SCOPE, SETTLE_SCOPE
from amends.runtime.reading import View


async def rule_on(
    session: Session,
    id_: str,
    verdict: str,
    *,
    reference: str,
    note: str,
    accept_risk: bool,
    revision: int | None,
    yes: bool,
) -> Answer:
    """Settle an unknown outcome by hand, as it was shown."""
    view = await _with_power(session, SETTLE_SCOPE, id_)
    show(session, view)
    confirm(Deed.SETTLE, session.stop, session.notes, yes=yes)
    result = await session.amends.settle(
        view.result.transaction_id,
        Verdict(verdict),
        reference=reference,
        note=note,
        accept_risk=accept_risk,
        seen_revision=view.result.revision if revision is None else revision,
    )
    return session.results.answer(result, Wanted.CERTAINTY, view.plan)


async def rule_on_correction(
    session: Session, correction_id: str, ruling: str, *, allow_compensation: bool, yes: bool
) -> Answer:
    """Rule on evidence that contradicts a record; the record stays as it is."""
    if not session.caller.principal.may(SETTLE_SCOPE):
        raise coded("correction.ruling_not_allowed")
    confirm(Deed.RULE, session.stop, session.notes, yes=yes)
    ruled = await session.amends.rule(correction_id, ruling, allow_compensation=allow_compensation)
    data: JsonObject = msgspec.to_builtins(ruled)

    def tell(paper: Paper) -> None:
        paper.line((clean(ruled.correction_id), "bold"), "  ", "It is ruled on.")
        paper.field("transaction", clean(ruled.transaction_id))
        paper.field("ruling", clean(ruled.ruling or ""))

    return Answer(data=data, tell=tell)


async def let_go(session: Session, id_: str, *, yes: bool) -> Answer:
    """Release a frozen transaction."""
    view = await _with_power(session, RELEASE_SCOPE, id_)
    show(session, view)
    confirm(Deed.RELEASE, session.stop, session.notes, yes=yes)
    result = await session.amends.release(view.result.transaction_id)
    return session.results.answer(result, Wanted.ANYTHING, view.plan)


async def cancel(session: Session, id_: str, *, reason: str, yes: bool) -> Answer:
    """Cancel an action before its claim, or ask its connector to stop."""
    view = await find(session.amends, id_, (ACTION, TRANSACTION))
    show(session, view)
    confirm(Deed.CANCEL, session.stop, session.notes, yes=yes)
    result = await session.amends.cancel(view.result.action_id, reason=reason)
    return session.results.answer(result, Wanted.CANCELLATION, view.plan)


async def withdraw(session: Session, id_: str, *, yes: bool) -> Answer:
    """Withdraw a plan that waits."""
    view = await find(session.amends, id_, (PLAN, TRANSACTION, ACTION))
    show(session, view)
    confirm(Deed.WITHDRAW, session.stop, session.notes, yes=yes)
    result = await session.amends.withdraw(view.result.transaction_id)
    return session.results.answer(result, Wanted.CANCELLATION, view.plan)


_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        SETTLE_SCOPE: "transaction.settle_not_allowed",
        RELEASE_SCOPE: "transaction.release_not_allowed",
    }
)


async def _with_power(session: Session, power: str, id_: str) -> View:
    if not session.caller.principal.may(power):
        raise coded(_REFUSED[power])
    return await find(session.amends, id_)


def show(session: Session, view: View) -> None:
    """Say what it is about, before anybody says yes to it."""
    session.results.brief(session.notes, view.result)
