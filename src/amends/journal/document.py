"""A journal as bytes, and back: compact JSON in one form (WJ-1).

What does not encode to exactly the same bytes again was not written here and is refused. A document
that decodes is coherent as well: keys have their form and stand once, only what succeeded has a
compensation, and format 2 says nothing that it has no words for.

Deliberately not here: who vouches for the bytes. They come out of a sealed envelope.
"""

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError, Refused
from amends.contracts.worker_identity import (
    check_compensation_key,
    check_fingerprint,
    check_operation_key,
    check_token,
)
from amends.contracts.worker_payload import StoredState, Succeeded, SucceededOversize
from amends.contracts.worker_wire import decode_record, encode_record
from amends.journal.records import (
    FORMAT_5,
    FORMAT_6,
    Journal,
    JournalCompensation,
    JournalRecord,
)


def encode_journal(journal: Journal) -> bytes:
    """The bytes that are persisted, hashed and decoded."""
    return encode_record(journal)


def decode_journal(data: bytes, *, max_bytes: int) -> Journal:
    """The journal that these bytes are. Raises `Corrupt` (`journal.malformed`)."""
    try:
        journal = decode_record(data, Journal, max_bytes=max_bytes)
        _check_names(journal)
    except Refused:
        raise _malformed() from None
    if encode_journal(journal) != data or not _is_coherent(journal):
        raise _malformed()
    return journal


def _check_names(journal: Journal) -> None:
    check_token(journal.scope, "scope")
    for record in journal.records:
        check_token(record.tool, "tool")
        check_operation_key(record.operation_key)
        check_fingerprint(record.input_fingerprint, "input_fingerprint")
        if record.compensation is not None:
            check_compensation_key(record.compensation.compensation_key)
            check_fingerprint(record.compensation.input_fingerprint, "input_fingerprint")
            check_fingerprint(record.compensation.grant_fingerprint, "grant_fingerprint")


def _is_coherent(journal: Journal) -> bool:
    keys = [record.operation_key for record in journal.records]
    held = [one.compensation for one in journal.records if one.compensation is not None]
    inverse = [one.compensation_key for one in held]
    return (
        len(set(keys)) == len(keys)
        and len(set(inverse)) == len(inverse)
        and all(one.compensation is None or is_success(one.state) for one in journal.records)
        and (
            journal.format_version == FORMAT_6
            or (journal.format_version == FORMAT_5 and _is_plain(journal))
        )
    )


def is_success(state: StoredState) -> bool:
    """Whether the effect is known to have happened."""
    return isinstance(state, Succeeded | SucceededOversize)


def _is_plain(journal: Journal) -> bool:
    """Whether there is nothing in it that format 3 added."""
    states = [
        one.state
        for record in journal.records
        for one in (record, record.compensation)
        if one is not None
    ]
    plain = Journal(
        format_version=FORMAT_5,
        scope=journal.scope,
        records=tuple(map(_plain_record, journal.records)),
    )
    return plain == journal and not any(isinstance(state, SucceededOversize) for state in states)


def _plain_record(record: JournalRecord) -> JournalRecord:
    held = record.compensation
    return JournalRecord(
        tool=record.tool,
        operation_key=record.operation_key,
        input_fingerprint=record.input_fingerprint,
        state=record.state,
        compensation=None
        if held is None
        else JournalCompensation(
            compensation_key=held.compensation_key,
            input_fingerprint=held.input_fingerprint,
            grant_fingerprint=held.grant_fingerprint,
            state=held.state,
        ),
    )


def _malformed() -> AmendsError:
    return coded("journal.malformed")
