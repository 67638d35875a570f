"""The promises of every connector, kept over HTTP.

`ConnectorContract` hands a stage to handlers that are code; here the far end is a server, so each
promise is asked of what it saw. Checkpoints have no counterpart: a declared request records nothing
on its way, since its reference comes with its answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from amends.connectors.http import (
    ById,
    Effect,
    HttpConnector,
    HttpDeclaration,
    LookUp,
    Meaning,
    Preview,
    Provider,
    http_capability,
)
from amends.connectors.port import Attempt, Connector
from amends.contracts.declarations import Capability
from amends.contracts.enums import Handler
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Applied, NotApplied, Partial, Pending, Uncertain
from amends.testing.connector_stage import OPERATION, PATIENCE_S, a_call, an_attempt
from amends.testing.http_provider import Break, HttpFault, HttpProvider, Seen

TOLD: dict[str, Json] = {
    "input": "{input}",
    "tenant": "{attempt.tenant}",
    "action": "{attempt.action_id}",
    "transaction": "{attempt.transaction_id}",
    "number": "{attempt.number}",
}
WITH_KEY: dict[str, Json] = {**TOLD, "key": "{attempt.provider_key}", "fence": "{attempt.fence}"}
OFFSETS: dict[str, Json] = {
    **WITH_KEY,
    "of": ["{original.action_id}", "{original.output.operation_id}", "{original.operation.id}"],
}
LOOKUP = LookUp(
    by_id=ById(
        method="POST",
        path="/reconcile/{operation.id}",
        body={**WITH_KEY, "request": "{operation.request_id}"},
        statuses={},
    ),
    match={"/tenant": "{attempt.tenant}"},
)
PATHS = {
    Handler.EXECUTE: "/execute",
    Handler.PREVIEW: "/preview",
    Handler.RECONCILE: "/reconcile/op_1",
    Handler.COMPENSATE: "/compensate",
}
DONE: Json = {"tenant": "t1", "id": "ch_1"}


def _declared(url: str) -> HttpDeclaration:
    return HttpDeclaration(
        capability=Capability(id=CapabilityId("pay"), input_schema={"type": "object"}),
        provider=Provider(
            name="scripted",
            base_url=url,
            headers={"Authorization": "Bearer {credential}"},
            statuses={"402": Meaning.NOT_APPLIED},
        ),
        execute=Effect(path="/execute", body=WITH_KEY, lookup=LOOKUP),
        compensate=Effect(path="/compensate", body=OFFSETS),
        preview=Preview(path="/preview", body=TOLD),
    )


def _answer(body: Json, status: int = 200) -> HttpFault:
    return HttpFault(effect=False, status=status, body=msgspec.json.encode(body))


@asynccontextmanager
async def _opened(*script: HttpFault) -> AsyncIterator[tuple[Connector, HttpProvider]]:
    async with HttpProvider(script or [_answer(DONE)] * 9) as provider:
        _, connector = http_capability(_declared(provider.url))
        assert isinstance(connector, HttpConnector)
        try:
            yield connector, provider
        finally:
            await connector.aclose()


async def _seen(
    kind: Handler = Handler.EXECUTE, input: Json = None
) -> tuple[Seen, dict[str, Json]]:
    async with _opened() as (connector, provider):
        await connector.carry_out(an_attempt(a_call(kind, input=input)))
        (seen,) = provider.requests
    body: dict[str, Json] = msgspec.json.decode(seen.body)
    return seen, body


@pytest.mark.parametrize("kind", Handler)
async def test_each_handler_is_one_request_with_the_input(kind: Handler) -> None:
    seen, body = await _seen(kind, input={"amount": 7})
    assert seen.target == PATHS[kind]
    assert body["input"] == {"amount": 7}


async def test_the_provider_is_told_whose_attempt_it_is() -> None:
    _, body = await _seen()
    assert (body["tenant"], body["transaction"], body["action"]) == ("t1", "txn_1", "act_1")
    assert (body["number"], body["fence"]) == (2, "fen_1")


async def test_the_provider_is_told_the_key_and_shown_the_credential() -> None:
    seen, body = await _seen()
    assert body["key"] == "key_1"
    assert seen.headers["authorization"] == "Bearer tok"


async def test_a_look_up_is_told_what_is_known_of_the_operation() -> None:
    seen, body = await _seen(Handler.RECONCILE)
    assert seen.target.endswith(OPERATION.operation_id)
    assert (body["request"], body["key"]) == (OPERATION.request_id, "key_1")


async def test_a_compensation_is_told_what_it_offsets() -> None:
    _, body = await _seen(Handler.COMPENSATE)
    assert body["of"] == ["act_original", "op_0", "op_0"]


async def test_a_preview_tells_no_provider_key() -> None:
    _, body = await _seen(Handler.PREVIEW)
    assert "key" not in body


async def test_an_answer_is_an_effect_with_that_output() -> None:
    body: Json = {"id": "ch_1", "amount": 5, "nested": [1.5, None, True]}
    async with _opened(_answer(body)) as (connector, _):
        assert await connector.carry_out(an_attempt(a_call())) == Applied(output=body)


async def test_every_kind_of_answer_is_told_as_the_outcome_it_stands_for() -> None:
    script = [
        _answer(DONE, 402),
        _answer(DONE, 202),
        _answer(DONE, 500),
        HttpFault(effect=False, breaks=Break.AFTER_REQUEST),
    ]
    async with _opened(*script) as (connector, _):
        kinds = [type(await connector.carry_out(an_attempt(a_call()))) for _ in script]
    assert kinds == [NotApplied, Pending, Uncertain, Uncertain]
    assert Partial not in kinds


async def test_nothing_is_raised_and_nothing_is_sent_again_when_a_connection_breaks() -> None:
    async with _opened(HttpFault(breaks=Break.AFTER_REQUEST, resets=True)) as (connector, provider):
        outcome = await connector.carry_out(an_attempt(a_call()))
    assert isinstance(outcome, Uncertain)
    assert len(provider.requests) == 1


async def test_what_was_cancelled_before_it_was_sent_is_certainly_not_applied() -> None:
    attempt = an_attempt(a_call())
    attempt.cancelled.set()
    async with _opened() as (connector, provider):
        outcome = await connector.carry_out(attempt)
    assert isinstance(outcome, NotApplied)
    assert provider.requests == []


async def test_cancelling_a_running_attempt_ends_the_wait_and_claims_nothing() -> None:
    async with _opened(HttpFault(delay_s=60)) as (connector, provider):
        running = asyncio.ensure_future(connector.carry_out(an_attempt(a_call())))
        while not provider.requests:  # noqa: ASYNC110  # the provider sets no event
            await asyncio.sleep(0.005)
        running.cancel()
        (ended, _) = await asyncio.wait((running,), timeout=PATIENCE_S)
    assert ended == {running}
    assert running.cancelled()


async def test_two_attempts_at_once_do_not_see_one_another() -> None:
    calls = [a_call(tenant=tenant, input={"of": tenant}) for tenant in ("t1", "t2", "t3")]
    attempts: list[Attempt] = [an_attempt(call) for call in calls]
    async with _opened() as (connector, provider):
        await asyncio.gather(*(connector.carry_out(one) for one in attempts))
    bodies = [msgspec.json.decode(seen.body) for seen in provider.requests]
    assert sorted(body["tenant"] for body in bodies) == ["t1", "t2", "t3"]
    assert all(body["input"] == {"of": body["tenant"]} for body in bodies)
