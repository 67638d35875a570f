"""A checkpoint of a store, made by hand. Writes nothing else, and carries nothing out.

Where the key is missing none is made here: a checkpoint of another key would be none to whoever
knows the first. A store on a server needs its key on each of its machines.
"""

import asyncio

from amends.contracts.documents import LogCheckpoint
from amends.recovery.checkpointing import Checkpointer
from amends.wiring.opening import open_store
from amends.wiring.places import Place, url_of


def make_checkpoint(store: Place) -> LogCheckpoint:
    """A checkpoint over everything that is in the log now; durable when it returns.

    Not to be called from an event loop. Raises as `Checkpointer.make`, what opening does,
    and `Unavailable` (`key.missing`).
    """
    return asyncio.run(_make(store))


async def _make(place: Place) -> LogCheckpoint:
    store, signer = await open_store(url_of(place))
    try:
        return await Checkpointer(store, signer, lambda: signer.ring).make()
    finally:
        await store.close()
