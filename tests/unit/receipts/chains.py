"""Steps and chains for the tests of receipts; no test in here."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from amends.contracts.enums import PrincipalKind, Status, Verdict
from amends.contracts.evidence import Receipt, ReceiptType, Step, Tail
from amends.contracts.ids import (
    ActionId,
    ApprovalId,
    CapabilityId,
    Fence,
    PlanId,
    PrincipalId,
    ProviderOperationId,
    TenantId,
    TransactionId,
)
from amends.contracts.outcomes import ProviderOperation
from amends.contracts.principals import PrincipalRef
from amends.receipts.chain import seal
from amends.receipts.signing import Ed25519Signer, KeyRing

START: Final = datetime(2025, 3, 1, 12, 0, 0, 120_000, tzinfo=UTC)
SIGNER: Final = Ed25519Signer(bytes(range(32)))
OTHER_SIGNER: Final = Ed25519Signer(b"\x07" * 32)
RING: Final = KeyRing([SIGNER.public_key])
CHAIN: Final = "transaction:txn_1"

FULL: Final = Step(
    type=ReceiptType.COMMITTED,
    tenant=TenantId("acme"),
    transaction_id=TransactionId("txn_1"),
    at=START,
    actor=PrincipalRef(PrincipalId("alice"), PrincipalKind.USER),
    action_id=ActionId("act_1"),
    capability_id=CapabilityId("pay.charge"),
    plan_id=PlanId("plan:txn_1"),
    approval_id=ApprovalId("apr_1"),
    status=Status.COMMITTED,
    verdict=Verdict.COMMITTED,
    revision=4,
    attempt=1,
    fence=Fence("fen_1"),
    code="card.declined",
    hashes={"input": "ab" * 32, "output": "cd" * 32},
    operation=ProviderOperation("stripe", ProviderOperationId("ch_1"), "req_1"),
)
BARE: Final = Step(
    type=ReceiptType.PLANNED,
    tenant=TenantId("acme"),
    transaction_id=TransactionId("txn_1"),
    at=START,
    actor=PrincipalRef(PrincipalId("alice"), PrincipalKind.USER),
)


def step(number: int) -> Step:
    """The step of this number: every second one is full."""
    at = START + timedelta(seconds=number)
    return msgspec.structs.replace(FULL if number % 2 else BARE, at=at, revision=number)


def grown(sizes: Sequence[int], signer: Ed25519Signer | None = SIGNER) -> list[Receipt]:
    """A chain that grew by change sets of these sizes, each signed at its head."""
    receipts: list[Receipt] = []
    for size in sizes:
        number = len(receipts)
        receipts += seal(
            tail_of(receipts), [step(number + more) for more in range(1, size + 1)], signer
        )
    return receipts


def tail_of(receipts: Sequence[Receipt]) -> Tail | None:
    return Tail(receipts[-1].number, receipts[-1].hash) if receipts else None
