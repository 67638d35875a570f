"""What a server and a role must promise before anything is kept there.

The server must not lose what it acknowledged: `fsync`, `full_page_writes` and `synchronous_commit`
are on. And it must keep tenants apart: for a superuser, or a role with `BYPASSRLS`, it would not,
however the tables are secured. Each of the two can be waived in the address, in plain words.

Deliberately not here: which server it is, and since when (`connection`).
"""

from typing import Any, Final

from amends.contracts.errors import Unavailable
from amends.stores.postgres.address import Address

OLDEST: Final = 15
_DURABLE: Final = ("fsync", "full_page_writes", "synchronous_commit")
_ROLE: Final = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"


async def check_server(connection: Any, address: Address) -> None:
    """Let pass a server and a role that can be relied on.

    Raises `Unavailable` (`store.server_too_old`, `store.unavailable`, `store.not_durable`,
    `store.role_bypasses_tenants`).
    """
    if connection.get_server_version().major < OLDEST:
        raise Unavailable(
            "store.server_too_old",
            f"The server is older than PostgreSQL {OLDEST}.",
            next_step=f"Use PostgreSQL {OLDEST} or newer.",
        )
    if await connection.fetchval("SHOW server_encoding") != "UTF8":
        raise Unavailable(
            "store.unavailable",
            "The database does not keep its texts in UTF-8.",
            next_step="Create the database with ENCODING 'UTF8'.",
        )
    if not address.dangerously_allow_losing_commits:
        await _check_durability(connection)
    if not address.dangerously_allow_bypassing_tenants and await bypasses_tenants(connection):
        raise Unavailable(
            "store.role_bypasses_tenants",
            "This role is a superuser or has BYPASSRLS, so the server keeps no tenants apart.",
            next_step="Let the store use a role of its own that is neither, and owns the database;"
            " the page on PostgreSQL has the statements.",
        )


async def bypasses_tenants(connection: Any) -> bool:
    """Whether row-level security means nothing for this role."""
    return bool(await connection.fetchval(_ROLE))


async def _check_durability(connection: Any) -> None:
    for name in _DURABLE:
        if await connection.fetchval("SELECT current_setting($1)", name) == "off":
            raise Unavailable(
                "store.not_durable",
                f"The server has {name} off, so it can lose what it has acknowledged.",
                details={"setting": name},
                next_step=f"Set {name} to on for the server, the database and the role.",
            )
