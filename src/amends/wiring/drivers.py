"""Which driver opens a store that lasts."""

from amends.stores.port import Store
from amends.stores.sqlite import open_sqlite
from amends.wiring.places import OnServer, Place


async def open_place(place: Place) -> Store:
    """Open the store that is there, making it if there is none.

    Raises as `open_sqlite` and `open_postgres`.
    """
    if not isinstance(place, OnServer):
        return await open_sqlite(place)
    from amends.stores.postgres import open_postgres

    return await open_postgres(place.url)
