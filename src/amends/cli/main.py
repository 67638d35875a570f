"""The command `amends`: finds the command that was asked for and turns errors into exit codes.

Invariants: asking for help or the version loads no command and nothing of the engine; every error
ends here, in one line that names its code, or, where it is a fault of ours, in a traceback (CLI-2).

A command is a function in a module of its own, named in `_COMMANDS`; it may return an exit code.
"""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from cyclopts import App, CycloptsError

from amends.cli import exits
from amends.cli.helping import HelpConsole
from amends.cli.leaving import leave
from amends.cli.output import JSON_FLAG, report, silence, unwritten
from amends.contracts.errors import AmendsError, Misuse, Unavailable

_HELP: Final = "Actions that cannot be taken back: planned, approved, done once, accounted for."


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What writing to a stream ends with, where no file has a name: what others write is coded."""


class _Command(NamedTuple):
    """Where a command lives, and what its help says; the list of commands shows the first line."""

    place: str
    help: str


_COMMANDS: Final[Mapping[str, _Command]] = MappingProxyType(
    {
        "demo": _Command(
            "amends.cli.demo.command:demo",
            "Watch one payment survive a crash, in 20 seconds.\n\n"
            "It is planned, approved by a second person, interrupted by a kill -9, found again at "
            "the provider, and refunded once. The provider is a stateful fake of Stripe on this "
            "machine only. Nothing is left behind.",
        ),
        "tx": _Command(
            "amends.cli.commands.tx:tx",
            "Look at transactions: list, show, watch.",
        ),
        "plan": _Command(
            "amends.cli.commands.planning:plan",
            "Make a durable plan, to be committed once.",
        ),
        "dry-run": _Command(
            "amends.cli.commands.planning:dry_run",
            "See what would happen; nothing does.",
        ),
        "commit": _Command(
            "amends.cli.commands.committing:commit",
            "Commit a plan: one action ever claims it.\n\n"
            "Exit code 5 says that nobody knows whether it happened: look with amends tx show, "
            "then reconcile. A commit that waits for an approval is gone on with, under its own "
            "action id, when the same command is given again.",
        ),
        "execute": _Command(
            "amends.cli.commands.executing:execute",
            "Do it directly, without a plan to look at before.",
        ),
        "resume": _Command(
            "amends.cli.commands.executing:resume",
            "Go on with an action that waited for an approval.\n\n"
            "It never runs twice. Where the capability requires redaction, the same input has to "
            "be given again.",
        ),
        "approvals": _Command(
            "amends.cli.commands.approvals:approvals",
            "List what waits for an approval, or show one request.",
        ),
        "approve": _Command(
            "amends.cli.commands.deciding:approve",
            "Approve a request. Its requester then goes on.",
        ),
        "deny": _Command(
            "amends.cli.commands.deciding:deny",
            "Deny a request for good.",
        ),
        "revoke": _Command(
            "amends.cli.commands.deciding:revoke",
            "Take an approval back, or a delegation.",
        ),
        "delegate": _Command(
            "amends.cli.commands.delegating:delegate",
            "Lend your word in approvals to somebody, for a while.\n\n"
            "It stays your word: it counts once, and never for what you asked for yourself. The "
            "other one decides with amends approve --under and the delegation's id. Take it back "
            "with amends revoke.",
        ),
        "delegations": _Command(
            "amends.cli.commands.delegating:delegations",
            "List the delegations that you made or were given.",
        ),
        "notify": _Command(
            "amends.cli.commands.notifying:notify",
            "Tell people what waits for an approval.\n\n"
            "By a log, a command or a webhook. What was told is remembered in the store, by the "
            "channel's name. A notice may come twice, under the same id. A webhook is signed with "
            "the secret in AMENDS_WEBHOOK_SECRET, as Standard Webhooks are.",
        ),
        "reconcile": _Command(
            "amends.cli.commands.reconciling:reconcile",
            "Ask the provider what became of an unknown outcome.\n\n"
            "Nothing is repeated blindly. No other command recovers anything, but for amends tx "
            "watch --recover. Run amends reconcile --due now and then, or a program that embeds "
            "Amends.",
        ),
        "settle": _Command(
            "amends.cli.commands.settling:settle",
            "Rule by hand on an unknown outcome (operators).\n\n"
            "An operator is listed in the TOML file that --principals names, for example as "
            '[[principals]] id = "olga", kind = "operator", os_users = ["olga"]. Then use --as.',
        ),
        "compensate": _Command(
            "amends.cli.commands.undoing:compensate",
            "Offset an earlier effect; it is not erased.",
        ),
        "cancel": _Command(
            "amends.cli.commands.undoing:cancel",
            "Cancel an action, or ask it to stop.",
        ),
        "withdraw": _Command(
            "amends.cli.commands.undoing:withdraw",
            "Withdraw a plan: it cannot be committed any more.",
        ),
        "rule": _Command(
            "amends.cli.commands.settling:rule",
            "Rule on contradicting evidence (operators).",
        ),
        "release": _Command(
            "amends.cli.commands.settling:release",
            "Release what a restore froze (operators).",
        ),
        "policy": _Command(
            "amends.cli.commands.policy:policy",
            "Check a file of rules, and explain what rules decide.",
        ),
        "hold": _Command(
            "amends.cli.commands.holding:hold",
            "Keep a transaction for the law (operators).",
        ),
        "retention": _Command(
            "amends.cli.commands.retaining:retention",
            "Forget what was kept long enough (operators).",
        ),
        "check": _Command(
            "amends.cli.commands.checking:check",
            "List the faults and risky choices of an app.\n\n"
            "Exit code 2 says that a declaration is refused, 1 that a risk was found and not "
            "silenced. Silence one with --silence CODE, or --silence capability.id:CODE.",
        ),
        "export": _Command(
            "amends.cli.operations.exporting:export",
            "Write receipts that others can verify.",
        ),
        "verify": _Command(
            "amends.cli.operations.verifying:verify",
            "Check receipts, of a file or of a store.\n\n"
            "The exit code tells the kind of fault; what is printed tells its place. Keep the "
            "heads that are printed elsewhere: with --head they show whether an end was cut off.",
        ),
        "checkpoint": _Command(
            "amends.cli.operations.keeping:checkpoint",
            "Sign what the store's log is now.\n\n"
            "A program that embeds Amends makes one each day. Keep what is printed elsewhere: "
            "with --checkpoint, amends verify shows that nothing before it was changed.",
        ),
        "prove": _Command(
            "amends.cli.operations.keeping:prove",
            "Prove that receipts are in the log.",
        ),
        "keys": _Command(
            "amends.cli.operations.keys:keys",
            "The keys that sign receipts, and rotating them.",
        ),
        "backup": _Command(
            "amends.cli.operations.copying:backup",
            "Copy a store, while it is in use.",
        ),
        "restore": _Command(
            "amends.cli.operations.copying:restore",
            "Make a store of a backup, frozen.\n\n"
            "It is another store then, with a lineage of its own. What was open in it is frozen "
            "until an operator releases it. Nothing tells that a file was copied back by hand "
            "instead: never do that.",
        ),
        "doctor": _Command(
            "amends.cli.operations.examining:doctor",
            "Check how a store is, and what it needs.\n\n"
            "Settlements that the store had refused, and that wait in files beside it, are taken "
            "in. Nothing else is changed.",
        ),
        "worker": _Command(
            "amends.cli.commands.worker:worker",
            "Run contained workers, and rule on their journals.",
        ),
        "migrate": _Command(
            "amends.cli.operations.examining:migrate",
            "Bring a store's schema up to date.",
        ),
    }
)


def main() -> NoReturn:
    """Run the command that the process was started with, and exit.

    A closed terminal and a request to terminate end it as Ctrl-C does: it cleans up first. Once the
    command has ended, Ctrl-C hurries the process out and changes no exit code.
    """
    interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    for ending in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, _end)
    _open_streams()
    code = exits.INTERRUPTED
    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left; what is still buffered has nowhere to go.
        silence(sys.stdout)
        code = exits.PIPE_CLOSED
    except KeyboardInterrupt:
        pass  # before the command heard it, or after it: the code is what it was by then
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    leave(code)
    sys.exit(code)


def _open_streams() -> None:
    """Give what was started without an output (`>&-`) one that goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


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
        return report(_usage_error(error), as_json=as_json)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        report(_interrupted(), as_json=as_json)
        return exits.INTERRUPTED
    except exits.Ended as ended:
        report(_interrupted(), as_json=as_json)
        return exits.KILLED + ended.number
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            return unwritten(sys.stdout, error, exits.OK)
        traceback.print_exc()
        report(_fault(), as_json=as_json)
        return exits.FAILED
    return answer if isinstance(answer, int) else exits.OK


def _end(number: int, _: object) -> NoReturn:
    raise exits.Ended(number)


def _app() -> App:
    app = App(
        name="amends",
        help=_HELP,
        version=_version,
        suppress_keyboard_interrupt=False,
        console=HelpConsole(),
    )
    for name, command in _COMMANDS.items():
        app.command(command.place, name=name, help=command.help)
    app.register_install_completion_command(
        add_to_startup=False,  # a shell's own files are their owner's
        help="Write the completion of your shell to where it looks for it, or to --output FILE.",
    )
    return app


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("amends")
    except PackageNotFoundError:
        return "not installed"


def _usage_error(error: CycloptsError) -> AmendsError:
    from amends.cli.usage import usage_error

    return usage_error(error)


def _interrupted() -> AmendsError:
    return Unavailable("cli.interrupted", "Interrupted.", next_step="Run the command again.")


def _fault() -> AmendsError:
    return Misuse(
        "cli.fault",
        "The command broke; this is a fault of ours.",
        next_step="Report it with the traceback above.",
    )
