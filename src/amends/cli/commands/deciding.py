"""`amends approve`, `deny` and `revoke`: what people say about a request, under their own names.

Approving never executes: the requester goes on with `amends commit` or `amends resume`. What is
approved cannot change under its id, so looking first (`amends approvals ID`) and deciding are two
commands; `--revision` holds a decision to the request as it was looked at.
"""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Options, Pairs
from amends.contracts.ids import DELEGATION_PREFIX

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

_ID: Final = Parameter(help="The request's id; see amends approvals.")
_ID_OF_EITHER: Final = Parameter(help="The request's id, or that of a delegation.")
_REASON: Final = Parameter(help="Why, for whoever reads it later.")
_REVISION: Final = Parameter(help="The request's revision that you have looked at.")
_UNDER: Final = Parameter(help="The delegation that lends you the word; see amends delegations.")


def approve(
    approval: Annotated[str, _ID],
    /,
    *,
    reason: Annotated[str, _REASON] = "",
    evidence: Annotated[Pairs, Parameter(help="NAME=TEXT, where the policy asks for it.")] = (),
    revision: Annotated[int | None, _REVISION] = None,
    under: Annotated[str | None, _UNDER] = None,
    options: Options = DEFAULTS,
) -> int:
    """Approve a request. Nothing runs by that: its requester goes on."""
    from amends.cli.inputs import identifier, optional_identifier, pairs
    from amends.cli.requests import shown
    from amends.cli.session import act

    id_, given = identifier(approval, "approval_id"), pairs(evidence, "--evidence")
    lent = optional_identifier(under, "delegation_id")

    async def work(session: "Session") -> "Answer":
        request = await session.amends.approve(
            id_, reason=reason, evidence=given, seen_revision=revision, under=lent
        )
        return shown(session, request)

    return act(options, work)


def deny(
    approval: Annotated[str, _ID],
    /,
    *,
    reason: Annotated[str, _REASON] = "",
    revision: Annotated[int | None, _REVISION] = None,
    under: Annotated[str | None, _UNDER] = None,
    options: Options = DEFAULTS,
) -> int:
    """Deny a request for good."""
    from amends.cli.inputs import identifier, optional_identifier
    from amends.cli.requests import shown
    from amends.cli.session import act

    id_ = identifier(approval, "approval_id")
    lent = optional_identifier(under, "delegation_id")

    async def work(session: "Session") -> "Answer":
        request = await session.amends.deny(id_, reason=reason, seen_revision=revision, under=lent)
        return shown(session, request)

    return act(options, work)


def revoke(
    approval: Annotated[str, _ID_OF_EITHER],
    /,
    *,
    reason: Annotated[str, _REASON] = "",
    revision: Annotated[int | None, _REVISION] = None,
    options: Options = DEFAULTS,
) -> int:
    """Take back an approval before it is used, or a delegation (del_...)."""
    from amends.cli.inputs import identifier
    from amends.cli.lending import revoke_lent
    from amends.cli.requests import shown
    from amends.cli.session import act

    id_ = identifier(approval, "approval_id")

    async def work(session: "Session") -> "Answer":
        if id_.startswith(DELEGATION_PREFIX):
            return await revoke_lent(session, id_, reason)
        request = await session.amends.revoke(id_, reason=reason, seen_revision=revision)
        return shown(session, request)

    return act(options, work)
