"""A worker process put together: folder, journal, lock, and one session over some channel.

The lock is held for as long as the process lives. Whoever has it knows that every process which
had this journal before has ended, so what a look-up does not find will not appear any more.
"""

import asyncio
import fcntl
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amends.contracts.codes import coded
from amends.contracts.persistence import DurableRecord
from amends.contracts.worker_identity import check_fingerprint, check_token
from amends.contracts.worker_payload import Terminal
from amends.host.link import EntryRuling
from amends.journal.capacity import JournalLimits
from amends.journal.closing import Closing
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal, Ruling, open_journal
from amends.protocol.bootstrap import Bootstrap
from amends.protocol.greeting import NONCE_LENGTH
from amends.sealed.anchors import Protection
from amends.sealed.envelopes import Place
from amends.sealed.used_names import UsedNames
from amends.sealed.vault import Storage, Vault
from amends.transports.pipes import open_pipes, take_bootstrap
from amends.transports.port import Transport
from amends.transports.tls import TlsListener
from amends.transports.tls_files import TlsFiles
from amends.transports.unix_sockets import UnixListener
from amends.wiring.anchors import AnchorPlace, make_anchor
from amends.wiring.sealing import ANCHOR, SealedFolder
from amends.worker import ruling as by_hand
from amends.worker.adapters import Adapters
from amends.worker.shell import JournalAccess, WorkerShell

NAMESPACE: Final = "worker-journal"
_SESSIONS: Final = "sessions"
_LOCK: Final = "process.lock"
_LOCK_WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.01
_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class WorkerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker's journal lies, and how it is kept. The same each time it is opened."""

    directory: Path
    scope: str
    anchor: AnchorPlace | None = None
    limits: JournalLimits = JournalLimits()
    encrypted: bool = False


class Descriptors(NamedTuple):
    """The three that a child inherits."""

    bootstrap: int
    read: int
    write: int


class TlsDoor(NamedTuple):
    """The address that a worker listens at, and the files of its channel."""

    address: str
    files: TlsFiles


class Door(NamedTuple):
    """The socket that a worker waits at, the user that its host runs as, and their group."""

    path: str
    host_user: int
    group: int | None = None


def initialise_worker(place: WorkerPlace) -> Protection:
    """Make a worker's folder with an empty journal for one tenant scope.

    Gives against what its anchor protects the journal. Raises as `SealedFolder.make` and
    `Vault.initialise`.
    """
    journal = encode_journal(open_journal(check_token(place.scope, "tenant_scope")))
    with closing(SealedFolder.make(place.directory, anchor=place.anchor)) as folder:
        folder.private(_SESSIONS)
        Vault.initialise(_storage(folder, place), journal)
        return folder.protection


async def serve_child(adapters: Adapters, place: WorkerPlace, descriptors: Descriptors) -> None:
    """Serve the one session that the parent handed over, until it ends.

    A request to terminate ends the channel; handlers that were entered are waited for. Raises as
    `take_bootstrap`, `SealedFolder.open` and `WorkerShell.run`, and `Unavailable`
    (`sealed.locked`) while another process serves this journal.
    """
    bootstrap = take_bootstrap(descriptors.bootstrap)
    transport = await open_pipes(descriptors.read, descriptors.write)
    await _serve(adapters, place, transport, bootstrap)


async def serve_socket(adapters: Adapters, place: WorkerPlace, door: Door) -> None:
    """Wait at a socket for the host, and serve its one session until it ends.

    The socket is taken away once the host has come. Raises as `UnixListener.open`,
    `SealedFolder.open` and `WorkerShell.run`, and `Unavailable` (`sealed.locked`) while another
    process serves this journal.
    """
    listener = UnixListener.open(door.path, host_user=door.host_user, group=door.group)
    with closing(listener):
        transport, bootstrap = await listener.accept()
    await _serve(adapters, place, transport, bootstrap)


async def serve_tls(adapters: Adapters, place: WorkerPlace, door: TlsDoor) -> None:
    """Wait at an address for the host, and serve its one session until it ends.

    Nobody can connect any more once the host has come. Raises as `TlsListener.open`,
    `SealedFolder.open` and `WorkerShell.run`, and `Unavailable` (`sealed.locked`) while another
    process serves this journal.
    """
    listener = await TlsListener.open(door.address, door.files)
    with closing(listener):
        transport, bootstrap = await listener.accept()
    await _serve(adapters, place, transport, bootstrap)


async def _serve(
    adapters: Adapters, place: WorkerPlace, transport: Transport, bootstrap: Bootstrap
) -> None:
    with _ending(transport), closing(await asyncio.to_thread(_opened_folder, place)) as opened:
        access = JournalAccess(
            scope=place.scope,
            open=lambda: _opened(opened.storage),
            used=UsedNames(opened.folder.private(_SESSIONS)),
            limits=place.limits,
            predecessor_gone=lambda: True,  # the folder is ours alone for as long as we live
        )
        nonce = secrets.token_bytes(NONCE_LENGTH)
        await WorkerShell(transport, bootstrap, adapters, access, nonce=nonce).run()


def resolve_by_hand(
    place: WorkerPlace,
    operation_key: str,
    compensation_key: str | None,
    ending: Terminal,
    ruling: Ruling,
) -> None:
    """End an open entry by hand, while no process serves the journal.

    Raises as `SealedFolder.open`, `Vault.open` and `worker.ruling.resolve`, and `Unavailable`
    (`sealed.locked`).
    """
    with closing(_opened_folder(place)) as opened:
        by_hand.resolve(
            _opened(opened.storage),
            place.limits,
            operation_key,
            compensation_key,
            ending,
            ruling,
            old_run_gone=True,
        )


def read_journal(place: WorkerPlace) -> Journal:
    """The journal as it is durable, to be shown; a worker that serves it goes on.

    Raises as `SealedFolder.open`, `Storage.look` and `decode_journal`.
    """
    with closing(SealedFolder.open(place.directory, anchor=place.anchor)) as folder:
        payload = _storage(folder, place).look()
    return decode_journal(payload, max_bytes=place.limits.max_bytes)


def close_by_hand(place: WorkerPlace, ruling: EntryRuling) -> Terminal:
    """Close an entry for good, whether it came or not, while no process serves the journal.

    Raises as `resolve_by_hand`, and as `close_entry`.
    """
    entry = Closing(
        tool=ruling.tool,
        operation_key=ruling.operation_key,
        compensation_key=ruling.compensation_key,
        grant=ruling.grant,
        ending=ruling.ending,
        ruling=Ruling(who=ruling.who, why=ruling.why, evidence=ruling.evidence),
        old_run_gone=True,
    )
    with closing(_opened_folder(place)) as opened:
        return by_hand.close(_opened(opened.storage), place.limits, entry)


def release_by_hand(place: WorkerPlace, ruling: Ruling) -> None:
    """Let a frozen journal admit again. Raises as `resolve_by_hand` and `unfreeze`."""
    with closing(_opened_folder(place)) as opened:
        by_hand.unfreeze(_opened(opened.storage), place.limits, ruling)


def reseat_by_hand(
    place: WorkerPlace, ruling: Ruling, *, journal_is_gone: bool, anchor_is_gone: bool
) -> None:
    """Go on from a journal that was restored, or whose anchor was; it is frozen until released.

    What is gone has to be said to be gone: then the journal is begun anew, or the anchor. Raises
    as `SealedFolder.open`, `make_anchor`, `Vault.reseat` and `worker.ruling.reseat`, and
    `Unavailable` (`sealed.locked`).
    """
    if anchor_is_gone:
        make_anchor(place.anchor or place.directory / ANCHOR)
    with closing(_opened_folder(place)) as opened:
        Vault.reseat(
            opened.storage,
            who=ruling.who,
            why=ruling.why,
            payload=lambda found: by_hand.reseat(
                found, place.scope, place.limits, ruling, blank=journal_is_gone
            ),
        )


def supersede_by_hand(
    place: WorkerPlace, operation_key: str, compensation_key: str, grant: str, ruling: Ruling
) -> None:
    """Let an open inverse be looked up under another grant, named by its fingerprint (GR-4).

    Raises as `resolve_by_hand` and `supersede`, and `Refused` (`worker.fingerprint_invalid`).
    """
    new = check_fingerprint(grant, "grant_fingerprint")
    with closing(_opened_folder(place)) as opened:
        record = _opened(opened.storage)
        by_hand.supersede(record, place.limits, operation_key, compensation_key, new, ruling)


class _Opened(NamedTuple):
    folder: SealedFolder
    storage: Storage
    lock: int

    def close(self) -> None:
        self.folder.close()
        os.close(self.lock)


def _opened_folder(place: WorkerPlace) -> _Opened:
    folder = SealedFolder.open(place.directory, anchor=place.anchor)
    try:
        return _Opened(folder, _storage(folder, place), _locked(place.directory / _LOCK))
    except BaseException:
        folder.close()
        raise


def _storage(folder: SealedFolder, place: WorkerPlace) -> Storage:
    return folder.storage(
        Place(NAMESPACE, place.scope),
        max_bytes=place.limits.max_bytes,
        encrypted=place.encrypted,
    )


def _opened(storage: Storage) -> DurableRecord:
    return Vault.open(storage)


@contextmanager
def _ending(transport: Transport) -> Iterator[None]:
    """While this lasts, a signal ends the channel instead of the process."""
    loop = asyncio.get_running_loop()
    closings: set[asyncio.Task[None]] = set()

    def end() -> None:
        closings.add(loop.create_task(transport.close()))

    for signal_ in _ENDINGS:
        loop.add_signal_handler(signal_, end)
    try:
        yield
    finally:
        for signal_ in _ENDINGS:
            loop.remove_signal_handler(signal_)


def _locked(path: Path) -> int:
    """Take the lock of the process. The kernel gives it back when the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                raise coded("sealed.locked", {"file": path.name}) from None
            time.sleep(_PAUSE_S)
