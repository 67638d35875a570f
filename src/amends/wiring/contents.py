"""What lies in a store, looked through once: rows that need somebody, by kind.

Every row is read; what cannot be read is counted and stops nothing. A list of names is cut, a count
never.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from amends.contracts.approvals import ApprovalRequest
from amends.contracts.documents import Correction, Document, TransactionRecord, UnclaimedEffect
from amends.contracts.errors import AmendsError
from amends.stores.port import Stored, Unreadable
from amends.stores.rows import system_clock
from amends.stores.shapes import SHAPES, shape_of
from amends.transactions.coherence import contradictions
from amends.wiring.places import Place
from amends.wiring.surveying import survey_of

Told = Callable[[int, int], None]
NAMED: Final = 20
"""How many of a kind are named; all are counted."""

OVERDUE: Final = timedelta(minutes=10)
_TELLING: Final = (TransactionRecord, ApprovalRequest, Correction, UnclaimedEffect)
"""The types in which more can be found than rows that cannot be read."""


class Level(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAULT = "fault"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: what was found, and what to do about it. `named` are ids, at most a few."""

    name: str
    level: Level
    says: str
    todo: str = ""
    named: tuple[str, ...] = ()


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of row that needs somebody, and what is said where there are none or some."""

    name: str
    level: Level
    none: str
    some: str
    todo: str


KINDS: Final = (
    Kind(
        name="rows",
        level=Level.FAULT,
        none="Every row can be read.",
        some="rows cannot be read, and nothing is done with them.",
        todo="Export their receipts, and compare them with the provider or a backup.",
    ),
    Kind(
        name="records",
        level=Level.FAULT,
        none="No record contradicts itself.",
        some="records contradict themselves, and nothing is done with them.",
        todo="Export their receipts, and have a person compare them with the provider.",
    ),
    Kind(
        name="attention",
        level=Level.WARN,
        none="No record needs a person.",
        some="records need a person.",
        todo="Look at each with amends tx show; settle or compensate where that is due.",
    ),
    Kind(
        name="frozen",
        level=Level.WARN,
        none="Nothing is frozen.",
        some="records or approval requests are frozen.",
        todo="Compare each with the provider, then an operator releases it: amends release.",
    ),
    Kind(
        name="corrections",
        level=Level.WARN,
        none="No correction waits for a ruling.",
        some="corrections wait for a ruling, and their targets cannot be compensated.",
        todo="An operator rules on each: amends rule.",
    ),
    Kind(
        name="unclaimed",
        level=Level.WARN,
        none="No provider reported an effect that nobody claims.",
        some="reported effects belong to no record.",
        todo="Ask the provider: others may use the account, or a store was lost.",
    ),
    Kind(
        name="recovery",
        level=Level.WARN,
        none="Nothing is overdue.",
        some="records have been due for more than ten minutes.",
        todo="Start a program that embeds Amends, or run amends reconcile --due.",
    ),
)


def look_into(database: Place, *, quick: bool, told: Told) -> Iterator[Check]:
    """Walk over the rows, and say of each kind how many there are.

    A quick walk leaves out the tables in which only unreadable rows can be found. `told` hears how
    many rows were read, of how many.
    """
    found: dict[str, list[str]] = {kind.name: [] for kind in KINDS}
    try:
        for name, row in _walk(database, _TELLING if quick else tuple(SHAPES), told):
            found[name].append(row)
    except AmendsError as error:
        says = f"{error.message} [{error.code}]"
        yield Check(name="rows", level=Level.FAULT, says=says, todo=error.next_step)
        return
    for kind in KINDS:
        yield _of_kind(kind, found[kind.name])


def _walk(
    database: Place, types: Sequence[type[Document]], told: Told
) -> Iterator[tuple[str, str]]:
    done, now = 0, system_clock()
    with survey_of(database) as survey:
        total = sum(survey.count(type_) for type_ in types)
        for type_ in types:
            for row in survey.documents(type_):
                done += 1
                yield from needs(row, now)
                told(done, total)


def needs(row: Stored[Document] | Unreadable, now: datetime) -> Iterator[tuple[str, str]]:
    """The kinds that a row is of, each with what the row is called there."""
    if isinstance(row, Unreadable):
        yield "rows", f"{shape_of(row.type).table} {row.tenant} {row.id}"
        return
    match row.document:
        case TransactionRecord() as record:
            yield from _needs_of(record, row.due_at, now)
        case ApprovalRequest() as request if request.frozen is not None:
            yield "frozen", f"{request.tenant} {request.approval_id}"
        case UnclaimedEffect() as effect:
            yield "unclaimed", f"{effect.tenant} {effect.provider} {effect.event_id}"
        case Correction() as correction if correction.ruled_by is None:
            yield "corrections", f"{correction.tenant} {correction.correction_id}"
        case _:
            return


def _needs_of(
    record: TransactionRecord, due_at: datetime | None, now: datetime
) -> Iterator[tuple[str, str]]:
    name = f"{record.tenant} {record.transaction_id}"
    if contradictions(record):
        yield "records", name
    if record.attention is not None:
        yield "attention", f"{name} {record.attention}"
    if record.frozen is not None:
        yield "frozen", f"{name} {record.frozen}"
    if due_at is not None and now - due_at > OVERDUE:
        yield "recovery", name


def _of_kind(kind: Kind, names: Sequence[str]) -> Check:
    if not names:
        return Check(name=kind.name, level=Level.OK, says=kind.none)
    return Check(
        name=kind.name,
        level=kind.level,
        says=f"{len(names)} {kind.some}",
        todo=kind.todo,
        named=tuple(names[:NAMED]),
    )
