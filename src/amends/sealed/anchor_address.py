"""Where an anchor on a PostgreSQL server is: a URL and the schema in it.

    postgresql://release_worker@anchors:5432/anchors?schema=release_worker

Each schema is one anchor, as each file is one of SQLite's; `amends_anchor` unless it is named. The
rest is handed to asyncpg as it stands. A password is refused: the URL stands on command lines,
where every user of the machine can read it.

Deliberately not here: passwords, which asyncpg finds in `PGPASSWORD` and `~/.pgpass`.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from amends.contracts.codes import coded

SCHEMA: Final = "amends_anchor"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_SERVERS: Final = ("postgresql", "postgres")


class AnchorAddress(NamedTuple):
    """A server's address for asyncpg, and the schema of the anchor."""

    dsn: str
    schema: str


def anchor_address(url: str) -> AnchorAddress:
    """The address in a URL. Raises `Misuse` (`sealed.anchor_url`)."""
    try:
        parts = urlsplit(url)
        asked = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
        has_password = parts.password is not None or "password" in asked
    except ValueError:
        raise coded("sealed.anchor_url") from None
    schema = asked.pop("schema", SCHEMA)
    is_ours = _NAME.fullmatch(schema) is not None and not schema.startswith("pg_")
    if parts.scheme not in _SERVERS or has_password or not is_ours:
        raise coded("sealed.anchor_url")
    rest = f"?{urlencode(asked)}" if asked else ""
    return AnchorAddress(f"{parts.scheme}://{parts.netloc}{parts.path}{rest}", schema)
