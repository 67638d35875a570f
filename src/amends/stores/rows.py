"""Stored bytes to documents and back, and what a row must agree on before anyone may act on it.

A row is read with suspicion: the body must decode as this version's document, and say the same
tenant, id, revision and columns as the row around it. A status that this version does not know
does not decode, so it is never taken for another one. Instants are stored as whole microseconds.

Deliberately not here: whether a document makes sense, which is for the rules.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from amends.contracts.documents import Document
from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.contracts.times import EPOCH
from amends.stores.port import Due, FeedEntry, Stored, Unreadable
from amends.stores.shapes import RECEIPTS, Columns, Shape

D = TypeVar("D", bound=Document)

MICROSECOND: Final = timedelta(microseconds=1)


class Row(msgspec.Struct, frozen=True, gc=False):
    """One stored document as it lies there, with its place in the order of insertion."""

    seq: int
    tenant: str
    id: str
    revision: int
    due_us: int | None
    columns: Columns
    body: bytes


def system_clock() -> datetime:
    """This machine's clock, in UTC."""
    return datetime.now(UTC)


def to_micros(instant: datetime) -> int:
    """Microseconds since 1970, of an aware instant."""
    span = instant - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def from_micros(micros: int) -> datetime:
    """The instant, in UTC."""
    return EPOCH + micros * MICROSECOND


def due_micros(due: Due | None, now_us: int) -> int | None:
    """When the document is due, a span counted from the store's time of the write."""
    if due is None:
        return None
    if due.at is not None:
        return to_micros(due.at)
    return now_us + (due.after_ms or 0) * 1000


def read_row(shape: Shape[D], row: Row, read_at: datetime) -> Stored[D]:
    """The document of a row. Raises `Corrupt` (`store.record_corrupt`) naming type and id."""
    document = _document(shape, row)
    if isinstance(document, str):
        raise Corrupt(
            "store.record_corrupt",
            f"A row of {shape.table} cannot be read: {document}.",
            details={"type": shape.table, "tenant": row.tenant, "id": row.id},
            next_step="Do nothing with this record; export it and have a person look at it.",
        )
    return _stored(document, row, read_at)


def show_row(shape: Shape[D], row: Row, read_at: datetime) -> Stored[D] | Unreadable:
    """The document of a row, or the row as it lies there when it cannot be read."""
    document = _document(shape, row)
    if isinstance(document, str):
        return Unreadable(shape.type, TenantId(row.tenant), row.id, document, row.body)
    return _stored(document, row, read_at)


def read_receipt(body: bytes, tenant: str, chain: str, number: int) -> Receipt:
    """A stored receipt. Raises `Corrupt` (`store.receipt_corrupt`) naming its place."""
    try:
        receipt = RECEIPTS.decode(body)
    except ValueError as error:
        raise corrupt_receipt(chain, number) from error
    if (receipt.step.tenant, receipt.chain, receipt.number) != (tenant, chain, number):
        raise corrupt_receipt(chain, number)
    return receipt


def read_entry(position: int, body: bytes, tenant: str, chain: str, number: int) -> FeedEntry:
    """A receipt at its place in the feed. Raises as `read_receipt`."""
    return FeedEntry(position, TenantId(tenant), read_receipt(body, tenant, chain, number))


def _document(shape: Shape[D], row: Row) -> D | str:
    try:
        document = shape.decoder.decode(row.body)
    except ValueError:
        return "the body is not a document that this version knows"
    if (document.tenant, shape.id_of(document)) != (row.tenant, row.id):
        return "the body belongs to another key"
    if document.revision != row.revision:
        return "the body is of another revision"
    if shape.values(document) != row.columns:
        return "the body and the columns disagree"
    return document


def _stored(document: D, row: Row, read_at: datetime) -> Stored[D]:
    due_at = None if row.due_us is None else from_micros(row.due_us)
    return Stored(document, due_at, read_at)


def corrupt_receipt(chain: str, number: int) -> Corrupt:
    """What a receipt gets that cannot be read, by its place."""
    return Corrupt(
        "store.receipt_corrupt",
        f"Receipt {number} of a chain cannot be read.",
        details={"chain": chain, "number": number},
        next_step="Keep the file as it is and compare it with an export or a backup.",
    )
