"""The connector port: carry out one attempt, report one outcome.

A connector never touches a store; what it must make durable on the way (the provider's operation
id, a cursor) goes through `checkpoint`, which is handed to it. It never retries, never decides
what an uncertain answer means for the record, and never sees another tenant's call.
"""

from asyncio import Event
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, runtime_checkable

import msgspec

from amends.contracts import limits
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler, Verdict
from amends.contracts.ids import (
    ActionId,
    CapabilityId,
    Fence,
    ProviderOperationId,
    TenantId,
    TransactionId,
    check_opaque,
)
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Outcome, ProviderOperation
from amends.contracts.principals import Identity, PrincipalRef
from amends.contracts.secrets import Credential

Checkpoint = Callable[[ProviderOperation, str | None], Awaitable[None]]
"""Makes the provider's operation id (and a cursor) durable before it returns."""


class OriginalEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a compensation offsets: the target's stored result and coordinates.

    `input` and `output` are absent where the target's capability requires redaction.
    """

    action_id: ActionId
    transaction_id: TransactionId
    capability_id: CapabilityId
    input: Json = None
    output: Json = None
    operation: ProviderOperation | None = None
    provider_key: str | None = None
    intent_digest: str = ""


class Call(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything one attempt is told. `provider_key` is absent in previews.

    `deadline` is when the outcome counts as unknown; `deadline_in_ms` is the same span for use
    with monotonic clocks. `number` counts the attempts of this record from 1. `intent_digest` is
    that of the plan, or of capability and input where there was none; the same in every attempt.
    `recovering` marks a look-up that nobody asked for: the scheduler's.
    """

    handler: Handler
    capability: Capability
    tenant: TenantId
    principal: PrincipalRef
    identity: Identity | None
    transaction_id: TransactionId
    action_id: ActionId
    number: int
    fence: Fence | None
    input: Json
    deadline: datetime
    deadline_in_ms: int
    provider_key: str | None = None
    provider_operation: ProviderOperation | None = None
    cursor: str | None = None
    original: OriginalEffect | None = None
    credential: Credential | None = None
    redrive: bool = False
    intent_digest: str = ""
    recovering: bool = False


class Attempt:
    """What a handler is given beside its input: the call's facts, `cancelled`, and `checkpoint`.

    `cancelled` is set when somebody asked to stop or the time limit passed; a handler that stops
    for it without knowing that nothing was applied has an unknown outcome.
    """

    __slots__ = ("_checkpoint", "call", "cancelled")

    def __init__(self, call: Call, checkpoint: Checkpoint, cancelled: Event) -> None:
        self.call = call
        self.cancelled = cancelled
        self._checkpoint = checkpoint

    @property
    def tenant(self) -> TenantId:
        """The tenant this attempt acts for."""
        return self.call.tenant

    @property
    def transaction_id(self) -> TransactionId:
        """The transaction this attempt belongs to."""
        return self.call.transaction_id

    @property
    def action_id(self) -> ActionId:
        """The action this attempt carries out."""
        return self.call.action_id

    @property
    def number(self) -> int:
        """Which attempt of the record this is, from 1."""
        return self.call.number

    @property
    def deadline(self) -> datetime:
        """When the outcome counts as unknown."""
        return self.call.deadline

    @property
    def provider_key(self) -> str:
        """The one stable key of this effect: send it to the provider. Empty in previews."""
        return self.call.provider_key or ""

    @property
    def provider_operation(self) -> ProviderOperation | None:
        """What an earlier attempt recorded of the provider's acceptance."""
        return self.call.provider_operation

    @property
    def cursor(self) -> str | None:
        """Where the last look-up stopped."""
        return self.call.cursor

    @property
    def credential(self) -> Credential | None:
        """The provider credential resolved for this attempt alone."""
        return self.call.credential

    @property
    def original(self) -> OriginalEffect | None:
        """In a compensation: what is to be offset."""
        return self.call.original

    async def checkpoint(
        self,
        provider: str,
        operation_id: str,
        request_id: str | None = None,
        cursor: str | None = None,
    ) -> None:
        """Record what the provider accepted; durable when it returns (TX-CHECKPOINT-1).

        Raises `Refused` (`transaction.checkpoint_refused` in previews and once the attempt may not
        write any more, and for a reference with the credential in it; `input.invalid_id` for empty
        or malformed ids), and `Conflict` (`transaction.provider_operation_conflict`) when another
        id is already recorded.
        """
        await self._checkpoint(checked_operation(provider, operation_id, request_id), cursor)


class Connector(Protocol):
    """Carries attempts of its capabilities to a provider."""

    async def carry_out(self, attempt: Attempt) -> Outcome:
        """Enter the handler that `attempt.call.handler` names and report how it ended.

        May raise anything: exceptions are classified by the runtime, where only the declared
        definite ones stay definite.
        """
        ...


@runtime_checkable
class Closable(Protocol):
    """A connector that holds connections, and lets go of them when it is asked to."""

    async def aclose(self) -> None:
        """Close what it holds in the running event loop; it may be used again, and closed again."""
        ...


class HandRuling(msgspec.Struct, frozen=True, kw_only=True):
    """What a person found out of an effect, for a connector that keeps an account of it.

    `operation` is what the record names, if it names one; `original` is the target's effect where a
    compensation is ruled on, and `capability_id` is who carried it out. The texts are as the record
    will keep them.
    """

    tenant: TenantId
    capability_id: CapabilityId
    transaction_id: TransactionId
    intent_digest: str
    verdict: Verdict
    by: str
    reference: str
    note: str
    operation: ProviderOperation | None = None
    original: OriginalEffect | None = None


@runtime_checkable
class KeepsAccounts(Protocol):
    """A connector with durable accounts of its own, which a person's ruling goes into first."""

    async def rule(self, ruling: HandRuling) -> ProviderOperation | None:
        """Take a ruling in, durably, before the transaction is settled; the effect's reference.

        None where there was nothing to take it into. It may be repeated after a crash. Whatever it
        raises, the transaction stays as it is.
        """
        ...


def checked_operation(
    provider: str, operation_id: str, request_id: str | None
) -> ProviderOperation:
    """A well-formed reference, or `Refused` (`input.invalid_id`)."""
    return ProviderOperation(
        check_opaque(provider, "provider", length=limits.ID_LENGTH),
        ProviderOperationId(
            check_opaque(operation_id, "operation_id", length=limits.PROVIDER_OPERATION_LENGTH)
        ),
        request_id,
    )
