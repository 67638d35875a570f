"""The command `amends`: finds the command that was asked for and turns errors into exit codes.

Invariants: asking for help or the version loads no command and nothing of the engine; every error
ends here, in one line that names its code, or, where it is a fault of ours, in a traceback (CLI-2).

A command is a function in a module of its own, named in `_COMMANDS`; it may return an exit code.
"""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from cyclopts import App, CycloptsError

from amends.cli import exits
from amends.cli.output import JSON_FLAG, report
from amends.contracts.errors import AmendsError, Misuse, Unavailable

_HELP: Final = "Actions that cannot be taken back: planned, approved, done once, accounted for."


class _Command(NamedTuple):
    """Where a command lives, and what its help says; the list of commands shows the first line."""

    place: str
    help: str


_COMMANDS: Final[Mapping[str, _Command]] = MappingProxyType(
    {
        "demo": _Command(
            "amends.cli.demo.command:demo",
            "Watch one payment survive a crash, in about 20 seconds.\n\n"
            "It is planned, approved by a second person, interrupted by a kill -9, found again at "
            "the provider, and refunded once. The provider is a stateful fake of Stripe on this "
            "machine only. Nothing is left behind.",
        ),
    }
)


def main() -> NoReturn:
    """Run the command that the process was started with, and exit.

    A closed terminal and a request to terminate end it as Ctrl-C does: it cleans up first.
    """
    for ending in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, _leave)
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.PIPE_CLOSED
    sys.exit(code)


def run(tokens: Sequence[str]) -> int:
    """Run one command; its exit code. Every error has been reported by then.

    Raises `BrokenPipeError` when nobody reads standard output any more.
    """
    as_json = JSON_FLAG in tokens
    try:
        answer: object = _app()(
            tokens, print_error=False, exit_on_error=False, result_action="return_value"
        )
    except AmendsError as error:
        return report(error, as_json=as_json)
    except CycloptsError as error:
        return report(_usage(error), as_json=as_json)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        report(_interrupted(), as_json=as_json)
        return exits.INTERRUPTED
    except Exception:
        traceback.print_exc()
        report(_fault(), as_json=as_json)
        return exits.FAILED
    return answer if isinstance(answer, int) else exits.OK


def _leave(ending: int, _: object) -> NoReturn:
    sys.exit(exits.KILLED + ending)


def _app() -> App:
    app = App(name="amends", help=_HELP, version=_version, suppress_keyboard_interrupt=False)
    for name, command in _COMMANDS.items():
        app.command(command.place, name=name, help=command.help)
    return app


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("amends")
    except PackageNotFoundError:
        return "not installed"


def _usage(error: CycloptsError) -> AmendsError:
    return Misuse("cli.usage", str(error), next_step="See amends --help.")


def _interrupted() -> AmendsError:
    return Unavailable("cli.interrupted", "Interrupted.", next_step="Run the command again.")


def _fault() -> AmendsError:
    return Misuse(
        "cli.fault",
        "The command broke; this is a fault of ours.",
        next_step="Report it with the traceback above.",
    )
