"""What every store keeps to, as tests that run over any of them: the definition of a driver.

Subclass `StoreContract`, say in `bench` what the driver stands on while it is tried, and let pytest
collect the subclass:

    class TestMine(StoreContract):
        def bench(self):
            return MyBench()

This module holds the promises about writing; those about questions, receipts and damage stand in
the modules beside it and are part of `StoreContract`.

Deliberately not here: durability and several processes, which each driver shows in its own way.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import structs

from amends.contracts.documents import Document, TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.errors import Misuse
from amends.stores.port import (
    Accepted,
    AnyDocument,
    Change,
    ChangeSet,
    Due,
    Guard,
    Insert,
    Loss,
    Lost,
    Replace,
    Store,
)
from amends.stores.shapes import shape_of
from amends.testing.clock import START
from amends.testing.store_contract_chains import ChainContract
from amends.testing.store_contract_damage import DamageContract, LifeContract
from amends.testing.store_contract_questions import DueContract, NewsContract, QuestionContract
from amends.testing.store_contract_trial import Trial, commit, error_of, lost
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    a_plan,
    a_transaction,
    an_action,
    changed,
    links,
    one_of_each,
    tail_of,
)


class DocumentContract(Trial):
    """Inserting, replacing, and whose document it is."""

    async def test_a_document_of_every_type_is_read_back_as_it_was_written(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            at = bench.clock.step(1).replace(microsecond=123_456)
            documents = one_of_each(at=at)
            await commit(store, *[Insert(document) for document in documents])
            other = await bench.open()
            for document in documents:
                found = await other.get(type(document), TENANT, id_of(document))
                assert found is not None
                assert found.document == document
                assert (found.due_at, found.read_at) == (None, bench.clock())

    async def test_what_was_never_inserted_is_absent(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            assert await store.get(TransactionRecord, TENANT, "txn_1") is None

    async def test_an_existing_document_is_never_inserted_over(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, *[Insert(document) for document in one_of_each()])
            before = bench.contents()
            for document in one_of_each(at=bench.clock.step(1)):
                assert await lost(store, Insert(document)) == (0, Loss.EXISTS)
            assert bench.contents() == before

    async def test_a_document_is_replaced_by_its_next_revision(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            for document in one_of_each():
                await commit(store, Insert(document))
                following = changed(document, updated_at=bench.clock.step(1))
                await commit(store, Replace(following))
                found = await store.get(type(document), TENANT, id_of(document))
                assert found is not None
                assert found.document == following

    async def test_any_revision_but_the_next_loses(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record = a_transaction()
            await commit(store, Insert(record))
            await commit(store, Replace(changed(record)))
            before = bench.contents()
            for revision in (2, 4, 2**62):
                stale = structs.replace(record, revision=revision)
                assert await lost(store, Replace(stale)) == (0, Loss.REVISION)
            assert bench.contents() == before

    async def test_an_absent_document_cannot_be_replaced(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            assert await lost(store, Replace(changed(a_transaction()))) == (0, Loss.ABSENT)
            assert await store.get(TransactionRecord, TENANT, "txn_1") is None

    async def test_two_tenants_may_use_the_same_ids_and_see_only_their_own(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, Insert(a_transaction(plan=a_plan())))
            assert await store.get(TransactionRecord, OTHER_TENANT, "txn_1") is None
            assert await store.find(TransactionRecord, OTHER_TENANT, "plan_id", "plan:1") is None
            assert (await store.list(TransactionRecord, OTHER_TENANT)).items == ()
            theirs = a_transaction(tenant=OTHER_TENANT, plan=a_plan(), status=Status.FAILED)
            guard = Guard(TransactionRecord, OTHER_TENANT, "txn_1", 0)
            assert await lost(store, Replace(changed(theirs))) == (0, Loss.ABSENT)
            await commit(store, guard, Insert(theirs))
            for tenant, status in ((TENANT, Status.PLANNED), (OTHER_TENANT, Status.FAILED)):
                found = await store.find(TransactionRecord, tenant, "plan_id", "plan:1")
                assert found is not None
                assert (found.document.tenant, found.document.status) == (tenant, status)

    async def test_a_plan_id_belongs_to_one_record_of_a_tenant(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            second = a_transaction("2")
            await commit(store, Insert(a_transaction(plan=a_plan("x"))), Insert(second))
            before = bench.contents()
            thief = a_transaction("3", plan=a_plan("x"))
            assert await lost(store, Insert(thief)) == (0, Loss.UNIQUE)
            late = changed(second, plan=a_plan("x"))
            assert await lost(store, Replace(late)) == (0, Loss.UNIQUE)
            assert bench.contents() == before

    async def test_a_record_keeps_its_plan_id_and_a_plan_id_let_go_is_free(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            first = a_transaction(plan=a_plan("x"))
            kept = changed(first, status=Status.COMMITTING)
            await commit(store, Insert(first), Replace(kept), Replace(changed(kept, plan=None)))
            assert await store.find(TransactionRecord, TENANT, "plan_id", "plan:x") is None
            await commit(store, Insert(a_transaction("2", plan=a_plan("x"))))
            found = await store.find(TransactionRecord, TENANT, "plan_id", "plan:x")
            assert found is not None
            assert found.document.transaction_id == "txn_2"

    async def test_what_is_read_shares_nothing_with_what_was_written(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            action = an_action()
            await commit(store, Insert(action))
            action.metadata["added"] = True
            for _ in range(2):
                found = await store.get(type(action), TENANT, "act_1")
                assert found is not None
                assert "added" not in found.document.metadata
                found.document.metadata["added"] = True


class ChangeSetContract(Trial):
    """All or nothing, and which change lost."""

    async def test_a_change_set_that_loses_leaves_every_byte_as_it_was(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, Insert(a_transaction(plan=a_plan())), links())
            before = bench.contents()
            for last, loss in LOSERS:
                answer = await lost(store, *_harmless(), last)
                assert answer == (len(_harmless()), loss)
                assert bench.contents() == before

    async def test_the_first_change_that_loses_is_named(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            present, absent = a_transaction(), Replace(changed(a_transaction("2")))
            await commit(store, Insert(present))
            answer = await lost(store, Insert(an_action()), absent, Insert(present))
            assert answer == (1, Loss.ABSENT)

    async def test_a_change_sees_those_before_it(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            record, first = a_transaction(), links()
            await commit(
                store,
                Guard(TransactionRecord, TENANT, "txn_1", 0),
                Insert(record),
                Replace(changed(record)),
                Guard(TransactionRecord, TENANT, "txn_1", 2),
                first,
                links(2, tail=tail_of(first)),
            )
            assert await lost(store, Replace(changed(record))) == (0, Loss.REVISION)

    async def test_a_guard_holds_or_says_what_is_there_instead(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, Insert(a_transaction()))
            here, gone = _guard("txn_1", 1), _guard("txn_2", 0)
            await commit(store, here, gone)
            assert await lost(store, _guard("txn_1", 0)) == (0, Loss.EXISTS)
            assert await lost(store, _guard("txn_1", 2)) == (0, Loss.REVISION)
            assert await lost(store, _guard("txn_2", 1)) == (0, Loss.ABSENT)

    async def test_not_after_is_compared_with_the_time_of_the_store(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            end = bench.clock() + timedelta(milliseconds=10)
            bench.clock.step(9)
            accepted = await commit(store, Insert(a_transaction()), not_after=end)
            assert accepted.at == bench.clock()
            before = bench.contents()
            bench.clock.step(1)
            late = await lost(store, Insert(a_transaction("2")), not_after=end)
            assert late == (-1, Loss.TOO_LATE)
            bench.clock.step(1)
            assert await lost(store, Insert(a_transaction("2")), not_after=end) == late
            assert bench.contents() == before

    async def test_a_change_set_without_changes_is_accepted_and_changes_nothing(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            before = bench.contents()
            assert (await commit(store)).at == bench.clock()
            assert bench.contents() == before

    async def test_a_change_set_that_means_nothing_is_misuse_and_changes_nothing(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            before = bench.contents()
            for code, change in MEANINGLESS:
                error = await error_of(commit(store, Insert(a_transaction()), change))
                assert isinstance(error, Misuse), error
                assert error.code == code
                assert bench.contents() == before
            naive = bench.clock().replace(tzinfo=None)
            error = await error_of(commit(store, Insert(a_transaction()), not_after=naive))
            assert error.code == "store.malformed_change"
            assert bench.contents() == before


class ConcurrencyContract(Trial):
    """Many at once in one process."""

    async def test_of_64_tasks_that_replace_one_revision_exactly_one_wins(self) -> None:
        async with self.bench() as bench:
            stores = [await bench.open(), await bench.open()]
            record = a_transaction()
            await commit(stores[0], Insert(record))
            for _ in range(200):
                following = changed(record)
                answers = await _together(stores, [(Replace(following),)] * 64)
                assert sum(isinstance(answer, Accepted) for answer in answers) == 1
                assert {answer for answer in answers if isinstance(answer, Lost)} == {
                    Lost(0, Loss.REVISION)
                }
                record = following

    async def test_change_sets_that_meet_keep_their_own_verdicts(self) -> None:
        async with self.bench() as bench:
            stores = [await bench.open()]
            await commit(stores[0], Insert(a_transaction("there")))
            sets: list[tuple[Change, ...]] = [
                (Insert(a_transaction("a")), links(name="a")),
                (Insert(a_transaction("b")), Insert(a_transaction("there"))),
                (Insert(a_transaction("a")),),
                (Replace(changed(a_transaction("a"))),),
                (links(name="a"),),
                (Insert(a_transaction("b")),),
            ]
            answers = await _together(stores, sets)
            assert [_short(answer) for answer in answers] == [
                "accepted",
                (1, Loss.EXISTS),
                (0, Loss.EXISTS),
                "accepted",
                (0, Loss.TAIL),
                "accepted",
            ]
            found = await stores[0].get(TransactionRecord, TENANT, "txn_a")
            assert found is not None
            assert found.document.revision == 2

    async def test_a_caller_that_is_cancelled_stops_waiting_and_nothing_else(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            sets = [ChangeSet(changes=(Insert(a_transaction(str(n))),)) for n in range(100)]
            tasks = [asyncio.ensure_future(store.commit(one)) for one in sets]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(isinstance(task.result(), Accepted) for task in tasks[1::2])
            await commit(store, Insert(a_transaction("after")))
            other = await bench.open()
            assert len((await other.list(TransactionRecord, TENANT)).items) == 101


class StoreContract(
    DocumentContract,
    ChangeSetContract,
    ConcurrencyContract,
    QuestionContract,
    DueContract,
    NewsContract,
    ChainContract,
    DamageContract,
    LifeContract,
):
    """Everything that a store promises within one process."""


def id_of(document: AnyDocument) -> str:
    """The id that a document is kept under."""
    return shape_of(type(document)).id_of(document)


def _guard(id_: str, revision: int) -> Guard:
    return Guard(TransactionRecord, TENANT, id_, revision)


def _harmless() -> tuple[Change, ...]:
    """One change of each kind that would be accepted."""
    record = a_transaction(plan=a_plan())
    again = changed(record, plan=a_plan("y"), status=Status.COMMITTING)
    return (
        Insert(an_action(), Due(after_ms=1)),
        Replace(again, Due(at=record.created_at)),
        links(2, tail=tail_of(links())),
        links(name="9"),
        Guard(TransactionRecord, TENANT, "txn_1", 2),
    )


LOSERS: Final[tuple[tuple[Change, Loss], ...]] = (
    (Insert(an_action()), Loss.EXISTS),
    (Insert(a_transaction("8", plan=a_plan("y"))), Loss.UNIQUE),
    (Replace(changed(a_transaction("8"))), Loss.ABSENT),
    (Replace(changed(a_transaction())), Loss.REVISION),
    (links(name="9"), Loss.TAIL),
    (links(), Loss.TAIL),
    (Guard(TransactionRecord, TENANT, "txn_8", 1), Loss.ABSENT),
    (Guard(TransactionRecord, TENANT, "txn_1", 0), Loss.EXISTS),
    (Guard(TransactionRecord, TENANT, "txn_1", 1), Loss.REVISION),
)
"""What loses after `_harmless`, and why."""

_LINKS: Final = links(2)
_LINK, _NEXT_LINK = _LINKS.receipts

MEANINGLESS: Final[tuple[tuple[str, Change], ...]] = (
    ("store.malformed_change", Insert(changed(an_action()))),
    ("store.malformed_change", Replace(an_action())),
    ("store.malformed_change", Replace(structs.replace(an_action(), revision=2**63))),
    ("store.malformed_change", Insert(an_action(), Due())),
    ("store.malformed_change", Insert(an_action(), Due(at=START, after_ms=1))),
    ("store.malformed_change", Insert(an_action(), Due(at=START.replace(tzinfo=None)))),
    ("store.malformed_change", Insert(an_action(at=START.replace(tzinfo=None)))),
    ("store.malformed_change", Insert(an_action(), Due(after_ms=-1))),
    ("store.malformed_change", Insert(an_action(), Due(after_ms=2**60))),
    ("store.malformed_change", structs.replace(_LINKS, receipts=())),
    ("store.malformed_change", structs.replace(_LINKS, after=1)),
    ("store.malformed_change", structs.replace(_LINKS, after=-1)),
    ("store.malformed_change", structs.replace(_LINKS, tenant=OTHER_TENANT)),
    ("store.malformed_change", structs.replace(_LINKS, chain="another")),
    (
        "store.malformed_change",
        structs.replace(
            _LINKS, receipts=(_LINK, structs.replace(_NEXT_LINK, previous=_NEXT_LINK.hash))
        ),
    ),
    ("store.malformed_change", Guard(TransactionRecord, TENANT, "txn_1", -1)),
    ("store.malformed_change", Guard(TransactionRecord, TENANT, "txn_\ud800", 0)),
    ("store.unknown_type", Guard(Document, TENANT, "txn_1", 0)),
)
"""What no store could mean, and the code that says so."""


async def _together(
    stores: Sequence[Store], sets: Sequence[tuple[Change, ...]]
) -> list[Accepted | Lost]:
    """Ask for all of them in the same turn of the event loop, in order."""
    calls = [
        stores[place % len(stores)].commit(ChangeSet(changes=changes))
        for place, changes in enumerate(sets)
    ]
    return list(await asyncio.gather(*calls))


def _short(answer: Accepted | Lost) -> str | tuple[int, Loss]:
    return "accepted" if isinstance(answer, Accepted) else (answer.index, answer.loss)
