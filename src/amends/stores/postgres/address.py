"""What a store URL says: where the server is, and how this driver is to speak with it.

    postgresql://user@host:5432/database?pooled=true

`pooled=true` is for a pooler in transaction mode, such as pgbouncer: no prepared statements are
kept, and nothing is listened to. `dangerously_allow_losing_commits=true` lets a server be used that
is set up to lose what it acknowledged, `dangerously_allow_bypassing_tenants=true` a role that the
server shows every tenant; their names say what they are for. `folder` is for others, who
keep files there. Everything else is handed to asyncpg as it stands, several hosts included.

Deliberately not here: passwords, which asyncpg also finds in `PGPASSWORD` and `~/.pgpass`.
"""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from amends.contracts.errors import Misuse

_SWITCHES: Final = (
    "pooled",
    "dangerously_allow_losing_commits",
    "dangerously_allow_bypassing_tenants",
)
_FOLDER: Final = "folder"


class Address(msgspec.Struct, frozen=True):
    """A server's address. `dsn` may hold a password, so it is never shown."""

    dsn: str
    pooled: bool = False
    dangerously_allow_losing_commits: bool = False
    dangerously_allow_bypassing_tenants: bool = False


def address_of(url: str) -> Address:
    """The address in a URL. Raises `Misuse` (`store.url_unknown`)."""
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    switches = {name: _switch(value) for name, value in asked if name in _SWITCHES}
    ours = (*_SWITCHES, _FOLDER)
    rest = urlencode([(name, value) for name, value in asked if name not in ours])
    return Address(
        urlunsplit(parts._replace(query=rest)), *(switches.get(one, False) for one in _SWITCHES)
    )


def _switch(value: str) -> bool:
    if value in ("true", "false"):
        return value == "true"
    raise Misuse(
        "store.url_unknown",
        "A switch in the store URL is neither true nor false.",
        next_step="Write pooled=true, or leave it out.",
    )
