"""Store URLs, and which file one names.

`sqlite:///file.db` is relative to the working directory, `sqlite:////dir/file.db` absolute;
`memory:` is forgotten at the end of the process.
"""

from pathlib import Path
from typing import Final

from amends.contracts.errors import Misuse, Unavailable

SQLITE: Final = "sqlite:///"
MEMORY: Final = "memory:"


def database_of(url: str) -> Path | None:
    """The file that a store URL names, or none where there is no file.

    The path is made absolute here, so that a later change of the working directory moves nothing.
    Raises `Misuse` (`store.url_unknown`).
    """
    if url == MEMORY:
        return None
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return Path(url.removeprefix(SQLITE)).absolute()
    raise Misuse(
        "store.url_unknown",
        "The store URL names no store that is known here.",
        next_step="Use sqlite:///amends.db, or memory: for a trial.",
    )


def existing_database(url: str) -> Path:
    """The file of a store that is there already; maintenance makes none.

    Raises `Misuse` (`store.no_file`, `store.url_unknown`) and `Unavailable` (`store.not_found`).
    """
    path = file_of(url)
    if not path.is_file():
        raise Unavailable(
            "store.not_found",
            f"There is no store {path.name} in that folder.",
            next_step="Check the store URL; a path in it is relative to the working directory.",
        )
    return path


def file_of(url: str) -> Path:
    """The file of a store, whether or not it is there. Raises as `existing_database`."""
    path = database_of(url)
    if path is None:
        raise Misuse(
            "store.no_file",
            "A store in memory has no file, so there is nothing to do here.",
            next_step="Name the store of a file, such as sqlite:///amends.db.",
        )
    return path
