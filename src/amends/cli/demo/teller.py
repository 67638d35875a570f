"""How the demonstration speaks: chapters, short sentences, and a mark before what was found.

Invariants: the same words with and without a terminal; colour, bars and pauses for reading only on
one. Nothing is printed but through here, so a quiet console makes a silent demonstration.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from amends.cli.demo.stage import POLL_S

WIDTH: Final = 100
PAUSE_S: Final = 0.25
_INDENT: Final = 3


class Teller:
    """Tells the story on one console; `pause_s` is how long a line stays alone on a terminal."""

    def __init__(self, console: Console, pause_s: float = PAUSE_S) -> None:
        self._console = console
        self._pause_s = pause_s if console.is_terminal else 0.0
        self._chapters = 0

    def title(self, title: str, *sentences: str) -> None:
        """Begin: what this is, and what has to be known of the provider."""
        self._console.print()
        self._console.print(Text(title, "bold"))
        for sentence in sentences:
            self._lines(Text(), Text(sentence))

    def chapter(self, title: str, sentence: str = "") -> None:
        """Begin the next chapter, with what people want in it."""
        self._chapters += 1
        self._console.print()
        self._console.print(Text.assemble((f"{self._chapters}  ", "cyan"), (title, "bold")))
        if sentence:
            self.say(sentence)

    def say(self, sentence: str) -> None:
        """Tell what somebody does."""
        self._lines(Text(" " * _INDENT), Text(sentence))

    def found(self, sentence: str, status: str = "", style: str = "green") -> None:
        """Tell what came of it, with the status that the record has now."""
        self._marked("✓", sentence, status, style)

    def refused(self, sentence: str, code: str) -> None:
        """Tell what was refused, with its code."""
        self._marked("✗", sentence, f"refused: {code}", "red")

    def counted(self, sentence: str) -> None:
        """Tell what the provider itself says."""
        self._marked("=", sentence, "", "magenta")

    @contextmanager
    def waiting(self, sentence: str, expected_s: float) -> Iterator[Callable[[], None]]:
        """A wait of about so many seconds; call what is given once per look, and it pauses."""
        if not self._console.is_terminal:
            self.say(sentence)
        columns = (
            TextColumn("   {task.description}", style="dim"),
            BarColumn(30, complete_style="cyan", finished_style="cyan"),
        )
        with Progress(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            task = progress.add_task(sentence, total=expected_s)

            def tick() -> None:
                time.sleep(POLL_S)
                progress.advance(task, POLL_S)

            yield tick

    def end(self, verdict: str, style: str, *lines: str) -> None:
        """End: the verdict, and where to go from here."""
        self._console.print()
        self._console.print(Text(verdict, f"bold {style}"))
        for line in lines:
            self._lines(Text(), Text(line))
        self._console.print()

    def _marked(self, mark: str, sentence: str, tag: str, style: str) -> None:
        head = Text.assemble(" " * _INDENT, (mark, style), " ")
        self._lines(head, Text.assemble(sentence, "  ", (tag, f"bold {style}")))

    def _lines(self, head: Text, text: Text) -> None:
        """Print the text after its head, wrapped below itself, without trailing blanks."""
        for line in text.wrap(self._console, self._console.width - len(head)):
            line.rstrip()
            self._console.print(head + line)
            head = Text(" " * len(head))
        time.sleep(self._pause_s)


def console(*, quiet: bool) -> Console:
    """Standard output as the demonstration uses it; a character it lacks becomes a question mark.

    Lines stay short on a wide terminal.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    plain = Console(quiet=quiet, highlight=False)
    plain.width = min(plain.width, WIDTH)
    return plain
