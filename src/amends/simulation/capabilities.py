"""The capabilities of a small world, as its promise declares them.

Deliberately not here: what their handlers do (`teller`).
"""

from typing import Final

import msgspec

from amends.connectors.function import FunctionConnector
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    DataContract,
    ExecutionContract,
    IdempotencyContract,
    RecoveryContract,
    ServiceLevelContract,
    TransactionContract,
)
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Handler,
    Mode,
    RetrySafety,
    SideEffect,
)
from amends.contracts.ids import CapabilityId
from amends.runtime.registry import Registry
from amends.simulation.promises import Promise
from amends.simulation.teller import Teller

CHARGE: Final = CapabilityId("charge")
REFUND: Final = CapabilityId("refund")
TIMEOUT_MS: Final = 10_000
GRACE_MS: Final = 5_000
PLAN_TTL_MS: Final = 120_000
APPROVAL_TTL_MS: Final = 300_000


class Shelf:
    """Registries by promise, each compiled once. One shelf serves any number of scenarios."""

    def __init__(self) -> None:
        self._made: dict[Promise, Registry] = {}

    def registry(self, promise: Promise) -> Registry:
        """The capabilities of a promise, behind connectors that find their own world."""
        if promise not in self._made:
            self._made[promise] = make_registry(promise)
        return self._made[promise]


def make_registry(promise: Promise) -> Registry:
    """`charge`, and `refund` where compensations have a capability of their own."""
    teller = Teller(checkpoints=promise.checkpoints, ponders=promise.ponders)
    registry = Registry()
    handlers = {Handler.EXECUTE: teller.charge, Handler.PREVIEW: teller.preview}
    looking = {} if promise.looks_up == "none" else {Handler.RECONCILE: teller.look_up}
    refunding = {} if promise.refunds_apart else {Handler.COMPENSATE: teller.refund}
    charge = FunctionConnector({**handlers, **looking, **refunding})
    registry.register(_charge(promise, charge), charge)
    if promise.refunds_apart:
        refund = FunctionConnector({Handler.EXECUTE: teller.refund, **looking})
        registry.register(_refund(promise, refund), refund)
    return registry


def _charge(promise: Promise, connector: FunctionConnector) -> Capability:
    modes = [Mode.EXECUTE, Mode.DRY_RUN, Mode.PLAN, Mode.COMMIT, Mode.COMPENSATE]
    fidelity = Fidelity.DOWNSTREAM_VALIDATION if promise.previews else Fidelity.POLICY_AND_SCHEMA
    own = Handler.COMPENSATE in connector.handlers
    bare = Capability(
        id=CHARGE,
        transaction=TransactionContract(
            supported_modes=(*modes, *_reconcile(promise)),
            requires_plan_before_commit=False,
            dry_run_fidelity=fidelity,
        ),
        compensation=CompensationContract(
            mode=CompensationMode.SUPPORTED,
            compensation_capability_id=REFUND if promise.refunds_apart else None,
            window_ms=promise.refund_window_ms,
            requires_approval=promise.refund_approval,
            max_compensations=promise.max_compensations,
        ),
        compensation_schema=connector.inputs[Handler.COMPENSATE].schema if own else None,
        approval=_approval(required=promise.approval),
        plan_ttl_ms=PLAN_TTL_MS,
    )
    return _completed(bare, promise, connector)


def _refund(promise: Promise, connector: FunctionConnector) -> Capability:
    bare = Capability(
        id=REFUND,
        transaction=TransactionContract(supported_modes=(Mode.EXECUTE, *_reconcile(promise))),
        approval=_approval(required=False),
    )
    return _completed(bare, promise, connector)


def _approval(*, required: bool) -> ApprovalPolicy:
    return ApprovalPolicy(required=required, ttl_ms=APPROVAL_TTL_MS)


def _reconcile(promise: Promise) -> tuple[Mode, ...]:
    can = promise.looks_up != "none" or promise.window_ms is not None
    return (Mode.RECONCILE,) if can else ()


def _completed(bare: Capability, promise: Promise, connector: FunctionConnector) -> Capability:
    safety = RetrySafety.SAFE_WITH_IDEMPOTENCY_KEY if promise.safe_to_retry else RetrySafety.UNKNOWN
    return msgspec.structs.replace(
        bare,
        side_effects=(SideEffect.FINANCIAL,),
        input_schema=connector.inputs[Handler.EXECUTE].schema,
        handlers=connector.handlers,
        idempotency=IdempotencyContract(collision=promise.collision, ttl_ms=promise.key_ttl_ms),
        execution=ExecutionContract(
            supports_cancel=promise.ponders,
            retry_safety=safety,
            provider_dedup_window_ms=promise.window_ms,
            lookup_by_key=promise.looks_up == "by_key",
            in_flight_horizon_ms=promise.horizon_ms,
            consistency_delay_ms=promise.lag_ms,
        ),
        data=DataContract(redaction_required=promise.redacts),
        service_level=ServiceLevelContract(timeout_ms=TIMEOUT_MS),
        recovery=RecoveryContract(initial_delay_ms=5_000, max_delay_ms=60_000, max_attempts=4),
    )
