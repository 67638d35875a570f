"""What every store keeps to with receipts: chains that cannot fork, and one feed of them all.

Part of `amends.testing.store_contract`.
"""

import asyncio

from amends.contracts.evidence import Receipt
from amends.receipts.signing import KeyRing
from amends.receipts.verify import verify_chain
from amends.stores.port import Accepted, Append, ChangeSet, FeedEntry, Loss, Lost, Store
from amends.testing.store_contract_trial import Trial, commit, lost
from amends.testing.store_documents import (
    OTHER_TENANT,
    TENANT,
    chain_named,
    links,
    tail_of,
)

CHAIN = chain_named("1")


class ChainContract(Trial):
    """Appending, reading back, following."""

    async def test_receipts_are_read_back_in_order_and_verify_after_reopening(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            assert await store.tail(TENANT, CHAIN) is None
            first = links(2)
            second = links(3, tail=tail_of(first))
            await commit(store, first)
            await commit(store, second)
            other = await bench.open()
            await store.close()
            receipts = await other.receipts(TENANT, CHAIN)
            assert tuple(receipts) == first.receipts + second.receipts
            tail = await other.tail(TENANT, CHAIN)
            assert tail == tail_of(second)
            assert verify_chain(receipts, KeyRing(), expected_head=tail).ok

    async def test_a_part_of_a_chain_can_be_read(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            await commit(store, links(5))
            part = await store.receipts(TENANT, CHAIN, after=1, limit=2)
            assert [receipt.number for receipt in part] == [2, 3]
            assert await store.receipts(TENANT, CHAIN, after=5) == []
            assert await store.receipts(TENANT, chain_named("none")) == []

    async def test_an_append_elsewhere_than_at_the_end_loses(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            first = links(2)
            await commit(store, first)
            before = bench.contents()
            forked = links(2, code="forked")
            ahead = links(1, tail=tail_of(links(3)))
            inside = links(1, tail=tail_of(links(1)))
            on_another = links(1, tail=tail_of(forked))
            for append in (forked, ahead, inside, on_another):
                assert await lost(store, append) == (0, Loss.TAIL)
            assert bench.contents() == before

    async def test_of_16_tasks_that_append_at_one_end_exactly_one_wins(self) -> None:
        async with self.bench() as bench:
            stores = [await bench.open(), await bench.open()]
            tail = None
            for _ in range(10):
                appends = [links(tail=tail, code=f"by_{number}") for number in range(16)]
                winners = await _race(stores, appends)
                assert len(winners) == 1
                tail = tail_of(winners[0])
            receipts = await stores[0].receipts(TENANT, CHAIN)
            assert len(receipts) == 10
            assert len({receipt.previous for receipt in receipts}) == 10
            assert verify_chain(receipts, KeyRing(), expected_head=tail).ok

    async def test_two_tenants_have_their_own_chains_of_one_name(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            theirs = links(1, tenant=OTHER_TENANT)
            await commit(store, links(2))
            assert await store.tail(OTHER_TENANT, CHAIN) is None
            assert await store.receipts(OTHER_TENANT, CHAIN) == []
            await commit(store, theirs)
            assert await store.tail(OTHER_TENANT, CHAIN) == tail_of(theirs)
            assert await store.tail(TENANT, CHAIN) == tail_of(links(2))

    async def test_the_feed_gives_all_receipts_in_the_order_of_their_commits(self) -> None:
        async with self.bench() as bench:
            store = await bench.open()
            appends = [
                links(2),
                links(1, tenant=OTHER_TENANT),
                links(1, name="2"),
                links(1, tail=tail_of(links(2))),
            ]
            for append in appends:
                await commit(store, append)
            assert await lost(store, links(1)) == (0, Loss.TAIL)
            written: list[Receipt] = [one for append in appends for one in append.receipts]
            entries = await store.feed()
            assert [entry.receipt for entry in entries] == written
            assert [entry.tenant for entry in entries] == [one.step.tenant for one in written]
            positions = [entry.position for entry in entries]
            assert positions == sorted(set(positions))
            rest = await store.feed(after=positions[1], limit=2)
            assert [entry.position for entry in rest] == positions[2:4]
            assert await store.feed(after=positions[-1]) == []

    async def test_the_feed_never_changes_behind_a_place_that_was_seen(self) -> None:
        """Writers come and go on several stores; a follower that reads on misses nothing."""
        async with self.bench() as bench:
            stores = [await bench.open(), await bench.open()]
            writing = asyncio.gather(
                *[_write_chain(stores[number % 2], str(number)) for number in range(12)]
            )
            seen: list[FeedEntry] = []
            while not writing.done() or len(seen) < 12 * 4:
                after = seen[-1].position if seen else 0
                seen += await stores[0].feed(after=after, limit=5)
                await asyncio.sleep(0)
            await writing
            assert seen == await stores[1].feed(limit=1_000)


async def _write_chain(store: Store, name: str) -> None:
    """Two change sets of two receipts each."""
    tail = None
    for _ in range(2):
        append = links(2, name=name, tail=tail)
        await commit(store, append)
        tail = tail_of(append)


async def _race(stores: list[Store], appends: list[Append]) -> list[Append]:
    """Append all at once; those that were accepted."""
    calls = [
        stores[place % len(stores)].commit(ChangeSet(changes=(append,)))
        for place, append in enumerate(appends)
    ]
    answers = await asyncio.gather(*calls)
    losers = {answer for answer in answers if isinstance(answer, Lost)}
    assert losers <= {Lost(0, Loss.TAIL)}
    return [
        one for one, answer in zip(appends, answers, strict=True) if isinstance(answer, Accepted)
    ]
