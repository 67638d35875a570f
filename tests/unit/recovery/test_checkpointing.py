"""Checkpoints of the log: once a day, each going on from the last, never from an altered one."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
import pytest

from amends.contracts.documents import STORE_TENANT, LogCheckpoint
from amends.contracts.errors import Unavailable
from amends.receipts.checkpoint import check_note, leaf_of, read_note
from amends.receipts.merkle import Tree
from amends.receipts.signing import Ed25519Signer
from amends.recovery import checkpointing
from amends.recovery.checkpointing import EVERY, Checkpointer
from amends.stores.memory import MemoryStore
from amends.stores.port import Append, ChangeSet, Replace
from amends.testing.clock import FixedClock
from amends.testing.refusals import refused_with
from amends.testing.store_contract_trial import commit
from amends.testing.store_documents import changed, links, tail_of

pytestmark = pytest.mark.rule("RC-3")

SIGNER: Final = Ed25519Signer(bytes(range(32)))
DAY_MS: Final = int(EVERY.total_seconds() * 1000)


class Log:
    """A store with a clock, and who makes its checkpoints."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.store = MemoryStore(clock=self.clock)
        self.keeper = Checkpointer(self.store, SIGNER, lambda: SIGNER.ring)

    async def add(self, name: str, count: int = 1) -> Append:
        append = links(count, name=name)
        await commit(self.store, append)
        return append

    async def root(self, size: int) -> bytes:
        entries = await self.store.feed(limit=10_000)
        return Tree([leaf_of(one.receipt.hash) for one in entries]).root(size)


@pytest.fixture
def log() -> Log:
    return Log()


async def test_a_checkpoint_covers_every_receipt_of_all_tenants(log: Log) -> None:
    first = await log.add("1", 3)
    await log.add("2", 2)
    await commit(log.store, links(1, tail=tail_of(first)))
    made = await log.keeper.make()
    note = read_note(made.note)
    assert (made.size, made.position, made.lineage) == (6, 6, await log.store.lineage())
    assert note.head.root == await log.root(6)
    assert note.head.at == made.created_at == log.clock()
    assert check_note(note, SIGNER.ring) == (SIGNER.key_id, None)


async def test_the_next_one_goes_on_from_the_last(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was added is read; the root is that over everything all the same."""
    monkeypatch.setattr(checkpointing, "_AT_ONCE", 2)
    await log.add("1", 5)
    first = await log.keeper.make()
    asked: list[int] = []
    feed = log.store.feed

    async def noted(*, after: int = 0, limit: int = 100) -> object:
        asked.append(after)
        return await feed(after=after, limit=limit)

    monkeypatch.setattr(log.store, "feed", noted)
    await log.add("2", 3)
    second = await log.keeper.make()
    assert min(asked) == first.position == 5
    assert read_note(second.note).head.root == await log.root(8)


async def test_without_a_new_receipt_the_last_one_stands(log: Log) -> None:
    await log.add("1")
    made = await log.keeper.make()
    log.clock.step(DAY_MS)
    assert await log.keeper.make() == made
    assert await log.keeper.make_if_due() is None


async def test_one_a_day_is_made_where_something_was_added(log: Log) -> None:
    assert await log.keeper.make_if_due() is None
    await log.add("1")
    first = await log.keeper.make_if_due()
    assert first is not None
    await log.add("2")
    log.clock.step(DAY_MS - 1)
    assert await log.keeper.make_if_due() is None
    log.clock.step(1)
    second = await log.keeper.make_if_due()
    assert second is not None
    assert (first.size, second.size) == (1, 2)
    assert await log.keeper.latest() == second


async def test_an_empty_log_can_be_fixed_too(log: Log) -> None:
    assert (await log.keeper.make()).size == 0


async def test_two_that_make_one_at_the_same_moment_make_one(log: Log) -> None:
    await log.add("1", 4)
    other = Checkpointer(log.store.beside(), SIGNER, lambda: SIGNER.ring)
    one, two = await asyncio.gather(log.keeper.make(), other.make())
    assert one == two
    page = await log.store.list(LogCheckpoint, STORE_TENANT)
    assert len(page.items) == 1


async def test_a_checkpoint_of_another_lineage_is_not_gone_on_from(log: Log) -> None:
    """A restored store is another store: its log begins with what it was restored from."""
    await log.add("1", 2)
    before = await log.keeper.make()
    log.store._memory.lineage = "another"
    assert await log.keeper.latest() is None
    after = await log.keeper.make()
    assert (after.lineage, after.size) == ("another", before.size)
    assert read_note(after.note).head.root == read_note(before.note).head.root


@pytest.mark.parametrize(
    "fields",
    [
        {"parts": ("00" * 32,)},
        {"parts": ()},
        {"parts": ("zz",)},
        {"size": 3, "parts": ("00" * 32, "00" * 32)},
        {"note": "nothing"},
    ],
)
async def test_a_checkpoint_that_was_altered_is_never_gone_on_from(
    log: Log, fields: dict[str, object]
) -> None:
    await log.add("1", 2)
    made = await log.keeper.make()
    await commit(log.store, Replace(changed(made, **fields)))
    await log.add("2")
    with refused_with("checkpoint.corrupt"):
        await log.keeper.make()


async def test_a_checkpoint_that_nobody_known_signed_is_never_gone_on_from(log: Log) -> None:
    await log.add("1", 2)
    other = Ed25519Signer(b"\7" * 32)
    await Checkpointer(log.store, other, lambda: other.ring).make()
    with refused_with("checkpoint.corrupt"):
        await log.keeper.make()


async def test_a_receipt_whose_hash_is_none_is_named(log: Log) -> None:
    append = await log.add("1", 1)
    spoilt = msgspec.structs.replace(append.receipts[0], hash="zz")
    log.store._memory.receipts[append.tenant, append.chain, 1] = msgspec.json.encode(spoilt)
    with refused_with("store.receipt_corrupt"):
        await log.keeper.make()


async def test_a_running_program_makes_them_by_itself_and_outlives_failures(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(checkpointing, "LOOK_S", 0.0)
    fails = [Unavailable("store.unavailable", "Not now.")] * 2
    lineage = log.store.lineage

    async def failing() -> str:
        if fails:
            raise fails.pop()
        return await lineage()

    monkeypatch.setattr(log.store, "lineage", failing)
    made = asyncio.Event()
    commit_of = log.store.commit

    async def noted(change_set: ChangeSet) -> object:
        answer = await commit_of(change_set)
        made.set()
        return answer

    await log.add("1")
    monkeypatch.setattr(log.store, "commit", noted)
    running = asyncio.create_task(log.keeper.run())
    await asyncio.wait_for(made.wait(), 10)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert fails == []
    assert await log.keeper.latest() is not None


async def test_a_row_that_cannot_be_read_is_no_checkpoint(log: Log) -> None:
    await log.add("1")
    made = await log.keeper.make()
    key = (STORE_TENANT, made.checkpoint_id)
    table = log.store._memory.tables[LogCheckpoint]
    table[key] = msgspec.structs.replace(table[key], body=b"{")
    assert await log.keeper.latest() is None
