"""Room in the journal: an effect that was admitted can always be recorded (WJ-3).

Admission sets aside the stored, escaped size of the largest outcome, and of one later compensation
where the grant allows one. What is set aside counts as used until the outcome is there.

Format 2 has nowhere to say so; there, only what is stored counts, as protocol version 5 does.
"""

from typing import Final, NamedTuple

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import (
    MAX_FAILURE_BYTES,
    Cancelled,
    Failed,
    PayloadFormat,
)
from amends.journal.document import encode_journal
from amends.journal.records import FORMAT_5, Journal, JournalRecord, is_open

HEAD_ROOM: Final = 256
"""More than a head takes, or what says why a journal is frozen; format 3 sets it aside for each."""

ESCAPED: Final = 6
"""A control character of one byte is stored as six."""

_FRAME: Final = 256
"""More than what stands around a payload, a message or a digest."""

_ENTRY: Final = 512
"""More than what stands around the outcome of a compensation: keys, fingerprints, names."""


class JournalLimits(NamedTuple):
    """How many live records a journal takes, and how many bytes."""

    max_records: int = 64
    max_bytes: int = 16 * 1024 * 1024


LIMITS_5: Final = JournalLimits(max_bytes=256 * 1024)
"""Those of protocol version 5."""


def outcome_room(grant: CapabilityGrant) -> int:
    """Bytes that the largest outcome under this grant takes when stored."""
    each = ESCAPED if grant.format is PayloadFormat.TEXT else 1
    return _FRAME + max(each * grant.max_output_bytes, ESCAPED * MAX_FAILURE_BYTES)


def inverse_room(grant: CapabilityGrant) -> int:
    """Bytes that one compensation under this grant takes; none where it allows none."""
    return _ENTRY + outcome_room(grant) if grant.max_compensations else 0


def used_bytes(journal: Journal) -> int:
    """Bytes that are stored or set aside."""
    stored = len(encode_journal(journal))
    if journal.format_version == FORMAT_5:
        return stored
    return stored + HEAD_ROOM + sum(map(_set_aside, journal.records))


def check_room(journal: Journal, limits: JournalLimits) -> None:
    """Raises `Refused` (`journal.full`) for a journal that would not fit."""
    live = sum(not record.archived for record in journal.records)
    if live > limits.max_records:
        raise coded("journal.full", {"limit": limits.max_records})
    if used_bytes(journal) > limits.max_bytes:
        raise coded("journal.full", {"limit": limits.max_bytes})


def rooms_of(journal: Journal, grant: CapabilityGrant) -> tuple[int, int]:
    """What admission sets aside in this journal, for the outcome and for an inverse."""
    if journal.format_version == FORMAT_5:
        return 0, 0
    return outcome_room(grant), inverse_room(grant)


def _set_aside(record: JournalRecord) -> int:
    own = HEAD_ROOM + (record.room if is_open(record.state) else 0)
    held = record.compensation
    if held is not None:
        return own + (held.room if is_open(held.state) else 0)
    return own + (0 if isinstance(record.state, Failed | Cancelled) else record.inverse_room)
