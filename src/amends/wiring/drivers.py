"""Which driver opens a store that lasts."""

from pathlib import Path

from amends.contracts.errors import Unavailable
from amends.stores.port import Store
from amends.stores.sqlite import open_sqlite
from amends.wiring.places import OnServer, Place


async def open_place(place: Place, *, looks: bool = False) -> Store:
    """Open the store that is there, making it if there is none.

    Who only `looks` may be a user who cannot write a file. Raises as `open_sqlite` and
    `open_postgres`.
    """
    if not isinstance(place, OnServer):
        return await (_look_at(place) if looks else open_sqlite(place))
    from amends.stores.postgres import open_postgres

    return await open_postgres(place.url)


async def _look_at(path: Path) -> Store:
    try:
        return await open_sqlite(path)
    except Unavailable as error:
        if error.code != "store.unavailable":
            raise
        return await open_sqlite(path, looks=True)
