"""A checkpoint of a store, made by hand. Writes nothing else, and carries nothing out.

A store on a server is used from several machines, and its key has to be on each of them. Where it
is missing none is made here: a checkpoint of another key would be none to all the others.
"""

import asyncio

from amends.contracts.documents import LogCheckpoint
from amends.contracts.errors import Unavailable
from amends.recovery.checkpointing import Checkpointer
from amends.wiring.keys import FileSigner, key_path
from amends.wiring.places import OnServer, Place, beside
from amends.wiring.quiet import open_quietly


def make_checkpoint(store: Place) -> LogCheckpoint:
    """A checkpoint over everything that is in the log now; durable when it returns.

    Not to be called from an event loop. Raises as `Checkpointer.make`, what opening does,
    and `Unavailable` (`key.unavailable`) for a server's store whose key is not on this machine.
    """
    key = key_path(beside(store))
    if isinstance(store, OnServer) and not key.exists():
        raise Unavailable(
            "key.unavailable",
            "The key that signs for this store is not on this machine.",
            details={"file": key.name},
            next_step="Name the folder with the key in the store URL (folder=), or run this where "
            "the store is in use.",
        )
    return asyncio.run(_make(store, FileSigner(key)))


async def _make(place: Place, signer: FileSigner) -> LogCheckpoint:
    async with open_quietly(place, signer) as engine:
        store = engine.environment.store
        return await Checkpointer(store, signer, lambda: signer.ring).make()
