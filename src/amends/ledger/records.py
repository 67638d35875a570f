"""The host ledger: one plan, its operations, and at most one compensation under each (HL-1).

A ledger names and fingerprints. It never holds input, output, error texts, nonces or grants. Every
change makes a new ledger, one revision later (HL-4); an operation is never taken out again.

Format 2 is that of protocol version 5. Format 3 is the same, with grants that a person superseded.

Deliberately not here: which change is allowed (`table`, `operations`, `compensations`), and bytes
(`document`).
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.worker_identity import CompensationKey, Fingerprint, OperationKey

FORMAT_5: Final = 2
FORMAT_6: Final = 3
MAX_OPERATIONS: Final = 64
MAX_BYTES: Final = 65_536


class LedgerState(StrEnum):
    """How far an operation or a compensation is known to have come."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Supersession(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided about an intent whose grant had changed (GR-4)."""

    who: str
    why: str
    old: Fingerprint
    new: Fingerprint


class LedgerCompensation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one compensation of an operation, as it was approved. Superseding keeps its key."""

    compensation_key: CompensationKey
    input_fingerprint: Fingerprint
    tenant_scope: str
    grant_fingerprint: Fingerprint
    state: LedgerState
    superseded: tuple[Supersession, ...] = ()


class LedgerOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a step of the plan."""

    step_id: str
    tool: str
    operation_key: OperationKey
    input_fingerprint: Fingerprint
    state: LedgerState = LedgerState.PENDING
    compensation: LedgerCompensation | None = None


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one plan did through workers. `revision` counts the changes, from 0."""

    format_version: int = FORMAT_5
    revision: int = 0
    plan_fingerprint: Fingerprint
    operations: tuple[LedgerOperation, ...] = ()


def find_operation(ledger: Ledger, operation_key: str) -> LedgerOperation | None:
    """The operation of this key, if the ledger has it."""
    for operation in ledger.operations:
        if operation.operation_key == operation_key:
            return operation
    return None


def require_operation(ledger: Ledger, operation_key: str) -> LedgerOperation:
    """As `find_operation`. Raises `Refused` (`ledger.operation_unknown`)."""
    operation = find_operation(ledger, operation_key)
    if operation is None:
        raise coded("ledger.operation_unknown")
    return operation


def with_operation(ledger: Ledger, changed: LedgerOperation) -> Ledger:
    """The ledger one revision later, with this operation in the place of the one of its key."""
    return replace(
        ledger,
        revision=ledger.revision + 1,
        operations=tuple(
            changed if one.operation_key == changed.operation_key else one
            for one in ledger.operations
        ),
    )
