"""`amends retention`: forgetting what was kept for as long as its capability declares."""

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from amends.cli.options import DEFAULTS, Flag, Options, Yes

if TYPE_CHECKING:
    from amends.cli.answers import Answer
    from amends.cli.session import Session

HELP: Final = "Forget what was kept long enough (operators)."


def run(
    *,
    dry_run: Annotated[Flag, Parameter(help="Only say what would be done.")] = False,
    no_compact: Annotated[
        Flag, Parameter(help="Leave the old bytes in the file until another run.")
    ] = False,
    yes: Yes = False,
    options: Options = DEFAULTS,
) -> int:
    """Forget what is due, of every capability of the app, and compact the file.

    Statuses, verdicts, ids, hashes, times and receipts stay. What may still be needed, or is held,
    is kept, and the answer says why.
    """
    from amends.cli.holds import run_retention
    from amends.cli.session import act

    async def work(session: "Session") -> "Answer":
        return await run_retention(session, dry_run=dry_run, compact=not no_compact, yes=yes)

    return act(options, work, needs_app=True)


def _retention() -> App:
    app = App(name="retention", help=HELP)
    app.command(run, name="run")
    return app


retention: Final = _retention()
