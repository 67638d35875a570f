"""Enumerations whose spelling is law on the wire, in SQL, in the console and in Python."""

from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    """What an action asks for."""

    EXECUTE = "execute"
    DRY_RUN = "dry_run"
    PLAN = "plan"
    COMMIT = "commit"
    COMPENSATE = "compensate"
    RECONCILE = "reconcile"
    ROLLBACK_NOT_SUPPORTED = "rollback_not_supported"


class Fidelity(StrEnum):
    """How strong a preview is declared to be; a declaration, never a proof."""

    SCHEMA_ONLY = "schema_only"
    POLICY_AND_SCHEMA = "policy_and_schema"
    DOWNSTREAM_VALIDATION = "downstream_validation"
    FULL_SIMULATION = "full_simulation"


class CompensationMode(StrEnum):
    """Whether a capability's effect can be offset later."""

    NOT_REQUIRED = "not_required"
    SUPPORTED = "supported"
    BEST_EFFORT = "best_effort"
    ROLLBACK_NOT_SUPPORTED = "rollback_not_supported"


class Status(StrEnum):
    """The twelve durable statuses of a transaction record."""

    DRY_RUN_COMPLETED = "dry_run_completed"
    PLANNED = "planned"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILING = "reconciling"
    RECONCILED = "reconciled"
    ROLLBACK_NOT_SUPPORTED = "rollback_not_supported"


class WireStatus(StrEnum):
    """The durable statuses plus the two that are only ever projected, never stored."""

    DRY_RUN_COMPLETED = "dry_run_completed"
    PLANNED = "planned"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILING = "reconciling"
    RECONCILED = "reconciled"
    ROLLBACK_NOT_SUPPORTED = "rollback_not_supported"
    REQUIRES_HUMAN = "requires_human"
    CANCELLED = "cancelled"


class ResultStatus(StrEnum):
    """How one action ended, or what it waits for."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PENDING_APPROVAL = "pending_approval"
    REQUIRES_HUMAN = "requires_human"


class Verdict(StrEnum):
    """What is known of the effect once a record is settled."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"
    PARTIAL = "partial"


class ErrorCategory(StrEnum):
    """Where a failure comes from."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    AUTH = "auth"
    POLICY = "policy"
    ECONOMIC = "economic"
    CONNECTOR = "connector"
    TRANSPORT = "transport"


class Risk(StrEnum):
    """How much harm a wrong effect can do, as declared."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class SideEffect(StrEnum):
    """What kind of trace an action leaves outside."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    SEND_MESSAGE = "send_message"
    FINANCIAL = "financial"
    IDENTITY = "identity"
    MEDICAL = "medical"
    LEGAL = "legal"
    EXTERNAL_NETWORK = "external_network"
    CODE_EXECUTION = "code_execution"


class KeyRequirement(StrEnum):
    """Whether an action must, may or must not carry an idempotency key."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    UNSUPPORTED = "unsupported"


class Collision(StrEnum):
    """What a second use of an idempotency key gets when the fingerprints are equal."""

    RETURN_ORIGINAL_RESULT = "return_original_result"
    REJECT_CONFLICT = "reject_conflict"
    REVALIDATE_INPUT_HASH = "revalidate_input_hash"


class KeyScope(StrEnum):
    """Within what an idempotency key is unique; the tenant is always part of it."""

    ACTION = "action"
    CAPABILITY = "capability"
    PRINCIPAL = "principal"
    TENANT = "tenant"
    EXTERNAL_ACCOUNT = "external_account"


class RetrySafety(StrEnum):
    """Whether calling again after a definite, retryable failure can double the effect."""

    SAFE = "safe"
    SAFE_WITH_IDEMPOTENCY_KEY = "safe_with_idempotency_key"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


class Sensitivity(StrEnum):
    """How closely the data of a capability is to be kept."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


class PrincipalKind(StrEnum):
    """What stands behind a principal id."""

    USER = "user"
    SERVICE = "service"
    AGENT = "agent"
    OPERATOR = "operator"
    RECOVERY = "recovery"


class Handler(StrEnum):
    """What a connector can be entered for."""

    EXECUTE = "execute"
    PREVIEW = "preview"
    RECONCILE = "reconcile"
    COMPENSATE = "compensate"


class Freeze(StrEnum):
    """What a capability freezes between plan and commit."""

    NOTHING = "nothing"
    GOVERNANCE = "governance"


DOWNSTREAM_FIDELITIES: Final = frozenset({Fidelity.DOWNSTREAM_VALIDATION, Fidelity.FULL_SIMULATION})
MUTATING_MODES: Final = frozenset({Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE})
PREVIEW_MODES: Final = frozenset({Mode.DRY_RUN, Mode.PLAN})
IN_FLIGHT: Final = frozenset(
    {Status.PREPARED, Status.COMMITTING, Status.COMPENSATING, Status.RECONCILING}
)
