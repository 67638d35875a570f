"""An engine that carries nothing out: for the upkeep of a store, without any capability."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amends.governance.policy import CapabilityPolicy
from amends.receipts.signing import Signer
from amends.runtime.engine import Engine
from amends.runtime.environment import Environment
from amends.runtime.registry import Registry
from amends.stores.port import Store
from amends.wiring.drivers import open_place
from amends.wiring.identifiers import new_id, new_owner
from amends.wiring.places import Place


@asynccontextmanager
async def open_quietly(place: Place, signer: Signer) -> AsyncIterator[Engine]:
    """Open a store for its upkeep while the block lasts. Raises as `open_place`."""
    store = await open_place(place)
    try:
        yield engine_over(store, signer)
    finally:
        await store.close()


def engine_over(store: Store, signer: Signer) -> Engine:
    """An engine over a store that is open, without any capability."""
    return Engine(
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
