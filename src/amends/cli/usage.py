"""What is wrong with a command line, in words that repeat no value of it.

A value may be a secret, or an input that was given in the wrong place; only names of options and
commands are repeated, and these only as far as they look like names.
"""

import re
from difflib import get_close_matches
from typing import Final

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from amends.cli.paper import counted
from amends.contracts.errors import Misuse

_OPTION: Final = re.compile(r"--?[a-z][a-z-]{0,31}")
_WORD: Final = re.compile(r"[a-z][a-z-]{0,31}")


def usage_error(error: CycloptsError) -> Misuse:
    """The error of a command line that cannot be understood (`cli.usage`)."""
    return Misuse("cli.usage", _words(error), next_step=f"See {_command(error)} --help.")


def unknown_option(token: str, command: str) -> Misuse:
    """The same of an option that a command with a lone `-` among its arguments finds itself."""
    return Misuse(
        "cli.usage",
        f"Unknown option{_named(_OPTION, token)}.",
        next_step=f"See {command} --help.",
    )


def _command(error: CycloptsError) -> str:
    """The command that was typed, as far as it is one."""
    known = [word for word in error.command_chain or () if _WORD.fullmatch(word)]
    return " ".join(("amends", *known))


def _words(error: CycloptsError) -> str:
    match error:
        case UnknownOptionError():
            return f"Unknown option{_named(_OPTION, error.token.keyword or error.token.value)}."
        case UnknownCommandError():
            token = error.unused_tokens[0] if error.unused_tokens else None
            return f"Unknown command{_named(_WORD, token)}.{_meant(error, token)}"
        case UnusedCliTokensError():
            return counted(
                len(error.unused_tokens or ()),
                "argument more than is taken.",
                "arguments more than are taken.",
            )
        case MissingArgumentError():
            return f"{_parameter(error)} is missing, or has no value."
        case RepeatArgumentError():
            return f"{_parameter(error)} is given more than once."
        case CoercionError():
            return f"{_parameter(error)} does not take this value."
        case _:
            return "The command line cannot be understood."


def _named(pattern: re.Pattern[str], token: str | None) -> str:
    """The name that was typed, if it looks like one."""
    name = (token or "").partition("=")[0]
    return f" {name}" if pattern.fullmatch(name) else ""


def _meant(error: UnknownCommandError, token: str | None) -> str:
    """The command that is called much like it, if there is one; it repeats nothing typed."""
    known = [name for name in error.app or () if not name.startswith("-")]
    close = get_close_matches(token or "", known, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def _parameter(error: CycloptsError) -> str:
    """The option or argument that an error is about."""
    argument = error.argument
    return "An argument" if argument is None else argument.name
