"""Capabilities that a worker serves: a grant, two inputs, and a verifier.

    release = worker_capability(
        "release.publish",
        worker=WorkerProcess("release_adapter:release", state="/var/lib/release"),
        grant=CapabilityGrant.json("release.publish").with_compensation_limit(1),
        input=Release,
        inverse=Withdrawal,
    )

    @release.verify_compensation
    def is_its_withdrawal(question: Question, original: OriginalEffect) -> bool: ...

Without a verifier the capability offers no compensation (INT-4). With one, the grant has to allow
it, and there is at most one for ever (INT-3a).
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import TypeVar

import msgspec

from amends.app.edges import choice_of
from amends.connectors.blocking import RunSync
from amends.connectors.inputs import InputType, input_type
from amends.connectors.port import Connector
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.codes import coded
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
from amends.contracts.enums import CompensationMode, Handler, Mode, Risk, SideEffect
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import JsonObject
from amends.contracts.limits import PLAN_TTL_MS, TIMEOUT_MS
from amends.contracts.worker_grant import CapabilityGrant
from amends.host.connector import WorkerConnector
from amends.host.link import WorkerLink
from amends.host.tools import GrantCheck, InverseVerifier, WorkerTool

V = TypeVar("V", bound=InverseVerifier)


class WorkerDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """What `worker_capability` was told."""

    declared: Capability
    worker: WorkerLink
    tool: WorkerTool
    input: InputType
    inverse: InputType
    compensation: CompensationContract


class WorkerCapability:
    """A capability whose handlers are in a worker. Give it to `Amends.open`."""

    def __init__(self, told: WorkerDeclaration) -> None:
        self._told = told
        self._verify: InverseVerifier | None = None

    @property
    def id(self) -> CapabilityId:
        """The capability's id."""
        return self._told.declared.id

    def verify_compensation(self, verify: V) -> V:
        """Add the verifier of inverses, which makes compensation possible (INT-4).

        It takes the `Question` and the `OriginalEffect`, and is asked when the intent is recorded,
        when a permit is given, and right before sealing. Only `True`, in time, is a yes. A second
        one raises `Misuse` (`misuse.verifier_twice`).
        """
        if self._verify is not None:
            raise coded("misuse.verifier_twice")
        self._verify = verify
        return verify

    def build(self, run_sync: RunSync | None = None) -> tuple[Capability, Connector]:
        """The declaration and the connector, as a runtime registers them.

        Raises `Misuse` (`capability.invalid`) when a verifier is registered and the grant allows no
        compensation (INT-3a). Nothing of it runs in `run_sync`.
        """
        told = self._told
        inputs = dict.fromkeys(Handler, told.input) | {Handler.COMPENSATE: told.inverse}
        tool = msgspec.structs.replace(told.tool, verify=self._verify)
        connector = WorkerConnector(tool, told.worker, inputs=inputs)
        declared = told.declared if self._verify is None else _compensable(told)
        return declared, connector


def _compensable(told: WorkerDeclaration) -> Capability:
    """The declaration with its one compensation."""
    declared = told.declared
    if told.tool.grant.max_compensations < 1:
        fault = "worker_grant: a compensation needs a grant that allows at least one"
        raise coded("capability.invalid", {"capability_id": declared.id, "faults": [fault]})
    assert declared.transaction is not None
    modes = (*declared.transaction.supported_modes, Mode.COMPENSATE)
    return msgspec.structs.replace(
        declared,
        transaction=msgspec.structs.replace(declared.transaction, supported_modes=modes),
        compensation=told.compensation,
        compensation_schema=told.inverse.schema,
        handlers=(*declared.handlers, Handler.COMPENSATE),
    )


def worker_capability(
    id: str,
    *,
    worker: WorkerLink,
    grant: CapabilityGrant,
    input: type | JsonObject,
    inverse: type | JsonObject | None = None,
    granted: GrantCheck | None = None,
    cancelled_is_absent: bool = False,
    horizon: timedelta | None = None,
    title: str = "",
    description: str = "",
    side_effects: Iterable[SideEffect | str] = (SideEffect.WRITE,),
    risk: Risk | str = Risk.MEDIUM,
    timeout: timedelta | None = None,
    plan_ttl: timedelta | None = None,
    window: timedelta | None = None,
    compensation_requires_approval: bool = False,
    approval: ApprovalPolicy | None = None,
    idempotency: IdempotencyContract = IdempotencyContract(),
    data: DataContract = DataContract(),
    recovery: RecoveryContract = RecoveryContract(),
    required_scopes: Iterable[str] = (),
    accepted_risks: Iterable[str] = (),
) -> WorkerCapability:
    """Declare a capability that a worker serves, under one grant.

    `input` and `inverse` are types or JSON Schemas, as the annotations of a function would be; an
    inverse is any JSON unless it is told. `granted` says whether a tenant has the grant now: it
    is asked before every dispatch, and at each of the three points of a compensation.

    `cancelled_is_absent`: an adapter that says *cancelled* has done nothing. `horizon`: how long
    after its lease an attempt may still reach the worker, so that a journal without it proves
    absence only after that; without one, only a person may say so. `window` counts from the effect.
    """
    taken = input_type(input)
    declared = Capability(
        id=CapabilityId(id),
        title=title or id,
        description=description,
        side_effects=tuple(choice_of(one, SideEffect, "side_effects") for one in side_effects),
        risk=choice_of(risk, Risk, "risk"),
        input_schema=taken.schema,
        required_scopes=tuple(required_scopes),
        transaction=TransactionContract(supported_modes=_MODES),
        idempotency=idempotency,
        execution=ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=_ms(horizon)),
        data=data,
        service_level=ServiceLevelContract(timeout_ms=_ms(timeout) or TIMEOUT_MS),
        approval=approval,
        recovery=recovery,
        plan_ttl_ms=_ms(plan_ttl) or PLAN_TTL_MS,
        handlers=(Handler.EXECUTE, Handler.RECONCILE),
        served_by="worker",
        accepted_risks=tuple(accepted_risks),
    )
    return WorkerCapability(
        WorkerDeclaration(
            declared=declared,
            worker=worker,
            tool=WorkerTool(grant=grant, granted=granted, cancelled_is_absent=cancelled_is_absent),
            input=taken,
            inverse=input_type({} if inverse is None else inverse),
            compensation=_supported(window, compensation_requires_approval),
        )
    )


def _supported(window: timedelta | None, requires_approval: bool) -> CompensationContract:
    return CompensationContract(
        mode=CompensationMode.SUPPORTED, window_ms=_ms(window), requires_approval=requires_approval
    )


_MODES = (Mode.EXECUTE, Mode.DRY_RUN, Mode.PLAN, Mode.COMMIT, Mode.RECONCILE)


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds() * 1000)
