"""Evidence from providers: events that may confirm or settle an unknown, never execute, never
regress.

An event is matched by the provider key that Amends sent, else by the provider's operation id. One
that nothing claims is kept as a tombstone: an effect that is nobody's is a thing to look at.
"""

from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.canonical import domain_digest
from amends.contracts.codes import coded
from amends.contracts.documents import TransactionRecord, UnclaimedEffect
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.ids import (
    ProviderOperationId,
    TenantId,
    check_identifier,
    check_opaque,
)
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    NotApplied,
    Outcome,
    Partial,
    ProviderOperation,
)
from amends.contracts.principals import Caller
from amends.runtime.changes import until_written
from amends.runtime.engine import Engine
from amends.runtime.heard import Heard
from amends.runtime.pages import readable
from amends.runtime.soundness import sound
from amends.stores.port import ChangeSet, Insert, Lost
from amends.transactions.hashing import transaction_of_key
from amends.transactions.outputs import store_output
from amends.transactions.settlement import NO_OUTPUT, StoredOutput, read_outcome

EVIDENCE_SCOPE: Final = "amends:evidence"


class Taken(StrEnum):
    """What became of an event."""

    TAKEN = "taken"
    KNOWN = "known"
    UNCLAIMED = "unclaimed"


class EvidenceDesk:
    """Takes provider events in for somebody who may bring them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.environment.store

    async def take(self, caller: Caller, event: ProviderEvent) -> Taken:
        """Match an event and take it in; durable when it returns, and a repetition is a no-op.

        Raises `evidence.not_allowed` unless the caller is an operator or was granted
        `amends:evidence` by name, and `input.invalid_id` for references that cannot be kept.
        """
        if not (caller.principal.is_operator or EVIDENCE_SCOPE in caller.principal.scopes):
            raise coded("evidence.not_allowed")
        _check(event)
        record = await self._claimed_by(caller.tenant, event)
        if record is None:
            return await self._keep_unclaimed(caller, event)
        heard = self._heard(caller, event, record)
        changed = await until_written(lambda: self._engine.settlement.hear(heard))
        return Taken.TAKEN if changed else Taken.KNOWN

    def _heard(self, caller: Caller, event: ProviderEvent, record: TransactionRecord) -> Heard:
        outcome = sound(_outcome(event))
        registered = self._engine.environment.registry.find(record.connector_capability_id)
        output: StoredOutput = NO_OUTPUT
        if isinstance(outcome, Applied | Partial) and event.output is not None:
            redact = registered.redact if registered else None
            output = store_output(event.output, redact=redact, fits=lambda _: True)
        reading = read_outcome(outcome)
        if reading.error is not None and registered is not None:
            reading = replace(reading, error=registered.shown_error(reading.error, None))
        return Heard(
            tenant=caller.tenant,
            transaction_id=record.transaction_id,
            reading=reading,
            output=output,
            actor=caller.principal.ref,
            event=_effect_id(event),
        )

    async def _claimed_by(self, tenant: TenantId, event: ProviderEvent) -> TransactionRecord | None:
        if event.provider_key is not None:
            named = transaction_of_key(event.provider_key)
            found = await self._store.get(TransactionRecord, tenant, named) if named else None
            if found is not None and found.document.provider_key == event.provider_key:
                return found.document
        if event.operation_id is None:
            return None
        where = {"operation_id": event.operation_id}
        known = readable(self._store, TransactionRecord, tenant, where)
        same = [one async for one in known if _provider_of(one) == event.provider]
        return same[0] if len(same) == 1 else None

    async def _keep_unclaimed(self, caller: Caller, event: ProviderEvent) -> Taken:
        now = await self._store.now()
        effect = UnclaimedEffect(
            tenant=caller.tenant,
            revision=1,
            created_at=now,
            updated_at=now,
            effect_id=_effect_id(event),
            provider=event.provider,
            event_id=event.event_id,
            certainty=event.said.value,
            provider_key=event.provider_key,
            operation=_operation(event),
            code=event.error.code if event.error else None,
            reported_by=caller.principal.ref,
        )
        answer = await self._store.commit(ChangeSet(changes=(Insert(effect),)))
        return Taken.KNOWN if isinstance(answer, Lost) else Taken.UNCLAIMED


def _check(event: ProviderEvent) -> None:
    check_identifier(event.provider, "provider")
    check_opaque(event.event_id, "event_id", length=limits.PROVIDER_OPERATION_LENGTH)
    if event.provider_key is not None:
        check_opaque(event.provider_key, "provider_key", length=limits.IDEMPOTENCY_KEY_LENGTH)
    if event.operation_id is not None:
        length = limits.PROVIDER_OPERATION_LENGTH
        check_opaque(event.operation_id, "operation_id", length=length)
    if event.error is not None:
        check_opaque(event.error.code, "error.code", length=limits.ID_LENGTH)


def _effect_id(event: ProviderEvent) -> str:
    return domain_digest("amends-provider-event-v1", [event.provider, event.event_id])


def _operation(event: ProviderEvent) -> ProviderOperation | None:
    if event.operation_id is None:
        return None
    return ProviderOperation(event.provider, ProviderOperationId(event.operation_id))


def _provider_of(record: TransactionRecord) -> str | None:
    return record.provider_operation.provider if record.provider_operation else None


def _outcome(event: ProviderEvent) -> Outcome:
    error = event.error or ErrorInfo(code=f"event.{event.said.value}")
    operation = _operation(event)
    match event.said:
        case Said.APPLIED:
            return Applied(output=event.output, operation=operation)
        case Said.PARTIAL:
            return Partial(error=error, output=event.output, operation=operation)
        case Said.NOT_APPLIED:
            return NotApplied(error=error, operation=operation)
