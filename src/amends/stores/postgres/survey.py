"""Questions about a whole database that only its upkeep asks: across tenants, over every row.

Long questions are answered piece by piece. It looks at a store of an older schema as it is, and at
one on a changed timeline, which nobody may open.

Deliberately not here: what follows from an answer; the server's own checks of its files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from amends.contracts.documents import Document
from amends.contracts.errors import Unavailable
from amends.contracts.ids import TenantId
from amends.stores.port import Stored, Unreadable
from amends.stores.postgres.demands import bypasses_tenants
from amends.stores.postgres.feed import PAUSE_S, find_reach
from amends.stores.postgres.logbook import DatabaseLogbook
from amends.stores.postgres.migrations import (
    MIGRATIONS,
    SYSTEM,
    TIMELINE,
    missing_steps,
)
from amends.stores.postgres.questions import Questions
from amends.stores.postgres.reader import row_columns, row_of
from amends.stores.rows import show_row
from amends.stores.schema_steps import Migration
from amends.stores.shapes import shape_of
from amends.stores.surveys import ChainName, ReadChain, chain_names, read_chain

D = TypeVar("D", bound=Document)

AT_ONCE: Final = 500
_PATIENCE_TIMES: Final = round(15 / PAUSE_S)
"""Longer than the server lets a client stand still in the midst of a batch."""

_TENANTS: Final = (
    "SELECT tenant FROM amends.transactions UNION SELECT tenant FROM amends.approvals"
    " UNION SELECT tenant FROM amends.unclaimed_effects ORDER BY 1"
)
_CHAINS: Final = (
    "SELECT DISTINCT tenant, chain FROM amends.receipts WHERE (tenant, chain) > ($1, $2)"
    " ORDER BY tenant, chain LIMIT $3"
)
_CHAINS_COUNTED: Final = (
    "SELECT count(*) FROM (SELECT DISTINCT tenant, chain FROM amends.receipts) AS c"
)
_UNCHAINED: Final = (
    "SELECT tenant, id FROM amends.transactions AS t WHERE NOT EXISTS (SELECT 1 FROM"
    " amends.receipts AS r WHERE r.tenant = t.tenant AND r.chain = 'transaction:' || t.id)"
    " ORDER BY seq"
)
_RECEIPTS: Final = (
    "SELECT textsend(body), number FROM amends.receipts"
    " WHERE tenant = $1 AND chain = $2 AND number > $3 ORDER BY number LIMIT $4"
)
_SIGNERS: Final = (
    'SELECT DISTINCT substring(body FROM \'"key_id":"([^"]*)"\') FROM'
    " (SELECT body FROM amends.receipts ORDER BY position DESC LIMIT $1) AS latest"
)
_OTHERS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
_MOVED: Final = f"SELECT system_identifier <> {SYSTEM} OR timeline <> {TIMELINE} FROM amends.store"


class PostgresSurvey:
    """A database, open for questions. Use it in a `with` block, in one thread and no event loop.

    Raises `Unavailable` or `Corrupt` as opening a store does, but for a changed timeline.
    """

    def __init__(self, url: str) -> None:
        self._questions = Questions(url)
        self._ask = self._questions.ask
        try:
            self.missing: tuple[Migration, ...] = self._questions.put(missing_steps)
            """The steps of the schema that the database has not gone through."""
            self.is_empty: bool = self.missing == MIGRATIONS
            """Whether nothing was ever stored in the database."""
        except BaseException:
            self._questions.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._questions.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answers of one moment of the store while the block lasts."""
        with self._questions.snapshot():
            yield

    @contextmanager
    def logbook(self) -> Iterator[DatabaseLogbook]:
        """See `Surveyed.logbook`. It holds no writer up, and waits for those who are at it."""
        reach = self._questions.put(partial(find_reach, patience_times=_PATIENCE_TIMES))
        if not reach.settled:
            raise _unsettled()
        with self.snapshot():
            yield DatabaseLogbook(self, self._ask, reach.reached)

    @property
    def lineage(self) -> str:
        """See `Store.lineage`."""
        return str(self._ask("SELECT lineage FROM amends.store")[0][0])

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        """Every tenant with a transaction, a waiting approval, or an effect that nobody claims."""
        return tuple(TenantId(row[0]) for row in self._ask(_TENANTS))

    @property
    def has_moved(self) -> bool:
        """Whether the server was restored or failed over since the store was last used."""
        return bool(self._ask(_MOVED)[0][0])

    @property
    def others(self) -> int:
        """How many others are connected to the database."""
        return int(self._ask(_OTHERS)[0][0])

    @property
    def bypasses_tenants(self) -> bool:
        """Whether the server keeps no tenants apart for this role."""
        return self._questions.put(bypasses_tenants)

    def signers(self, latest: int = AT_ONCE) -> frozenset[str]:
        """The ids of the keys that signed the latest receipts."""
        return frozenset(str(row[0]) for row in self._ask(_SIGNERS, latest) if row[0] is not None)

    def count(self, type_: type[Document]) -> int:
        """How many documents of a type there are."""
        return int(self._ask(f"SELECT count(*) FROM amends.{shape_of(type_).table}")[0][0])

    def documents(self, type_: type[D]) -> Iterator[Stored[D] | Unreadable]:
        """Every document of a type, of all tenants, oldest first; what cannot be read is shown."""
        shape, place = shape_of(type_), 0
        sql = (
            f"SELECT {row_columns(shape, 'NULL')} FROM amends.{shape.table}"
            " WHERE seq > $1 ORDER BY seq LIMIT $2"
        )
        while rows := self._ask(sql, place, AT_ONCE):
            for cells in rows:
                place = cells[1]
                yield show_row(shape, row_of(cells), cells[0])

    def count_chains(self) -> int:
        """How many receipt chains there are."""
        return int(self._ask(_CHAINS_COUNTED)[0][0])

    def chains(self) -> Iterator[ChainName]:
        """Every receipt chain, by tenant and name."""
        return chain_names(lambda last: self._ask(_CHAINS, *last, AT_ONCE))

    def unchained(self) -> Iterator[tuple[TenantId, str]]:
        """Transactions without a single receipt, by tenant and id."""
        return ((TenantId(tenant), str(id_)) for tenant, id_ in self._ask(_UNCHAINED))

    def receipts(self, name: ChainName) -> ReadChain:
        """The whole of one chain; a receipt that cannot be read is passed over and counted."""
        return read_chain(
            name, lambda after: self._ask(_RECEIPTS, name.tenant, name.chain, after, AT_ONCE)
        )

    def record(self, type_: type[D], tenant: TenantId, id_: str) -> Stored[D] | Unreadable | None:
        """One document, as it lies there."""
        shape = shape_of(type_)
        rows = self._ask(
            f"SELECT {row_columns(shape, 'NULL')} FROM amends.{shape.table}"
            " WHERE tenant = $1 AND id = $2",
            tenant,
            id_,
        )
        return show_row(shape, row_of(rows[0]), rows[0][0]) if rows else None


def _unsettled() -> Unavailable:
    return Unavailable(
        "store.unavailable",
        "Somebody has been writing for long, and until that ends the order of the log is open.",
        next_step="Try again; if it stays so, end the sessions that the server shows as idle in a "
        "transaction.",
    )
