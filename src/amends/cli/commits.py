"""Committing one plan: what it will do is shown, and an approval that was asked for is used.

Invariants: a commit that waits for an approval is gone on with under its own action id, since an
approval is bound to that action and a new one would have to ask again; where nothing can be claimed
any more nobody is asked.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from amends.cli.answers import Answer
from amends.cli.asking import Deed
from amends.cli.carrying import Carrying, carry_out
from amends.cli.paper import clean
from amends.cli.session import Session, new_action_id
from amends.cli.viewing import PLAN, TRANSACTION, find
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.codes import coded
from amends.contracts.documents import TransactionPlan
from amends.contracts.enums import Mode, WireStatus
from amends.contracts.errors import Refused
from amends.governance.approvals import OPEN
from amends.runtime.reading import View
from amends.stores.port import Stored

_CLAIMABLE: Final = frozenset({WireStatus.PLANNED, WireStatus.REQUIRES_HUMAN})


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit as it was typed; `input` may be unset."""

    plan_id: str
    input: object = msgspec.UNSET
    metadata: dict[str, str] = field(default_factory=dict)
    approval: bool = False
    action_id: str | None = None
    idempotency_key: str | None = None
    wait_s: float = 0.0
    yes: bool = False


async def commit_one(session: Session, wish: Commit) -> Answer:
    """Commit a plan. Raises `transaction.plan_not_found`, and what refuses the commit."""
    view, plan = await _planned(session, wish.plan_id)
    claimable = view.result.status in _CLAIMABLE
    waiting = await waiting_commit(session, plan) if claimable and not wish.action_id else None
    action_id = waiting.action_id if waiting else wish.action_id or new_action_id()
    if claimable:
        show_plan(session, plan)
    carrying = Carrying(
        deed=Deed.COMMIT,
        action_id=action_id,
        capability_id=plan.capability_id,
        input=wish.input,
        plan=plan,
        transaction_id=plan.transaction_id,
        wait_s=wish.wait_s,
        yes=wish.yes,
        moot=not claimable,
    )
    if waiting is not None:
        session.notes.field("goes on", f"{action_id}, whose approval is {waiting.status.value}")
        return await carry_out(
            session, carrying, lambda: session.amends.resume(action_id, wish.input)
        )
    return await carry_out(
        session,
        carrying,
        lambda: session.amends.commit(
            plan.plan_id,
            wish.input,
            action_id=action_id,
            idempotency_key=wish.idempotency_key,
            approval_required=wish.approval,
            metadata=wish.metadata,
        ),
    )


async def _planned(session: Session, id_: str) -> tuple[View, TransactionPlan]:
    try:
        view = await find(session.amends, id_, (PLAN, TRANSACTION))
    except Refused:
        raise coded("transaction.plan_not_found") from None
    if view.plan is None:
        raise coded("transaction.plan_not_found")
    return view, view.plan


async def waiting_commit(session: Session, plan: TransactionPlan) -> ApprovalRequest | None:
    """The caller's own request for this plan that is still open, the newest of them."""
    where = {"transaction_id": plan.transaction_id}
    page = await session.amends.approvals(where=where)
    now, me = datetime.now(UTC), session.caller.principal.ref
    requests = (item.document for item in page.items if isinstance(item, Stored))
    mine = (one for one in requests if one.requester == me and one.mode is Mode.COMMIT)
    return next((one for one in mine if one.status in OPEN and now < one.expires_at), None)


def show_plan(session: Session, plan: TransactionPlan) -> None:
    """Say exactly what a commit would carry out."""
    notes, values = session.notes, session.results.values
    notes.field("plan", clean(plan.plan_id))
    shown = values.show(plan.capability_id, plan.snapshot.input, plan)
    text = "[redacted]" if plan.snapshot.redacted else msgspec.json.encode(shown).decode()
    notes.field("input", clean(text))
    notes.field("planned by", clean(plan.requester.id), f"  expires {notes.time(plan.expires_at)}")
