"""Capabilities from plain functions: a decorator, and handlers that are added to it.

The annotated input of the function becomes the schema; the handlers that are there become the modes
that are offered. Every contract can be given whole where the short arguments do not say enough.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

import msgspec

from amends.app.edges import choice_of
from amends.connectors.blocking import RunSync
from amends.connectors.function import FunctionConnector
from amends.connectors.handlers import HandlerFunction
from amends.connectors.port import Connector
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    Capability,
    CompensationContract,
    CredentialPolicy,
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
    Freeze,
    Handler,
    Mode,
    PrincipalKind,
    Risk,
    SideEffect,
)
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import JsonObject
from amends.contracts.limits import PLAN_TTL_MS

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
H = TypeVar("H", bound=HandlerFunction)


@runtime_checkable
class Buildable(Protocol):
    """What becomes a capability with its connector when a runtime is opened."""

    @property
    def id(self) -> CapabilityId:
        """The capability's id."""
        ...

    def build(self, run_sync: RunSync | None = None) -> tuple[Capability, Connector]:
        """The declaration and the connector, as a runtime registers them."""
        ...


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What the decorator was told beside the function; see `capability`."""

    id: str
    title: str = ""
    description: str = ""
    side_effects: tuple[SideEffect, ...] = (SideEffect.WRITE,)
    risk: Risk = Risk.MEDIUM
    timeout: timedelta | None = None
    plan_ttl: timedelta | None = None
    transaction: TransactionContract | None = None
    compensation: CompensationContract | None = None
    idempotency: IdempotencyContract = IdempotencyContract()
    execution: ExecutionContract = ExecutionContract()
    data: DataContract = DataContract()
    approval: ApprovalPolicy | None = None
    credential: CredentialPolicy = CredentialPolicy()
    recovery: RecoveryContract = RecoveryContract()
    freeze: Freeze = Freeze.NOTHING
    required_scopes: tuple[str, ...] = ()
    principal_kinds: tuple[PrincipalKind, ...] | None = None
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    accepted_risks: tuple[str, ...] = ()


class FunctionCapability(Generic[P, R_co]):
    """A function that has become a capability; it can still be called as the function it was."""

    def __init__(self, function: Callable[P, R_co], declaration: Declaration) -> None:
        self._function = function
        self._declaration = declaration
        self._handlers: dict[Handler, HandlerFunction] = {Handler.EXECUTE: function}
        self._compensation = declaration.compensation
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the plain function: no plan, no record, nothing governed. For tests of it alone."""
        return self._function(*args, **kwargs)

    @property
    def id(self) -> CapabilityId:
        """The capability's id."""
        return CapabilityId(self._declaration.id)

    def preview(self, handler: H) -> H:
        """Add the handler that lets the provider validate without an effect."""
        self._handlers[Handler.PREVIEW] = handler
        return handler

    def reconcile(self, handler: H) -> H:
        """Add the look-up that finds out what happened. It must never have an effect.

        For a compensation it is entered with `attempt.original` set.
        """
        self._handlers[Handler.RECONCILE] = handler
        return handler

    @overload
    def compensate(self, handler: H, /) -> H: ...
    @overload
    def compensate(
        self,
        handler: None = None,
        /,
        *,
        window: timedelta | None = None,
        requires_approval: bool = False,
        max_compensations: int = 1,
        best_effort: bool = False,
    ) -> Callable[[H], H]: ...
    def compensate(
        self,
        handler: HandlerFunction | None = None,
        /,
        *,
        window: timedelta | None = None,
        requires_approval: bool = False,
        max_compensations: int = 1,
        best_effort: bool = False,
    ) -> Any:
        """Add the handler that offsets the effect; its own annotated input is its schema."""
        mode = CompensationMode.BEST_EFFORT if best_effort else CompensationMode.SUPPORTED
        self._compensation = CompensationContract(
            mode=mode,
            window_ms=_ms(window),
            requires_approval=requires_approval,
            max_compensations=max_compensations,
        )

        def add(added: HandlerFunction) -> HandlerFunction:
            self._handlers[Handler.COMPENSATE] = added
            return added

        return add if handler is None else add(handler)

    def build(self, run_sync: RunSync | None = None) -> tuple[Capability, Connector]:
        """The declaration and the connector, as a runtime registers them.

        `run_sync` runs plain handlers; without one the connector has threads of its own.
        """
        told = self._declaration
        schemas = {} if told.input_schema is None else {Handler.EXECUTE: told.input_schema}
        connector = FunctionConnector(self._handlers, schemas=schemas, run_sync=run_sync)
        compensation = connector.inputs.get(Handler.COMPENSATE)
        declared = Capability(
            id=CapabilityId(told.id),
            title=told.title or told.id,
            description=told.description or (self._function.__doc__ or "").strip(),
            side_effects=told.side_effects,
            risk=told.risk,
            input_schema=connector.inputs[Handler.EXECUTE].schema,
            output_schema=told.output_schema or connector.output_schema,
            compensation_schema=compensation.schema if compensation else None,
            required_scopes=told.required_scopes,
            transaction=told.transaction or self._transaction(),
            compensation=self._compensation or CompensationContract(),
            idempotency=told.idempotency,
            execution=told.execution,
            data=told.data,
            service_level=_service_level(told.timeout),
            approval=told.approval,
            credential=told.credential,
            recovery=told.recovery,
            freeze=told.freeze,
            plan_ttl_ms=_ms(told.plan_ttl) or PLAN_TTL_MS,
            handlers=connector.handlers,
            accepted_risks=told.accepted_risks,
        )
        if told.principal_kinds is not None:
            declared = msgspec.structs.replace(declared, principal_kinds=told.principal_kinds)
        return declared, connector

    def _transaction(self) -> TransactionContract:
        """The modes that the handlers make possible."""
        modes = [Mode.EXECUTE, Mode.DRY_RUN, Mode.PLAN, Mode.COMMIT]
        dedup = self._declaration.execution.provider_dedup_window_ms
        if Handler.RECONCILE in self._handlers or dedup is not None:
            modes.append(Mode.RECONCILE)
        if self._compensation is not None and self._compensation.mode in _COMPENSABLE:
            modes.append(Mode.COMPENSATE)
        previews = Handler.PREVIEW in self._handlers
        fidelity = Fidelity.DOWNSTREAM_VALIDATION if previews else Fidelity.POLICY_AND_SCHEMA
        return TransactionContract(supported_modes=tuple(modes), dry_run_fidelity=fidelity)


_COMPENSABLE = frozenset({CompensationMode.SUPPORTED, CompensationMode.BEST_EFFORT})


def capability(
    id: str,
    *,
    title: str = "",
    description: str = "",
    side_effects: Iterable[SideEffect | str] = (SideEffect.WRITE,),
    risk: Risk | str = Risk.MEDIUM,
    timeout: timedelta | None = None,
    plan_ttl: timedelta | None = None,
    transaction: TransactionContract | None = None,
    compensation: CompensationContract | None = None,
    idempotency: IdempotencyContract = IdempotencyContract(),
    execution: ExecutionContract = ExecutionContract(),
    data: DataContract = DataContract(),
    approval: ApprovalPolicy | None = None,
    credential: CredentialPolicy = CredentialPolicy(),
    recovery: RecoveryContract = RecoveryContract(),
    freeze: Freeze = Freeze.NOTHING,
    required_scopes: Iterable[str] = (),
    principal_kinds: Iterable[PrincipalKind] | None = None,
    input_schema: JsonObject | None = None,
    output_schema: JsonObject | None = None,
    accepted_risks: Iterable[str] = (),
) -> Callable[[Callable[P, R_co]], FunctionCapability[P, R_co]]:
    """Make a capability of a function that takes `(input)` or `(input, attempt)`.

    The input's annotation (dataclass, msgspec Struct, TypedDict, Pydantic model) or `input_schema`
    becomes its schema. `timeout` is when the outcome of one attempt counts as unknown (30 seconds),
    `plan_ttl` how long a plan can be committed (15 minutes). `accepted_risks` are codes of
    `amends check` that were chosen on purpose. Faults of the declaration are reported
    all at once when it is registered.
    """
    told = Declaration(
        id=id,
        title=title,
        description=description,
        side_effects=tuple(
            choice_of(effect, SideEffect, "side_effects") for effect in side_effects
        ),
        risk=choice_of(risk, Risk, "risk"),
        timeout=timeout,
        plan_ttl=plan_ttl,
        transaction=transaction,
        compensation=compensation,
        idempotency=idempotency,
        execution=execution,
        data=data,
        approval=approval,
        credential=credential,
        recovery=recovery,
        freeze=freeze,
        required_scopes=tuple(required_scopes),
        principal_kinds=None if principal_kinds is None else tuple(principal_kinds),
        input_schema=input_schema,
        output_schema=output_schema,
        accepted_risks=tuple(accepted_risks),
    )

    def make(function: Callable[P, R_co]) -> FunctionCapability[P, R_co]:
        return FunctionCapability(function, told)

    return make


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds() * 1000)


def _service_level(timeout: timedelta | None) -> ServiceLevelContract:
    limit = _ms(timeout)
    return ServiceLevelContract() if limit is None else ServiceLevelContract(timeout_ms=limit)
