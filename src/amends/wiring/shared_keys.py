"""The one key with which all replicas of a store on a server sign.

Which key that is stands in the store, so that a machine on which it is missing makes none of its
own: what another key signs would be verified nowhere else. Whoever starts first on a new store
says it, by compare-and-set, and whoever comes later has to have that key. A key file that has it
among those that are out of use comes from a rotation, and its key in use takes over. Nothing is
trusted for standing there; the keys that receipts are checked with are those of the machine.

Deliberately not here: making, rotating and adding keys (`keys`).
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from amends.contracts.errors import Unavailable
from amends.receipts.signing import KeyRing
from amends.wiring.drivers import open_place
from amends.wiring.keys import FileSigner, key_path
from amends.wiring.places import OnServer, Place, beside, is_file

if TYPE_CHECKING:
    from amends.stores.postgres.store import PostgresStore


class AbsentSigner:
    """Stands in for a key that is not here, where somebody only looks; signing is refused."""

    ring = KeyRing(())

    def __init__(self, error: Unavailable) -> None:
        self._error = error

    @property
    def key_id(self) -> NoReturn:
        """Raises why there is none."""
        raise self._error

    @property
    def public_key(self) -> NoReturn:
        """Raises why there is none."""
        raise self._error

    def held(self) -> NoReturn:
        """Raises why there is none."""
        raise self._error

    def sign(self, data: bytes) -> NoReturn:
        """Raises why there is none."""
        raise self._error


async def appointed(store: "PostgresStore", path: Path) -> FileSigner:
    """The signer of this machine, once it is the one that all replicas sign with.

    On a store without receipts the key is made where there is none. Raises `Unavailable`
    (`key.missing`) where this machine lacks the key that signs for the store, and as `FileSigner`.
    """
    said = await store.signer()
    if not is_here(path) and (said or await _first_signer(store)) is not None:
        raise missing(path)
    signer = FileSigner(path)
    while True:
        ours = signer.key_id
        if said == ours:
            return signer
        needed = said or await _first_signer(store)
        if needed is not None and needed not in signer.ring:
            raise missing(path)
        if await store.appoint(ours, instead_of=said):
            return signer
        said = await store.signer()


def is_here(path: Path) -> bool:
    """Whether a key file is where it has to be."""
    return is_file(path)


async def _first_signer(store: "PostgresStore") -> str | None:
    """Who signed first, in a store from before this was written down.

    Of the receipts of one change set the last one of each chain is signed.
    """
    begun = [one.receipt.key_id for one in await store.feed()]
    return next((key_id for key_id in begun if key_id is not None), None)


def appoint(place: Place) -> None:
    """Have all replicas of a store sign with the key in use here. Not from an event loop.

    Nothing is to be said for a file. Raises as `appointed`, and as opening the store does.
    """
    if isinstance(place, OnServer):
        asyncio.run(_appoint(place))


async def _appoint(place: OnServer) -> None:
    from amends.stores.postgres.store import PostgresStore

    store = await open_place(place)
    try:
        assert isinstance(store, PostgresStore)
        await appointed(store, key_path(beside(place)))
    finally:
        await store.close()


def missing(path: Path) -> Unavailable:
    """What whoever opens a store gets where the key that signed in it is not."""
    return Unavailable(
        "key.missing",
        f"The key file {path.name}, which signs for this store, is not here, so nothing is done.",
        details={"file": path.name},
        next_step="Put it back from a backup; for a store on a server copy it from a replica into"
        " the folder that the store URL names (folder=). Where it is lost, amends keys add begins"
        " a new one that follows the old keys.",
    )
