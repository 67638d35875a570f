"""Finding what is asked about, for look-ups (WS-3, FR-5). They are answered even while frozen.

A look-up says where the host's ledger stands, as every request does. So it may move the kept head,
or freeze the journal; the journal that comes back is persisted if it differs, and the answer is
given either way.

Deliberately not here: asking adapters, and what may be said of an open entry (`reports`).
"""

from typing import NamedTuple

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_messages import (
    CompensationStateRequest,
    LedgerHead,
    ReconciliationRequest,
)
from amends.contracts.worker_payload import StoredState
from amends.journal.heads import Standing, compare_heads, kept_head
from amends.journal.records import Journal, JournalRecord, find_record, with_record


class Found(NamedTuple):
    """What is stored of it, or None, which only a journal that is open under its fence may say."""

    journal: Journal
    state: StoredState | None


def find_operation(journal: Journal, request: ReconciliationRequest) -> Found:
    """The original that is asked about.

    Raises `Refused`: `journal.tool_mismatch`, `journal.head_stale`.
    """
    record = find_record(journal, request.operation_key)
    if record is None:
        return Found(journal, None)
    if record.tool != request.tool:
        raise coded("journal.tool_mismatch")
    return Found(_noted(journal, record, request.head), record.state)


def find_compensation(journal: Journal, request: CompensationStateRequest) -> Found:
    """The inverse that is asked about; another one of the same operation is refused, not none.

    Raises `Refused`: `journal.scope_mismatch`, `journal.tool_mismatch`,
    `journal.compensation_differs` naming the field, `journal.head_stale`.
    """
    if request.tenant_scope != journal.scope:
        raise coded("journal.scope_mismatch")
    record = find_record(journal, request.operation_key)
    if record is None:
        return Found(journal, None)
    if record.tool != request.tool:
        raise coded("journal.tool_mismatch")
    held = record.compensation
    if held is None:
        return Found(_noted(journal, record, request.head), None)
    for field in ("compensation_key", "grant_fingerprint"):
        if getattr(held, field) != getattr(request, field):
            raise coded("journal.compensation_differs", {"field": field})
    return Found(_noted(journal, record, request.head), held.state)


def _noted(journal: Journal, record: JournalRecord, head: LedgerHead | None) -> Journal:
    head = kept_head(journal, head)
    standing = compare_heads(record.head, head)
    if standing is Standing.CONTRADICTS:
        return replace(journal, frozen=record.operation_key)
    if standing is Standing.SAME:
        return journal
    return with_record(journal, replace(record, head=head))
