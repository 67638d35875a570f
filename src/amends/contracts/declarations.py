"""What a capability declares before it may act.

A declaration is a promise of the connector's author, not a qualification: Amends can hold a caller
to it, but cannot prove that a provider keeps it. Checking a declaration lives in `transactions`.
Durations are milliseconds.
"""

from typing import Literal

import msgspec

from amends.contracts import limits
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.enums import (
    Collision,
    CompensationMode,
    Fidelity,
    Freeze,
    Handler,
    KeyRequirement,
    KeyScope,
    Mode,
    PrincipalKind,
    RetrySafety,
    Risk,
    Sensitivity,
    SideEffect,
)
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json


class TransactionContract(msgspec.Struct, frozen=True, kw_only=True):
    """Which modes a capability admits and how strong its preview is."""

    supported_modes: tuple[Mode, ...]
    requires_plan_before_commit: bool = True
    dry_run_fidelity: Fidelity = Fidelity.POLICY_AND_SCHEMA


class CompensationContract(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how the effect can be offset.

    Without `compensation_capability_id` the capability's own `compensate` handler does it.
    `window_ms` counts from the target's settlement. More than one compensation (partial refunds)
    is declared, never assumed.
    """

    mode: CompensationMode = CompensationMode.NOT_REQUIRED
    compensation_capability_id: CapabilityId | None = None
    window_ms: int | None = None
    requires_approval: bool = False
    max_compensations: int = 1


class IdempotencyContract(msgspec.Struct, frozen=True, kw_only=True):
    """How idempotency keys of callers are treated. `ttl_ms` starts at terminal settlement."""

    requirement: KeyRequirement = KeyRequirement.OPTIONAL
    collision: Collision = Collision.REVALIDATE_INPUT_HASH
    key_scope: KeyScope = KeyScope.PRINCIPAL
    ttl_ms: int | None = None


class ExecutionContract(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the provider's behaviour around one attempt.

    `provider_dedup_window_ms`: how long the provider deduplicates our provider key, counted from
    the first attempt's start; none means that it does not. `lookup_by_key`: reconcile can find the
    effect by the provider key. `in_flight_horizon_ms`: after this an earlier request is provably
    dead; none means never. `consistency_delay_ms`: how long the provider's reads may lag behind.
    """

    supports_sync: bool = True
    supports_async: bool = False
    supports_cancel: bool = False
    supports_retry: bool = True
    retry_safety: RetrySafety = RetrySafety.UNKNOWN
    provider_dedup_window_ms: int | None = None
    lookup_by_key: bool = False
    in_flight_horizon_ms: int | None = None
    consistency_delay_ms: int = 0


class DataContract(msgspec.Struct, frozen=True, kw_only=True):
    """How closely inputs and outputs are kept.

    With `redaction_required` only hashes and redacted forms are stored. `redact` lists JSON
    pointers hidden wherever values are shown, beside the built-in key names.
    """

    sensitivity: Sensitivity = Sensitivity.INTERNAL
    contains_pii: bool = False
    redaction_required: bool = False
    redact: tuple[str, ...] = ()
    retention_ms: int | None = None


class ServiceLevelContract(msgspec.Struct, frozen=True, kw_only=True):
    """How long one attempt may take. At `timeout_ms` the outcome is unknown, not failed."""

    timeout_ms: int = limits.TIMEOUT_MS
    max_queue_delay_ms: int | None = None
    expected_latency_ms: int | None = None


class CredentialPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which provider credential must be there before anything is claimed."""

    required: bool = False
    accepted_issuers: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()


class RecoveryContract(msgspec.Struct, frozen=True, kw_only=True):
    """How the scheduler looks an unknown outcome up: exponential back-off, then a person."""

    initial_delay_ms: int = limits.RETRY_AFTER_MS
    max_delay_ms: int = 15 * 60 * 1000
    max_attempts: int = 12
    automatic: bool = True


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be done, with every contract that governs it.

    `accepted_risks` are codes of `amends check` that were chosen on purpose.
    """

    id: CapabilityId
    title: str = ""
    description: str = ""
    version: str = "1"
    side_effects: tuple[SideEffect, ...] = (SideEffect.WRITE,)
    risk: Risk = Risk.MEDIUM
    input_schema: Json = msgspec.field(default_factory=dict)
    output_schema: Json = None
    compensation_schema: Json = None
    required_scopes: tuple[str, ...] = ()
    principal_kinds: tuple[PrincipalKind, ...] = (
        PrincipalKind.USER,
        PrincipalKind.SERVICE,
        PrincipalKind.AGENT,
        PrincipalKind.OPERATOR,
    )
    transaction: TransactionContract | None = None
    compensation: CompensationContract = CompensationContract()
    idempotency: IdempotencyContract = IdempotencyContract()
    execution: ExecutionContract = ExecutionContract()
    data: DataContract = DataContract()
    service_level: ServiceLevelContract = ServiceLevelContract()
    approval: ApprovalPolicy | None = None
    credential: CredentialPolicy = CredentialPolicy()
    recovery: RecoveryContract = RecoveryContract()
    freeze: Freeze = Freeze.NOTHING
    plan_ttl_ms: int = limits.PLAN_TTL_MS
    handlers: tuple[Handler, ...] = (Handler.EXECUTE,)
    served_by: Literal["function", "http", "worker", "mcp"] = "function"
    accepted_risks: tuple[str, ...] = ()

    @property
    def reads_only(self) -> bool:
        """Whether nothing outside is changed."""
        return set(self.side_effects) <= {SideEffect.READ}
