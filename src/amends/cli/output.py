"""How a command says what it found: one JSON document, or one line about what went wrong.

Invariants: with ``--json`` standard output carries exactly one document, on success and on failure;
people's words about a failure go to standard error, in one line.

Deliberately not here: the words of a command that went well, which are its own.
"""

import json
import sys
from contextlib import suppress
from typing import Final

from amends.cli import exits
from amends.contracts.errors import AmendsError
from amends.contracts.json_types import Json, JsonObject

JSON_FLAG: Final = "--json"


def print_json(document: Json) -> None:
    """Print the one document, in ASCII, so that no terminal or pipe can spoil it."""
    print(json.dumps(document, indent=2))


def report(error: AmendsError, *, as_json: bool) -> int:
    """Say what went wrong and what to do next; the exit code of the error's family."""
    print_line(error)
    if as_json:
        print_json({"ok": False, "error": error_document(error)})
    return exits.OF_FAMILY[error.family]


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
