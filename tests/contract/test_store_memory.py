"""The store contract over memory."""

from amends.testing.store_bench import MemoryBench, StoreBench
from amends.testing.store_contract import StoreContract


class TestMemory(StoreContract):
    """The store that keeps nothing."""

    def bench(self) -> StoreBench:
        return MemoryBench()
