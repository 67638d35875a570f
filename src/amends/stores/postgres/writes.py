"""A change set made ready: every value checked and encoded, on the caller's own turn.

Deliberately not here: verdicts, SQL, and when it is written.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from amends.contracts.documents import Document
from amends.contracts.errors import Misuse
from amends.stores.port import Append, Change, ChangeSet, Due, Guard, Insert, Replace
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
_REST: Final = tuple((None,) * (WIDTH - len(shape.columns)) for shape in SHAPED)
_NOTHING: Final = (None,) * (6 + WIDTH)


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
    """A change set, ready to be decided, or to be written as if it was decided already.

    `rows` and `receipts` are what it writes and looks at where all is as it takes it to be.
    """

    steps: tuple[Step, ...]
    not_after: datetime | None
    rows: tuple[Cells, ...]
    receipts: tuple[Linked, ...]


def prepare(change_set: ChangeSet) -> Prepared:
    """Check and encode. Raises `Misuse` as `check_change_set` and `shape_of` do."""
    check_change_set(change_set)
    steps = tuple([_step(change) for change in change_set.changes])
    for index, step in enumerate(steps):
        tenant, name = step.chain if isinstance(step, Extend) else step.key[1:]
        if not is_plain(tenant) or not is_storable(name):
            raise _unstorable(index)
    rows = tuple([_cells(step) for step in steps if not isinstance(step, Extend)])
    receipts = [one for step in steps if isinstance(step, Extend) for one in _linked(step)]
    return Prepared(steps, change_set.not_after, rows, tuple(receipts))


def written_cells(write: Write, before: int, created_at: datetime) -> Cells:
    """A row that is inserted, or replaced at the revision `before`."""
    due, shape = write.due, SHAPED[write.key.place]
    at, after = (None, None) if due is None else (due.at, due.after_ms)
    return (
        (REPLACE if before else INSERT) + shape.table,
        write.key.tenant,
        write.key.id,
        before,
        write.revision,
        None if before else created_at,
        write.updated_at,
        at,
        after,
        write.body,
        *write.columns,
        *_REST[write.key.place],
    )


def is_storable(text: str) -> bool:
    """Whether a server can be asked for such an id or column."""
    return text.isprintable()


def is_plain(tenant: str) -> bool:
    """Whether a tenant can stand in a list of them, in the text of a statement."""
    return tenant.isascii() and tenant.isprintable() and not set(tenant) & {"'", "\\"}


def _step(change: Change) -> Step:
    match change:
        case Insert():
            return _write(change.document, change.due, 0)
        case Replace():
            return _write(change.document, change.due, change.document.revision - 1)
        case Append():
            return _extend(change)
        case Guard():
            place = PLACES[shape_of(change.type).type]
            return Check(Key(place, change.tenant, change.id), change.revision)
        case _:
            assert_never(change)


def _write(document: Document, due: Due | None, expected: int) -> Write:
    shape = shape_of(type(document))
    place = PLACES[shape.type]
    columns = shape.values(document)
    key = Key(place, document.tenant, shape.id_of(document))
    holds = tuple(
        [
            Held(place, key.tenant, name, value)
            for name in shape.unique
            if (value := columns[shape.columns.index(name)]) is not None
        ]
    )
    return Write(
        key,
        expected,
        document.revision,
        document.created_at,
        document.updated_at,
        due,
        columns,
        holds,
        ENCODER.encode(document).decode(),
    )


def _extend(change: Append) -> Extend:
    links = tuple(
        [
            Link(receipt.number, receipt.hash, ENCODER.encode(receipt).decode())
            for receipt in change.receipts
        ]
    )
    chain = Chain(change.tenant, change.chain)
    return Extend(chain, change.after, change.receipts[0].previous, links)


def _cells(step: Write | Check) -> Cells:
    if isinstance(step, Write):
        return written_cells(step, step.expected, step.created_at)
    place, tenant, id_ = step.key
    return (GUARD + SHAPED[place].table, tenant, id_, step.expected, *_NOTHING)


def _linked(extend: Extend) -> Iterable[Linked]:
    """Its receipts, the first with what the end of the chain must be, where there is one."""
    previous = extend.previous if extend.after else None
    for link in extend.links:
        yield (*extend.chain, link.number, link.hash, previous, link.body)
        previous = None


def _unstorable(index: int) -> Misuse:
    return Misuse(
        "store.malformed_change",
        f"Change {index} of a change set names something that is no identifier.",
        details={"index": index},
        next_step="This is a mistake in the calling program; nothing was changed.",
    )
