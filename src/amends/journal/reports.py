"""What a worker may say about an entry (WS-1, WS-3).

*Indeterminate* is never stored. It is said of an entry whose outcome is open and whose handler is
not running in this very session: after a crash, `pending` does not tell whether the handler was
entered, and `running` does not tell whether it still runs.

Deliberately not here: frames, and looking up.
"""

from amends.contracts.worker_messages import (
    CompensationState,
    Indeterminate,
    NoRecord,
    TerminalRecord,
)
from amends.contracts.worker_payload import Pending, Running, StoredState
from amends.journal.records import Journal, find_record


def report_of(state: StoredState | None, *, in_this_session: bool) -> CompensationState:
    """What may be said. `in_this_session`: this session admitted it and saw it to be so."""
    match state:
        case None:
            return NoRecord()
        case Pending() | Running():
            return state if in_this_session else Indeterminate()
        case _:
            return TerminalRecord(state)


def compensation_state(
    journal: Journal, operation_key: str, compensation_key: str
) -> StoredState | None:
    """The stored state of this compensation, if the journal has it."""
    record = find_record(journal, operation_key)
    held = None if record is None else record.compensation
    if held is None or held.compensation_key != compensation_key:
        return None
    return held.state
