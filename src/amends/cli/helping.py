"""Where help is printed: as wide as the terminal, but never too narrow to set a word in.

Invariants: a terminal that says that it has no columns, or next to none, gets help that it wraps
itself, where laying it out in so few would fail or never end; who stops reading ends the command
as everywhere else.
"""

from typing import Final

from rich.console import Console

NARROWEST: Final = 40


class HelpConsole(Console):
    """A console of at least so many columns."""

    def __init__(self) -> None:
        super().__init__()
        self.width = max(self.width, NARROWEST)

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise BrokenPipeError
