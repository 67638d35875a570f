"""The declaration that these tests change in one place each, and attempts to carry out."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from amends.connectors.http import (
    ById,
    ByKey,
    ByLastItem,
    Effect,
    HttpConnector,
    HttpDeclaration,
    LookUp,
    Preview,
    Provider,
    http_capability,
)
from amends.connectors.http.connector import utc_now
from amends.connectors.port import Call, OriginalEffect
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler, SideEffect
from amends.contracts.ids import ActionId, CapabilityId, ProviderOperationId, TransactionId
from amends.contracts.json_types import JsonObject
from amends.contracts.outcomes import Outcome, ProviderOperation
from amends.testing.connector_stage import a_call, an_attempt

KEY = "key_1"
ORDER: JsonObject = {"amount": 500, "currency": "eur"}
SCHEMA: JsonObject = {
    "type": "object",
    "required": ["amount", "currency"],
    "additionalProperties": False,
    "properties": {
        "amount": {"type": "integer"},
        "currency": {"type": "string"},
        "note": {"type": "string"},
        "lines": {"type": "array"},
    },
}
CAPABILITY = Capability(
    id=CapabilityId("payments.charge"),
    side_effects=(SideEffect.FINANCIAL,),
    input_schema=SCHEMA,
)
BY_KEY = ByKey(
    path="/v1/charges",
    query={"limit": "2"},
    items="/data",
    key="/metadata/key",
    paging=ByLastItem(parameter="starting_after", id="/id", more="/has_more"),
)
LOOKUP = LookUp(by_id=ById(path="/v1/charges/{operation.id}"), by_key=BY_KEY)
EXECUTE = Effect(
    path="/v1/charges",
    body={
        "amount": "{input.amount}",
        "currency": "{input.currency}",
        "metadata": {"key": "{attempt.provider_key}", "note": "{input.note?}"},
    },
    idempotency_header="Idempotency-Key",
    operation_id="/id",
    match={"/amount": "{input.amount}", "/currency": "{input.currency}"},
    lookup=LOOKUP,
)
REFUND = Effect(
    path="/v1/refunds",
    body={
        "charge": "{original.output.id}",
        "amount": "{input.amount?}",
        "metadata": {"key": "{attempt.provider_key}"},
    },
    idempotency_header="Idempotency-Key",
    operation_id="/id",
    match={"/charge": "{original.output.id}"},
    lookup=LookUp(
        by_id=ById(path="/v1/refunds/{operation.id}"),
        by_key=msgspec.structs.replace(BY_KEY, path="/v1/refunds"),
    ),
)
PROVIDER = Provider(
    name="scripted",
    base_url="http://127.0.0.1:9",
    headers={"Authorization": "Bearer {credential}"},
    error_code="/error/code",
    request_id_header="Request-Id",
)
DECLARATION = HttpDeclaration(
    capability=CAPABILITY,
    provider=PROVIDER,
    execute=EXECUTE,
    compensate=REFUND,
    preview=Preview(path="/v1/checks", body={"amount": "{input.amount}"}),
)
CHARGED = OriginalEffect(
    action_id=ActionId("act_0"),
    transaction_id=TransactionId("txn_0"),
    capability_id=CAPABILITY.id,
    output={"id": "ch_1"},
)


def changed(part: Any, **changes: Any) -> Any:
    """The same record with other fields."""
    return msgspec.structs.replace(part, **changes)


def declared(url: str, *, provider: Any = None, **parts: Any) -> HttpDeclaration:
    """The declaration for a provider that is reached there."""
    told: HttpDeclaration = changed(DECLARATION, **parts)
    at = changed(told.provider, base_url=url, **(provider or {}))
    return msgspec.structs.replace(told, provider=at)


def execute(**changes: Any) -> Effect:
    """The charge with other fields."""
    effect: Effect = changed(EXECUTE, **changes)
    return effect


def called(handler: Handler = Handler.EXECUTE, **facts: Any) -> Call:
    """The first attempt of a charge, with other facts."""
    told = {"input": ORDER, "number": 1, "cursor": None, "provider_operation": None, **facts}
    call: Call = changed(a_call(handler), **told)
    return call


def operation(operation_id: str) -> ProviderOperation:
    """A reference to something of the provider's."""
    return ProviderOperation("scripted", ProviderOperationId(operation_id))


class Session:
    """A connector of one declaration, from entering the context until leaving it."""

    def __init__(
        self, declaration: HttpDeclaration, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self.capability, connector = http_capability(declaration, clock=clock)
        assert isinstance(connector, HttpConnector)
        self.connector = connector

    async def carry(self, handler: Handler = Handler.EXECUTE, **facts: Any) -> Outcome:
        """Carry one attempt out."""
        return await self.connector.carry_out(an_attempt(called(handler, **facts)))

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_ending: object) -> None:
        await self.connector.aclose()
        await asyncio.sleep(0)
