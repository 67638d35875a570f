"""``amends demo``: prepares a folder and a provider, has the story told, and cleans up.

Invariants: the heavy parts are imported when the command runs, after it is known that they are
there. Not here: what happens in the story.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from amends.cli import exits
from amends.cli.output import print_json
from amends.contracts.errors import Misuse

EXTRA: Final = ("localstripe", "stripe")
INSTALL: Final = 'python -m pip install "amends[demo]"'


def demo(
    *,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    keep: Path | None = None,
) -> int:
    """Watch a payment being planned, approved, interrupted, found again and refunded.

    Parameters
    ----------
    json
        Print one JSON object and nothing else.
    keep
        Keep the database, its key and the receipts in this folder, which must be new or empty.
    """
    _check_installed()
    from amends.cli.demo.provider import LocalProvider
    from amends.cli.demo.scene import Scene
    from amends.cli.demo.stage import Stage
    from amends.cli.demo.story import tell
    from amends.cli.demo.teller import Teller, console

    with _folder(keep) as folder, LocalProvider.start() as provider:
        stage = Stage(folder=str(folder), provider_address=provider.base_address)
        seen = tell(Scene(stage, Teller(console(quiet=json))))
    if json:
        print_json(seen.as_json())
    return exits.OK if seen.ok else exits.FAILED


def _check_installed() -> None:
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise Misuse(
            "demo.extra_missing",
            f"The demonstration needs {' and '.join(missing)}.",
            next_step=f"Run: {INSTALL}",
        )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="amends-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        in_use = any(keep.iterdir())
    except OSError as error:
        raise _unusable("The folder to keep the files in cannot be made or read.") from error
    if in_use:
        raise _unusable("The folder to keep the files in is not empty.")
    yield keep.resolve()


def _unusable(message: str) -> Misuse:
    return Misuse("demo.folder_unusable", message, next_step="Name a new or an empty folder.")
