"""Stores against a model in a dict: whatever is asked in whatever order, both answer the same."""

import asyncio
from datetime import datetime, timedelta

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Status
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId
from amends.stores.port import (
    Accepted,
    Append,
    Change,
    ChangeSet,
    Due,
    Guard,
    Insert,
    Loss,
    Lost,
    Replace,
    Store,
    Stored,
)
from amends.testing.store_bench import MemoryBench, SqliteBench, StoreBench
from amends.testing.store_documents import OTHER_TENANT, TENANT, a_plan, a_transaction, links

Key = tuple[str, str]

NAMES = st.sampled_from("abc")
TENANTS = st.sampled_from([TENANT, OTHER_TENANT])
SPANS = st.none() | st.integers(0, 3)


class Entry(msgspec.Struct, frozen=True):
    """What the model keeps of one record."""

    record: TransactionRecord
    due_at: datetime | None


class Model(msgspec.Struct):
    """The whole store, as plainly as it can be said."""

    entries: dict[Key, Entry]
    tails: dict[Key, Tail]
    feed: tuple[str, ...]

    def copy(self) -> "Model":
        return Model(dict(self.entries), dict(self.tails), self.feed)

    def apply(self, change: Change, now: datetime) -> Loss | None:
        match change:
            case Insert(document=TransactionRecord() as record):
                if _key(record) in self.entries:
                    return Loss.EXISTS
                return self._write(record, change.due, now)
            case Replace(document=TransactionRecord() as record):
                entry = self.entries.get(_key(record))
                if entry is None:
                    return Loss.ABSENT
                if entry.record.revision + 1 != record.revision:
                    return Loss.REVISION
                return self._write(record, change.due, now)
            case Append():
                return self._append(change)
            case Guard():
                entry = self.entries.get((change.tenant, change.id))
                revision = entry.record.revision if entry else 0
                if revision == change.revision:
                    return None
                if revision == 0:
                    return Loss.ABSENT
                return Loss.REVISION if change.revision else Loss.EXISTS
            case _:
                raise AssertionError(change)

    def _write(self, record: TransactionRecord, due: Due | None, now: datetime) -> Loss | None:
        holders = [
            key
            for key, entry in self.entries.items()
            if record.plan
            and entry.record.plan
            and key[0] == record.tenant
            and entry.record.plan.plan_id == record.plan.plan_id
        ]
        if holders not in ([], [_key(record)]):
            return Loss.UNIQUE
        at = None if due is None else now + timedelta(milliseconds=due.after_ms or 0)
        self.entries[_key(record)] = Entry(record, at)
        return None

    def _append(self, append: Append) -> Loss | None:
        key = (append.tenant, append.chain)
        tail = self.tails.get(key)
        if append.after != (tail.number if tail else 0):
            return Loss.TAIL
        if tail and append.receipts[0].previous != tail.hash:
            return Loss.TAIL
        last = append.receipts[-1]
        self.tails[key] = Tail(last.number, last.hash)
        self.feed += tuple(receipt.hash for receipt in append.receipts)
        return None


def _key(record: TransactionRecord) -> Key:
    return record.tenant, record.transaction_id


class StoreMachine(RuleBasedStateMachine):
    """Asks a store and the model the same, by one change set or by several at once."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.bench = self.make_bench()
        self.store: Store = self.loop.run_until_complete(self.bench.open())
        self.model = Model({}, {}, ())

    def make_bench(self) -> StoreBench:
        return MemoryBench()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.bench.__aexit__(None, None, None))
        self.loop.close()

    def changes(self, data: st.DataObject) -> tuple[Change, ...]:
        """Changes that mostly would be accepted, against what the model holds before them."""
        return tuple(self.change(data) for _ in range(data.draw(st.integers(1, 4))))

    def change(self, data: st.DataObject) -> Change:
        tenant, name = data.draw(TENANTS), data.draw(NAMES)
        kind = data.draw(st.sampled_from([Insert, Replace, Append, Guard]))
        entry = self.model.entries.get((tenant, f"txn_{name}"))
        revision = (entry.record.revision if entry else 0) + data.draw(st.integers(-1, 2))
        if kind is Append:
            return self.append(data, tenant, name)
        if kind is Guard:
            return Guard(TransactionRecord, tenant, f"txn_{name}", max(0, revision))
        span = data.draw(SPANS)
        plan = data.draw(st.none() | NAMES)
        record = a_transaction(
            name,
            tenant=tenant,
            status=data.draw(st.sampled_from(Status)),
            plan=None if plan is None else a_plan(plan),
        )
        due = None if span is None else Due(after_ms=span)
        if kind is Insert:
            return Insert(record, due)
        return Replace(msgspec.structs.replace(record, revision=max(2, revision)), due)

    def append(self, data: st.DataObject, tenant: TenantId, name: str) -> Append:
        code = data.draw(st.sampled_from("xy"))
        tail = self.model.tails.get((tenant, links(name=name).chain))
        stale = data.draw(st.booleans()) and data.draw(st.booleans())
        return links(
            data.draw(st.integers(1, 2)),
            name=name,
            tenant=tenant,
            tail=None if stale else tail,
            code=code,
        )

    def expect(self, change_set: ChangeSet) -> Accepted | Lost:
        now = self.bench.clock()
        if change_set.not_after is not None and now >= change_set.not_after:
            return Lost(-1, Loss.TOO_LATE)
        draft = self.model.copy()
        for index, change in enumerate(change_set.changes):
            if loss := draft.apply(change, now):
                return Lost(index, loss)
        self.model = draft
        return Accepted(now)

    @rule(ms=st.integers(-2, 3))
    def time_passes(self, ms: int) -> None:
        self.bench.clock.step(ms)

    @rule(data=st.data(), left_ms=SPANS)
    def one_change_set(self, data: st.DataObject, left_ms: int | None) -> None:
        end = None
        if left_ms is not None:
            end = self.bench.clock() + timedelta(milliseconds=left_ms)
        change_set = ChangeSet(changes=self.changes(data), not_after=end)
        answer = self.loop.run_until_complete(self.store.commit(change_set))
        assert answer == self.expect(change_set)

    @rule(data=st.data(), count=st.integers(2, 5))
    def several_at_once(self, data: st.DataObject, count: int) -> None:
        sets = [ChangeSet(changes=self.changes(data)) for _ in range(count)]

        async def together() -> list[Accepted | Lost]:
            return await asyncio.gather(*(self.store.commit(one) for one in sets))

        answers = self.loop.run_until_complete(together())
        assert answers == [self.expect(one) for one in sets]

    @rule()
    def another_store_takes_over(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.store = self.loop.run_until_complete(self.bench.open())

    @invariant()
    def everything_reads_as_in_the_model(self) -> None:
        self.loop.run_until_complete(self.compare())

    async def compare(self) -> None:
        now = self.bench.clock()
        for tenant in (TENANT, OTHER_TENANT):
            mine = {key: one for key, one in self.model.entries.items() if key[0] == tenant}
            page = await self.store.list(TransactionRecord, tenant)
            shown = [item for item in page.items if isinstance(item, Stored)]
            listed = {_key(item.document): Entry(item.document, item.due_at) for item in shown}
            assert listed == mine
            assert [_key(item.document) for item in shown] == list(reversed(mine))
        due = await self.store.due(TransactionRecord, 20)
        times = [one.due_at for one in due if one.due_at]
        assert times == sorted(times)
        assert {_key(one.document) for one in due} == {
            key for key, one in self.model.entries.items() if one.due_at and one.due_at <= now
        }
        for (owner, chain), tail in self.model.tails.items():
            assert await self.store.tail(TenantId(owner), chain) == tail
        feed = await self.store.feed()
        assert tuple(entry.receipt.hash for entry in feed) == self.model.feed


class MemoryMachine(StoreMachine):
    """Over memory."""


class SqliteMachine(StoreMachine):
    """Over a file."""

    def make_bench(self) -> StoreBench:
        return SqliteBench(threads=False)


TestMemoryModel = MemoryMachine.TestCase
TestSqliteModel = SqliteMachine.TestCase
# A file for each example takes its time.
TestSqliteModel.settings = settings(max_examples=40, stateful_step_count=30)
