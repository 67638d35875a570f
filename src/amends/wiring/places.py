"""Store URLs, and which files one names.

`sqlite:///file.db` is relative to the working directory, `sqlite:////dir/file.db` absolute;
`memory:` is forgotten at the end of the process; `postgresql://user@host/database` is a database on
a server. The signing key of a file's store lies beside the file. That of a server's store, and
settlements that it had refused, lie in the folder that the URL names (`folder=/var/lib/amends`), or
else in the working directory.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import msgspec

from amends.contracts.errors import Misuse, Unavailable

SQLITE: Final = "sqlite:///"
MEMORY: Final = "memory:"
SERVERS: Final = ("postgresql://", "postgres://")
DRIVER: Final = "asyncpg"


def database_of(url: str) -> Path | None:
    """The file that a store URL names, or none where the store is no file.

    The path is made absolute here, so that a later change of the working directory moves nothing.
    Raises `Misuse` (`store.url_unknown`).
    """
    if url == MEMORY or is_on_a_server(url):
        return None
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return Path(url.removeprefix(SQLITE)).absolute()
    raise Misuse(
        "store.url_unknown",
        "The store URL names no store that is known here.",
        next_step="Use sqlite:///amends.db, postgresql://host/database, or memory: for a trial.",
    )


def is_on_a_server(url: str) -> bool:
    """Whether the URL names a database on a server."""
    return url.startswith(SERVERS)


def beside_of(url: str) -> Path | None:
    """The path after which the files of this machine are named that belong to a store.

    None where there are none. Raises as `database_of`.
    """
    if not is_on_a_server(url):
        return database_of(url)
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("folder", ["."])[-1]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", parts.path.strip("/") or "database")
    return Path(folder).absolute() / f"amends-{name}"


def existing_database(url: str) -> Path:
    """The file of a store that is there already; maintenance makes none.

    Raises `Misuse` (`store.no_file`, `store.url_unknown`) and `Unavailable` (`store.not_found`).
    """
    path = file_of(url)
    if not is_file(path):
        raise Unavailable(
            "store.not_found",
            f"There is no store {path.name} in that folder that this user can see.",
            next_step="Check the store URL; a path in it is relative to the working directory.",
        )
    return path


def is_file(path: Path) -> bool:
    """Whether a file is there, as far as this user may look; a name that none can have is none."""
    try:
        return path.is_file()
    except OSError:
        return False


class OnServer(msgspec.Struct, frozen=True):
    """A store that is a database on a server. The URL may hold a password and is never shown.

    There is none without what speaks with it: raises `Misuse` (`store.driver_missing`).
    """

    url: str

    def __post_init__(self) -> None:
        if find_spec(DRIVER) is None:
            raise Misuse(
                "store.driver_missing",
                "What speaks with PostgreSQL is not installed.",
                next_step="Install it with pip install 'amends[postgres]'.",
            )


Place: TypeAlias = Path | OnServer
"""Where a store that lasts is: a file, or a database on a server."""


def url_of(place: Place) -> str:
    """The URL that names a place."""
    return place.url if isinstance(place, OnServer) else f"{SQLITE}{place}"


def existing_place(url: str) -> Place:
    """Where a store is that is there already; whether a server has it shows when it is asked.

    Raises as `existing_database` and `OnServer`, and as `open_postgres` for a server without one.
    """
    return OnServer(url) if is_on_a_server(url) else existing_database(url)


def beside(place: Place) -> Path:
    """As `beside_of`, of a place."""
    if isinstance(place, Path):
        return place
    found = beside_of(place.url)
    assert found is not None
    return found


def file_of(url: str) -> Path:
    """The file of a store, whether or not it is there. Raises as `existing_database`."""
    if is_on_a_server(url):
        raise Misuse(
            "store.on_a_server",
            "This is done to the file of a store, and this store is a database on a server.",
            next_step="Use the server's own tools: pg_basebackup to copy it, pg_dump to export it.",
        )
    path = database_of(url)
    if path is None:
        raise Misuse(
            "store.no_file",
            "A store in memory has no file, so there is nothing to do here.",
            next_step="Name the store of a file, such as sqlite:///amends.db.",
        )
    return path
