"""The worker's journal: what it admitted, and at most one compensation under each (WJ-1).

Terminal payloads are kept, so that an answer that was lost can be given again. Input is kept as a
fingerprint only. Every change makes a new journal; no key ever leaves it.

Format 2 is that of protocol version 5. Format 3 adds, and leaves out where there is nothing to say:
room that admission reserved, the host's heads, what people ruled, and archived records.

Deliberately not here: which change is allowed (`admission`, `observation`, `rulings`), and bytes
(`document`).
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_identity import CompensationKey, Fingerprint, OperationKey
from amends.contracts.worker_messages import LedgerHead
from amends.contracts.worker_payload import Pending, Running, StoredState

FORMAT_5: Final = 2
FORMAT_6: Final = 3


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided, and on what ground."""

    who: str
    why: str
    evidence: str


class Supersession(Ruling, frozen=True, kw_only=True):
    """A ruling that an entry stands under another grant: from which to which (GR-4)."""

    old: Fingerprint
    new: Fingerprint


class JournalCompensation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one compensation of an operation."""

    compensation_key: CompensationKey
    input_fingerprint: Fingerprint
    grant_fingerprint: Fingerprint
    state: StoredState
    room: int = 0
    ruling: Ruling | None = None
    superseded: tuple[Supersession, ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation. The rooms are bytes that admission set aside: for the largest outcome, and
    for the whole of one later compensation."""

    tool: str
    operation_key: OperationKey
    input_fingerprint: Fingerprint
    state: StoredState
    compensation: JournalCompensation | None
    room: int = 0
    inverse_room: int = 0
    head: LedgerHead | None = None
    ruling: Ruling | None = None
    archived: bool = False


class Journal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that one worker did for one tenant scope.

    `frozen` holds the key of the operation whose heads contradicted, or says that the record was
    re-seated, while nobody has ruled.
    """

    format_version: int
    scope: str
    records: tuple[JournalRecord, ...]
    frozen: str | None = None
    releases: tuple[Ruling, ...] = ()


def open_journal(scope: str, *, format_version: int = FORMAT_6) -> Journal:
    """A journal without records, for a scope that has none yet. It has to be persisted first."""
    return Journal(format_version=format_version, scope=scope, records=())


def is_open(state: StoredState) -> bool:
    """Whether the outcome is still to come."""
    return isinstance(state, Pending | Running)


def find_record(journal: Journal, operation_key: str) -> JournalRecord | None:
    """The record of an operation, if the journal has it."""
    for record in journal.records:
        if record.operation_key == operation_key:
            return record
    return None


def require_record(journal: Journal, operation_key: str) -> JournalRecord:
    """As `find_record`. Raises `Refused` (`journal.operation_unknown`)."""
    record = find_record(journal, operation_key)
    if record is None:
        raise coded("journal.operation_unknown")
    return record


def require_compensation(record: JournalRecord, compensation_key: str) -> JournalCompensation:
    """The record's compensation. Raises `Refused` (`journal.compensation_unknown`)."""
    held = record.compensation
    if held is None or held.compensation_key != compensation_key:
        raise coded("journal.compensation_unknown")
    return held


def check_key_free(journal: Journal, compensation_key: str) -> None:
    """That no operation has this compensation. Raises `Refused` (`journal.key_taken`)."""
    held = (record.compensation for record in journal.records)
    if any(one is not None and one.compensation_key == compensation_key for one in held):
        raise coded("journal.key_taken")


def with_record(journal: Journal, changed: JournalRecord) -> Journal:
    """The journal with this record in the place of the one of its key."""
    return replace(
        journal,
        records=tuple(
            changed if one.operation_key == changed.operation_key else one
            for one in journal.records
        ),
    )
