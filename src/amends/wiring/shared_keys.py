"""The one key with which all replicas of a store on a server sign.

Which key that is stands in the store, so that a machine on which it is missing makes none of its
own: what another key signs would be verified nowhere else. Whoever starts first on a new store
says it, by compare-and-set, and whoever comes later has to have that key. A key file that has it
among those that are out of use comes from a rotation, and its key in use takes over. Nothing is
trusted for standing there; the keys that receipts are checked with are those of the machine.

A replica that runs asks again now and then. After a rotation elsewhere its own key is out of use,
and what it signed minutes later would be found wanting by whoever checks it, so it begins nothing
until the new file is here. What is under way is settled all the same: an effect that is written
down under an old key is better than one that is not.

Deliberately not here: making, rotating and adding keys (`keys`).
"""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from amends.contracts.errors import AmendsError, Unavailable
from amends.receipts.signing import KeyRing
from amends.wiring.drivers import open_place
from amends.wiring.keys import FileSigner, key_path
from amends.wiring.places import OnServer, Place, beside, is_file

if TYPE_CHECKING:
    from amends.stores.postgres.store import PostgresStore


ASKED_EVERY_S: Final = 30.0
"""Well within the time for which a checker allows that a key is used after its span."""


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


class SharedSigner(FileSigner):
    """Signs with the key of this machine, and knows whether the store still names one of its ring.

    Raises as `FileSigner`.
    """

    def __init__(self, path: Path, store: "PostgresStore") -> None:
        super().__init__(path)
        self._file = path
        self._store = store
        self._named: str | None = None
        """A key that the store names and that was not here when it was asked."""

    def check(self) -> None:
        """Raises `Unavailable` (`key.missing`) while the store names a key that is not here."""
        if self._named is not None and self._named not in self.ring:
            raise missing(self._file)

    async def ask(self) -> None:
        """Ask which key the store names. Raises as the store does."""
        named = await self._store.signer()
        self._named = None if named is None or named in self.ring else named

    async def keep_asking(self) -> None:
        """Ask until cancelled; a store that does not answer is asked again."""
        while True:
            await asyncio.sleep(ASKED_EVERY_S)
            with contextlib.suppress(AmendsError):
                await self.ask()


async def appointed(store: "PostgresStore", path: Path) -> SharedSigner:
    """The signer of this machine, once it is the one that all replicas sign with.

    On a store without receipts the key is made where there is none. Raises `Unavailable`
    (`key.missing`) where this machine lacks the key that signs for the store, and as `FileSigner`.
    """
    said = await store.signer()
    if not is_here(path) and (said or await _first_signer(store)) is not None:
        raise missing(path)
    signer = SharedSigner(path, store)
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
