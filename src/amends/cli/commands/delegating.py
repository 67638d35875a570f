"""`amends delegate` and `amends delegations`: lending one's word in approvals, and who has."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Options

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def delegate(
    to: Annotated[str, Parameter(help="The principal that is lent your word.")],
    /,
    *,
    hours: Annotated[float, Parameter(help="For how long, from now on.")] = 24.0,
    capability: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Only for these; * stands for anything, as in payments.*"),
    ] = ("*",),
    max_risk: Annotated[
        Literal["low", "medium", "high", "critical"],
        Parameter(help="Only for requests of at most this risk."),
    ] = "critical",
    kind: Annotated[
        Literal["user", "service", "agent", "operator"],
        Parameter(help="The kind of principal that it is."),
    ] = "user",
    on_behalf_of: Annotated[
        str | None, Parameter(help="Whose word is lent, where an operator does it (a user's id).")
    ] = None,
    reason: Annotated[str, Parameter(help="Why, for whoever reads it later.")] = "",
    options: Options = DEFAULTS,
) -> int:
    """Lend your word in approvals to somebody, for a while."""
    from amends.cli.inputs import identifier, optional_identifier
    from amends.cli.lending import lend
    from amends.cli.session import act

    id_ = identifier(to, "principal_id")
    absent = optional_identifier(on_behalf_of, "principal_id")

    async def work(session: "Session") -> "Answer":
        return await lend(
            session,
            (id_, kind),
            hours=hours,
            capabilities=capability,
            max_risk=max_risk,
            on_behalf_of=absent,
            reason=reason,
        )

    return act(options, work)


def delegations(*, options: Options = DEFAULTS) -> int:
    """List the delegations that you made or were given; an operator sees all."""
    from amends.cli.lending import list_lent
    from amends.cli.session import act

    async def work(session: "Session") -> "Answer":
        return await list_lent(session)

    return act(options, work)
