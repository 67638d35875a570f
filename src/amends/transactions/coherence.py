"""What a record may not say at once: the ways in which one record contradicts itself.

The table of transitions makes none of these records. One that lies in a store all the same was
damaged or written by somebody else, so that nobody can say what is true of its effect: it can be
read and exported, and nothing is done with it.

Deliberately not here: whether a record fits its receipts or the provider's books.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import ResultStatus, Status, Verdict

_DONE: Final = frozenset({Status.COMMITTED, Status.COMPENSATED})
_OFFSETS: Final = frozenset({Status.COMPENSATING, Status.COMPENSATED})
_CALLED: Final = frozenset({Status.COMMITTING, Status.COMPENSATING, Status.RECONCILING})
_UNDECIDED: Final = _CALLED | {Status.PREPARED, Status.OUTCOME_UNKNOWN}


class Contradiction(NamedTuple):
    """One thing that no record says, and how it is seen."""

    text: str
    is_in: Callable[[TransactionRecord], bool]


def _is_done_and_not(record: TransactionRecord) -> bool:
    if record.status not in _DONE:
        return False
    completed = record.result is not None and record.result.status is ResultStatus.COMPLETED
    return not completed or record.error is not None or record.verdict is not Verdict.COMMITTED


def _ended_before_it_began(record: TransactionRecord) -> bool:
    settled = record.settled_at or record.created_at
    return min(settled, record.updated_at) < record.created_at


CONTRADICTIONS: Final = (
    Contradiction("it is done and says that it is not", _is_done_and_not),
    Contradiction(
        "it offsets nothing that it names",
        lambda record: record.status in _OFFSETS and record.context.compensation_for is None,
    ),
    Contradiction(
        "it is only planned and has been sent",
        lambda record: (
            record.status is Status.PLANNED
            and (record.provider_operation is not None or record.attempt is not None)
        ),
    ),
    Contradiction(
        "it is being carried out by nobody",
        lambda record: record.status in _CALLED and record.attempt is None,
    ),
    Contradiction(
        "its outcome is open and known",
        lambda record: (
            record.status in _UNDECIDED
            and (record.verdict is not None or record.settled_at is not None)
        ),
    ),
    Contradiction(
        "it was found out and says nothing",
        lambda record: record.status is Status.RECONCILED and record.verdict is None,
    ),
    Contradiction("it ended before it began", _ended_before_it_began),
)


def contradictions(record: TransactionRecord) -> tuple[str, ...]:
    """What a record says against itself; nothing, for every record that the table made."""
    return tuple([one.text for one in CONTRADICTIONS if one.is_in(record)])


def check_coherent(record: TransactionRecord) -> None:
    """Raise `Corrupt` (`transaction.record_contradictory`) for a record that contradicts itself."""
    found = contradictions(record)
    if found:
        raise coded(
            "transaction.record_contradictory",
            {
                "transaction_id": record.transaction_id,
                "status": record.status.value,
                "contradictions": list(found),
            },
        )
