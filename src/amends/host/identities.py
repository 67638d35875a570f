"""What a transaction is called on a worker's side (INT-1).

One transaction is one plan of a single step, and has one ledger. A compensating transaction uses
its target's. All of it follows from what is durable before the connector is entered, so whoever
goes on after a crash arrives at the same keys. None of it is taken from a request.
"""

from typing import Final

from amends.contracts.canonical import parts_digest
from amends.contracts.ids import ActionId, TenantId, TransactionId
from amends.ledger.plans import WorkflowPlan, make_plan

STEP: Final = "effect"


def tenant_scope(tenant: TenantId | str) -> str:
    """The scope of a tenant's worker: a token, whatever the tenant is called."""
    return "tenant-" + parts_digest("amends-worker-scope-v1", tenant)


def ledger_name(tenant: TenantId, transaction_id: TransactionId) -> str:
    """The name under which a transaction's ledger is kept."""
    return "ledger-" + parts_digest("amends-worker-ledger-v1", tenant, transaction_id)


def plan_of(intent_digest: str) -> WorkflowPlan:
    """The plan of a transaction that means this."""
    return make_plan([(STEP, intent_digest)])


def operation_nonce(tenant: TenantId, transaction_id: TransactionId) -> bytes:
    """Makes a transaction's operation another one than every other transaction's."""
    return bytes.fromhex(parts_digest("amends-operation-nonce-v1", tenant, transaction_id))


def compensation_nonce(tenant: TenantId, target: ActionId) -> bytes:
    """The same for every action that wants to offset this one: there is one compensation."""
    return bytes.fromhex(parts_digest("amends-compensation-nonce-v1", tenant, target))
