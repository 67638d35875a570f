"""How a command says what it found: one JSON document, or one line about what went wrong.

Invariants: with ``--json`` standard output carries exactly one document, on success and on failure;
people's words about a failure go to standard error, in one line. An answer that cannot be written
does not make what was done a failure: the exit code stays, unless it would say that all is well.

Deliberately not here: the words of a command that went well, which are its own.
"""

import json
import os
import sys
from contextlib import suppress
from typing import Final, TextIO

from amends.cli import exits
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.json_types import Json, JsonObject

JSON_FLAG: Final = "--json"


def print_json(document: Json) -> None:
    """Print the one document, in ASCII, so that no terminal or pipe can spoil it."""
    print(json.dumps(document, indent=2))


def report(error: AmendsError, *, as_json: bool) -> int:
    """Say what went wrong and what to do next; the exit code of the error's family."""
    print_line(error)
    code = exits.OF_FAMILY[error.family]
    if not as_json:
        return code
    try:
        print_json({"ok": False, "error": error_document(error)})
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as failure:
        return unwritten(sys.stdout, failure, code)
    return code


def unwritten(stream: TextIO, failure: OSError, code: int) -> int:
    """Say that an answer could not be written, and drop it; the exit code to end with then."""
    error = Unavailable(
        "cli.answer_not_written",
        f"The answer could not be written: {failure.strerror or type(failure).__name__}.",
        next_step="What was done is stored; look with amends tx list.",
    )
    print_line(error)
    silence(stream)
    return code or exits.OF_FAMILY[error.family]


def silence(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, to nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_line(error: AmendsError) -> None:
    """Say what went wrong in one line, as far as anybody still reads it."""
    with suppress(OSError):
        print(" ".join(str(error).split()), file=sys.stderr)


def error_document(error: AmendsError) -> JsonObject:
    """What the one document says of an error."""
    return {
        "code": error.code,
        "family": error.family,
        "message": error.message,
        "next_step": error.next_step,
        "details": dict(error.details),
    }
