"""The bench a store driver stands on while the contract is tried on it.

A bench owns the stored data and the clock. It opens any number of stores on the same data, can read
everything that is stored byte for byte, and can damage it the way disks and careless hands do,
which no store lets anybody do. A driver of your own needs a bench of your own.

    async with MemoryBench() as bench:
        store = await bench.open()

Deliberately not here: what is tried (`store_contract`), and failing disks (`faulty_files`).
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import apsw
import msgspec

from amends.contracts.documents import Document
from amends.stores.memory import MemoryStore
from amends.stores.memory_tables import Memory
from amends.stores.port import Store
from amends.stores.shapes import SHAPES, shape_of
from amends.stores.sqlite import open_sqlite
from amends.testing.clock import FixedClock
from amends.testing.store_documents import TENANT

Contents: TypeAlias = dict[str, list[tuple[Any, ...]]]


class StoreBench(ABC):
    """Stored data with a clock, open for tests."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self._stores: list[Store] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for store in self._stores:
            await store.close()

    async def open(self) -> Store:
        """Another store on the same data; the bench closes it."""
        store = await self.connect()
        self._stores.append(store)
        return store

    @abstractmethod
    async def connect(self) -> Store:
        """Open a store on the data."""

    @abstractmethod
    def contents(self) -> Contents:
        """Everything that is stored, table by table, in the order of insertion."""

    @abstractmethod
    def damage(self, type_: type[Document], id_: str, body: bytes) -> None:
        """Replace the body of a document of `TENANT` behind the store's back."""

    @abstractmethod
    def relabel(self, type_: type[Document], id_: str, column: str, value: str | int) -> None:
        """Change one column (or `revision`) beside a body behind the store's back."""

    @abstractmethod
    def damage_receipt(self, chain: str, number: int, body: bytes) -> None:
        """Replace the body of a receipt of `TENANT` behind the store's back."""


class MemoryBench(StoreBench):
    """For the memory store."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = Memory(self.clock)
        self._first = MemoryStore(memory=self._memory)

    async def connect(self) -> Store:
        """Open a store on the memory."""
        return self._first.beside()

    def contents(self) -> Contents:
        """See `StoreBench.contents`."""
        memory = self._memory
        documents: Contents = {
            shape.table: [msgspec.structs.astuple(row) for row in memory.tables[type_].values()]
            for type_, shape in SHAPES.items()
        }
        feed = [(place, *key, memory.receipts[key]) for place, key in memory.feed.items()]
        indexes = [tuple(sorted(memory.unique.items())), tuple(memory.tails.items())]
        due = [tuple(sorted(rows)) for rows in memory.due.values()]
        return {**documents, "receipts": feed, "indexes": indexes, "due": due}

    def damage(self, type_: type[Document], id_: str, body: bytes) -> None:
        """See `StoreBench.damage`."""
        self._alter(type_, id_, body=body)

    def relabel(self, type_: type[Document], id_: str, column: str, value: str | int) -> None:
        """See `StoreBench.relabel`."""
        if column == "revision":
            self._alter(type_, id_, revision=value)
            return
        columns = list(self._memory.tables[type_][TENANT, id_].columns)
        columns[shape_of(type_).columns.index(column)] = str(value)
        self._alter(type_, id_, columns=tuple(columns))

    def damage_receipt(self, chain: str, number: int, body: bytes) -> None:
        """See `StoreBench.damage_receipt`."""
        self._memory.receipts[TENANT, chain, number] = body

    def _alter(self, type_: type[Document], id_: str, **fields: object) -> None:
        for table in (self._memory.tables[type_], self._memory.due[type_]):
            if row := table.get((TENANT, id_)):
                table[TENANT, id_] = msgspec.structs.replace(row, **fields)


class SqliteBench(StoreBench):
    """For the SQLite store: a file in a folder of its own, removed with the bench."""

    def __init__(self, *, threads: bool = True) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._threads = threads
        self.path = Path(self._folder.name) / "amends.db"

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        self._folder.cleanup()

    async def connect(self) -> Store:
        """Open a store on the file."""
        return await open_sqlite(self.path, clock=self.clock, threads=self._threads)

    def contents(self) -> Contents:
        """See `StoreBench.contents`."""
        tables = [shape.table for shape in SHAPES.values()] + ["receipts", "migrations", "store"]
        with _direct(self.path) as file:
            return {
                table: [tuple(row) for row in file.execute(_ALL.substitute(table=table))]
                for table in tables
            }

    def damage(self, type_: type[Document], id_: str, body: bytes) -> None:
        """See `StoreBench.damage`."""
        self._alter(type_, id_, "body", body)

    def relabel(self, type_: type[Document], id_: str, column: str, value: str | int) -> None:
        """See `StoreBench.relabel`."""
        self._alter(type_, id_, column, value)

    def damage_receipt(self, chain: str, number: int, body: bytes) -> None:
        """See `StoreBench.damage_receipt`."""
        with _direct(self.path) as file:
            file.execute(_DAMAGE_RECEIPT, (body, TENANT, chain, number))

    def _alter(
        self, type_: type[Document], id_: str, column: str, value: str | int | bytes
    ) -> None:
        kind = "INTEGER" if column == "revision" else "TEXT"
        names = {"table": shape_of(type_).table, "column": column, "kind": kind}
        with _direct(self.path) as file:
            file.execute(_DAMAGE.substitute(names), (value, TENANT, id_))


_ALL: Final = Template("SELECT * FROM $table")
_DAMAGE: Final = Template(
    "UPDATE $table SET $column = CAST(? AS $kind) WHERE tenant = ? AND id = ?"
)
_DAMAGE_RECEIPT: Final = (
    "UPDATE receipts SET body = CAST(? AS TEXT) WHERE tenant = ? AND chain = ? AND number = ?"
)


@contextmanager
def _direct(path: Path) -> Iterator[apsw.Connection]:
    """The file past the store; SQLite itself keeps several connections of one process apart."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    try:
        yield connection
    finally:
        connection.close()
