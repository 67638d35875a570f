"""What every driver refuses before it touches anything: calls that no store could mean.

They are mistakes of the calling program, never something that was lost to another writer, so they
raise `Misuse` instead of answering `Lost`. With these checks made, applying a change set can only
be accepted, lose, or meet a failing disk.

Deliberately not here: everything that depends on what is stored.
"""

from collections.abc import Callable
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from amends.contracts.errors import Misuse, Unavailable
from amends.stores.port import Append, ChangeSet, Guard, Insert, Replace

HIGHEST: Final = 2**63 - 1
LONGEST_MS: Final = 1000 * 365 * 24 * 3600 * 1000
"""A thousand years."""


def check_change_set(change_set: ChangeSet) -> None:
    """Raises `Misuse` (`store.malformed_change`) saying what means nothing, in which change."""
    if change_set.not_after is not None and _is_naive(change_set.not_after):
        raise _malformed(-1, "has a limit without a time zone")
    for index, change in enumerate(change_set.changes):
        if fault := _FAULTS[type(change)](change):
            raise _malformed(index, fault)


def read_cursor(cursor: str | None) -> int | None:
    """The place a page ended at. Raises `Misuse` (`store.unknown_cursor`) for any other text."""
    if cursor is None:
        return None
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18:
        return int(cursor)
    raise Misuse(
        "store.unknown_cursor",
        "This cursor does not come from a page of this store.",
        next_step="Begin again without a cursor.",
    )


def require_limit(limit: int) -> None:
    """Raises `Misuse` (`store.unusable_limit`) for a limit that asks for nothing."""
    if limit < 1:
        raise Misuse(
            "store.unusable_limit", "A limit must be at least 1.", next_step="Ask for one or more."
        )


def closed() -> Unavailable:
    """What every call on a closed store gets."""
    return Unavailable(
        "store.closed", "This store has been closed.", next_step="Open the store again."
    )


def _malformed(index: int, fault: str) -> Misuse:
    what = "A change set" if index < 0 else f"Change {index} of a change set"
    return Misuse(
        "store.malformed_change",
        f"{what} {fault}.",
        details={"index": index},
        next_step="This is a mistake in the calling program; nothing was changed.",
    )


def _insert_fault(insert: Insert) -> str | None:
    if insert.document.revision != 1:
        return "inserts a document whose revision is not 1"
    return _document_fault(insert)


def _replace_fault(replace: Replace) -> str | None:
    if not 2 <= replace.document.revision <= HIGHEST:
        return "replaces by a document whose revision cannot follow another"
    return _document_fault(replace)


def _document_fault(change: Insert | Replace) -> str | None:
    document, due = change.document, change.due
    if document.created_at.tzinfo is None or document.updated_at.tzinfo is None:
        return "holds a document with a time without a time zone"
    if due is None:
        return None
    if due.after_ms is not None:
        known = due.at is None and 0 <= due.after_ms <= LONGEST_MS
    else:
        known = due.at is not None and not _is_naive(due.at)
    return None if known else "does not say when it is due, by one instant or one span"


def _is_naive(instant: datetime) -> bool:
    return instant.tzinfo is None


def _append_fault(append: Append) -> str | None:
    if not append.receipts:
        return "appends no receipt"
    if not 0 <= append.after <= HIGHEST - len(append.receipts):
        return "appends after an impossible number"
    number, previous = append.after, append.receipts[0].previous
    for receipt in append.receipts:
        number += 1
        if receipt.number != number or receipt.previous != previous:
            return "appends receipts that do not follow one another"
        if receipt.chain != append.chain or receipt.step.tenant != append.tenant:
            return "appends a receipt of another chain"
        previous = receipt.hash
    return _name_fault(append.tenant, append.chain)


def _guard_fault(guard: Guard) -> str | None:
    if not 0 <= guard.revision <= HIGHEST:
        return "guards an impossible revision"
    return _name_fault(guard.tenant, guard.id)


def _name_fault(tenant: str, name: str) -> str | None:
    if tenant.isascii() and name.isascii():
        return None
    return "names a tenant, a document or a chain by something that is no identifier"


_FAULTS: Final[MappingProxyType[type[object], Callable[[Any], str | None]]] = MappingProxyType(
    {
        Insert: _insert_fault,
        Replace: _replace_fault,
        Append: _append_fault,
        Guard: _guard_fault,
    }
)
