"""What people read: lines, columns and times, in colour on a terminal and plain in a pipe.

A stream whose encoding lacks a character gets its marks in ASCII, each another, and all else as
escapes, so that a yes does not look like a no and no id like another.

Invariants: text that others wrote (providers, reasons, ids of old rows) passes the redactor, which
also escapes control characters, so that nobody can write to the reader's terminal; no markup is
read in it. Notes about what is going on never end a command: a terminal that is gone is passed
over there, and only there.
"""

import codecs
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import IO, Any, Final, TextIO

from rich.console import Console
from rich.text import Text

from amends.contracts.redaction import Redactor

_REDACTOR: Final = Redactor()
_GAP: Final = "  "
STYLES: Final = MappingProxyType(
    {
        "dry_run_completed": "blue",
        "planned": "blue",
        "prepared": "cyan",
        "committing": "cyan",
        "committed": "green",
        "compensating": "cyan",
        "compensated": "green",
        "failed": "red",
        "outcome_unknown": "bold yellow",
        "reconciling": "cyan",
        "reconciled": "green",
        "rollback_not_supported": "dim",
        "requires_human": "magenta",
        "cancelled": "dim",
    }
)


_PLAIN: Final = "amends.plain"
_IN_ASCII: Final = MappingProxyType({"✓": "+", "✗": "x", "…": "...", "–": "-", "█": "#", "░": "."})


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """How the codecs write what an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    words = (_IN_ASCII.get(one) or ascii(one)[1:-1] for one in lacking)
    return "".join(words), error.end


codecs.register_error(_PLAIN, _in_ascii)


def clean(text: object) -> str:
    """One line that is safe to show: without secrets, control characters escaped."""
    return _REDACTOR.text(str(text))


def status(value: str) -> Text:
    """A status in its colour."""
    return Text(clean(value), STYLES.get(value, ""))


class _Console(Console):
    """A console that leaves it to the command line what a reader who has left means."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise BrokenPipeError


class Paper:
    """One stream, written line by line. Lines are as long as they are; terminals wrap them."""

    def __init__(self, stream: TextIO, *, utc: bool = False) -> None:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_PLAIN)
        self._console = _Console(file=stream, highlight=False, soft_wrap=True)
        self._utc = utc

    @property
    def is_terminal(self) -> bool:
        """Whether somebody sees this as it is written."""
        return self._console.is_terminal

    def line(self, *parts: str | Text | tuple[str, str]) -> None:
        """One line of texts, which may have a style each."""
        self._console.print(Text.assemble(*parts))

    def heading(self, title: str) -> None:
        """A part begins."""
        self._console.print()
        self._console.print(Text(title, "bold"))

    def field(self, name: str, *parts: str | Text | tuple[str, str]) -> None:
        """A name and what it stands for, below the others."""
        self.line((f"  {name:<12}", "dim"), *parts)

    def rows(self, rows: Iterable[Sequence[str | Text]], header: Sequence[str] = ()) -> None:
        """Rows in columns; the last column is as long as it is."""
        cells = [[Text(part) if isinstance(part, str) else part for part in row] for row in rows]
        if header:
            cells.insert(0, [Text(name, "dim") for name in header])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            line = Text()
            for part, width in zip(row[:-1], widths, strict=False):
                line.append_text(part)
                line.append(" " * (width - len(part)) + _GAP)
            line.append_text(row[-1])
            line.rstrip()
            self._console.print(line)

    def time(self, instant: datetime) -> str:
        """A time with its zone: local, or UTC where that was asked for."""
        if self._utc:
            return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return instant.astimezone().isoformat(sep=" ", timespec="seconds")


class Forgiving:
    """A stream that may be gone: what cannot be written is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, as far as there is somebody who reads."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Flush, as far as there is somebody who reads."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def notes() -> Paper:
    """Where a command says what is going on: standard error, which may be gone."""
    stream: IO[str] = Forgiving(sys.stderr)  # type: ignore[assignment]  # writes as a stream does
    return Paper(stream)  # type: ignore[arg-type]  # the same


def counted(number: int, one: str, many: str) -> str:
    """So many of something, in the words for one or for many."""
    return f"{number} {one if number == 1 else many}"
