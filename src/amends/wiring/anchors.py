"""Which anchor keeps the floors of a folder: a file, or a schema on a PostgreSQL server.

Where one is named in text, on a command line or in a variable, a URL that begins with
`postgresql://` is a server's and everything else is a path.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from amends.contracts.codes import coded
from amends.sealed.anchor_address import anchor_address
from amends.sealed.anchors import Anchor, Protection
from amends.sealed.sqlite_anchor import SqliteAnchor
from amends.wiring.places import OnServer, is_on_a_server

if TYPE_CHECKING:
    from amends.sealed.postgres_anchor import PostgresAnchor

AnchorPlace: TypeAlias = Path | OnServer
"""Where an anchor is."""


class OpenAnchor(Anchor, Protocol):
    """An anchor that somebody has to close."""

    def protects(self, directory: Path) -> Protection:
        """Against what it protects records in that folder."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def anchor_place(text: str) -> AnchorPlace:
    """Where the anchor is that is named so.

    Raises `Misuse` (`sealed.anchor_url`, `store.driver_missing`).
    """
    if not is_on_a_server(text):
        return Path(text)
    anchor_address(text)
    return OnServer(text)


def text_of(place: AnchorPlace) -> str:
    """The text that names it. It holds no password: such a URL is refused."""
    return place.url if isinstance(place, OnServer) else str(place)


def make_anchor(place: AnchorPlace) -> None:
    """Make an empty one. Raises as `open_anchor`, and `Conflict` (`sealed.initialised`)."""
    if not isinstance(place, OnServer):
        SqliteAnchor.create_file(place)
        return
    _on_servers().create_schema(place.url)


def open_anchor(place: AnchorPlace) -> OpenAnchor:
    """Open the one that is there.

    Raises as `SqliteAnchor.open_file` and `PostgresAnchor.open_schema`.
    """
    if not isinstance(place, OnServer):
        return SqliteAnchor.open_file(place)
    return _on_servers().open_schema(place.url)


def accept_server(url: str, *, who: str, why: str) -> None:
    """Go on with an anchor's server that was restored.

    Raises as `anchor_place` and `PostgresAnchor.accept_server`.
    """
    if not isinstance(anchor_place(url), OnServer):
        raise coded("sealed.anchor_url")
    _on_servers().accept_server(url, who=who, why=why)


def _on_servers() -> "type[PostgresAnchor]":
    """Loaded when it is asked for: a worker whose anchor is a file needs no driver."""
    from amends.sealed.postgres_anchor import PostgresAnchor

    return PostgresAnchor
