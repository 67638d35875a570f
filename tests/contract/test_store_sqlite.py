"""The store contract over SQLite, with the flush in a thread and without any thread."""

from amends.testing.store_bench import SqliteBench, StoreBench
from amends.testing.store_contract import StoreContract


class TestSqlite(StoreContract):
    """As it is used."""

    def bench(self) -> StoreBench:
        return SqliteBench()


class TestSqliteWithoutThreads(StoreContract):
    """Everything on the caller's turn."""

    def bench(self) -> StoreBench:
        return SqliteBench(threads=False)
