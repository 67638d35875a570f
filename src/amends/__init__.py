"""Amends: actions that cannot be taken back, with a plan, an approval, and one claim each.

This module is what programs import; everything else is reached through it or through the rooms that
the reference names.
"""

from amends.app.amends import Amends, Opening
from amends.app.asking import TransactionResult
from amends.app.capabilities import FunctionCapability, capability
from amends.connectors.blocking import BlockingAttempt
from amends.connectors.port import Attempt, OriginalEffect
from amends.connectors.signals import NotApplied, NotFound, Partial, Pending
from amends.contracts.actions import Action, TransactionContext, TransactionRequest
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
from amends.contracts.outcomes import Applied, ErrorInfo, Failure, ProviderOperation, Uncertain
from amends.contracts.principals import Identity, Principal, PrincipalRef
from amends.contracts.results import NextStep, Result
from amends.wiring.opening import Settings

__all__ = [
    "Action",
    "Amends",
    "AmendsError",
    "Applied",
    "Attempt",
    "BlockingAttempt",
    "Conflict",
    "Corrupt",
    "ErrorInfo",
    "Failure",
    "FunctionCapability",
    "Identity",
    "Misuse",
    "NextStep",
    "NotApplied",
    "NotFound",
    "Opening",
    "OriginalEffect",
    "OutcomeUnknown",
    "Partial",
    "PeerViolation",
    "Pending",
    "Principal",
    "PrincipalRef",
    "ProviderFailed",
    "ProviderOperation",
    "Refused",
    "Result",
    "Settings",
    "TransactionContext",
    "TransactionRequest",
    "TransactionResult",
    "Unavailable",
    "Uncertain",
    "capability",
]
