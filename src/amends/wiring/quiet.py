"""An engine that carries nothing out: for the upkeep of a store, without any capability."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from amends.governance.policy import CapabilityPolicy
from amends.receipts.signing import Signer
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.sqlite import open_sqlite
from amends.wiring.identifiers import new_id, new_owner


@asynccontextmanager
async def open_quietly(database: Path, signer: Signer) -> AsyncIterator[Engine]:
    """Open a store's file for its upkeep while the block lasts. Raises as `open_sqlite`."""
    store = await open_sqlite(database)
    try:
        yield Engine(
            Environment(
                store=store,
                registry=Registry(),
                policy=CapabilityPolicy(),
                signer=signer,
                credentials=None,
                ids=new_id,
                owner=new_owner(),
                jitter=lambda: 1.0,
                spawn=asyncio.create_task,
            )
        )
    finally:
        await store.close()
