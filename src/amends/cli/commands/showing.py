"""`amends tx show`: one transaction, by any of its ids, or why a request was refused."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Options

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.paper import Paper
    from amends.cli.session import Session

Kind: TypeAlias = Literal["transaction", "plan", "action"]


def show(
    id: Annotated[str, Parameter(help="A transaction's, plan's or action's id.")],
    /,
    *,
    by: Annotated[Kind | None, Parameter(help="What the id is of; all are tried.")] = None,
    result: Annotated[Flag, Parameter(help="With its output.")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Show one transaction: its timeline, what is known, and why it was refused."""
    from amends.cli.inputs import identifier
    from amends.cli.session import act
    from amends.cli.viewing import ANY_KIND, find, viewed
    from amends.contracts.errors import Refused

    id_, kinds = identifier(id, "id"), ANY_KIND if by is None else (by,)

    async def work(session: "Session") -> "Answer":
        try:
            view = await find(
                session.amends, id_, kinds, include_result=result, include_receipts=True
            )
        except Refused:
            return await _refused(session, id_)
        return viewed(session.results, view)

    return act(options, work, looks=True)


async def _refused(session: "Session", action_id: str) -> "Answer":
    """The requests under an action id that were refused before anything was accepted."""
    from amends.cli.answers import Answer
    from amends.cli.viewing import refusal_document, tell_refusal
    from amends.contracts.codes import coded

    refusals = await session.amends.refusals(action_id)
    if not refusals:
        raise coded("transaction.not_found")

    def tell(paper: "Paper") -> None:
        for refusal in refusals:
            tell_refusal(paper, refusal)

    return Answer(data={"refusals": [refusal_document(one) for one in refusals]}, tell=tell)
