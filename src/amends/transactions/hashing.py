"""The digests and keys that bind one intent: input hash, plan digest, approval hash, provider key.

All are SHA-256 over RFC 8785 canonical JSON (TX-PLAN-3), with a domain tag wherever two kinds of
documents could otherwise be mistaken for one another.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from amends.contracts.canonical import (
    digest_bytes,
    domain_digest,
    parts_digest,
    record_digest,
)
from amends.contracts.declarations import Capability
from amends.contracts.documents import TransactionPlan, TransactionRecord
from amends.contracts.enums import Freeze, Mode
from amends.contracts.ids import ActionId, CapabilityId, PlanId, TenantId, TransactionId
from amends.contracts.principals import Identity, PrincipalRef

_PROVIDER_KEY_PREFIX: Final = "amends-"
_DIGEST_PART: Final = 16


def input_hash(capability_id: CapabilityId, canonical_input: bytes) -> str:
    """SHA-256 of the canonical `{capability_id, input}`; the transaction context stays out.

    `canonical_input` is RFC 8785 already, so the object can be written around it.
    """
    name = msgspec.json.encode(capability_id)
    return digest_bytes(b'{"capability_id":' + name + b',"input":' + canonical_input + b"}")


def contract_digest(capability: Capability) -> str:
    """Digest of everything a capability declares that governs; computed once per registration.

    Which risks were accepted governs nothing: whoever silences a warning leaves plans as they are.
    """
    governing = replace(capability, accepted_risks=())
    return domain_digest("amends-capability-v1", msgspec.to_builtins(governing))


def governance_digest(contract: str, policy_revision: str, identity: Identity | None) -> str:
    """Digest of all that governs a plan beyond its input (TX-PLAN-5)."""
    return domain_digest(
        "amends-governance-v1",
        {
            "contract": contract,
            "identity": msgspec.to_builtins(identity),
            "policy_revision": policy_revision,
        },
    )


def plan_digest(plan: TransactionPlan) -> str:
    """Digest of a whole plan but for its own digest, so that an approver's copy can be compared."""
    validation = plan.validation
    bare = replace(
        plan,
        digest="",
        snapshot=replace(plan.snapshot, input=None),
        validation=replace(validation, output=None) if validation else None,
    )
    content = msgspec.to_builtins(bare, builtin_types=())
    if plan.freeze is Freeze.NOTHING:  # plans that were made before rules could freeze have no such
        del content["freeze"]
    return domain_digest("amends-plan-v1", content)


def intent_digest(record: TransactionRecord) -> str:
    """What a transaction means to do, as it is durable from the first attempt on (INT-1)."""
    return record.plan.digest if record.plan is not None else record.input_hash


def provider_key(tenant: TenantId, transaction_id: TransactionId, action_id: ActionId) -> str:
    """The one stable key of an effect (ID-5): from identities, never from request content.

    It names the transaction, so that a person at the provider, or an event from there, leads back
    to it; the digest keeps tenants and actions apart.
    """
    made = parts_digest("amends-provider-key-v1", tenant, transaction_id, action_id)
    return f"{_PROVIDER_KEY_PREFIX}{transaction_id}-{made[:_DIGEST_PART]}"


def transaction_of_key(key: str) -> TransactionId | None:
    """The transaction that a provider key of ours names, or none for a foreign one.

    Whether it really is that transaction's key is for the caller to compare.
    """
    named = key.removeprefix(_PROVIDER_KEY_PREFIX)
    transaction_id, dash, digest = named.rpartition("-")
    if named == key or not dash or len(digest) != _DIGEST_PART or not transaction_id:
        return None
    return TransactionId(transaction_id)


class Intent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Exactly what would run, as approvals and idempotency fingerprints bind it."""

    tenant: TenantId
    action_id: ActionId
    transaction_id: TransactionId
    capability_id: CapabilityId
    mode: Mode
    plan_id: PlanId | None
    compensation_for: ActionId | None
    requester: PrincipalRef
    identity: Identity | None
    input_hash: str


def action_hash(intent: Intent, plan: str | None) -> str:
    """What an approval is bound to (AP-2); `plan` is the plan's digest."""
    content = msgspec.to_builtins(intent)
    content["plan_digest"] = plan
    return domain_digest("amends-approval-v1", content)


def fingerprint(intent: Intent, chosen_transaction_id: TransactionId | None) -> str:
    """What an idempotency key is bound to (ID-2).

    Capability, mode, plan id, target, principal, tenant and canonical input, and the transaction id
    where the caller chose it. The action id stays out, since a retry may come under a new one, and
    so does a transaction id that Amends made up or took from the plan.
    """
    bound = _Fingerprinted(
        capability_id=intent.capability_id,
        compensation_for=intent.compensation_for,
        identity=intent.identity,
        input_hash=intent.input_hash,
        mode=intent.mode,
        plan_id=intent.plan_id,
        principal=intent.requester,
        tenant=intent.tenant,
        transaction_id=chosen_transaction_id,
    )
    return record_digest("amends-fingerprint-v1", bound)


class _Fingerprinted(msgspec.Struct, frozen=True, kw_only=True):
    capability_id: CapabilityId
    compensation_for: ActionId | None
    identity: Identity | None
    input_hash: str
    mode: Mode
    plan_id: PlanId | None
    principal: PrincipalRef
    tenant: TenantId
    transaction_id: TransactionId | None
