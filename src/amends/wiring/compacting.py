"""Compacting the store that a URL names, where it has a file."""

from amends.stores.sqlite.compacting import compact
from amends.wiring.places import database_of


def compact_store(url: str) -> bool:
    """Remove old bytes from a store's file; false where the store has none.

    Raises as `stores.sqlite.compacting.compact`, and `Misuse` (`store.url_unknown`).
    """
    database = database_of(url)
    if database is None:
        return False
    compact(database)
    return True
