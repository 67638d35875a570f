"""A change set made ready: every value checked and encoded, on the caller's own turn.

Deliberately not here: verdicts, SQL, and when it is written.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from amends.contracts.errors import Misuse
from amends.stores.port import Append, ChangeSet, Due, Guard, Insert, Replace
from amends.stores.postgres.function import WIDTH
from amends.stores.shapes import ENCODER, SHAPES, Columns, shape_of
from amends.stores.wellformed import check_change_set

TYPES: Final = tuple(SHAPES)
"""Types of documents in the order in which their rows are locked."""

PLACES: Final = {type_: place for place, type_ in enumerate(TYPES)}
SHAPED: Final = tuple(SHAPES[type_] for type_ in TYPES)

Cells: TypeAlias = tuple[Any, ...]
"""A document's row as `amends.write` takes it: kind, tenant, id, and the rest."""

Linked: TypeAlias = tuple[str, str, int, str, str | None, str]
"""A receipt's row as `amends.write` takes it: chain, number, hash, previous hash, body."""

INSERT: Final = "insert "
REPLACE: Final = "replace "
GUARD: Final = "guard "
_NOTHING: Final = (None,) * (6 + WIDTH)
_BODY: Final = 9
_NEVER: Final = Due()


class Key(NamedTuple):
    """Which row: the place of its type in `TYPES`, tenant, id."""

    place: int
    tenant: str
    id: str


class Chain(NamedTuple):
    """Which chain."""

    tenant: str
    chain: str


class Held(NamedTuple):
    """A unique value: the place of the type, tenant, the name of the key, the value."""

    place: int
    tenant: str
    name: str
    value: str


class Write(msgspec.Struct, frozen=True, gc=False):
    """An insert (`expected` is 0), or a replacement of the revision `expected`."""

    key: Key
    expected: int
    revision: int
    created_at: datetime
    updated_at: datetime
    due: Due | None
    columns: Columns
    holds: tuple[Held, ...]
    body: str


class Link(msgspec.Struct, frozen=True, gc=False):
    """One receipt."""

    number: int
    hash: str
    body: str


class Extend(msgspec.Struct, frozen=True, gc=False):
    """Receipts after the number `after`, whose hash must be `previous`."""

    chain: Chain
    after: int
    previous: str
    links: tuple[Link, ...]


class Check(msgspec.Struct, frozen=True, gc=False):
    """A row still at a revision; 0: absent."""

    key: Key
    expected: int


Step: TypeAlias = Write | Extend | Check


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change set, ready to be written as if it was decided already, or to be decided.

    `rows` and `receipts` are what it writes and looks at where all is as it takes it to be; `named`
    are the documents and chains it speaks of, as plain tuples of what is in a `Key` or a `Chain`.
    """

    change_set: ChangeSet
    named: tuple[tuple[Any, ...], ...]
    rows: tuple[Cells, ...]
    receipts: tuple[Linked, ...]

    @property
    def not_after(self) -> datetime | None:
        """From when on it is too late."""
        return self.change_set.not_after

    @property
    def steps(self) -> Iterable[Step]:
        """The same, to be decided. Few have to be, so it is only made when it is asked for."""
        rows, links = iter(self.rows), iter(self.receipts)
        for change in self.change_set.changes:
            if isinstance(change, Append):
                yield _extend(change, links)
            else:
                yield _decidable(change, next(rows))


class Placed(NamedTuple):
    """What of a row is the same for every document of a type."""

    place: int
    insert: str
    replace: str
    guard: str
    rest: Cells


_PLACED: Final = MappingProxyType(
    {
        shape.type: Placed(
            place,
            INSERT + shape.table,
            REPLACE + shape.table,
            GUARD + shape.table,
            (None,) * (WIDTH - len(shape.columns)),
        )
        for place, shape in enumerate(SHAPED)
    }
)


def prepare(change_set: ChangeSet) -> Prepared:
    """Check and encode. Raises `Misuse` as `check_change_set` and `shape_of` do."""
    check_change_set(change_set)
    named: list[tuple[Any, ...]] = []
    rows: list[Cells] = []
    receipts: list[Linked] = []
    plain = ""
    for index, change in enumerate(change_set.changes):
        if isinstance(change, Append):
            tenant, name = change.tenant, change.chain
            named.append((tenant, name))
            receipts += _linked(change)
        else:
            place, cells = _guard(change) if isinstance(change, Guard) else _written(change)
            _, tenant, name, *_ = cells
            named.append((place, tenant, name))
            rows.append(cells)
        if not is_storable(name) or not (tenant == plain or is_plain(tenant)):
            raise _unstorable(index)
        plain = tenant
    return Prepared(change_set, tuple(named), tuple(rows), tuple(receipts))


def written_cells(write: Write, before: int, created_at: datetime) -> Cells:
    """A row that is inserted, or replaced at the revision `before`."""
    placed = _PLACED[TYPES[write.key.place]]
    due = write.due or _NEVER
    return (
        placed.replace if before else placed.insert,
        write.key.tenant,
        write.key.id,
        before,
        write.revision,
        None if before else created_at,
        write.updated_at,
        due.at,
        due.after_ms,
        write.body,
        *write.columns,
        *placed.rest,
    )


def is_storable(text: str) -> bool:
    """Whether a server can be asked for such an id or column."""
    return text.isprintable()


def is_plain(tenant: str) -> bool:
    """Whether a tenant can stand in a list of them, in the text of a statement."""
    return tenant.isascii() and tenant.isprintable() and not set(tenant) & {"'", "\\"}


def _written(change: Insert | Replace) -> tuple[int, Cells]:
    """The place of the type and the row; the same as `written_cells` once it is decided."""
    document, due = change.document, change.due or _NEVER
    shape = shape_of(type(document))
    placed = _PLACED[shape.type]
    inserts = isinstance(change, Insert)
    return placed.place, (
        placed.insert if inserts else placed.replace,
        document.tenant,
        shape.id_of(document),
        0 if inserts else document.revision - 1,
        document.revision,
        document.created_at if inserts else None,
        document.updated_at,
        due.at,
        due.after_ms,
        ENCODER.encode(document).decode(),
        *shape.values(document),
        *placed.rest,
    )


def _guard(change: Guard) -> tuple[int, Cells]:
    placed = _PLACED[shape_of(change.type).type]
    return placed.place, (placed.guard, change.tenant, change.id, change.revision, *_NOTHING)


def _linked(change: Append) -> list[Linked]:
    """Its receipts, the first with what the end of the chain must be, where there is one."""
    tenant, chain = change.tenant, change.chain
    first = change.receipts[0]
    previous = first.previous if change.after else None
    return [
        (
            tenant,
            chain,
            receipt.number,
            receipt.hash,
            previous if receipt is first else None,
            ENCODER.encode(receipt).decode(),
        )
        for receipt in change.receipts
    ]


def _decidable(change: Insert | Replace | Guard, cells: Cells) -> Write | Check:
    if isinstance(change, Guard):
        place = PLACES[change.type]
        return Check(Key(place, change.tenant, change.id), change.revision)
    _, tenant, id_, before, revision, *_ = cells
    document = change.document
    shape = shape_of(type(document))
    place = PLACES[shape.type]
    columns = shape.values(document)
    holds = [
        Held(place, tenant, name, value)
        for name in shape.unique
        if (value := columns[shape.columns.index(name)]) is not None
    ]
    return Write(
        Key(place, tenant, id_),
        before,
        revision,
        document.created_at,
        document.updated_at,
        change.due,
        columns,
        tuple(holds),
        cells[_BODY],
    )


def _extend(change: Append, links: Iterator[Linked]) -> Extend:
    made = [
        Link(number, hash_, body)
        for _, _, number, hash_, _, body in islice(links, len(change.receipts))
    ]
    chain = Chain(change.tenant, change.chain)
    return Extend(chain, change.after, change.receipts[0].previous, tuple(made))


def _unstorable(index: int) -> Misuse:
    return Misuse(
        "store.malformed_change",
        f"Change {index} of a change set names something that is no identifier.",
        details={"index": index},
        next_step="This is a mistake in the calling program; nothing was changed.",
    )
