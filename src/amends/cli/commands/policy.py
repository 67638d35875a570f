"""`amends policy`: files of rules. Its commands are loaded when they are asked for."""

from typing import Final

from cyclopts import App

HELP: Final = "Check a file of rules, and explain what rules decide."


def _policy() -> App:
    app = App(name="policy", help=HELP)
    app.command("amends.cli.commands.ruling:check", name="check", help=_CHECK)
    app.command("amends.cli.commands.ruling:explain", name="explain", help=_EXPLAIN)
    return app


_CHECK: Final = (
    "Check a file of rules: every fault, and what is odd.\n\n"
    "A fault makes the file unusable (exit code 2). What is odd is told, with exit code 1: rules "
    "that never decide, and with --app, capabilities that there are not or that nobody may use."
)
_EXPLAIN: Final = (
    "Explain which rule decides, and why the others do not.\n\n"
    "Of a stored action, what was decided then is shown as well. Without one, say what to suppose: "
    "--capability, --mode, --input, and --as for who acts."
)
policy: Final = _policy()
"""The app that the command line hangs in."""
