"""Writing down what an adapter reported (WS-1, WS-2), and what a look-up found (WS-3).

An observation is persisted before it is answered. States follow one another as the table says; a
terminal state is never contradicted, and a repeated one is no change. A look-up moves only what is
open, and "it did not happen" counts only once nothing of the old run can still act.

Deliberately not here: what is not an observation. Silence, exceptions and time limits leave the
state as it is.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_identity import worker_input_fingerprint
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    Status,
    StoredState,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.journal.records import (
    FORMAT_5,
    Journal,
    is_open,
    require_compensation,
    require_record,
    with_record,
)

_Kinds: TypeAlias = frozenset[type[StoredState]]
_ENDINGS: Final[_Kinds] = frozenset({Succeeded, SucceededOversize, Failed, Cancelled})
_LATER: Final[_Kinds] = frozenset({Running, *_ENDINGS})

FOLLOWING: Final[Mapping[type[StoredState], _Kinds]] = MappingProxyType(
    {Pending: _LATER, Running: _ENDINGS}
)
"""What may follow an open state. An ending is followed by nothing but itself."""


def succeeded(payload: ToolPayload, grant: CapabilityGrant) -> Succeeded | SucceededOversize:
    """The state that records this output; one over the grant's limit leaves digest and size.

    Raises `Refused` (`worker.format_not_granted`): that status is malformed, and no definite one.
    """
    if payload.format is not grant.format:
        raise coded("worker.format_not_granted")
    if payload.size > grant.max_output_bytes:
        return without_body(Succeeded(payload))
    return Succeeded(payload)


def without_body(state: Succeeded) -> SucceededOversize:
    """What remains of a success whose output is let go."""
    return SucceededOversize(worker_input_fingerprint(state.payload.canonical), state.payload.size)


def observe_operation(journal: Journal, operation_key: str, state: Status) -> Journal:
    """The journal after a definite status of an original; persist it, then answer.

    Raises `Refused` (`journal.operation_unknown`), `Conflict` (`journal.contradicted`).
    """
    record = require_record(journal, operation_key)
    if _is_known(journal, record.state, state):
        return journal
    return with_record(journal, replace(record, state=state))


def observe_compensation(
    journal: Journal, operation_key: str, compensation_key: str, state: Status
) -> Journal:
    """As `observe_operation`, for the inverse. Raises `journal.compensation_unknown` too."""
    record = require_record(journal, operation_key)
    held = require_compensation(record, compensation_key)
    if _is_known(journal, held.state, state):
        return journal
    return with_record(journal, replace(record, compensation=replace(held, state=state)))


def learn_operation(
    journal: Journal, operation_key: str, found: Status, *, old_run_gone: bool
) -> Journal:
    """The journal after a look-up of an original. Raises as `check_found`, `observe_operation`."""
    check_found(require_record(journal, operation_key).state, found, old_run_gone=old_run_gone)
    return observe_operation(journal, operation_key, found)


def learn_compensation(
    journal: Journal,
    operation_key: str,
    compensation_key: str,
    found: Status,
    *,
    old_run_gone: bool,
) -> Journal:
    """The journal after a look-up of an inverse. Raises as `learn_operation`."""
    held = require_compensation(require_record(journal, operation_key), compensation_key)
    check_found(held.state, found, old_run_gone=old_run_gone)
    return observe_compensation(journal, operation_key, compensation_key, found)


def check_found(before: StoredState, found: StoredState, *, old_run_gone: bool) -> None:
    """Whether a look-up, or a person, may say this of an entry.

    `old_run_gone`: the worker that admitted it was reaped, or its horizon has passed.
    Raises `Refused`: `journal.entry_closed`, `journal.absence_unproven`.
    """
    if not is_open(before):
        raise coded("journal.entry_closed")
    if isinstance(found, Failed | Cancelled) and not old_run_gone:
        raise coded("journal.absence_unproven")


def _is_known(journal: Journal, before: StoredState, after: Status) -> bool:
    if isinstance(after, SucceededOversize) and journal.format_version == FORMAT_5:
        raise coded("journal.format_cannot_say")
    if before == after or _is_the_rest_of(before, after):
        return True
    if type(after) not in FOLLOWING.get(type(before), frozenset()):
        raise coded("journal.contradicted")
    return False


def _is_the_rest_of(before: StoredState, after: Status) -> bool:
    """Whether an archived success is reported again with its output."""
    return (
        isinstance(before, SucceededOversize)
        and isinstance(after, Succeeded)
        and before == without_body(after)
    )
