"""A checkpoint of a store's file, made by hand. Writes nothing else, and carries nothing out."""

import asyncio
from pathlib import Path

from amends.contracts.documents import LogCheckpoint
from amends.recovery.checkpointing import Checkpointer
from amends.wiring.keys import FileSigner, key_path
from amends.wiring.quiet import open_quietly


def make_checkpoint(database: Path) -> LogCheckpoint:
    """A checkpoint over everything that is in the log now; durable when it returns.

    Not to be called from an event loop. Raises as `Checkpointer.make`, and what opening does.
    """
    return asyncio.run(_make(database))


async def _make(database: Path) -> LogCheckpoint:
    signer = FileSigner(key_path(database))
    async with open_quietly(database, signer) as engine:
        store = engine.environment.store
        return await Checkpointer(store, signer, lambda: signer.ring).make()
