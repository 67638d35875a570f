"""A checkpoint of a store, made by hand. Writes nothing else, and carries nothing out.

A store on a server is used from several machines, and its key has to be on each of them. Where it
is missing none is made here: a checkpoint of another key would be none to all the others.
"""

import asyncio

from amends.contracts.documents import LogCheckpoint
from amends.recovery.checkpointing import Checkpointer
from amends.wiring.opening import open_store
from amends.wiring.places import Place, url_of


def make_checkpoint(store: Place) -> LogCheckpoint:
    """A checkpoint over everything that is in the log now; durable when it returns.

    Not to be called from an event loop. Raises as `Checkpointer.make`, what opening does,
    and `Unavailable` (`key.missing`) for a server's store whose key is not on this machine.
    """
    return asyncio.run(_make(store))


async def _make(place: Place) -> LogCheckpoint:
    store, signer = await open_store(url_of(place))
    try:
        return await Checkpointer(store, signer, lambda: signer.ring).make()
    finally:
        await store.close()
