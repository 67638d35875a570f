"""`amends tx`: looking at transactions. Its commands are loaded when they are asked for."""

from typing import Final

from cyclopts import App

HELP: Final = "Look at transactions: list, show, watch."


def _tx() -> App:
    app = App(name="tx", help=HELP)
    app.command("amends.cli.commands.listing:list_transactions", name="list", help=_LIST)
    app.command("amends.cli.commands.showing:show", name="show", help=_SHOW)
    app.command("amends.cli.commands.watching:watch", name="watch", help=_WATCH)
    return app


_LIST: Final = "List transactions, newest first."
_SHOW: Final = "Show one transaction: its timeline, what is known, and why it was refused."
_WATCH: Final = (
    "Follow one transaction until it has ended.\n\n"
    "Nothing is recovered by watching, unless --recover is given: then this process looks after "
    "everything that is due in the store meanwhile, as a running service would."
)
tx: Final = _tx()
