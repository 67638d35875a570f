"""What every store keeps to when stored bytes are not what was written, and at its own end.

Part of `amends.testing.store_contract`.
"""

import asyncio

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.errors import Corrupt, Unavailable
from amends.stores.port import Due, Insert, Replace, Stored, Unreadable
from amends.stores.shapes import ENCODER
from amends.testing.store_bench import StoreBench
from amends.testing.store_contract_trial import Trial, commit, error_of
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_plan,
    a_transaction,
    chain_named,
    changed,
    links,
)

CHAIN = chain_named("1")
SECRET = b"canary-4929"


class DamageContract(Trial):
    """Rows that cannot be read are named, shown, and never acted upon."""

    async def test_a_body_that_is_not_its_row_is_corrupt_and_stops_nothing_else(self) -> None:
        for body in _damaged_bodies():
            async with self.bench() as bench:
                await self._damaged(bench, body)

    async def test_columns_that_contradict_the_body_are_corrupt(self) -> None:
        for column, value in (("status", "committed"), ("attention", "x"), ("revision", 7)):
            async with self.bench() as bench:
                store = await bench.open()
                await commit(store, Insert(a_transaction()), Insert(a_transaction("2")))
                bench.relabel(TransactionRecord, "txn_1", column, value)
                error = await error_of(store.get(TransactionRecord, TENANT, "txn_1"))
                assert isinstance(error, Corrupt)
                assert await store.get(TransactionRecord, TENANT, "txn_2") is not None

    async def test_a_status_of_a_later_version_is_shown_and_never_taken_for_another(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction(status=Status.COMMITTED)
            await commit(store, Insert(record, Due(after_ms=0)))
            body = ENCODER.encode(record)
            assert b'"status":"committed"' in body
            later = body.replace(b'"committed"', b'"half_committed"')
            bench.damage(TransactionRecord, "txn_1", later)
            error = await error_of(store.get(TransactionRecord, TENANT, "txn_1"))
            assert isinstance(error, Corrupt)
            (shown,) = (await store.list(TransactionRecord, TENANT)).items
            assert isinstance(shown, Unreadable)
            assert (shown.tenant, shown.id, shown.body) == (TENANT, "txn_1", later)
            assert await store.due(TransactionRecord, 1) == []

    async def test_a_field_of_a_later_version_does_not_hide_the_document(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction()
            await commit(store, Insert(record))
            later = ENCODER.encode(record)[:-1] + b',"of_a_later_version":1}'
            bench.damage(TransactionRecord, "txn_1", later)
            found = await store.get(TransactionRecord, TENANT, "txn_1")
            assert found is not None
            assert found.document == record

    async def test_unreadable_rows_do_not_clog_the_queue_of_what_is_due(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            for number in range(7):
                await commit(store, Insert(a_transaction(str(number)), Due(after_ms=number)))
            bench.clock.step(10)
            for number in (0, 1, 2, 4):
                bench.damage(TransactionRecord, f"txn_{number}", b"{}")
            found = await store.due(TransactionRecord, 2)
            assert [one.document.transaction_id for one in found] == ["txn_3", "txn_5"]
            assert len(await store.due(TransactionRecord, 9)) == 3

    async def test_a_receipt_that_cannot_be_read_is_named_by_its_place(self) -> None:
        later = links(3).receipts[2]
        bodies = (b"", b'{"number":2}', b"\xff", ENCODER.encode(later))
        for body in bodies:
            async with self.bench() as bench:
                store = await bench.open()
                await commit(store, links(3))
                bench.damage_receipt(CHAIN, 2, body)
                for call in (store.receipts(TENANT, CHAIN), store.feed()):
                    error = await error_of(call)
                    assert isinstance(error, Corrupt)
                    assert error.code == "store.receipt_corrupt"
                    assert dict(error.details) == {"chain": CHAIN, "number": 2}
                assert len(await store.receipts(TENANT, CHAIN, after=2)) == 1
                assert len(await store.feed(after=2)) == 1

    async def _damaged(self, bench: StoreBench, body: bytes) -> None:
        store = await bench.open()
        await commit(store, Insert(a_transaction(plan=a_plan()), Due(after_ms=0)))
        await commit(store, Insert(a_transaction("2"), Due(after_ms=0)))
        bench.damage(TransactionRecord, "txn_1", body)
        for call in (
            store.get(TransactionRecord, TENANT, "txn_1"),
            store.find(TransactionRecord, TENANT, "plan_id", "plan:1"),
        ):
            error = await error_of(call)
            assert isinstance(error, Corrupt), error
            assert error.code == "store.record_corrupt"
            assert error.details["type"] == "transactions"
            assert error.details["id"] == "txn_1"
            assert SECRET.decode() not in repr((error, error.details))
        whole, damaged = (await store.list(TransactionRecord, TENANT)).items
        assert isinstance(whole, Stored)
        assert isinstance(damaged, Unreadable)
        assert (damaged.type, damaged.id, damaged.body) == (TransactionRecord, "txn_1", body)
        assert [one.document.transaction_id for one in await store.due(TransactionRecord, 9)] == [
            "txn_2"
        ]
        await commit(store, Replace(changed(whole.document)))


class LifeContract(Trial):
    """Opening beside one another, and closing."""

    async def test_a_closed_store_refuses_every_call_and_closes_again(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await store.close()
            await store.close()
            for call in (
                store.get(TransactionRecord, TENANT, "txn_1"),
                store.find(TransactionRecord, TENANT, "plan_id", "plan:1"),
                store.list(TransactionRecord, TENANT),
                store.due(TransactionRecord, 1),
                store.tail(TENANT, CHAIN),
                store.receipts(TENANT, CHAIN),
                store.feed(),
                store.now(),
                store.news(0),
                store.lineage(),
                commit(store, Insert(a_transaction())),
            ):
                error = await error_of(call)
                assert isinstance(error, Unavailable)
                assert error.code == "store.closed"

    async def test_closing_one_store_leaves_another_on_the_same_data_open(self) -> None:
        async with self.bench() as bench:
            first, second = await bench.open(), await bench.open()
            await first.close()
            await commit(second, Insert(a_transaction()))
            assert await second.get(TransactionRecord, TENANT, "txn_1") is not None

    async def test_closing_waits_for_what_was_asked_before(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            tasks = [
                asyncio.ensure_future(commit(store, Insert(a_transaction(str(number)))))
                for number in range(300)
            ]
            await asyncio.sleep(0)
            await store.close()
            assert all(task.done() for task in tasks)
            await asyncio.gather(*tasks)
            page = await (await bench.open()).list(TransactionRecord, TENANT, limit=500)
            assert len(page.items) == 300

    async def test_all_stores_on_the_same_data_share_its_lineage_and_clock(self) -> None:
        async with self.bench() as bench:
            first, second = await bench.open(), await bench.open()
            bench.clock.step(3)
            assert await first.lineage() == await second.lineage() != ""
            assert await first.now() == await second.now() == bench.clock()

    async def test_tenants_are_not_mixed_up_by_damage(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            theirs = a_transaction(tenant=OTHER_TENANT)
            await commit(store, Insert(a_transaction()), Insert(theirs))
            bench.damage(TransactionRecord, "txn_1", ENCODER.encode(theirs))
            error = await error_of(store.get(TransactionRecord, TENANT, "txn_1"))
            assert isinstance(error, Corrupt)
            found = await store.get(TransactionRecord, OTHER_TENANT, "txn_1")
            assert found is not None
            assert found.document == theirs


def _damaged_bodies() -> tuple[bytes, ...]:
    """What may lie where the body of `txn_1` was."""
    record = a_transaction(plan=a_plan())
    body = ENCODER.encode(record)
    return (
        b"",
        b"null",
        b"\x00" * 64,
        b"\xff\xfe" + SECRET,
        body[:-1],
        body + body,
        body.replace(b'"planned"', b'"' + SECRET + b'"'),
        body.replace(b'"planned"', b'"compensated"', 1),
        ENCODER.encode(a_transaction("2")),
        ENCODER.encode(changed(record)),
        ENCODER.encode(a_transaction()),
    )
