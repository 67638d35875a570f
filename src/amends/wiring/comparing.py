"""A worker's journal beside the ledgers of its host: what agrees, and what nobody claims.

An entry that no ledger has is an *orphan*: the worker did it, and the host that asked for it
forgot, or was put back to a time before. It is kept in the journal for ever and shown here, so that
somebody looks after it. Nothing is changed, and no fence is taken: workers and hosts go on.

Deliberately not here: what follows. A person claims an orphan by offering the same intent again,
which has the same key, or settles with the provider.
"""

from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from amends.contracts.worker_payload import Pending, Running, StoredState
from amends.journal.records import JournalRecord
from amends.ledger.records import LedgerState
from amends.ledger.table import state_of
from amends.wiring.anchors import AnchorPlace
from amends.wiring.hosts import Ledgers
from amends.wiring.workers import WorkerPlace, read_journal


class Standing(StrEnum):
    """How an entry of a journal stands to the ledgers."""

    AGREED = "agreed"
    """The ledger says the same."""

    AHEAD = "ahead"
    """The ledger has it open: the host has not heard the end. A look-up tells it."""

    CONTRADICTED = "contradicted"
    """The ledger has another ending."""

    ORPHAN = "orphan"
    """No ledger has it."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the journal; with a second key it is the inverse."""

    tool: str
    operation_key: str
    compensation_key: str | None
    journal: LedgerState
    ledger: LedgerState | None

    @property
    def standing(self) -> Standing:
        """What the two of them come to."""
        if self.ledger is None:
            return Standing.ORPHAN
        if self.ledger is self.journal:
            return Standing.AGREED
        return Standing.AHEAD if self.ledger in _OPEN else Standing.CONTRADICTED


_OPEN: Final = frozenset({LedgerState.PENDING, LedgerState.RUNNING})


def compare(
    place: WorkerPlace, ledgers: Path, *, anchor: AnchorPlace | None = None
) -> list[Compared]:
    """Every entry of a worker's journal, in its order, beside what the ledgers in this folder say.

    Raises as `read_journal` and `Ledgers.read_all`.
    """
    with closing(Ledgers.open(ledgers, anchor=anchor)) as opened:
        claimed = dict(_claims(opened))
    return [
        Compared(
            tool=record.tool,
            operation_key=record.operation_key,
            compensation_key=inverse,
            journal=_known(state),
            ledger=claimed.get(inverse or record.operation_key),
        )
        for record in read_journal(place).records
        for inverse, state in _entries(record)
    ]


def _claims(ledgers: Ledgers) -> Iterator[tuple[str, LedgerState]]:
    """Every key that some ledger has, with its state there."""
    for ledger in ledgers.read_all():
        for operation in ledger.operations:
            yield operation.operation_key, operation.state
            if operation.compensation is not None:
                yield operation.compensation.compensation_key, operation.compensation.state


def _entries(record: JournalRecord) -> Iterator[tuple[str | None, StoredState]]:
    yield None, record.state
    if record.compensation is not None:
        yield record.compensation.compensation_key, record.compensation.state


def _known(state: StoredState) -> LedgerState:
    """A journal's state in the words of a ledger, which keeps nothing of what came of it."""
    match state:
        case Pending():
            return LedgerState.PENDING
        case Running():
            return LedgerState.RUNNING
        case _:
            return state_of(state)
