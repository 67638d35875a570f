"""What every store keeps to when it is asked: listings, look-ups and what is due.

Part of `amends.testing.store_contract`.
"""

import asyncio
from datetime import timedelta

from amends.contracts.approvals import ApprovalStatus
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.errors import Misuse
from amends.stores.port import Due, Insert, Page, Replace, Store, Stored
from amends.testing.store_contract_trial import Trial, commit, error_of
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_plan,
    a_transaction,
    an_action,
    an_approval,
    changed,
    links,
    tail_of,
)

THE_PAST = timedelta(hours=1)


class QuestionContract(Trial):
    """Listings and look-ups."""

    async def test_a_record_is_found_by_its_plan_id(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction(plan=a_plan())
            await commit(store, Insert(record))
            found = await store.find(TransactionRecord, TENANT, "plan_id", "plan:1")
            assert found is not None
            assert found.document == record
            assert await store.find(TransactionRecord, TENANT, "plan_id", "plan:2") is None

    async def test_only_a_unique_key_can_be_looked_up(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            error = await error_of(store.find(TransactionRecord, TENANT, "status", "planned"))
            assert isinstance(error, Misuse)
            assert error.code == "store.unknown_key"

    async def test_a_listing_begins_with_the_newest_whatever_the_ids_say(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            for name in ("m", "z", "a"):
                await commit(store, Insert(a_transaction(name)))
            first = a_transaction("m")
            await commit(store, Replace(changed(first)))
            assert _names(await store.list(TransactionRecord, TENANT)) == ["a", "z", "m"]

    async def test_a_listing_is_filtered_by_columns(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            for name in "abcd":
                status = Status.FAILED if name in "bd" else Status.PLANNED
                await commit(store, Insert(a_transaction(name, status=status)))
            by_status = {"status": "failed"}
            page = await store.list(TransactionRecord, TENANT, where=by_status)
            assert _names(page) == ["d", "b"]
            both = {**by_status, "action_id": "act_b"}
            assert _names(await store.list(TransactionRecord, TENANT, where=both)) == ["b"]
            await commit(store, Insert(an_action()), Insert(an_approval()))
            actions = await store.list(
                ActionDocument, TENANT, where={"transaction_id": "txn_1", "mode": "plan"}
            )
            assert len(actions.items) == 1
            approvals = await store.list(
                type(an_approval()), TENANT, where={"status": ApprovalStatus.PENDING}
            )
            assert len(approvals.items) == 1

    async def test_pages_neither_repeat_nor_skip_while_others_insert(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            expected = [str(number) for number in range(7)]
            for name in expected:
                await commit(store, Insert(a_transaction(name)))
            seen: list[str] = []
            cursor = None
            for round_ in range(3):
                page = await store.list(TransactionRecord, TENANT, after=cursor, limit=3)
                seen += _names(page)
                cursor = page.next
                await commit(store, Insert(a_transaction(f"later{round_}")))
            assert cursor is None
            assert seen == expected[::-1]

    async def test_a_page_that_holds_all_has_no_next(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            assert await store.list(TransactionRecord, TENANT, limit=1) == Page((), None)
            await commit(store, Insert(a_transaction()), Insert(a_transaction("2")))
            page = await store.list(TransactionRecord, TENANT, limit=2)
            assert (_names(page), page.next) == (["2", "1"], None)

    async def test_a_question_that_means_nothing_is_misuse(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            asked = {
                "store.unknown_column": store.list(TransactionRecord, TENANT, where={"body": "x"}),
                "store.unusable_limit": store.list(TransactionRecord, TENANT, limit=0),
            }
            for code, call in asked.items():
                error = await error_of(call)
                assert isinstance(error, Misuse)
                assert error.code == code
            for limited in (
                store.due(TransactionRecord, 0),
                store.receipts(TENANT, "chain", limit=0),
                store.feed(limit=-1),
            ):
                assert (await error_of(limited)).code == "store.unusable_limit"

    async def test_a_cursor_from_elsewhere_is_misuse(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            for cursor in ("", "x", "-1", "1 OR 1", "٣", "9" * 30):
                error = await error_of(store.list(TransactionRecord, TENANT, after=cursor))
                assert isinstance(error, Misuse)
                assert error.code == "store.unknown_cursor"


class DueContract(Trial):
    """What needs looking at, by the store's own clock."""

    async def test_what_is_due_comes_earliest_first_from_all_tenants(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            now = bench.clock()
            for name, tenant, ms in (
                ("late", TENANT, 30),
                ("soon", OTHER_TENANT, 10),
                ("next", TENANT, 20),
            ):
                due = Due(at=now + timedelta(milliseconds=ms))
                await commit(store, Insert(a_transaction(name, tenant=tenant), due))
            await commit(store, Insert(a_transaction("never")))
            bench.clock.step(30)
            assert await _due(store) == ["soon", "next", "late"]
            assert await _due(store, limit=2) == ["soon", "next"]

    async def test_a_document_is_due_at_its_time_and_not_before(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            due = Due(at=bench.clock() + timedelta(milliseconds=10))
            await commit(store, Insert(a_transaction(), due))
            bench.clock.step(9)
            assert await _due(store) == []
            found = await store.get(TransactionRecord, TENANT, "txn_1")
            assert found is not None
            assert not found.lapsed
            bench.clock.step(1)
            (due_now,) = await store.due(TransactionRecord, 10)
            assert due_now.due_at == due.at == due_now.read_at == bench.clock()
            assert due_now.lapsed

    async def test_a_span_counts_from_the_time_of_the_write(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction(at=bench.clock())
            bench.clock.step(5_000)
            accepted = await commit(store, Insert(record, Due(after_ms=250)))
            found = await store.get(TransactionRecord, TENANT, "txn_1")
            assert found is not None
            assert found.due_at == accepted.at + timedelta(milliseconds=250)

    async def test_a_replacement_without_a_due_time_is_due_no_more(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction()
            await commit(store, Insert(record, Due(after_ms=0)))
            assert await _due(store) == ["1"]
            await commit(store, Replace(changed(record), Due(after_ms=10)))
            assert await _due(store) == []
            bench.clock.step(10)
            assert await _due(store) == ["1"]
            await commit(store, Replace(changed(changed(record))))
            assert await _due(store) == []
            found = await store.get(TransactionRecord, TENANT, "txn_1")
            assert found is not None
            assert found.due_at is None

    async def test_each_type_has_a_queue_of_its_own(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, Insert(an_action(), Due(after_ms=0)))
            assert await _due(store) == []
            assert len(await store.due(ActionDocument, 1)) == 1

    async def test_a_clock_that_is_set_back_and_forth_breaks_nothing_and_order_stays(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            first, links_1 = a_transaction(at=bench.clock()), links()
            await commit(store, Insert(first, Due(after_ms=1_000)), links_1)
            bench.clock.set(bench.clock() - THE_PAST)
            second, links_2 = a_transaction("2", at=bench.clock()), links(tail=tail_of(links_1))
            await commit(store, Insert(second, Due(after_ms=1_000)), links_2)
            following = changed(first, updated_at=bench.clock(), status=Status.COMMITTING)
            await commit(store, Replace(following, Due(after_ms=2_000)))
            assert _names(await store.list(TransactionRecord, TENANT)) == ["2", "1"]
            found = await store.get(TransactionRecord, TENANT, "txn_1")
            assert found is not None
            assert found.document == following
            assert await _due(store) == []
            bench.clock.set(bench.clock() + THE_PAST)
            assert await _due(store) == ["2", "1"]
            receipts = [entry.receipt for entry in await store.feed()]
            assert receipts == [*links_1.receipts, *links_2.receipts]


class NewsContract(Trial):
    """Waiting without asking all the time."""

    async def test_news_are_waited_for_no_longer_than_was_said(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            async with asyncio.timeout(10):
                await store.news(0.01)
                await store.news(0)


async def _due(store: Store, limit: int = 10) -> list[str]:
    found = await store.due(TransactionRecord, limit)
    return [one.document.transaction_id.removeprefix("txn_") for one in found]


def _names(page: Page[TransactionRecord]) -> list[str]:
    documents = [item.document for item in page.items if isinstance(item, Stored)]
    assert len(documents) == len(page.items)
    return [document.transaction_id.removeprefix("txn_") for document in documents]
