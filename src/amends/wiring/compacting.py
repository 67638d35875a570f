"""Compacting the store that a URL names, where it has a file.

A server removes old bytes itself, and what it has copied elsewhere is out of anybody's reach here.
"""

from amends.stores.sqlite.compacting import compact
from amends.wiring.places import database_of, is_on_a_server


def left_on_server(url: str) -> str | None:
    """What of forgotten things a server still has, and what to do; none for any other store."""
    if not is_on_a_server(url):
        return None
    return (
        "The old bytes stay in the server's tables until it has run VACUUM, and in its WAL, its "
        "archives and its backups for as long as you keep those."
    )


def compact_store(url: str) -> bool:
    """Remove old bytes from a store's file; false where the store has none.

    Raises as `stores.sqlite.compacting.compact`, and `Misuse` (`store.url_unknown`).
    """
    database = database_of(url)
    if database is None:
        return False
    compact(database)
    return True
