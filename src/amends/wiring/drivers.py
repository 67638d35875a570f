"""Which driver opens a store that lasts."""

from amends.contracts.errors import Misuse
from amends.stores.port import Store
from amends.stores.sqlite import open_sqlite
from amends.wiring.places import OnServer, Place


async def open_place(place: Place) -> Store:
    """Open the store that is there, making it if there is none.

    Raises `Misuse` (`store.driver_missing`), and as `open_sqlite` and `open_postgres`.
    """
    if not isinstance(place, OnServer):
        return await open_sqlite(place)
    try:
        from amends.stores.postgres import open_postgres
    except ModuleNotFoundError as error:
        raise Misuse(
            "store.driver_missing",
            "What speaks with PostgreSQL is not installed.",
            next_step="Install it with pip install 'amends[postgres]'.",
        ) from error
    return await open_postgres(place.url)
