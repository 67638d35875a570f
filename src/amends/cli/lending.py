"""Delegations on paper: whose word is lent to whom, how far, until when.

Deliberately not here: what a delegation lends, which is the engine's.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from amends.app.edges import seconds_of
from amends.cli.answers import Answer
from amends.cli.paper import Paper, clean
from amends.cli.session import Session
from amends.contracts.delegations import Delegation
from amends.contracts.enums import PrincipalKind
from amends.contracts.ids import PrincipalId
from amends.contracts.json_types import JsonObject
from amends.contracts.principals import PrincipalRef


async def lend(
    session: Session,
    to: tuple[str, str],
    *,
    hours: float,
    capabilities: Iterable[str],
    max_risk: str,
    on_behalf_of: str | None,
    reason: str,
) -> Answer:
    """Lend a word from now on. Raises the `delegation.*` codes."""
    span = timedelta(seconds=seconds_of(hours * 3600, "hours"))
    now = await session.engine.environment.store.now()
    made = await session.amends.delegate(
        PrincipalRef(PrincipalId(to[0]), PrincipalKind(to[1])),
        ends_at=now + span,
        capabilities=capabilities,
        max_risk=max_risk,
        reason=reason,
        on_behalf_of=on_behalf_of,
    )
    return _shown(made)


async def revoke_lent(session: Session, delegation_id: str, reason: str) -> Answer:
    """Take a delegation back. Raises the `delegation.*` codes."""
    return _shown(await session.amends.revoke_delegation(delegation_id, reason=reason))


async def list_lent(session: Session) -> Answer:
    """The delegations that the caller made or was given."""
    seen = await session.amends.delegations()
    data: JsonObject = {"items": [_document(one) for one in seen]}
    return Answer(data=data, tell=lambda paper: _tell_all(paper, seen))


def state_of(delegation: Delegation, now: datetime) -> str:
    """Where a delegation stands, in one word."""
    if delegation.revoked_at is not None:
        return "revoked"
    if now < delegation.starts_at:
        return "to come"
    return "lent" if now < delegation.ends_at else "ended"


def _shown(delegation: Delegation) -> Answer:
    return Answer(data=_document(delegation), tell=lambda paper: _tell(paper, delegation))


def _document(delegation: Delegation) -> JsonObject:
    document: JsonObject = msgspec.to_builtins(delegation)
    document["state"] = state_of(delegation, datetime.now(UTC))
    return document


def _tell(paper: Paper, delegation: Delegation) -> None:
    state = state_of(delegation, datetime.now(UTC))
    paper.line((clean(delegation.delegation_id), "bold"), "  ", (state, "magenta"))
    paper.field("word of", clean(delegation.delegator.id))
    paper.field("lent to", clean(f"{delegation.delegate.id} ({delegation.delegate.kind})"))
    paper.field(
        "for", clean(", ".join(delegation.capabilities)), f"  up to {delegation.max_risk} risk"
    )
    paper.field("ends", paper.time(delegation.ends_at))
    if delegation.reason:
        paper.field("because", clean(delegation.reason))
    if delegation.revoked_by is not None:
        said = f"{delegation.revoked_by.id}  {delegation.revocation}".rstrip()
        paper.field("revoked by", clean(said))


def _tell_all(paper: Paper, seen: tuple[Delegation, ...]) -> None:
    if not seen:
        paper.line("Nobody has lent a word to you, and you have lent yours to nobody.")
        return
    now = datetime.now(UTC)
    rows = [
        (
            clean(one.delegation_id),
            state_of(one, now),
            clean(one.delegator.id),
            clean(one.delegate.id),
            clean(", ".join(one.capabilities)),
            one.max_risk.value,
            paper.time(one.ends_at),
        )
        for one in seen
    ]
    paper.rows(rows, ("DELEGATION", "STATE", "WORD OF", "LENT TO", "FOR", "UP TO", "ENDS"))
