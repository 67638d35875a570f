"""`amends approvals`: what waits for people; one request shows exactly what would run."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Options

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def approvals(
    approval: Annotated[str | None, Parameter(help="One request's id, to see all of it.")] = None,
    /,
    *,
    all: Annotated[Flag, Parameter(help="Also those that were decided on.")] = False,
    limit: Annotated[int, Parameter(help="How many at most, up to 200.")] = 20,
    after: Annotated[str | None, Parameter(help="Where the page before this one ended.")] = None,
    options: Options = DEFAULTS,
) -> int:
    """List the approval requests that wait: yours, and those that you may decide."""
    from amends.cli.inputs import optional_identifier
    from amends.cli.requests import list_requests, show_request
    from amends.cli.session import act

    id_ = optional_identifier(approval, "approval_id")

    async def work(session: "Session") -> "Answer":
        if id_ is not None:
            return await show_request(session, id_)
        return await list_requests(session, decided=all, limit=limit, after=after)

    return act(options, work, looks=True)
