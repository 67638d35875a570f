"""Questions about a whole file that only its upkeep asks: across tenants, over every row.

A connection of its own that writes nothing and brings nothing up to date: a file of an older schema
is read as it is. Long questions are answered piece by piece, so that they hold nothing up and the
asker can tell how far they are.

Deliberately not here: what follows from an answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import apsw

from amends.contracts.documents import Document
from amends.contracts.errors import Corrupt
from amends.contracts.ids import TenantId, TransactionId
from amends.stores.port import Stored, Unreadable
from amends.stores.rows import show_row, system_clock
from amends.stores.schema_steps import Migration
from amends.stores.shapes import shape_of
from amends.stores.sqlite.connection import let_go
from amends.stores.sqlite.failures import damaged, unopenable
from amends.stores.sqlite.logbook import FileLogbook
from amends.stores.sqlite.looking import look
from amends.stores.sqlite.migrations import missing_steps
from amends.stores.sqlite.reader import row_of
from amends.stores.sqlite.statements import CHAIN, statements_of
from amends.stores.surveys import ChainName, ReadChain, chain_names, read_chain

D = TypeVar("D", bound=Document)

AT_ONCE: Final = 500
_CHAINS: Final = (
    "SELECT DISTINCT tenant, chain FROM receipts WHERE (tenant, chain) > (?, ?)"
    " ORDER BY tenant, chain LIMIT ?"
)
_CHAINS_COUNTED: Final = "SELECT count(*) FROM (SELECT DISTINCT tenant, chain FROM receipts)"
_UNCHAINED: Final = (
    "SELECT tenant, id FROM transactions AS t WHERE NOT EXISTS (SELECT 1 FROM receipts AS r"
    " WHERE r.tenant = t.tenant AND r.chain = 'transaction:' || t.id) ORDER BY seq"
)
_BEYOND: Final = (
    "SELECT tenant, id, status FROM transactions AS here WHERE NOT EXISTS (SELECT 1 FROM"
    " other.transactions AS there WHERE there.tenant = here.tenant AND there.id = here.id"
    " AND there.revision >= here.revision) ORDER BY seq"
)
_TENANTS: Final = (
    "SELECT tenant FROM transactions UNION SELECT tenant FROM approvals UNION SELECT tenant"
    " FROM unclaimed_effects ORDER BY 1"
)
_SIGNERS: Final = (
    "SELECT DISTINCT json_extract(body, '$.key_id') FROM"
    " (SELECT body FROM receipts WHERE json_valid(body) ORDER BY position DESC LIMIT ?)"
    " WHERE json_extract(body, '$.key_id') IS NOT NULL"
)


class BeyondIt(NamedTuple):
    """A transaction that one file knows more of than another."""

    tenant: TenantId
    transaction_id: TransactionId
    status: str


class Survey:
    """A file, open for questions. Use it in a `with` block, in one thread.

    Raises `Unavailable` (`store.unavailable`, `store.foreign_file`, `store.schema_too_new`,
    `store.read_only`) or `Corrupt` (`store.schema_changed`, `store.file_damaged`) when opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        connection = None
        try:
            connection = look(path)
            self.missing: tuple[Migration, ...] = missing_steps(connection)
            """The steps of the schema that the file has not gone through."""
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
            self.is_empty: bool = tables == 0
            """Whether nothing was ever stored in the file."""
        except BaseException as error:
            if connection is not None:
                let_go(connection)
            if isinstance(error, apsw.Error):
                raise unopenable(path, error) from error
            raise
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        let_go(self._connection)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """The connection, held at this moment of the store while the block lasts."""
        self.ask("BEGIN")
        self.ask("SELECT count(*) FROM sqlite_schema")
        try:
            yield self._connection
        finally:
            self.ask("ROLLBACK")

    @contextmanager
    def logbook(self) -> Iterator[FileLogbook]:
        """The log of one moment of the store; all answers in the block are of that moment."""
        with self.snapshot():
            yield FileLogbook(self, self.ask)

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        [(lineage,)] = self.ask("SELECT lineage FROM store")
        return str(lineage)

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        """Every tenant with a transaction, a waiting approval, or an effect that nobody claims."""
        return tuple(TenantId(tenant) for (tenant,) in self.ask(_TENANTS))

    def integrity(self, *, quick: bool) -> tuple[str, ...]:
        """What SQLite finds wrong with the file; nothing, if it is whole."""
        check = "quick_check" if quick else "integrity_check"
        try:
            found = [str(line) for (line,) in self.ask(f"PRAGMA {check}(20)")]
        except Corrupt as error:
            return (error.message,)
        return () if found == ["ok"] else tuple(found)

    def signers(self, latest: int = AT_ONCE) -> frozenset[str]:
        """The ids of the keys that signed the latest receipts."""
        return frozenset(str(key_id) for (key_id,) in self.ask(_SIGNERS, latest))

    def count(self, type_: type[Document]) -> int:
        """How many documents of a type there are."""
        return self._count(f"SELECT count(*) FROM {shape_of(type_).table}")  # noqa: S608  # a table of ours

    def documents(self, type_: type[D]) -> Iterator[Stored[D] | Unreadable]:
        """Every document of a type, of all tenants, oldest first; what cannot be read is shown."""
        shape, sql = shape_of(type_), statements_of(type_).row
        place = 0
        while rows := self.ask(f"{sql} seq > ? ORDER BY seq LIMIT ?", place, AT_ONCE):
            for cells in rows:
                row = row_of(cells)
                place = row.seq
                yield show_row(shape, row, system_clock())

    def count_chains(self) -> int:
        """How many receipt chains there are."""
        return self._count(_CHAINS_COUNTED)

    def chains(self) -> Iterator[ChainName]:
        """Every receipt chain, by tenant and name."""
        return chain_names(lambda last: self.ask(_CHAINS, *last, AT_ONCE))

    def unchained(self) -> Iterator[tuple[TenantId, str]]:
        """Transactions without a single receipt, by tenant and id."""
        return ((TenantId(tenant), str(id_)) for tenant, id_ in self.ask(_UNCHAINED))

    def receipts(self, name: ChainName) -> ReadChain:
        """The whole of one chain; a receipt that cannot be read is passed over and counted."""
        return read_chain(
            name, lambda after: self.ask(CHAIN, name.tenant, name.chain, after, AT_ONCE)
        )

    def beyond(self, other: Path) -> tuple[BeyondIt, ...]:
        """Transactions that another file does not have, or has only as they were before."""
        self.ask("ATTACH ? AS other", str(other))
        try:
            found = self.ask(_BEYOND)
        finally:
            self.ask("DETACH other")
        return tuple(
            [BeyondIt(TenantId(one), TransactionId(two), str(st)) for one, two, st in found]
        )

    def record(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | Unreadable | None:
        """One document, as it lies there."""
        rows = self.ask(statements_of(type_).get, tenant, id_)
        return show_row(shape_of(type_), row_of(rows[0]), system_clock()) if rows else None

    def _count(self, sql: str) -> int:
        [(number,)] = self.ask(sql)
        return int(number)

    def ask(self, sql: str, *bindings: float | str | None) -> list[tuple[Any, ...]]:
        """One question in SQL, read to its end. Raises as opening does."""
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            raise damaged(self._path, type(error).__name__) from error
        except apsw.Error as error:
            raise unopenable(self._path, error) from error


def library_version() -> str:
    """The version of the SQLite inside this process."""
    return apsw.sqlite_lib_version()
