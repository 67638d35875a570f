"""What the store's part of the specification and of the public failures comes down to.

The tests themselves belong to the contract and run there over every driver; here they carry the ids
that they prove.
"""

import pytest

from amends.testing.store_bench import MemoryBench, SqliteBench, StoreBench
from amends.testing.store_contract import StoreContract


class OverMemory(StoreContract):
    """Not collected by itself."""

    def bench(self) -> StoreBench:
        return MemoryBench()


class OverSqlite(StoreContract):
    """Not collected by itself."""

    def bench(self) -> StoreBench:
        return SqliteBench()


over_every_store = pytest.mark.parametrize(
    "store", [OverMemory(), OverSqlite()], ids=["memory", "sqlite"]
)


@pytest.mark.rule("TX-REV-1")
@over_every_store
async def test_a_refused_change_leaves_every_byte_as_it_was(store: StoreContract) -> None:
    """The store's part of the rule: compare and set, one revision at a time, all or nothing."""
    await store.test_a_document_is_replaced_by_its_next_revision()
    await store.test_any_revision_but_the_next_loses()
    await store.test_a_change_set_that_loses_leaves_every_byte_as_it_was()
    await store.test_change_sets_that_meet_keep_their_own_verdicts()


@pytest.mark.rule("TX-REV-2")
@over_every_store
async def test_a_document_is_inserted_if_absent_and_never_over_another(
    store: StoreContract,
) -> None:
    """There is no other way to write: replacing needs what is there to be the revision before."""
    await store.test_an_existing_document_is_never_inserted_over()
    await store.test_an_absent_document_cannot_be_replaced()
    await store.test_of_64_tasks_that_replace_one_revision_exactly_one_wins()


@pytest.mark.case("IDR-01")
@over_every_store
async def test_of_tasks_that_insert_one_key_at_once_one_wins_and_losers_are_told(
    store: StoreContract,
) -> None:
    """The store's part of the case within one process."""
    await store.test_change_sets_that_meet_keep_their_own_verdicts()


@pytest.mark.case("JRN-06")
@over_every_store
async def test_receipts_are_read_back_to_the_same_digests_and_a_chain_has_one_beginning(
    store: StoreContract,
) -> None:
    """The part of the case that memory and SQLite can show."""
    await store.test_receipts_are_read_back_in_order_and_verify_after_reopening()
    await store.test_of_16_tasks_that_append_at_one_end_exactly_one_wins()


@pytest.mark.case("TIM-07")
@over_every_store
async def test_a_clock_that_jumps_changes_no_order(store: StoreContract) -> None:
    """The store's part of the case; what an expired plan is, is not the store's to say."""
    await store.test_a_clock_that_is_set_back_and_forth_breaks_nothing_and_order_stays()


@pytest.mark.case("VER-01")
@over_every_store
async def test_what_a_later_version_wrote_is_shown_and_never_taken_for_something_else(
    store: StoreContract,
) -> None:
    """Statuses are stored by name; a later schema is refused at opening (see there)."""
    await store.test_a_status_of_a_later_version_is_shown_and_never_taken_for_another()
    await store.test_a_field_of_a_later_version_does_not_hide_the_document()
