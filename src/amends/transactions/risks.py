"""Choices of a declaration that are allowed and risky, as a table of rules with stable codes.

A fault keeps a capability from being registered (`registration`); a risk does not. It is a choice
that somebody should have made on purpose, and each can be accepted by its code. A note says what
is worth knowing and fails nothing.

Deliberately not here: finding an app's capabilities, and saying what was found.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import Capability
from amends.contracts.enums import (
    DOWNSTREAM_FIDELITIES,
    Handler,
    KeyRequirement,
    Mode,
    RetrySafety,
    Risk,
    SideEffect,
)
from amends.transactions.compensation import COMPENSABLE

_GRAVE: Final = frozenset({Risk.HIGH, Risk.CRITICAL})
_IRREVERSIBLE: Final = frozenset(
    {SideEffect.DELETE, SideEffect.IDENTITY, SideEffect.MEDICAL, SideEffect.LEGAL}
)
_DAY_MS: Final = 24 * 3600 * 1000


class Weight(StrEnum):
    """How much a finding matters."""

    RISK = "risk"
    NOTE = "note"


class RiskRule(NamedTuple):
    """One risky choice: what it is, what to do, and how it is seen."""

    code: str
    why: str
    todo: str
    is_in: Callable[[Capability], bool]
    weight: Weight = Weight.RISK


def _mutates(capability: Capability) -> bool:
    return not capability.reads_only


def _required(capability: Capability) -> ApprovalPolicy | None:
    """The approval policy, where the capability itself requires approval."""
    approval = capability.approval
    return approval if approval is not None and approval.required else None


def _is_asked_about(capability: Capability) -> bool:
    """Whether people agree before it: by its own policy, or by the built-in one for its risk."""
    return _required(capability) is not None or capability.risk in _GRAVE


def _looks_up(capability: Capability) -> bool:
    return Handler.RECONCILE in capability.handlers


def _plans(capability: Capability) -> bool:
    contract = capability.transaction
    return contract is not None and Mode.PLAN in contract.supported_modes


def _compensates(capability: Capability) -> bool:
    return capability.compensation.mode in COMPENSABLE


def _approval_outlives_plan(capability: Capability) -> bool:
    approval = _required(capability)
    return approval is not None and _plans(capability) and capability.plan_ttl_ms < approval.ttl_ms


def _approves_itself(capability: Capability) -> bool:
    approval = _required(capability)
    return approval is not None and not approval.separation_of_duties


def _needs_no_plan(capability: Capability) -> bool:
    contract = capability.transaction
    return (
        contract is not None
        and Mode.COMMIT in contract.supported_modes
        and not contract.requires_plan_before_commit
    )


def _previews_weakly(capability: Capability) -> bool:
    contract = capability.transaction
    return contract is not None and contract.dry_run_fidelity not in DOWNSTREAM_FIDELITIES


RISKS: Final[tuple[RiskRule, ...]] = (
    RiskRule(
        "financial_unapproved",
        "Money moves without a second person having to agree.",
        "Declare an approval policy that is required, or a high risk.",
        lambda c: SideEffect.FINANCIAL in c.side_effects and not _is_asked_about(c),
    ),
    RiskRule(
        "irreversible_unapproved",
        "Something that cannot be undone happens without a second person having to agree.",
        "Declare an approval policy that is required, or a compensation.",
        lambda c: (
            bool(_IRREVERSIBLE & set(c.side_effects))
            and not _compensates(c)
            and not _is_asked_about(c)
        ),
    ),
    RiskRule(
        "separation_off",
        "Whoever asks may approve the own request, so one stolen login is enough.",
        "Leave separation of duties on.",
        _approves_itself,
    ),
    RiskRule(
        "plan_expires_before_approval",
        "People may approve a plan that nobody can commit any more.",
        "Give the plan at least the life of the approval.",
        _approval_outlives_plan,
    ),
    RiskRule(
        "timeout_beyond_plan",
        "A plan expires while its one attempt may still be running.",
        "Make the plan's life longer than the time limit.",
        lambda c: _plans(c) and c.service_level.timeout_ms > c.plan_ttl_ms,
    ),
    RiskRule(
        "plan_not_required",
        "Trusted callers may commit what nobody has seen as a plan.",
        "Require a plan before a commit.",
        _needs_no_plan,
    ),
    RiskRule(
        "key_not_required",
        "A caller that sends its request anew under another action id does it twice.",
        "Require an idempotency key.",
        lambda c: _mutates(c) and c.idempotency.requirement is not KeyRequirement.REQUIRED,
    ),
    RiskRule(
        "key_ends_early",
        "A used key is free again within a day, and a late retry with it does everything twice.",
        "Leave the key's life out, or make it longer than any caller retries.",
        lambda c: _mutates(c) and (c.idempotency.ttl_ms or _DAY_MS) < _DAY_MS,
    ),
    RiskRule(
        "outcome_cannot_be_found",
        "After a lost answer only a person can find out what happened.",
        "Add a reconcile handler, or declare how long the provider deduplicates the key.",
        lambda c: _mutates(c) and not _looks_up(c) and c.execution.provider_dedup_window_ms is None,
    ),
    RiskRule(
        "lookup_without_key",
        "A process that dies before its checkpoint leaves nothing to look the effect up by.",
        "Find the effect by the provider key, and declare lookup_by_key.",
        lambda c: _mutates(c) and _looks_up(c) and not c.execution.lookup_by_key,
    ),
    RiskRule(
        "lookup_without_delay",
        "A look-up right after the effect may not see it yet, and is taken at its word.",
        "Declare consistency_delay_ms: how long the provider's reads may lag behind.",
        lambda c: _mutates(c) and _looks_up(c) and c.execution.consistency_delay_ms == 0,
    ),
    RiskRule(
        "horizon_missing",
        "An earlier request never counts as dead, so absence can only be ruled by hand.",
        "Declare in_flight_horizon_ms: after which time the provider has surely dropped it.",
        lambda c: _mutates(c) and c.execution.in_flight_horizon_ms is None,
    ),
    RiskRule(
        "retry_safety_unknown",
        "Nobody has said whether a retry after a failure can double the effect.",
        "Declare retry_safety; unsafe is an answer too.",
        lambda c: _mutates(c) and c.execution.retry_safety is RetrySafety.UNKNOWN,
    ),
    RiskRule(
        "http_not_deduplicated",
        "Nothing says that the provider recognizes a request that it has had before.",
        "Send the provider key in the header that it knows, and declare its dedup window.",
        lambda c: (
            c.served_by == "http" and _mutates(c) and c.execution.provider_dedup_window_ms is None
        ),
    ),
    RiskRule(
        "scopes_missing",
        "Every principal of an admitted kind may ask for something that can do great harm.",
        "Name the scopes that it takes.",
        lambda c: c.risk in _GRAVE and not c.required_scopes,
    ),
    RiskRule(
        "personal_data_shown",
        "Personal data is stored and shown as it came.",
        "Require redaction, or name what is hidden by JSON pointers.",
        lambda c: c.data.contains_pii and not c.data.redaction_required and not c.data.redact,
    ),
    RiskRule(
        "personal_data_kept",
        "Personal data is kept for ever.",
        "Declare retention_ms: a program that runs forgets what is due once a day.",
        lambda c: c.data.contains_pii and c.data.retention_ms is None,
    ),
    RiskRule(
        "compensation_without_window",
        "An effect may be offset years later, when nobody knows it any more.",
        "Declare until when it can be offset.",
        lambda c: _compensates(c) and c.compensation.window_ms is None,
    ),
    RiskRule(
        "preview_weak",
        "Its plan says what the schema and the policy say, and nothing of the provider.",
        "Add a preview handler that asks the provider without an effect.",
        lambda c: c.risk in _GRAVE and _previews_weakly(c),
        Weight.NOTE,
    ),
)
"""Every risky choice, in the order in which they are told."""

UNKNOWN_ACCEPTED: Final = "accepted_unknown"
"""The code of a declaration that accepts a risk which there is not."""

CODES: Final = frozenset({one.code for one in RISKS})


def risks_of(capability: Capability) -> tuple[RiskRule, ...]:
    """Every risky choice of one declaration, those that it accepts included."""
    return tuple([one for one in RISKS if one.is_in(capability)])


def unknown_accepted(capability: Capability) -> tuple[str, ...]:
    """What a declaration accepts although there is no such risk: a typing error hides nothing."""
    return tuple([one for one in capability.accepted_risks if one not in CODES])
