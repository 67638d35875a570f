"""What an operator journals by hand, through an opening of the journal (WS-3).

Deliberately not here: who may do it, and which ruling is allowed (`journal.rulings`).
"""

from collections.abc import Callable

from amends.contracts.codes import coded
from amends.contracts.persistence import DurableRecord
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_payload import Terminal
from amends.journal.capacity import JournalLimits
from amends.journal.closing import Closing, close_entry
from amends.journal.document import decode_journal, encode_journal
from amends.journal.records import Journal, Ruling, open_journal
from amends.journal.rulings import (
    release,
    reseated,
    resolve_compensation,
    resolve_operation,
    supersede_grant,
)


def resolve(
    record: DurableRecord,
    limits: JournalLimits,
    operation_key: str,
    compensation_key: str | None,
    ending: Terminal,
    ruling: Ruling,
    *,
    old_run_gone: bool,
) -> None:
    """End an open original by hand, or with a second key its inverse; durable when it returns.

    `old_run_gone`: the process that admitted it has ended, or its horizon has passed; without that
    nobody may say that it did not happen. Raises as `resolve_operation`, `resolve_compensation` and
    `DurableRecord.save`.
    """

    def ended(journal: Journal) -> Journal:
        if compensation_key is None:
            return resolve_operation(
                journal, operation_key, ending, ruling, limits, old_run_gone=old_run_gone
            )
        return resolve_compensation(
            journal,
            operation_key,
            compensation_key,
            ending,
            ruling,
            limits,
            old_run_gone=old_run_gone,
        )

    _change(record, limits, ended)


def close(record: DurableRecord, limits: JournalLimits, closing: Closing) -> Terminal:
    """Close an entry for good, whether it came or not; how it stands ended. Durable then.

    Raises as `close_entry` and `DurableRecord.save`.
    """
    journal = decode_journal(record.payload, max_bytes=limits.max_bytes)
    closed = close_entry(journal, closing, limits)
    if closed.journal != journal:
        record.save(encode_journal(closed.journal))
    return closed.ending


def unfreeze(record: DurableRecord, limits: JournalLimits, ruling: Ruling) -> None:
    """Let a frozen journal admit again, after both sides were compared. Raises as `release`."""
    _change(record, limits, lambda journal: release(journal, ruling, limits))


def reseat(
    found: bytes | None, scope: str, limits: JournalLimits, ruling: Ruling, *, blank: bool
) -> bytes:
    """What to go on from where a journal or its anchor was lost or restored: frozen (ST-2).

    Only where a person says that the journal is gone for good is it begun anew, `blank`. Raises
    as `reseated` and `decode_journal`, and `Corrupt` (`sealed.local_lost`).
    """
    if found is None and not blank:
        raise coded("sealed.local_lost")
    journal = (
        open_journal(scope) if found is None else decode_journal(found, max_bytes=limits.max_bytes)
    )
    return encode_journal(reseated(journal, ruling, limits))


def supersede(
    record: DurableRecord,
    limits: JournalLimits,
    operation_key: str,
    compensation_key: str,
    new: Fingerprint,
    ruling: Ruling,
) -> None:
    """Let an open inverse be looked up under another grant (GR-4). Raises as `supersede_grant`."""
    _change(
        record,
        limits,
        lambda journal: supersede_grant(
            journal, operation_key, compensation_key, new, ruling, limits
        ),
    )


def _change(
    record: DurableRecord, limits: JournalLimits, change: Callable[[Journal], Journal]
) -> None:
    journal = decode_journal(record.payload, max_bytes=limits.max_bytes)
    record.save(encode_journal(change(journal)))
