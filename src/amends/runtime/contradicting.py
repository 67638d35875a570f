"""Which records later evidence speaks against, for everybody who reads them (TX-REV-3).

A correction leaves the record as it is, so that nothing but the correction itself says that it is
there. Whoever shows a record asks here, also for a page of them. One that cannot be read counts as
open: it may well be.

Deliberately not here: what a contradicted result tells its reader (`transactions.projection`).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.documents import Correction, TransactionRecord
from amends.contracts.ids import TenantId, TransactionId
from amends.contracts.results import Result
from amends.runtime.pages import every
from amends.stores.port import Page, Store, Stored, Unreadable
from amends.transactions.projection import CONTRADICTED, contradicted


async def corrections_of(
    store: Store, record: TransactionRecord
) -> tuple[Stored[Correction] | Unreadable, ...]:
    """All corrections of a record."""
    where = {"transaction_id": record.transaction_id}
    return tuple([one async for one in every(store, Correction, record.tenant, where)])


def any_open(corrections: Iterable[Stored[Correction] | Unreadable]) -> bool:
    """Whether nobody has ruled on one of them yet."""
    return any(not isinstance(one, Stored) or one.document.ruling is None for one in corrections)


async def seen_by_evidence(
    store: Store, record: TransactionRecord | None, result: Result
) -> Result:
    """A result as it is to be shown, whoever asks and by whatever way."""
    if record is None or record.settled_at is None:
        return result
    spoken_against = any_open(await corrections_of(store, record))
    return contradicted(result) if spoken_against else result


async def page_by_evidence(
    store: Store, tenant: TenantId, page: Page[TransactionRecord]
) -> Page[TransactionRecord]:
    """A page of records with the attention that open corrections call for.

    As a rule a tenant has few corrections, and one reading tells all of them; where there are more,
    each record is looked at.
    """
    records = [one.document for one in page.items if isinstance(one, Stored)]
    settled = [one for one in records if one.settled_at is not None]
    marked = await _marked(store, tenant, settled) if settled else set()
    if not marked:
        return page
    return replace(page, items=tuple([_shown(one, marked) for one in page.items]))


async def _marked(
    store: Store, tenant: TenantId, settled: Iterable[TransactionRecord]
) -> set[TransactionId]:
    few = await store.list(Correction, tenant, limit=limits.PAGE_SIZE)
    if few.next is None and all(isinstance(one, Stored) for one in few.items):
        read = [one.document for one in few.items if isinstance(one, Stored)]
        return {one.transaction_id for one in read if one.ruling is None}
    return {one.transaction_id for one in settled if any_open(await corrections_of(store, one))}


def _shown(
    one: Stored[TransactionRecord] | Unreadable, marked: set[TransactionId]
) -> Stored[TransactionRecord] | Unreadable:
    if not isinstance(one, Stored) or one.document.transaction_id not in marked:
        return one
    return replace(one, document=replace(one.document, attention=CONTRADICTED))
