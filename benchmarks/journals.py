"""Opening a worker's journal, beside reading its file and parsing the JSON in it.

To open is what a worker does before it answers: a fresh fence, the record read and authenticated,
its JSON checked and held to its one form.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from amends.contracts.worker_identity import Fingerprint, operation_key
from amends.contracts.worker_payload import Succeeded, ToolPayload
from amends.journal.capacity import JournalLimits
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal, JournalRecord, open_journal
from amends.sealed.envelopes import Place
from amends.sealed.vault import Storage, Vault
from amends.wiring.sealing import SealedFolder

LIMITS: Final = JournalLimits(max_records=10_000)
TIMES: Final = 9

_TOOL: Final = "release.publish"
_ZERO: Final = Fingerprint("0" * 64)
_PLACE: Final = Place("worker-journal", "bench")
_DONE: Final = Succeeded(ToolPayload.json({"done": True}))


def opened(folder: Path, count: int) -> float:
    """Microseconds to open a journal of so many operations, in the middle of some times."""
    with contextlib.closing(SealedFolder.make(folder / "worker")) as sealed:
        storage = _stored(sealed, count)

        def open_it() -> None:
            vault = Vault.open(storage)
            assert len(decode_journal(vault.payload, max_bytes=LIMITS.max_bytes).records) == count

        return _each(open_it)


def parsed(folder: Path, count: int) -> float:
    """Microseconds to read the same bytes from a file, and to parse them as JSON."""
    file = folder / "journal.json"
    file.write_bytes(encode_journal(_journal(count)))
    return _each(lambda: msgspec.json.decode(file.read_bytes()))


def _stored(sealed: SealedFolder, count: int) -> Storage:
    storage = sealed.storage(_PLACE, max_bytes=LIMITS.max_bytes)
    Vault.initialise(storage, encode_journal(_journal(count)))
    return storage


def _journal(count: int) -> Journal:
    records = tuple(map(_record, range(count)))
    return msgspec.structs.replace(open_journal(_PLACE.name), records=records)


def _record(number: int) -> JournalRecord:
    canonical = ToolPayload.json({"number": number}).canonical
    key = operation_key(
        plan=_ZERO, step_id="publish", tool=_TOOL, canonical=canonical, nonce=b"%d" % number
    )
    return JournalRecord(
        tool=_TOOL, operation_key=key, input_fingerprint=_ZERO, state=_DONE, compensation=None
    )


def _each(call: Callable[[], object]) -> float:
    return median(_once(call) for _ in range(TIMES)) * 1e6


def _once(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
