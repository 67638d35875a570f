"""A host put together: the folder of its ledgers, and a channel to a worker that is its child."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Final

from amends.contracts.errors import Conflict
from amends.contracts.worker_grant import CapabilityGrant
from amends.host.channel import WorkerChannel
from amends.host.keeping import OpenRecord
from amends.ledger.document import decode_ledger, encode_ledger
from amends.ledger.plans import WorkflowPlan, open_ledger
from amends.ledger.records import MAX_BYTES, Ledger
from amends.protocol.bootstrap import KEY_LENGTH, Bootstrap, SessionKey
from amends.protocol.greeting import NONCE_LENGTH
from amends.protocol.versions import Version
from amends.sealed.envelopes import Place
from amends.sealed.vault import Storage, Vault
from amends.transports.children import start_child
from amends.wiring.anchors import AnchorPlace, anchor_place, text_of
from amends.wiring.sealing import SealedFolder
from amends.wiring.workers import WorkerPlace

NAMESPACE: Final = "workflow-ledger"
HOST: Final = "host"
"""The folder of the ledgers in the state of a worker connector."""

_SESSION: Final = "session-"


class Ledgers:
    """The ledgers of one host, one for each plan, by names that are tokens. Close it when done."""

    def __init__(self, folder: SealedFolder) -> None:
        self._folder = folder

    @classmethod
    def make(cls, directory: Path, *, anchor: AnchorPlace | None = None) -> "Ledgers":
        """Make the folder. Raises as `SealedFolder.make`."""
        return cls(SealedFolder.make(directory, anchor=anchor))

    @classmethod
    def open(cls, directory: Path, *, anchor: AnchorPlace | None = None) -> "Ledgers":
        """Open the folder. Raises as `SealedFolder.open`."""
        return cls(SealedFolder.open(directory, anchor=anchor))

    def create(self, name: str, plan: WorkflowPlan) -> None:
        """Create the empty ledger of a plan. Raises as `Vault.initialise`."""
        Vault.initialise(self._storage(name), encode_ledger(open_ledger(plan)))

    def knows(self, name: str) -> bool:
        """Whether there is, or was, a ledger of this name: its anchor tells too.

        One whose making was cut short holds nothing yet. Raises as `Storage.local`, and what the
        anchor raises.
        """
        storage = self._storage(name)
        floor = storage.anchor.floor(storage.place)
        return (floor is not None and floor.revision > 0) or storage.local() is not None

    def read_all(self) -> Iterator[Ledger]:
        """Every ledger as it is durable, to be shown. Raises as `Storage.look`, `decode_ledger`."""
        for name in self._folder.names(NAMESPACE):
            yield decode_ledger(self._storage(name).look())

    def opener(self, name: str) -> OpenRecord:
        """What `Workflow.open` takes; it opens the ledger each time it is called."""
        storage = self._storage(name)
        return lambda: Vault.open(storage)

    def close(self) -> None:
        """Give the anchor back."""
        self._folder.close()

    def _storage(self, name: str) -> Storage:
        return self._folder.storage(Place(NAMESPACE, name), max_bytes=MAX_BYTES)


class HostLedgers:
    """The ledgers of a connector: opened when the first is asked for, as `WorkerLink` asks.

    `anchor` names where their floors are kept, as `anchor_place` reads it.
    """

    def __init__(self, directory: Path, *, anchor: str | PathLike[str] | None = None) -> None:
        self._directory = directory
        self._anchor = None if anchor is None else anchor_place(os.fspath(anchor))
        self._open: Ledgers | None = None

    def initialise(self) -> None:
        """Make the folder. Raises as `Ledgers.make`."""
        Ledgers.make(self._directory, anchor=self._anchor).close()

    async def ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        """See `WorkerLink`. Raises as `Ledgers.open` and `Ledgers.create`."""
        return await asyncio.to_thread(self._ledger, name, plan, create=create)

    async def aclose(self) -> None:
        """Give the anchor back; it is taken again when it is needed."""
        ledgers, self._open = self._open, None
        if ledgers is not None:
            await asyncio.to_thread(ledgers.close)

    def _ledger(self, name: str, plan: WorkflowPlan, *, create: bool) -> OpenRecord | None:
        if self._open is None:
            self._open = Ledgers.open(self._directory, anchor=self._anchor)
        ledgers = self._open
        if create:
            _create(ledgers, name, plan)
        return ledgers.opener(name) if ledgers.knows(name) else None


def draw_name() -> str:
    """The name of a session that was never used."""
    return _SESSION + secrets.token_hex(16)


def draw_bootstrap(version: Version = Version.SEALED) -> Bootstrap:
    """A session with a name and a key that were never used."""
    return Bootstrap(draw_name(), SessionKey(secrets.token_bytes(KEY_LENGTH)), version)


def worker_command(adapters: str, place: WorkerPlace) -> list[str]:
    """The command that serves these adapters, named as module:attribute, from that place."""
    command = [sys.executable, "-m", "amends", "worker", "run", adapters]
    command += ["--state", str(place.directory), "--scope", place.scope]
    command += ["--anchor", text_of(place.anchor)] if place.anchor else []
    return [*command, "--encrypted"] if place.encrypted else command


@asynccontextmanager
async def child_worker(
    command: Sequence[str],
    grants: Iterable[CapabilityGrant],
    *,
    tenant_scope: str,
    environment: Mapping[str, str] | None = None,
    answer_limit_s: float = 60.0,
    open_limit_s: float = 10.0,
) -> AsyncIterator[WorkerChannel]:
    """A worker that is started for this block, in a session of its own, and reaped behind it.

    `command` is that of `worker_command`, perhaps behind one that contains it. Raises as
    `start_child` and `WorkerChannel.open`.
    """
    bootstrap = draw_bootstrap()
    child = await start_child(command, bootstrap, environment=environment)
    try:
        async with WorkerChannel(
            child.transport,
            bootstrap,
            grants,
            tenant_scope=tenant_scope,
            nonce=os.urandom(NONCE_LENGTH),
            answer_limit_s=answer_limit_s,
            open_limit_s=open_limit_s,
        ) as channel:
            yield channel
    finally:
        await child.stop()


def _create(ledgers: Ledgers, name: str, plan: WorkflowPlan) -> None:
    """Make a ledger, unless an attempt before has."""
    try:
        ledgers.create(name, plan)
    except Conflict as conflict:
        if conflict.code != "sealed.initialised":
            raise
