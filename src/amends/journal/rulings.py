"""What people decide in a journal: resolve, supersede, release, archive (WS-3, GR-4, WJ-1, FR-5).

A ruling says who, why, and on what evidence, and stays in the journal. It ends an open entry in a
terminal state; it never reopens one, never takes a key away, and never makes room for a second run.
Format 2 has no place for any of this. No room is set aside for what people write, so a ruling may
find the journal full; archiving makes room.
"""

from typing import Final

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_identity import Fingerprint, check_fingerprint
from amends.contracts.worker_payload import StoredState, Succeeded, Terminal
from amends.journal.capacity import JournalLimits, check_room
from amends.journal.observation import check_found, without_body
from amends.journal.records import (
    FORMAT_5,
    Journal,
    Ruling,
    Supersession,
    is_open,
    require_compensation,
    require_record,
    with_record,
)

TEXT_BYTES: Final = 2000
RESEATED: Final = "reseated"
"""Why a journal is frozen when no operation is the reason."""


def resolve_operation(
    journal: Journal,
    operation_key: str,
    ending: Terminal,
    ruling: Ruling,
    limits: JournalLimits,
    *,
    old_run_gone: bool,
) -> Journal:
    """The journal with an open original ended by hand.

    Raises `Refused`: `journal.operation_unknown`, `journal.ruling_refused`, `journal.full`, and as
    `check_found`.
    """
    record = require_record(journal, operation_key)
    check_ruling(journal, ruling)
    check_found(record.state, ending, old_run_gone=old_run_gone)
    return _fitting(with_record(journal, replace(record, state=ending, ruling=ruling)), limits)


def resolve_compensation(
    journal: Journal,
    operation_key: str,
    compensation_key: str,
    ending: Terminal,
    ruling: Ruling,
    limits: JournalLimits,
    *,
    old_run_gone: bool,
) -> Journal:
    """As `resolve_operation`, for the inverse. Raises `journal.compensation_unknown` too."""
    record = require_record(journal, operation_key)
    held = require_compensation(record, compensation_key)
    check_ruling(journal, ruling)
    check_found(held.state, ending, old_run_gone=old_run_gone)
    ended = replace(held, state=ending, ruling=ruling)
    return _fitting(with_record(journal, replace(record, compensation=ended)), limits)


def supersede_grant(
    journal: Journal,
    operation_key: str,
    compensation_key: str,
    new: Fingerprint,
    ruling: Ruling,
    limits: JournalLimits,
) -> Journal:
    """The journal with an open entry under another grant: it is looked up, and never dispatched.

    Raises `Refused`: `journal.operation_unknown`, `journal.compensation_unknown`,
    `journal.ruling_refused`, `journal.supersede_refused` for an entry that has ended or is under
    this grant already, `journal.full`.
    """
    record = require_record(journal, operation_key)
    held = require_compensation(record, compensation_key)
    check_ruling(journal, ruling)
    if not is_open(held.state) or held.grant_fingerprint == new:
        raise coded("journal.supersede_refused")
    step = Supersession(
        who=ruling.who,
        why=ruling.why,
        evidence=ruling.evidence,
        old=held.grant_fingerprint,
        new=check_fingerprint(new, "grant_fingerprint"),
    )
    moved = replace(held, grant_fingerprint=new, superseded=(*held.superseded, step))
    return _fitting(with_record(journal, replace(record, compensation=moved)), limits)


def release(journal: Journal, ruling: Ruling, limits: JournalLimits) -> Journal:
    """The journal admitting again, after a person compared both sides.

    Raises `Refused`: `journal.not_frozen`, `journal.ruling_refused`, `journal.full`.
    """
    if journal.frozen is None:
        raise coded("journal.not_frozen")
    check_ruling(journal, ruling)
    thawed = replace(journal, frozen=None, releases=(*journal.releases, ruling))
    return _fitting(thawed, limits)


def reseated(journal: Journal, ruling: Ruling, limits: JournalLimits) -> Journal:
    """The journal of a record that was lost or restored: nothing is admitted until it is released.

    What is open stays look-up only, as ever. Raises `Refused`: `journal.ruling_refused`,
    `journal.full`.
    """
    check_ruling(journal, ruling)
    frozen = replace(journal, frozen=RESEATED, releases=(*journal.releases, ruling))
    return _fitting(frozen, limits)


def archive(journal: Journal, operation_key: str) -> Journal:
    """The journal without the outputs of a finished record; keys, fingerprints and digests stay.

    An archived record no longer counts against the number of records, and goes on answering
    *Existing*. Raises `Refused`: `journal.operation_unknown`, `journal.archive_refused` while
    original or inverse is open.
    """
    record = require_record(journal, operation_key)
    held = record.compensation
    is_unfinished = is_open(record.state) or (held is not None and is_open(held.state))
    if journal.format_version == FORMAT_5 or is_unfinished:
        raise coded("journal.archive_refused")
    kept = None if held is None else replace(held, state=_let_go(held.state))
    emptied = replace(record, state=_let_go(record.state), compensation=kept, archived=True)
    return with_record(journal, emptied)


def _let_go(state: StoredState) -> StoredState:
    """An output that is empty has nothing to let go."""
    return without_body(state) if isinstance(state, Succeeded) and state.payload.size else state


def _fitting(journal: Journal, limits: JournalLimits) -> Journal:
    check_room(journal, limits)
    return journal


def check_ruling(journal: Journal, ruling: Ruling) -> None:
    """Raises `Refused` (`journal.ruling_refused`) for one that this journal cannot keep."""
    texts = (ruling.who, ruling.why, ruling.evidence)
    is_full = all(text.strip() and len(text.encode()) <= TEXT_BYTES for text in texts)
    if journal.format_version == FORMAT_5 or not is_full:
        raise coded("journal.ruling_refused")
