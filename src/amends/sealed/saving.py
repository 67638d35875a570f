"""Saving a record from a coroutine: beside the event loop, and to its end (ST-2).

A write that was begun cannot be called back. Whoever is cancelled while it goes on waits for it
nevertheless, and then knows whether it is durable.
"""

import asyncio

from amends.contracts.persistence import DurableRecord


async def save_beside(record: DurableRecord, payload: bytes) -> bool:
    """Save in a thread; whether the caller was cancelled meanwhile, and has to say so.

    Durable when it returns. Raises what saving raises. A second cancellation does not wait.
    """
    saving = asyncio.get_running_loop().run_in_executor(None, record.save, payload)
    try:
        await asyncio.shield(saving)
    except asyncio.CancelledError:
        await asyncio.wait({saving})
        saving.result()
        return True
    return False
