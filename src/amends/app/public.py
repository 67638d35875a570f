"""The names that programs import from `amends`: the one list of what is public.

`amends` itself loads this module when the first of them is asked for. Whatever else a program needs
is imported from the room that holds it, as the reference says. What declares HTTP capabilities, and
what serves capabilities by workers, is loaded when it is asked for: many programs have none.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from amends.app.amends import Amends, Opening
from amends.app.asking import TransactionResult
from amends.app.capabilities import FunctionCapability, capability
from amends.connectors.blocking import BlockingAttempt
from amends.connectors.port import Attempt, OriginalEffect
from amends.connectors.signals import NotApplied, NotFound, Partial, Pending
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
from amends.contracts.approval_policy import (
    AllOf,
    AnyOf,
    ApprovalPolicy,
    ByGroup,
    ByPrincipal,
    ByRole,
    Quorum,
)
from amends.contracts.declarations import (
    CredentialPolicy,
    DataContract,
    ExecutionContract,
    IdempotencyContract,
    RecoveryContract,
)
from amends.contracts.delegations import Delegation
from amends.contracts.errors import (
    AmendsError,
    Conflict,
    Corrupt,
    Misuse,
    OutcomeUnknown,
    PeerViolation,
    ProviderFailed,
    Refused,
    Unavailable,
)
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import ProviderOperationId
from amends.contracts.json_types import Json, JsonObject
from amends.contracts.notices import Notice
from amends.contracts.outcomes import Applied, ErrorInfo, Failure, ProviderOperation, Uncertain
from amends.contracts.principals import Identity, Principal, PrincipalRef, PrincipalSource
from amends.contracts.results import NextStep, Result
from amends.contracts.secrets import Secret
from amends.contracts.worker_grant import CapabilityGrant
from amends.recovery.notifying import Channel
from amends.wiring.channels import CommandChannel, LogChannel, WebhookChannel, check_signed
from amends.wiring.opening import Notices, Settings

if TYPE_CHECKING:
    from amends.app.worker_capabilities import WorkerCapability, worker_capability
    from amends.connectors.http import http_capability, load_capabilities
    from amends.transports.tls_files import TlsFiles
    from amends.wiring.remote_workers import RemoteWorker
    from amends.wiring.worker_processes import WorkerProcess
else:
    _WHERE: Final = MappingProxyType(
        {
            "RemoteWorker": "amends.wiring.remote_workers",
            "TlsFiles": "amends.transports.tls_files",
            "WorkerCapability": "amends.app.worker_capabilities",
            "WorkerProcess": "amends.wiring.worker_processes",
            "http_capability": "amends.connectors.http",
            "load_capabilities": "amends.connectors.http",
            "worker_capability": "amends.app.worker_capabilities",
        }
    )

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)


__all__ = [
    "Action",
    "AllOf",
    "Amends",
    "AmendsError",
    "AnyOf",
    "Applied",
    "ApprovalPolicy",
    "Attempt",
    "BlockingAttempt",
    "ByGroup",
    "ByPrincipal",
    "ByRole",
    "CapabilityGrant",
    "Channel",
    "CommandChannel",
    "Conflict",
    "Corrupt",
    "CredentialPolicy",
    "DataContract",
    "Delegation",
    "ErrorInfo",
    "ExecutionContract",
    "Failure",
    "FunctionCapability",
    "IdempotencyContract",
    "Identity",
    "Json",
    "JsonObject",
    "LogChannel",
    "Misuse",
    "NextStep",
    "NotApplied",
    "NotFound",
    "Notice",
    "Notices",
    "Opening",
    "OriginalEffect",
    "OutcomeUnknown",
    "Partial",
    "PeerViolation",
    "Pending",
    "Principal",
    "PrincipalRef",
    "PrincipalSource",
    "ProviderEvent",
    "ProviderFailed",
    "ProviderOperation",
    "ProviderOperationId",
    "Quorum",
    "RecoveryContract",
    "Refused",
    "RemoteWorker",
    "Result",
    "Said",
    "Secret",
    "Settings",
    "TlsFiles",
    "TransactionContext",
    "TransactionRequest",
    "TransactionResult",
    "Unavailable",
    "Uncertain",
    "WebhookChannel",
    "WorkerCapability",
    "WorkerProcess",
    "capability",
    "check_signed",
    "http_capability",
    "load_capabilities",
    "worker_capability",
]
