"""Closing an entry for good, whether it came or not: what a hand settlement asks (INT-3).

An entry that is open is ended as in `rulings`. One that never came is put in, ended, with no input
of its own: any offer of its key differs from it and is refused, so that a frame which is still
under way finds the key taken. One that has ended the same way, or as cancelled, stays as it is,
which is why closing may be repeated. Any other ending contradicts the person and changes nothing.

Deliberately not here: who may close, and the host's ledger.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_identity import (
    CompensationKey,
    Fingerprint,
    check_compensation_key,
    check_fingerprint,
    check_operation_key,
    check_token,
)
from amends.contracts.worker_payload import Cancelled, StoredState, Terminal
from amends.journal.capacity import JournalLimits, check_room
from amends.journal.document import is_success
from amends.journal.records import (
    Journal,
    JournalCompensation,
    JournalRecord,
    Ruling,
    check_key_free,
    find_record,
    is_open,
    require_compensation,
    with_record,
)
from amends.journal.rulings import check_ruling, resolve_compensation, resolve_operation

NO_INPUT: Final = Fingerprint("0" * 64)
"""The input of an entry that never came. No input has this fingerprint."""


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """Which entry is closed, how, and on whose word.

    With a compensation key it is the inverse, under the grant of that fingerprint. `old_run_gone`:
    as in `rulings`.
    """

    tool: str
    operation_key: str
    compensation_key: str | None = None
    grant: str | None = None
    ending: Terminal
    ruling: Ruling
    old_run_gone: bool


class Closed(NamedTuple):
    """The journal afterwards, and how the entry stands ended in it."""

    journal: Journal
    ending: Terminal


def close_entry(journal: Journal, closing: Closing, limits: JournalLimits) -> Closed:
    """The journal with the entry closed; the same one if it stands closed already.

    An inverse whose original this journal has not as succeeded can never be admitted, so there is
    nothing to close. Raises `Conflict` (`journal.contradicted`), `Refused`
    (`journal.tool_mismatch`, `journal.compensation_unknown` for another key than the one that is
    there, `journal.key_taken` for one that another operation has), and as `resolve_operation`.
    """
    check_ruling(journal, closing.ruling)
    record = find_record(journal, closing.operation_key)
    if record is not None and record.tool != closing.tool:
        raise coded("journal.tool_mismatch")
    if closing.compensation_key is not None:
        return _close_inverse(journal, record, closing.compensation_key, closing, limits)
    if record is None:
        return Closed(_planted(journal, closing, limits), closing.ending)
    standing = _standing(record.state, closing.ending)
    if standing is not None:
        return Closed(journal, standing)
    ended = resolve_operation(
        journal,
        record.operation_key,
        closing.ending,
        closing.ruling,
        limits,
        old_run_gone=closing.old_run_gone,
    )
    return Closed(ended, closing.ending)


def _close_inverse(
    journal: Journal,
    record: JournalRecord | None,
    key: str,
    closing: Closing,
    limits: JournalLimits,
) -> Closed:
    if record is None or not is_success(record.state):
        return Closed(journal, closing.ending)
    if record.compensation is None:
        check_key_free(journal, key)
        inverse = _planted_inverse(check_compensation_key(key), closing)
        grown = with_record(journal, replace(record, compensation=inverse))
        check_room(grown, limits)
        return Closed(grown, closing.ending)
    standing = _standing(require_compensation(record, key).state, closing.ending)
    if standing is not None:
        return Closed(journal, standing)
    ended = resolve_compensation(
        journal,
        record.operation_key,
        key,
        closing.ending,
        closing.ruling,
        limits,
        old_run_gone=closing.old_run_gone,
    )
    return Closed(ended, closing.ending)


def _standing(state: StoredState, asked: Terminal) -> Terminal | None:
    """How an entry has ended already; None while it is open. Raises `journal.contradicted`."""
    if is_open(state):
        return None
    assert isinstance(state, Terminal)
    same = type(state) is type(asked) or (is_success(state) and is_success(asked))
    if not same and not isinstance(state, Cancelled):
        raise coded("journal.contradicted")
    return state


def _planted(journal: Journal, closing: Closing, limits: JournalLimits) -> Journal:
    """It counts as archived: it has nothing to let go, and is no run of this worker's."""
    planted = JournalRecord(
        tool=check_token(closing.tool, "tool"),
        operation_key=check_operation_key(closing.operation_key),
        input_fingerprint=NO_INPUT,
        state=closing.ending,
        compensation=None,
        ruling=closing.ruling,
        archived=True,
    )
    grown = replace(journal, records=(*journal.records, planted))
    check_room(grown, limits)
    return grown


def _planted_inverse(key: CompensationKey, closing: Closing) -> JournalCompensation:
    return JournalCompensation(
        compensation_key=key,
        input_fingerprint=NO_INPUT,
        grant_fingerprint=check_fingerprint(closing.grant, "grant_fingerprint"),
        state=closing.ending,
        ruling=closing.ruling,
    )
