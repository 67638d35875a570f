"""May this run here? Admission answers *Dispatch*, *Existing*, or refuses (WJ-2).

*Dispatch* carries the journal that has to be durable before the adapter is entered, which may then
happen once. *Existing* carries the stored state and never leads into a handler. A refusal changes
nothing. There is a third answer in version 6: heads of the host that contradict one another
freeze the journal, and that too has to be persisted (FR-5).

Deliberately not here: budgets and frames (`protocol`), and calling adapters (`worker`).
"""

from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import (
    check_compensation_key,
    check_operation_key,
    worker_input_fingerprint,
)
from amends.contracts.worker_messages import CompensationRequest, LedgerHead, OperationRequest
from amends.contracts.worker_payload import Pending, StoredState
from amends.journal.capacity import JournalLimits, check_room, rooms_of
from amends.journal.document import is_success
from amends.journal.heads import Standing, compare_heads, kept_head
from amends.journal.records import (
    Journal,
    JournalCompensation,
    JournalRecord,
    check_key_free,
    find_record,
    require_record,
    with_record,
)


class Dispatch(NamedTuple):
    """Persist this journal; then, and only then, enter the handler once."""

    journal: Journal


class Existing(NamedTuple):
    """It is there. Persist the journal if it differs: the host's head moved on."""

    journal: Journal
    state: StoredState


class Contradicted(NamedTuple):
    """Persist this frozen journal, and refuse with `journal.heads_contradict`."""

    journal: Journal


Admission: TypeAlias = Dispatch | Existing | Contradicted


def admit_operation(
    journal: Journal, request: OperationRequest, grant: CapabilityGrant, limits: JournalLimits
) -> Admission:
    """Admit an operation under the session's grant, or find it.

    Raises `Refused`: `worker.operation_key_invalid`, `journal.tool_mismatch`,
    `journal.operation_differs`, `journal.frozen`, `journal.head_stale`, `journal.full`.
    """
    key = check_operation_key(request.operation_key)
    if request.tool != grant.tool:
        raise coded("journal.tool_mismatch")
    fingerprint = worker_input_fingerprint(request.payload.canonical)
    known = find_record(journal, key)
    if known is None:
        return _new_operation(journal, request, grant, limits)
    if (known.tool, known.input_fingerprint) != (request.tool, fingerprint):
        raise coded("journal.operation_differs")
    return _existing(journal, known, request.head, known.state)


def admit_compensation(
    journal: Journal, request: CompensationRequest, grant: CapabilityGrant, limits: JournalLimits
) -> Admission:
    """Admit the one compensation of an operation under the session's grant, or find it.

    Raises `Refused`: `journal.scope_mismatch`, `journal.operation_unknown`,
    `journal.tool_mismatch`, `journal.requires_succeeded`, `journal.grant_mismatch`,
    `journal.not_granted`, `journal.compensation_differs` naming the field, `journal.key_taken`,
    `journal.frozen`, `journal.head_stale`, `journal.full`.
    """
    record = _compensable(journal, request, grant)
    asked = _asked(journal, request, grant)
    held = record.compensation
    if held is None:
        return _new_compensation(journal, record, asked, request.head, limits)
    for field in ("compensation_key", "input_fingerprint", "grant_fingerprint"):
        if getattr(held, field) != getattr(asked, field):
            raise coded("journal.compensation_differs", {"field": field})
    return _existing(journal, record, request.head, held.state)


def _compensable(
    journal: Journal, request: CompensationRequest, grant: CapabilityGrant
) -> JournalRecord:
    if request.tenant_scope != journal.scope:
        raise coded("journal.scope_mismatch")
    record = require_record(journal, request.operation_key)
    if not record.tool == request.tool == grant.tool:
        raise coded("journal.tool_mismatch")
    if not is_success(record.state):
        raise coded("journal.requires_succeeded")
    if request.grant_fingerprint != grant_fingerprint(grant):
        raise coded("journal.grant_mismatch")
    if grant.max_compensations < 1:
        raise coded("journal.not_granted")
    return record


def _asked(
    journal: Journal, request: CompensationRequest, grant: CapabilityGrant
) -> JournalCompensation:
    return JournalCompensation(
        compensation_key=check_compensation_key(request.compensation_key),
        input_fingerprint=worker_input_fingerprint(request.payload.canonical),
        grant_fingerprint=request.grant_fingerprint,
        state=Pending(),
        room=rooms_of(journal, grant)[0],
    )


def _new_operation(
    journal: Journal, request: OperationRequest, grant: CapabilityGrant, limits: JournalLimits
) -> Dispatch:
    _check_thawed(journal)
    room, inverse = rooms_of(journal, grant)
    record = JournalRecord(
        tool=request.tool,
        operation_key=request.operation_key,
        input_fingerprint=worker_input_fingerprint(request.payload.canonical),
        state=Pending(),
        compensation=None,
        room=room,
        inverse_room=inverse,
        head=kept_head(journal, request.head),
    )
    grown = replace(journal, records=(*journal.records, record))
    check_room(grown, limits)
    return Dispatch(grown)


def _new_compensation(
    journal: Journal,
    record: JournalRecord,
    asked: JournalCompensation,
    head: LedgerHead | None,
    limits: JournalLimits,
) -> Dispatch | Contradicted:
    _check_thawed(journal)
    check_key_free(journal, asked.compensation_key)
    if _standing(journal, record, head) is Standing.CONTRADICTS:
        return Contradicted(replace(journal, frozen=record.operation_key))
    changed = replace(record, compensation=asked, head=kept_head(journal, head))
    grown = with_record(journal, changed)
    check_room(grown, limits)
    return Dispatch(grown)


def _existing(
    journal: Journal, record: JournalRecord, head: LedgerHead | None, state: StoredState
) -> Existing | Contradicted:
    standing = _standing(journal, record, head)
    if standing is Standing.CONTRADICTS:
        return Contradicted(replace(journal, frozen=record.operation_key))
    if standing is Standing.SAME:
        return Existing(journal, state)
    return Existing(with_record(journal, replace(record, head=head)), state)


def _standing(journal: Journal, record: JournalRecord, head: LedgerHead | None) -> Standing:
    return compare_heads(record.head, kept_head(journal, head))


def _check_thawed(journal: Journal) -> None:
    if journal.frozen is not None:
        raise coded("journal.frozen")
