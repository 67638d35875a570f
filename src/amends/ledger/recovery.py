"""What to do with an operation that is found after a crash, as a table.

The answer depends on what is durable and on nothing else: silence proves nothing, and no row leads
to a second key or to a second run of the inverse.

Deliberately not here: doing it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from amends.ledger.records import LedgerOperation, LedgerState


class Recovery(StrEnum):
    """What may follow."""

    LOOK_UP_ORIGINAL = "look_up_original"
    """No compensation. Look the original up, or have a person find out."""

    MAY_RECORD = "may_record"
    """There is no intent. One may be recorded, after both verifiers."""

    OFFER_AGAIN = "offer_again"
    """New session, same grant, tenant, policy, key and input, a fresh permit: *Existing*."""

    REPORT = "report"
    """It is done. Never another."""

    EXPLICIT_POLICY = "explicit_policy"
    """It stays. Only an explicit recovery policy of adapter or operator goes on."""


_BY_COMPENSATION: Final[Mapping[LedgerState, Recovery]] = MappingProxyType(
    {
        LedgerState.PENDING: Recovery.OFFER_AGAIN,
        LedgerState.RUNNING: Recovery.OFFER_AGAIN,
        LedgerState.SUCCEEDED: Recovery.REPORT,
        LedgerState.FAILED: Recovery.EXPLICIT_POLICY,
        LedgerState.CANCELLED: Recovery.EXPLICIT_POLICY,
    }
)


def recovery_of(operation: LedgerOperation) -> Recovery:
    """What may be done now about this operation and its compensation."""
    if operation.state is not LedgerState.SUCCEEDED:
        return Recovery.LOOK_UP_ORIGINAL
    if operation.compensation is None:
        return Recovery.MAY_RECORD
    return _BY_COMPENSATION[operation.compensation.state]
