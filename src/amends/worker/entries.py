"""An original and its inverse, told apart once: what the journal does for either of them.

Pure. The shell treats both alike, since the order of WS-1 is one order.
"""

from typing import NamedTuple, TypeAlias

from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_identity import CompensationKey, OperationKey
from amends.contracts.worker_messages import (
    AskCompensationState,
    CompensateOperation,
    DispatchOperation,
    ReconcileOperation,
)
from amends.contracts.worker_payload import Status, StoredState
from amends.journal.admission import Admission, admit_compensation, admit_operation
from amends.journal.capacity import JournalLimits
from amends.journal.lookups import Found, find_compensation, find_operation
from amends.journal.observation import (
    learn_compensation,
    learn_operation,
    observe_compensation,
    observe_operation,
)
from amends.journal.records import Journal, find_record
from amends.journal.reports import compensation_state
from amends.worker.adapters import HandlerKind

EffectMessage: TypeAlias = DispatchOperation | CompensateOperation
LookUpMessage: TypeAlias = ReconcileOperation | AskCompensationState


class Entry(NamedTuple):
    """One place in the journal that holds one effect."""

    tool: str
    operation_key: OperationKey
    compensation_key: CompensationKey | None = None

    @property
    def effect(self) -> HandlerKind:
        """The handler that has the effect."""
        return HandlerKind.COMPENSATE if self.compensation_key else HandlerKind.DISPATCH

    @property
    def look_up(self) -> HandlerKind:
        """The handler that finds it."""
        inverse = self.compensation_key is not None
        return HandlerKind.COMPENSATION_STATUS if inverse else HandlerKind.STATUS


def entry_of(message: EffectMessage | LookUpMessage) -> Entry:
    """The entry that a request is about."""
    request = message.request
    inverse = getattr(request, "compensation_key", None)
    return Entry(request.tool, request.operation_key, inverse)


def admit(
    journal: Journal, message: EffectMessage, grant: CapabilityGrant, limits: JournalLimits
) -> Admission:
    """As the journal's admissions, which also say what is raised."""
    match message:
        case DispatchOperation(request):
            return admit_operation(journal, request, grant, limits)
        case CompensateOperation(request):
            return admit_compensation(journal, request, grant, limits)


def find(journal: Journal, message: LookUpMessage) -> Found:
    """As the journal's look-ups, which also say what is raised."""
    match message:
        case ReconcileOperation(request):
            return find_operation(journal, request)
        case AskCompensationState(request):
            return find_compensation(journal, request)


def state_of(journal: Journal, entry: Entry) -> StoredState | None:
    """The stored state, if the journal has the entry under this tool."""
    record = find_record(journal, entry.operation_key)
    if record is None or record.tool != entry.tool:
        return None
    if entry.compensation_key is None:
        return record.state
    return compensation_state(journal, entry.operation_key, entry.compensation_key)


def observe(journal: Journal, entry: Entry, status: Status) -> Journal:
    """The journal after a handler reported this status."""
    if entry.compensation_key is None:
        return observe_operation(journal, entry.operation_key, status)
    return observe_compensation(journal, entry.operation_key, entry.compensation_key, status)


def learn(journal: Journal, entry: Entry, found: Status, *, old_run_gone: bool) -> Journal:
    """The journal after a look-up found this status."""
    key, inverse = entry.operation_key, entry.compensation_key
    if inverse is None:
        return learn_operation(journal, key, found, old_run_gone=old_run_gone)
    return learn_compensation(journal, key, inverse, found, old_run_gone=old_run_gone)
