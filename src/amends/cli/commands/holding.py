"""`amends hold`: keeping a transaction for the law, and letting it go again."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from amends.cli.options import DEFAULTS, Flag, Options, Yes

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

_TRANSACTION: Final = Parameter(help="The transaction's id, or one of its plan or actions.")
HELP: Final = "Keep a transaction for the law (operators): place, lift, list."


def place(
    transaction: Annotated[str, _TRANSACTION],
    /,
    *,
    reason: Annotated[str, Parameter(help="Which matter it is for.")],
    options: Options = DEFAULTS,
) -> int:
    """Place a hold: nothing of the transaction is forgotten until it is lifted."""
    from amends.cli.holds import place_hold
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(transaction, "transaction_id")

    async def work(session: "Session") -> "Answer":
        return await place_hold(session, id_, reason)

    return act(options, work)


def lift(
    transaction: Annotated[str, _TRANSACTION],
    /,
    *,
    reason: Annotated[str, Parameter(help="Why it need not be kept any more.")],
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Lift a hold. What was due meanwhile goes with the next retention run."""
    from amends.cli.holds import lift_hold
    from amends.cli.inputs import identifier
    from amends.cli.session import act

    id_ = identifier(transaction, "transaction_id")

    async def work(session: "Session") -> "Answer":
        return await lift_hold(session, id_, reason, yes=yes)

    return act(options, work)


def list_holds(
    *,
    all: Annotated[Flag, Parameter(help="Also those that were lifted.")] = False,
    after: Annotated[str | None, Parameter(help="Where the page before this one ended.")] = None,
    options: Options = DEFAULTS,
) -> int:
    """List the holds, newest first."""
    from amends.cli.holds import list_holds as listed
    from amends.cli.session import act

    async def work(session: "Session") -> "Answer":
        return await listed(session, lifted=all, after=after)

    return act(options, work)


def _hold() -> App:
    app = App(name="hold", help=HELP)
    app.command(place, name="place")
    app.command(lift, name="lift")
    app.command(list_holds, name="list")
    return app


hold: Final = _hold()
