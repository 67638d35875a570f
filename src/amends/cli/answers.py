"""What a command has found: one JSON document, or lines for people, and an exit code.

Invariants: with `--json` standard output carries exactly one document, `{"ok", "data", "error"}`;
`ok` and exit code 0 say that what was asked for is so, never merely that the command ran.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from amends.cli import exits
from amends.cli.output import error_document, print_json, print_line, unwritten
from amends.cli.paper import Paper
from amends.contracts.errors import AmendsError
from amends.contracts.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`data` for programs and `tell` for people; `error` says why it is not what was asked for."""

    data: JsonObject
    tell: Callable[[Paper], None]
    error: AmendsError | None = None
    exit_code: int | None = None

    @property
    def code(self) -> int:
        """The exit code: that of the error's family, unless another one says more."""
        if self.exit_code is not None:
            return self.exit_code
        return exits.OK if self.error is None else exits.OF_FAMILY[self.error.family]


def give(answer: Answer, stream: TextIO, *, as_json: bool, utc: bool, interrupted: bool) -> int:
    """Print an answer on standard output; its exit code.

    Raises `BrokenPipeError` when nobody reads it any more, a terminal that was closed included.
    """
    try:
        _print(answer, stream, as_json=as_json, utc=utc, interrupted=interrupted)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EIO:
            raise BrokenPipeError from error
        _say_why(answer)
        return unwritten(stream, error, answer.code)
    _say_why(answer)
    return answer.code


def _say_why(answer: Answer) -> None:
    if answer.error is not None:
        print_line(answer.error)


def _print(answer: Answer, stream: TextIO, *, as_json: bool, utc: bool, interrupted: bool) -> None:
    if not as_json:
        answer.tell(Paper(stream, utc=utc))
        return
    document: JsonObject = {"ok": answer.error is None, "data": answer.data}
    if answer.error is not None:
        document["error"] = error_document(answer.error)
    if interrupted:
        document["interrupted"] = True
    print_json(document)
