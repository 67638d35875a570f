"""`amends notify`: telling people about approvals, once or until it is stopped."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amends.cli.options import DEFAULTS, Flag, Options

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session


def notify(
    *,
    log: Annotated[Flag, Parameter(help="Write notices to standard error, as JSON.")] = False,
    command: Annotated[
        str | None,
        Parameter(help="A program that is given each notice as JSON on standard input."),
    ] = None,
    webhook: Annotated[str | None, Parameter(help="A URL that each notice is posted to.")] = None,
    link: Annotated[
        str,
        Parameter(
            env_var="AMENDS_APPROVAL_LINK",
            help="Where one decides, as in https://desk.example/approvals/{approval_id}",
        ),
    ] = "",
    follow: Annotated[Flag, Parameter(help="Go on until stopped.")] = False,
    options: Options = DEFAULTS,
) -> int:
    """Tell people about approvals that wait and decisions that were made.

    Without a channel here, those of --settings are used.
    """
    from amends.cli.notifying import Wish, channels_of, tell
    from amends.cli.session import act

    wish = Wish(channels=channels_of(log, command, webhook), link=link, follow=follow)

    async def work(session: "Session") -> "Answer":
        return await tell(session, wish)

    return act(options, work)
