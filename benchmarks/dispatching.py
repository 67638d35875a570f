"""A dispatch to a child with all its persists, beside nothing but the syncs that these make.

One round trip records an operation and dispatches it: the host's ledger is persisted twice, and the
worker's journal twice. One persist syncs `SYNCS_OF_PERSIST` times: the record and its folder, and a
commit of the anchor. `tests/unit/worker/test_syncs.py` holds the product to these numbers.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Succeeded, ToolPayload
from amends.host.verifiers import Verifiers
from amends.host.workflow import Workflow
from amends.ledger.operations import OperationIntent
from amends.ledger.plans import make_plan
from amends.wiring.hosts import Ledgers, child_worker, worker_command
from amends.wiring.workers import WorkerPlace, initialise_worker
from amends.worker.adapters import Adapter, AdapterContract, Call, LookUp

COUNT: Final = 48
"""A journal takes 64 records by itself."""

PERSISTS: Final = 4
SYNCS_OF_FILE: Final = 2
SYNCS_OF_ANCHOR: Final = 5
SYNCS_OF_PERSIST: Final = SYNCS_OF_FILE + SYNCS_OF_ANCHOR

_PAGE: Final = 4096
_SECTOR: Final = 512
_SCOPE: Final = "bench"
_NAME: Final = "release"
_DONE: Final = Succeeded(ToolPayload.json({"done": True}))
_INPUT: Final = ToolPayload.json({"version": "1.2.3"})
_GRANT: Final = CapabilityGrant("release.publish", max_calls=COUNT)
_PLAN: Final = make_plan([("publish", "let release = true")])

release: Final = Adapter(_GRANT.tool, contract=AdapterContract.RECONCILIATION)


@release.dispatch
async def publish(_call: Call) -> Succeeded:
    """Nothing at all, since only what stands around it is measured."""
    return _DONE


@release.status
async def published(_look: LookUp) -> Succeeded:
    """As if it had been found."""
    return _DONE


def dispatched(folder: Path) -> float:
    """Microseconds to record an operation, dispatch it, and have its end recorded by both."""
    return asyncio.run(_dispatched(folder)) / COUNT * 1e6


async def _dispatched(folder: Path) -> float:
    place = WorkerPlace(directory=folder / "worker", scope=_SCOPE)
    initialise_worker(place)
    with contextlib.closing(Ledgers.make(folder / "host")) as ledgers:
        ledgers.create(_NAME, _PLAN)
        workflow = await Workflow.open(
            _PLAN,
            ledgers.opener(_NAME),
            Verifiers(grant=lambda _: True, action=lambda _: True),
            clock=lambda: datetime.now(UTC),
        )
        command = worker_command("benchmarks.dispatching:release", place)
        async with child_worker(command, [_GRANT], tenant_scope=_SCOPE) as channel:
            started = time.perf_counter()
            for number in range(COUNT):
                intent = OperationIntent(
                    step_id="publish", tool=_GRANT.tool, payload=_INPUT, nonce=b"%d" % number
                )
                key = await workflow.record(intent)
                await workflow.dispatch(channel, key, _INPUT)
            return time.perf_counter() - started


def synced(folder: Path) -> float:
    """Microseconds of as many syncs, of as many bytes, in the same folders, and nothing else."""
    dispatched(folder)  # for the sizes: a record grows with every operation
    records = (
        folder / "host" / "workflow-ledger" / _NAME,
        folder / "worker" / "worker-journal" / _SCOPE,
    )
    sizes = [(file, file.stat().st_size) for file in records]
    started = time.perf_counter()
    for number in range(1, COUNT + 1):
        for file, size in sizes * (PERSISTS // len(sizes)):
            _file_synced(file, size * number // COUNT)
            _anchor_synced(file.parent.parent)
    return (time.perf_counter() - started) / COUNT * 1e6


def _file_synced(file: Path, size: int) -> None:
    """As a record is replaced: the new file and its folder."""
    new = file.with_name("bare.new")
    _written(new, bytes(size), os.fsync)
    new.replace(file.with_name("bare"))
    _folder_synced(file.parent, os.fsync)


def _anchor_synced(folder: Path) -> None:
    """As SQLite commits two pages with a journal that is deleted: twice for the journal, once for
    the database, and for the folder when the journal comes and when it goes."""
    journal = folder / "bare-journal"
    _written(journal, bytes(_SECTOR + 2 * (_PAGE + 8)), os.fdatasync)
    _folder_synced(folder, os.fdatasync)
    _written(journal, bytes(12), os.fdatasync)
    _written(folder / "bare.db", bytes(2 * _PAGE), os.fdatasync)
    journal.unlink()
    _folder_synced(folder, os.fdatasync)


def _written(file: Path, data: bytes, sync: Callable[[int], None]) -> None:
    """Over what is there already, which is not cut off."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, data)
        sync(descriptor)
    finally:
        os.close(descriptor)


def _folder_synced(folder: Path, sync: Callable[[int], None]) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
