"""What the commands about keeping and forgetting do, and what they answer.

Invariants: whoever may not do it hears so before being asked; what cannot be had back is asked
about, a hold never.
"""

import msgspec

from amends.cli.answers import Answer
from amends.cli.asking import Deed, confirm
from amends.cli.by_hand import show
from amends.cli.paper import Paper, clean
from amends.cli.session import Session
from amends.cli.viewing import find
from amends.contracts.codes import coded
from amends.contracts.documents import LegalHold
from amends.contracts.ids import TransactionId
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.principals import HOLD_SCOPE, RETAIN_SCOPE
from amends.recovery.retaining import Retained
from amends.stores.port import Stored, Unreadable
from amends.wiring.compacting import compact_store, left_on_server


async def place_hold(session: Session, id_: str, reason: str) -> Answer:
    """Hold a transaction; nothing is taken from anybody, so nobody is asked."""
    found = await _found(session, id_)
    return _held(await session.amends.place_hold(found, reason=reason))


async def lift_hold(session: Session, id_: str, reason: str, *, yes: bool) -> Answer:
    """End a hold."""
    found = await _found(session, id_, tell=True)
    confirm(Deed.LIFT, session.stop, session.notes, yes=yes)
    return _held(await session.amends.lift_hold(found, reason=reason))


async def list_holds(session: Session, *, lifted: bool, after: str | None) -> Answer:
    """A page of holds."""
    page = await session.amends.holds(lifted=lifted, after=after)
    items: list[Json] = [_item(one) for one in page.items]

    def tell(paper: Paper) -> None:
        if not page.items:
            paper.line("Nothing is held.")
            return
        for one in page.items:
            if isinstance(one, Unreadable):
                paper.line(clean(one.id), "  ", ("unreadable", "red"))
            else:
                _tell(paper, one.document)
        if page.next is not None:
            again = session.options.again()
            paper.line((f"More: amends hold list --after {page.next} {again}".rstrip(), "dim"))

    return Answer(data={"items": items, "next": page.next}, tell=tell)


async def run_retention(session: Session, *, dry_run: bool, compact: bool, yes: bool) -> Answer:
    """Forget what is due, then remove the old bytes from the store's file."""
    if not session.caller.principal.may(RETAIN_SCOPE):
        raise coded("retention.not_allowed")
    if not dry_run:
        confirm(Deed.FORGET, session.stop, session.notes, yes=yes)
    done = await session.amends.retain(dry_run=dry_run)
    compacted = not dry_run and compact and compact_store(session.options.store)
    left = None if dry_run else left_on_server(session.options.store)
    data: JsonObject = msgspec.to_builtins(done) | {"compacted": compacted, "left": left}
    return Answer(data=data, tell=lambda paper: _tell_retained(paper, done, compacted, left))


async def _found(session: Session, id_: str, *, tell: bool = False) -> TransactionId:
    if not session.caller.principal.may(HOLD_SCOPE):
        raise coded("hold.not_allowed")
    view = await find(session.amends, id_)
    if tell:
        show(session, view)
    return view.result.transaction_id


def _held(hold: LegalHold) -> Answer:
    data: JsonObject = msgspec.to_builtins(hold)
    return Answer(data=data, tell=lambda paper: _tell(paper, hold))


def _item(one: Stored[LegalHold] | Unreadable) -> JsonObject:
    if isinstance(one, Unreadable):
        return {"transaction_id": one.id, "unreadable": one.reason}
    document: JsonObject = msgspec.to_builtins(one.document)
    return document


def _tell(paper: Paper, hold: LegalHold) -> None:
    said = ("held", "yellow") if hold.placed else ("lifted", "dim")
    paper.line((clean(hold.transaction_id), "bold"), "  ", said)
    paper.field("reason", clean(hold.reason))
    paper.field("by", clean(hold.by.id), f" at {paper.time(hold.at)}")


def _tell_retained(paper: Paper, done: Retained, compacted: bool, left: str | None) -> None:
    would = "would be forgotten" if done.dry_run else "forgotten"
    paper.line(f"Transactions {would}: {len(done.forgotten)}, refused requests: {done.refusals}.")
    for id_ in done.forgotten if done.dry_run else ():
        paper.line("  ", clean(id_))
    for one in done.kept:
        paper.line("  kept  ", clean(one.transaction_id), f": {one.text}")
    if compacted:
        paper.line(("The file was written anew: the old bytes are gone from it.", "dim"))
    if left is not None:
        paper.line((left, "dim"))
