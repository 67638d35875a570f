"""`amends reconcile`: finding out what became of an effect, now or of everything that is due.

No other command recovers anything, but for `amends tx watch --recover`: a short-lived process that
did would begin look-ups that it cannot wait for.
"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Input, Options
from amends.contracts.errors import Misuse

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def reconcile(
    transaction: Annotated[
        str | None, Parameter(help="The transaction's id, or one of its plan or actions.")
    ] = None,
    /,
    *,
    due: Annotated[Flag, Parameter(help="One round over everything that is due.")] = False,
    wait: Annotated[
        float, Parameter(help="Wait this many seconds for a lease to end or a look-up to be due.")
    ] = 0.0,
    insist: Annotated[Flag, Parameter(help="Ask before it is due; operators only.")] = False,
    provider: Annotated[
        str | None, Parameter(help="Where the reference below comes from; operators only.")
    ] = None,
    operation_id: Annotated[
        str | None, Parameter(help="The provider's own id of the effect; operators only.")
    ] = None,
    cursor: Annotated[str | None, Parameter(help="Where to go on looking.")] = None,
    input: Input = None,
    options: Options = DEFAULTS,
) -> int:
    """Ask the provider what became of an unknown outcome. Nothing is repeated blindly."""
    from amends.cli.inputs import identifier, read_input
    from amends.cli.looking_up import LookUp, look_up, one_round
    from amends.cli.session import act

    if due == (transaction is not None) or (provider is None) != (operation_id is None):
        raise _usage()
    if transaction is None:
        return act(options, one_round, needs_app=True)
    wish = LookUp(
        id=identifier(transaction, "transaction_id"),
        wait_s=wait,
        insist=insist,
        provider=provider,
        operation_id=operation_id,
        cursor=cursor,
        input=read_input(input),
    )

    async def work(session: "Session") -> "Answer":
        return await look_up(session, wish)

    return act(options, work, needs_app=True)


def _usage() -> Misuse:
    return Misuse(
        "cli.usage",
        "One transaction is named, or --due is given; --provider goes with --operation-id.",
        next_step="See amends reconcile --help.",
    )
