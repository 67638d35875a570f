"""What one session may still ask for, counted the same way by both sides (GR-5, GR-6).

Calls, compensations, look-ups, look-ups of compensations and request ids are five purses. A request
is first *reserved*, which checks everything and takes its id; once it turns out to be eligible it
is *charged*. A request that comes to nothing is released, and then nothing was spent.

A compensation that is sent again, exactly, spends nothing: it will be answered from the journal. An
operation that is sent again spends a call, as in version 5.
"""

from collections import Counter
from typing import Final, TypeAlias, assert_never

from amends.contracts.codes import coded
from amends.contracts.worker_grant import CapabilityGrant, Manifest, grant_fingerprint
from amends.contracts.worker_messages import (
    AskCompensationState,
    Cancel,
    CompensateOperation,
    CompensationRequest,
    CompensationStateRequest,
    DispatchOperation,
    Invoke,
    InvokeRequest,
    OperationRequest,
    ReconcileOperation,
    ReconciliationRequest,
    Request,
    RequestMessage,
)
from amends.contracts.worker_payload import ToolPayload

MAX_REQUESTS: Final = 1024
MAX_LOOKUPS: Final = 64
MAX_LOOKUPS_OF_TOOL: Final = 16

_Identity: TypeAlias = tuple[str, str, str, str, str, ToolPayload]


class Budget:
    """The purses of one session. A refusal leaves every one of them as it was."""

    __slots__ = ("_compensated", "_ids", "_manifest", "_spent", "_tenant_scope")

    def __init__(self, manifest: Manifest, tenant_scope: str) -> None:
        self._manifest = manifest
        self._tenant_scope = tenant_scope
        self._ids: set[str] = set()
        self._spent: Counter[tuple[type, str]] = Counter()
        self._compensated: set[_Identity] = set()

    def reserve(self, message: RequestMessage) -> None:
        """Check the request against grant and purses, and take its id.

        Raises `Refused` with a code of `worker.`.
        """
        request = message.request
        self._check_names(request)
        if not isinstance(message, Cancel):
            grant = self._grant_for(message.request)
            self._check_purse(message, grant)
        self._ids.add(request.request_id)

    def charge(self, message: RequestMessage) -> None:
        """Spend what a reserved request costs.

        Others may have spent it meanwhile; then it raises `Refused` and changes nothing.
        """
        if isinstance(message, Cancel):
            return
        tool = message.request.tool
        grant = self._grant_for(message.request)
        self._check_purse(message, grant)
        if isinstance(message, CompensateOperation):
            identity = _identity(message.request)
            if identity in self._compensated:
                return
            self._compensated.add(identity)
        self._spent[_purse(message), tool] += 1

    def release(self, request_id: str) -> None:
        """Give back the id of a request that was reserved and never charged."""
        self._ids.discard(request_id)

    def _check_names(self, request: Request) -> None:
        named = (request.protocol_version, request.session_id)
        if named != (self._manifest.protocol_version, self._manifest.session_id):
            raise coded("worker.session_mismatch")
        if request.request_id in self._ids:
            raise coded("worker.request_repeated", {"request_id": request.request_id})
        if len(self._ids) >= MAX_REQUESTS:
            raise coded("worker.requests_spent")

    def _grant_for(self, request: "_ToolRequest") -> CapabilityGrant:
        grant = self._manifest.grant(request.tool)
        if grant is None:
            raise coded("worker.tool_not_granted")
        if isinstance(request, CompensationRequest | CompensationStateRequest):
            self._check_scope(request, grant)
        if isinstance(request, InvokeRequest | OperationRequest | CompensationRequest):
            _check_input(request.payload, grant)
        return grant

    def _check_scope(
        self, request: CompensationRequest | CompensationStateRequest, grant: CapabilityGrant
    ) -> None:
        if request.tenant_scope != self._tenant_scope:
            raise coded("worker.tenant_mismatch")
        if request.grant_fingerprint != grant_fingerprint(grant):
            raise coded("worker.grant_mismatch")

    def _check_purse(self, message: "_ToolMessage", grant: CapabilityGrant) -> None:
        purse = _purse(message)
        spent = self._spent[purse, grant.tool]
        match message:
            case Invoke() | DispatchOperation():
                if spent >= grant.max_calls:
                    raise coded("worker.calls_spent")
            case CompensateOperation(request):
                again = _identity(request) in self._compensated
                if spent >= grant.max_compensations and not again:
                    raise coded("worker.compensations_spent")
            case ReconcileOperation() | AskCompensationState():
                of_all = sum(n for (kind, _), n in self._spent.items() if kind is purse)
                if spent >= MAX_LOOKUPS_OF_TOOL or of_all >= MAX_LOOKUPS:
                    raise coded("worker.lookups_spent")
            case _:
                assert_never(message)


_ToolMessage: TypeAlias = (
    Invoke | DispatchOperation | CompensateOperation | ReconcileOperation | AskCompensationState
)
_ToolRequest: TypeAlias = (
    InvokeRequest
    | OperationRequest
    | CompensationRequest
    | CompensationStateRequest
    | ReconciliationRequest
)


def check_output(payload: ToolPayload, grant: CapabilityGrant) -> None:
    """Refuse an output that the grant does not allow.

    Raises `Refused` (`worker.format_not_granted`, `worker.output_too_large`).
    """
    if payload.format is not grant.format:
        raise coded("worker.format_not_granted")
    if payload.size > grant.max_output_bytes:
        raise coded("worker.output_too_large", {"limit": grant.max_output_bytes})


def _check_input(payload: ToolPayload, grant: CapabilityGrant) -> None:
    if payload.format is not grant.format:
        raise coded("worker.format_not_granted")
    if payload.size > grant.max_input_bytes:
        raise coded("worker.input_too_large", {"limit": grant.max_input_bytes})


def _purse(message: _ToolMessage) -> type:
    """Calls with and without an identity come out of one purse."""
    return DispatchOperation if isinstance(message, Invoke) else type(message)


def _identity(request: CompensationRequest) -> _Identity:
    return (
        request.operation_key,
        request.compensation_key,
        request.tool,
        request.tenant_scope,
        request.grant_fingerprint,
        request.payload,
    )
