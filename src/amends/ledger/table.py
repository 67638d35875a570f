"""Which state may follow which, for operations and compensations alike (HL-1).

The table is the whole truth: what has no row is refused. A terminal state accepts only itself, and
a state that is repeated is no change. Nothing leads back to `pending`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

from amends.contracts.codes import coded
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Succeeded,
    SucceededOversize,
    Terminal,
)
from amends.ledger.records import LedgerState

TERMINAL: Final = frozenset({LedgerState.SUCCEEDED, LedgerState.FAILED, LedgerState.CANCELLED})
_KNOWN_LATER: Final = TERMINAL | {LedgerState.RUNNING}

FOLLOWING: Final[Mapping[LedgerState, frozenset[LedgerState]]] = MappingProxyType(
    {
        LedgerState.PENDING: _KNOWN_LATER | {LedgerState.PENDING},
        LedgerState.RUNNING: _KNOWN_LATER,
        LedgerState.SUCCEEDED: frozenset({LedgerState.SUCCEEDED}),
        LedgerState.FAILED: frozenset({LedgerState.FAILED}),
        LedgerState.CANCELLED: frozenset({LedgerState.CANCELLED}),
    }
)


def state_of(ending: Terminal) -> LedgerState:
    """What a ledger calls this ending; it keeps nothing of what came of it."""
    match ending:
        case Succeeded() | SucceededOversize():
            return LedgerState.SUCCEEDED
        case Failed():
            return LedgerState.FAILED
        case Cancelled():
            return LedgerState.CANCELLED
        case _:
            assert_never(ending)


def check_follows(before: LedgerState, after: LedgerState) -> None:
    """Raises `Conflict` (`ledger.transition_refused`) where the table has no row."""
    if after not in FOLLOWING[before]:
        raise coded("ledger.transition_refused", {"state": before.value, "reported": after.value})
