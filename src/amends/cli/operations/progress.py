"""How far long work is: bars on a terminal's standard error, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Told: TypeAlias = Callable[[int, int], None]
Phase: TypeAlias = Callable[[str], Told]


def _untold(_done: int, _total: int) -> None:
    """Nobody sees it."""


@contextmanager
def phases() -> Iterator[Phase]:
    """Show each phase that begins inside the block, and take all of them away at its end."""
    if not sys.stderr.isatty():
        yield lambda _title: _untold
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(40), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def begin(title: str) -> Told:
            task = progress.add_task(title, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield begin
