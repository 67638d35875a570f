"""Checkpoints of a store's log, once a day where something was added (RC-3).

Each goes on from the one before it and reads only the receipts since. So it says what the store was
said to be then, whatever anybody did to older receipts meanwhile; checking the store shows that.
Any number of processes may make them: two of one size are the same.

A checkpoint that does not hold is never built upon. Deliberately not here: handing them out, which
is what makes them worth something, and proofs (`wiring.proving`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from amends.contracts.documents import STORE_TENANT, LogCheckpoint
from amends.contracts.errors import AmendsError, Corrupt
from amends.receipts.checkpoint import TreeHead, check_note, read_note, write_note
from amends.receipts.log import leaf_or_none
from amends.receipts.merkle import Frontier, Hash
from amends.receipts.signing import KeyRing, Signer
from amends.stores.port import ChangeSet, FeedEntry, Insert, Lost, Store, Stored
from amends.stores.rows import corrupt_receipt

EVERY: Final = timedelta(days=1)
FIRST_LOOK_S: Final = 10.0
LOOK_S: Final = 600.0
"""How often it is looked whether one is due; a program that runs shorter is looked at early."""

_AT_ONCE: Final = 200
_LATEST: Final = 8
"""Of checkpoints that were made at one moment the largest need not be the last."""


class Checkpointer:
    """Makes checkpoints of one store. `keys` are all public keys that the store ever had."""

    def __init__(self, store: Store, signer: Signer, keys: Callable[[], KeyRing]) -> None:
        self._store = store
        self._signer = signer
        self._keys = keys

    async def run(self) -> None:
        """Make one whenever it is due, until cancelled. What cannot be done is tried again."""
        pause = FIRST_LOOK_S
        while True:
            await asyncio.sleep(pause)
            with contextlib.suppress(AmendsError):
                await self.make_if_due()
            pause = LOOK_S

    async def latest(self) -> LogCheckpoint | None:
        """The largest checkpoint of this store's own lineage."""
        where = {"lineage": await self._store.lineage()}
        page = await self._store.list(LogCheckpoint, STORE_TENANT, where=where, limit=_LATEST)
        found = [item.document for item in page.items if isinstance(item, Stored)]
        return max(found, key=lambda one: one.size, default=None)

    async def make_if_due(self) -> LogCheckpoint | None:
        """Make one if the last is a day old and receipts were added. Raises as `make`."""
        last = await self.latest()
        if last is not None and await self._store.now() - last.created_at < EVERY:
            return None
        added = await self._store.feed(after=0 if last is None else last.position, limit=1)
        return await self.make() if added else None

    async def make(self) -> LogCheckpoint:
        """A checkpoint over everything that is in the log now; durable when it returns.

        Without new receipts it is the last one. Raises `Corrupt`: `checkpoint.corrupt` where the
        last one does not hold, `store.receipt_corrupt` for a receipt that cannot be read.
        """
        lineage, last = await self._store.lineage(), await self.latest()
        frontier = Frontier() if last is None else _resumed(last, self._keys())
        position = 0 if last is None else last.position
        while entries := await self._store.feed(after=position, limit=_AT_ONCE):
            frontier = frontier.grown(_leaves(entries))
            position = entries[-1].position
            await asyncio.sleep(0)  # others have their turn between two pages
        if last is not None and frontier.size == last.size:
            return last
        return await self._keep(lineage, frontier, position)

    async def _keep(self, lineage: str, frontier: Frontier, position: int) -> LogCheckpoint:
        now = await self._store.now()
        made = _document(lineage, frontier, position, now, self._signer.held())
        answer = await self._store.commit(ChangeSet(changes=(Insert(made),)))
        if isinstance(answer, Lost):
            there = await self._store.get(LogCheckpoint, STORE_TENANT, made.checkpoint_id)
            assert there is not None
            return there.document
        return made


def _document(
    lineage: str, frontier: Frontier, position: int, now: datetime, signer: Signer
) -> LogCheckpoint:
    head = TreeHead(lineage=lineage, size=frontier.size, root=frontier.root(), at=now)
    return LogCheckpoint(
        tenant=STORE_TENANT,
        revision=1,
        created_at=now,
        updated_at=now,
        checkpoint_id=f"ckp_{lineage}_{frontier.size}",
        lineage=lineage,
        size=frontier.size,
        position=position,
        parts=tuple([part.hex() for part in frontier.parts]),
        note=write_note(head, signer),
    )


def _resumed(last: LogCheckpoint, keys: KeyRing) -> Frontier:
    """The tree as it was, held against what was signed then."""
    try:
        note = read_note(last.note)
        frontier = Frontier(last.size, tuple([bytes.fromhex(part) for part in last.parts]))
    except (ValueError, Corrupt):
        raise _broken() from None
    said = (note.head.lineage, note.head.size, note.head.root)
    _, fault = check_note(note, keys)
    if fault is not None or said != (last.lineage, frontier.size, frontier.root()):
        raise _broken()
    return frontier


def _leaves(entries: Sequence[FeedEntry]) -> Iterator[Hash]:
    for entry in entries:
        leaf = leaf_or_none(entry.receipt.hash)
        if leaf is None:
            raise corrupt_receipt(entry.receipt.chain, entry.receipt.number)
        yield leaf


def _broken() -> Corrupt:
    return Corrupt(
        "checkpoint.corrupt",
        "The last checkpoint of this store is not what was signed.",
        next_step="Run amends verify --store, with a checkpoint that was kept elsewhere.",
    )
