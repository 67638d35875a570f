"""Checking a capability's whole declaration; all faults are reported at once (TX-CONTRACT-2).

Without a transaction contract a capability only executes, and must only read (TX-CONTRACT-1).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.declarations import Capability
from amends.contracts.enums import (
    DOWNSTREAM_FIDELITIES,
    CompensationMode,
    Handler,
    Mode,
)
from amends.contracts.errors import Refused
from amends.contracts.ids import check_identifier
from amends.contracts.json_types import Json
from amends.contracts.redaction import Redactor
from amends.contracts.schema import compile_schema
from amends.transactions.compensation import COMPENSABLE

_SCHEMAS: Final = ("input_schema", "output_schema", "compensation_schema")
_LONGEST_MS: Final = 100 * 366 * 24 * 3600 * 1000
"""A hundred years: longer than any promise, and short enough for every date it is added to."""


class Fault(NamedTuple):
    """One fault of a declaration: its code and a sentence."""

    code: str
    text: str


class Demand(NamedTuple):
    """What a declaration must satisfy, and the fault it has otherwise."""

    code: str
    text: str
    holds: Callable[[Capability], bool]


def supported_modes(capability: Capability) -> tuple[Mode, ...]:
    """What a capability can be asked for; only to execute, unless it declares more."""
    return capability.transaction.supported_modes if capability.transaction else (Mode.EXECUTE,)


def _has(capability: Capability, handler: Handler) -> bool:
    return handler in capability.handlers


def _effect_handler(capability: Capability) -> bool:
    wanted = {Mode.EXECUTE, Mode.COMMIT} & set(supported_modes(capability))
    return not wanted or _has(capability, Handler.EXECUTE)


def _preview_handler(capability: Capability) -> bool:
    contract = capability.transaction
    if contract is None or contract.dry_run_fidelity not in DOWNSTREAM_FIDELITIES:
        return True
    return _has(capability, Handler.PREVIEW)


def _compensation_way(capability: Capability) -> bool:
    compensation = capability.compensation
    if compensation.mode not in COMPENSABLE:
        return True
    return compensation.compensation_capability_id is not None or _has(
        capability, Handler.COMPENSATE
    )


def _reconcile_way(capability: Capability) -> bool:
    if Mode.RECONCILE not in supported_modes(capability):
        return True
    window = capability.execution.provider_dedup_window_ms
    return _has(capability, Handler.RECONCILE) or window is not None


def _compensate_mode_fits(capability: Capability) -> bool:
    declared = capability.compensation.mode in COMPENSABLE
    return (Mode.COMPENSATE in supported_modes(capability)) == declared


def _plan_before_commit(capability: Capability) -> bool:
    contract = capability.transaction
    if contract is None or Mode.COMMIT not in contract.supported_modes:
        return True
    return not contract.requires_plan_before_commit or Mode.PLAN in contract.supported_modes


def _positive(value: int | None) -> bool:
    return value is None or value > 0


def _durations(capability: Capability) -> tuple[int, ...]:
    """Every duration that is declared, of whichever contract."""
    execution, level = capability.execution, capability.service_level
    recovery, approval = capability.recovery, capability.approval
    declared = (
        capability.compensation.window_ms,
        capability.idempotency.ttl_ms,
        execution.provider_dedup_window_ms,
        execution.in_flight_horizon_ms,
        execution.consistency_delay_ms,
        capability.data.retention_ms,
        level.timeout_ms,
        level.max_queue_delay_ms,
        level.expected_latency_ms,
        recovery.initial_delay_ms,
        recovery.max_delay_ms,
        capability.plan_ttl_ms,
        approval.ttl_ms if approval else None,
    )
    return tuple(duration for duration in declared if duration is not None)


DEMANDS: Final[tuple[Demand, ...]] = (
    Demand(
        "contract_missing",
        "a capability that does more than read needs a transaction contract",
        lambda c: c.reads_only or c.transaction is not None,
    ),
    Demand("modes_missing", "no mode is supported", lambda c: bool(supported_modes(c))),
    Demand(
        "mode_twice",
        "a mode is listed twice",
        lambda c: len(set(supported_modes(c))) == len(supported_modes(c)),
    ),
    Demand("side_effects_missing", "no side effect is declared", lambda c: bool(c.side_effects)),
    Demand("execute_missing", "execute or commit without an execute handler", _effect_handler),
    Demand("preview_missing", "this fidelity needs a preview handler", _preview_handler),
    Demand("compensate_missing", "compensation without capability or handler", _compensation_way),
    Demand(
        "compensate_mode",
        "mode compensate and the compensation contract disagree",
        _compensate_mode_fits,
    ),
    Demand("reconcile_missing", "reconcile without handler or dedup window", _reconcile_way),
    Demand("plan_missing", "commit needs plan while a plan is required", _plan_before_commit),
    Demand(
        "window_invalid", "a window must be positive", lambda c: _positive(c.compensation.window_ms)
    ),
    Demand(
        "limit_invalid",
        "max_compensations must be at least 1",
        lambda c: c.compensation.max_compensations >= 1,
    ),
    Demand(
        "worker_limit",
        "a worker-served capability has at most one compensation",
        lambda c: c.served_by != "worker" or c.compensation.max_compensations == 1,
    ),
    Demand(
        "worker_tool",
        "a worker-served capability is compensated by the same tool",
        lambda c: c.served_by != "worker" or c.compensation.compensation_capability_id is None,
    ),
    Demand(
        "timeout_invalid",
        "the time limit must be positive",
        lambda c: _positive(c.service_level.timeout_ms),
    ),
    Demand(
        "plan_ttl_invalid", "a plan's life must be positive", lambda c: _positive(c.plan_ttl_ms)
    ),
    Demand(
        "key_ttl_invalid",
        "the key's life must be positive",
        lambda c: _positive(c.idempotency.ttl_ms),
    ),
    Demand(
        "dedup_window_invalid",
        "the dedup window must be positive",
        lambda c: _positive(c.execution.provider_dedup_window_ms),
    ),
    Demand(
        "approval_ttl_invalid",
        "an approval's life must be positive",
        lambda c: c.approval is None or c.approval.ttl_ms > 0,
    ),
    Demand(
        "duration_invalid",
        "a duration must be neither negative nor longer than a hundred years",
        lambda c: all(0 <= duration <= _LONGEST_MS for duration in _durations(c)),
    ),
    Demand(
        "recovery_invalid",
        "at least one look-up has to be allowed",
        lambda c: c.recovery.max_attempts >= 1,
    ),
    Demand(
        "own_compensation",
        "a capability cannot name itself as its compensating capability",
        lambda c: c.compensation.compensation_capability_id != c.id,
    ),
    Demand(
        "rollback_declared",
        "rollback_not_supported is declared by its compensation mode",
        lambda c: (
            Mode.ROLLBACK_NOT_SUPPORTED not in supported_modes(c)
            or c.compensation.mode is CompensationMode.ROLLBACK_NOT_SUPPORTED
        ),
    ),
)


def find_faults(capability: Capability) -> tuple[Fault, ...]:
    """Every fault of one declaration, in a stable order."""
    faults = [Fault(d.code, d.text) for d in DEMANDS if not d.holds(capability)]
    try:
        check_identifier(capability.id, "capability_id")
    except Refused as refused:
        faults.append(Fault("id_invalid", refused.message))
    try:
        Redactor(capability.data.redact)
    except Refused as refused:
        faults.append(Fault("redact_invalid", refused.message))
    named = ((name, getattr(capability, name)) for name in _SCHEMAS)
    return (*faults, *(fault for name, schema in named for fault in _schema_faults(name, schema)))


def _schema_faults(name: str, schema: Json) -> tuple[Fault, ...]:
    if schema is None:
        return ()
    try:
        compile_schema(schema)
    except Refused as refused:
        return (Fault(f"{name}_invalid", refused.message),)
    return ()


def well_typed(declared: Capability) -> Capability:
    """The declaration with every member of its declared type, so that `"governance"` is the member
    of the enumeration that rules compare with; records are not checked when they are made.

    Raises `Misuse` (`capability.invalid`) with the place of what has another type.
    """
    schemas = {name: getattr(declared, name) for name in _SCHEMAS}
    bare = replace(declared, **dict.fromkeys(_SCHEMAS))
    try:
        typed = msgspec.convert(msgspec.to_builtins(bare), Capability)
    except (msgspec.ValidationError, TypeError) as error:
        place = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "`$`"
        fault = f"type_invalid: what stands at {place} is not of its declared type"
        raise coded("capability.invalid", {"faults": [fault]}) from None
    return replace(typed, **schemas)


def check_declaration(capability: Capability) -> None:
    """Raise `Misuse` (`capability.invalid`) with every fault of the declaration."""
    faults = find_faults(capability)
    if faults:
        listed: list[Json] = [f"{fault.code}: {fault.text}" for fault in faults]
        raise coded("capability.invalid", {"capability_id": capability.id, "faults": listed})
