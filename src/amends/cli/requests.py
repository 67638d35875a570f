"""Approval requests on paper: what would run, who asks, who has to agree, until when.

Deliberately not here: deciding, which is the engine's.
"""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

import msgspec
from rich.text import Text

from amends.cli.answers import Answer
from amends.cli.paper import Paper, clean
from amends.cli.session import Session
from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ApprovalRule,
    ByGroup,
    ByPrincipal,
    ByRole,
    ByTenantPolicy,
    Quorum,
)
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.delegations import Delegation
from amends.contracts.json_types import Json, JsonObject
from amends.governance.approvals import OPEN, may_decide
from amends.stores.port import Page, Stored, Unreadable

Lent: TypeAlias = tuple[Delegation, ...]


async def list_requests(
    session: Session, *, decided: bool, limit: int, after: str | None
) -> Answer:
    """A page of requests that the caller asked for or may decide."""
    where = {} if decided else {"status": ApprovalStatus.PENDING.value}
    page = await session.amends.approvals(where=where, after=after, limit=limit)
    lent = await _lent(session)
    items: list[Json] = [_item(session, one, lent) for one in page.items]
    data: JsonObject = {"items": items, "next": page.next}
    return Answer(data=data, tell=lambda paper: _tell_page(session, paper, page, lent))


async def show_request(session: Session, approval_id: str) -> Answer:
    """One request, all of it. Raises `Refused` (`approval.not_found`)."""
    request = await session.amends.approval(approval_id)
    return shown(session, request, await _lent(session))


def shown(session: Session, request: ApprovalRequest, lent: Lent = ()) -> Answer:
    """The answer that shows a request as it stands now, and which delegations may be used on it."""
    usable = _usable(session, request, lent)
    return Answer(
        data=_document(session, request, usable),
        tell=lambda paper: _tell(session, paper, request, usable),
    )


async def _lent(session: Session) -> Lent:
    """What was lent to the caller and is not revoked."""
    seen = await session.amends.delegations()
    me = session.caller.principal.ref
    return tuple(one for one in seen if one.delegate == me and one.revoked_at is None)


def _usable(session: Session, request: ApprovalRequest, lent: Lent) -> Lent:
    return tuple(one for one in lent if _may(session, request, one))


def _may(session: Session, request: ApprovalRequest, lent: Delegation | None = None) -> bool:
    """Whether the caller may decide now, by the own word or a lent one."""
    caller, now = session.caller, datetime.now(UTC)
    return may_decide(request, caller.principal, now, identity=caller.identity, delegation=lent)


def state(request: ApprovalRequest, now: datetime) -> str:
    """Where a request stands; one whose time is over has expired, whoever writes that down."""
    is_over = request.status in OPEN and now >= request.expires_at
    return ApprovalStatus.EXPIRED.value if is_over else request.status.value


def rule_words(rule: ApprovalRule) -> str:
    """Who has to agree, in words."""
    match rule:
        case ByPrincipal(ids):
            return " or ".join(ids)
        case ByRole(role):
            return f"role {role}"
        case ByGroup(group):
            return f"group {group}"
        case ByTenantPolicy():
            return "an approver of the tenant"
        case AllOf(rules):
            return "(" + " and ".join(map(rule_words, rules)) + ")"
        case AnyOf(rules):
            return "(" + " or ".join(map(rule_words, rules)) + ")"
        case Quorum(n, of):
            return f"{n} of {rule_words(of)}"
        case _:
            assert_never(rule)


def _document(session: Session, request: ApprovalRequest, usable: Lent) -> JsonObject:
    now = datetime.now(UTC)
    document: JsonObject = msgspec.to_builtins(request)
    document["input"] = session.results.values.show(request.capability_id, request.input)
    document["state"] = state(request, now)
    document["you_may_decide"] = _may(session, request)
    document["you_may_decide_under"] = [one.delegation_id for one in usable]
    return document


def _item(session: Session, item: Stored[ApprovalRequest] | Unreadable, lent: Lent) -> JsonObject:
    if isinstance(item, Unreadable):
        return {"approval_id": item.id, "unreadable": item.reason}
    request = item.document
    return _document(session, request, _usable(session, request, lent))


def _tell_page(session: Session, paper: Paper, page: Page[ApprovalRequest], lent: Lent) -> None:
    if not page.items:
        paper.line("Nothing waits for an approval.")
        return
    header = ("APPROVAL", "STATE", "RISK", "FROM", "CAPABILITY", "EXPIRES")
    paper.rows([_row(session, paper, one, lent) for one in page.items], header)
    if page.next is not None:
        again = session.options.again()
        paper.line((f"More: amends approvals --after {page.next} {again}".rstrip(), "dim"))


def _row(
    session: Session, paper: Paper, item: Stored[ApprovalRequest] | Unreadable, lent: Lent
) -> tuple[str | Text, ...]:
    if isinstance(item, Unreadable):
        return clean(item.id), "unreadable", "-", "-", clean(item.reason), "-"
    request, now = item.document, datetime.now(UTC)
    own = _may(session, request)
    waits_for_you = own or _usable(session, request, lent)
    where = Text("decide", "bold magenta") if waits_for_you else Text(state(request, now))
    return (
        clean(request.approval_id),
        where,
        request.risk.value,
        clean(request.requester.id),
        clean(request.capability_id),
        paper.time(request.expires_at),
    )


def _tell(session: Session, paper: Paper, request: ApprovalRequest, usable: Lent) -> None:
    now = datetime.now(UTC)
    paper.line((clean(request.approval_id), "bold"), "  ", (state(request, now), "magenta"))
    paper.line(_words(request, now))
    paper.field(
        "capability", clean(request.capability_id), f"  {request.mode}; {request.risk} risk"
    )
    shown = session.results.values.show(request.capability_id, request.input)
    redacted = f"[redacted] hash {request.input_hash}"
    text = redacted if request.input is None else msgspec.json.encode(shown).decode()
    paper.field("input", clean(text))
    paper.field("asked by", clean(f"{request.requester.id} ({request.requester.kind})"))
    _tell_bound(paper, request)
    _tell_decisions(paper, request)
    _tell_commands(session, paper, request, usable)


def _tell_bound(paper: Paper, request: ApprovalRequest) -> None:
    """What the approval holds for, and nothing else."""
    identity = request.identity
    if identity is not None and identity.external_account is not None:
        paper.field("account", clean(identity.external_account))
    if request.plan_id is not None:
        paper.field("plan", clean(request.plan_id))
    if request.compensation_for is not None:
        paper.field("offsets", clean(request.compensation_for))
    paper.field("action", clean(request.action_id))
    paper.field("needs", clean(rule_words(request.policy.rule)))
    if request.policy.reason:
        paper.field("because", clean(request.policy.reason))
    if request.policy.evidence:
        paper.field("evidence", clean(", ".join(request.policy.evidence)))
    paper.field("expires", f"{paper.time(request.expires_at)}  revision {request.revision}")


def _tell_decisions(paper: Paper, request: ApprovalRequest) -> None:
    if request.decisions:
        paper.heading("Decisions")
    for one in request.decisions:
        lent = "" if one.under is None else f" by the word of {one.under.delegator.id}"
        said = clean(f"{one.approver.id}{lent} {one.answer}  {one.reason}").rstrip()
        paper.line(f"  {paper.time(one.at)}  ", said)


def _tell_commands(session: Session, paper: Paper, request: ApprovalRequest, usable: Lent) -> None:
    again, id_, now = session.options.again(), request.approval_id, datetime.now(UTC)
    bring = "".join(f" --evidence {shlex.quote(one)}=TEXT" for one in request.policy.evidence)
    commands = []
    if _may(session, request):
        commands += [f"amends approve {id_}{bring} {again}", f"amends deny {id_} {again}"]
    for one in usable:
        commands.append(f"amends approve {id_} --under {one.delegation_id}{bring} {again}")
    mine = request.requester == session.caller.principal.ref
    if mine and state(request, now) == ApprovalStatus.APPROVED:
        commands.append(f"amends resume {request.action_id} {again}")
    if commands:
        paper.heading("Next")
    for command in commands:
        paper.line(f"  {command}".rstrip())


def _words(request: ApprovalRequest, now: datetime) -> str:
    return _WORDS[ApprovalStatus(state(request, now))]


_WORDS: Final[Mapping[ApprovalStatus, str]] = MappingProxyType(
    {
        ApprovalStatus.PENDING: "It waits. Nothing runs before it is approved.",
        ApprovalStatus.APPROVED: "It is approved. It runs when its requester goes on.",
        ApprovalStatus.DENIED: "It is denied for good.",
        ApprovalStatus.EXPIRED: "Its time is over, and it was not used.",
        ApprovalStatus.REVOKED: "The approval was taken back.",
        ApprovalStatus.WITHDRAWN: "Its requester has taken it back.",
        ApprovalStatus.CONSUMED: "The approval was used.",
    }
)
