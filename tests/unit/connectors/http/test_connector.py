"""The connector as a whole, at a provider on loopback."""

import asyncio
import traceback
from typing import Any

import pytest

from amends.connectors.http import HttpConnector, Meaning
from amends.connectors.port import Closable
from amends.contracts.enums import Handler
from amends.contracts.outcomes import Applied, NotApplied, Outcome, Pending, Uncertain
from amends.contracts.secrets import Credential, Secret
from amends.testing.connector_stage import an_attempt
from amends.testing.http_provider import Break, HttpFault, HttpProvider
from tests.unit.connectors.http.payments import (
    CHARGED,
    KEY,
    ORDER,
    Session,
    called,
    declared,
    execute,
    operation,
)


def _code(outcome: Outcome) -> str:
    assert isinstance(outcome, NotApplied | Uncertain)
    return outcome.error.code


async def test_a_charge_is_made_once_and_its_object_told() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        outcome = await session.carry()
    (entry,) = provider.effects("charge", key=KEY)
    assert outcome == Applied(output=entry.shown(), operation=operation(str(entry.id)))
    assert (entry.amount, entry.currency, entry.metadata) == (500, "eur", {"key": KEY})
    (seen,) = provider.requests
    assert seen.headers["authorization"] == "Bearer tok"
    assert seen.headers["user-agent"] == "amends"


async def test_a_refund_and_a_preview_are_requests_of_their_own() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        await session.carry()
        preview = await session.carry(Handler.PREVIEW, number=0)
        refund = await session.carry(
            Handler.COMPENSATE, input={"amount": 200}, original=CHARGED, provider_key="key_2"
        )
    assert preview == Applied(output={"would_charge": 500})
    assert isinstance(refund, Applied)
    (entry,) = provider.effects("refund")
    assert (entry.charge, entry.amount, entry.key) == ("ch_1", 200, "key_2")
    assert provider.requests[1].key == ""


async def test_a_preview_that_the_provider_refuses_is_refused() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        outcome = await session.carry(
            Handler.PREVIEW, number=0, input={**ORDER, "amount": 2_000_000}
        )
    assert isinstance(outcome, NotApplied)
    assert outcome.error.details == {"status": 402, "provider_code": "card_declined"}


async def test_a_handler_without_a_request_is_not_entered() -> None:
    async with Session(declared("http://127.0.0.1:9", compensate=None, preview=None)) as session:
        for handler in (Handler.COMPENSATE, Handler.PREVIEW):
            assert _code(await session.carry(handler)) == "connector.handler_missing"


async def test_what_was_given_up_before_it_was_sent_is_not_sent() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        for redrive, kind in ((False, NotApplied), (True, Uncertain)):
            attempt = an_attempt(called(redrive=redrive))
            attempt.cancelled.set()
            outcome = await session.connector.carry_out(attempt)
            assert type(outcome) is kind
            assert _code(outcome) == "connector.given_up"
    assert provider.requests == []


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"credential": None}, "credential.missing"),
        ({"input": {"amount": 500}}, "connector.reference_missing"),
        ({"provider_key": "a\nb"}, "connector.value_unfit"),
    ],
)
async def test_a_request_that_cannot_be_filled_in_is_not_sent(
    facts: dict[str, Any], code: str
) -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        first = await session.carry(**facts)
        again = await session.carry(**facts, redrive=True)
    assert isinstance(first, NotApplied)
    assert isinstance(again, Uncertain)
    assert (_code(first), _code(again)) == (code, code)
    assert first.error.message
    assert provider.requests == []


async def test_a_comparison_that_cannot_be_made_is_noticed_before_anything_is_sent() -> None:
    """Afterwards it would be too late to say that nothing happened."""
    effect = execute(match={"/charge": "{original.output.id}"}, lookup=None)
    async with (
        HttpProvider() as provider,
        Session(declared(provider.url, execute=effect)) as session,
    ):
        outcome = await session.carry()
    assert isinstance(outcome, NotApplied)
    assert outcome.error.details == {"reference": "original.output.id"}
    assert provider.requests == []


@pytest.mark.fault(5)
@pytest.mark.parametrize("where", [Break.AFTER_REQUEST, Break.IN_HEADERS])
async def test_an_effect_whose_answer_is_lost_is_found_by_its_key(where: Break) -> None:
    async with (
        HttpProvider([HttpFault(breaks=where)]) as provider,
        Session(declared(provider.url)) as session,
    ):
        lost = await session.carry()
        found = await session.carry(Handler.RECONCILE)
    assert isinstance(lost, Uncertain)
    assert isinstance(found, Applied)
    assert len(provider.effects()) == 1


async def test_a_slow_answer_is_waited_for_beyond_the_deadline_and_then_given_up() -> None:
    async with (
        HttpProvider([HttpFault(delay_s=0.5), HttpFault(delay_s=9)]) as provider,
        Session(declared(provider.url)) as session,
    ):
        late = await session.carry(deadline_in_ms=400)
        never = await session.carry(deadline_in_ms=400)
    assert isinstance(late, Applied)
    assert isinstance(never, Uncertain)
    assert _code(never) == "sla.timeout_exceeded"


async def test_a_202_is_pending_with_its_reference() -> None:
    fault = HttpFault(status=202, headers=(("Retry-After", "3"),))
    async with HttpProvider([fault]) as provider, Session(declared(provider.url)) as session:
        outcome = await session.carry()
    assert outcome == Pending(retry_after_ms=3000, operation=operation("ch_1"))


@pytest.mark.fault(7)
async def test_a_server_error_after_the_effect_is_uncertain() -> None:
    async with (
        HttpProvider([HttpFault(status=500)]) as provider,
        Session(declared(provider.url)) as session,
    ):
        outcome = await session.carry()
    assert isinstance(outcome, Uncertain)
    assert len(provider.effects()) == 1
    assert len(provider.requests) == 1


async def test_a_re_drive_repeats_the_first_request_to_the_letter() -> None:
    async with (
        HttpProvider([HttpFault(breaks=Break.AFTER_REQUEST)], dedups=True) as provider,
        Session(declared(provider.url)) as session,
    ):
        await session.carry()
        again = await session.carry(redrive=True, number=2)
    assert isinstance(again, Applied)
    first, second = provider.requests
    assert (first.body, first.target, first.key) == (second.body, second.target, second.key)
    assert len(provider.effects()) == 1


async def test_statuses_of_the_provider_hold_unless_the_effect_says_otherwise() -> None:
    statuses = {"429": Meaning.NOT_APPLIED_RETRYABLE, "402": Meaning.UNCERTAIN}
    effect = execute(statuses={"402": Meaning.NOT_APPLIED})
    faults = [HttpFault(effect=False, status=429), HttpFault(effect=False, status=402)]
    async with HttpProvider(faults) as provider:
        declaration = declared(provider.url, provider={"statuses": statuses}, execute=effect)
        async with Session(declaration) as session:
            limited, declined = await session.carry(), await session.carry()
    assert isinstance(limited, NotApplied)
    assert limited.error.retryable
    assert isinstance(declined, NotApplied)


async def test_attempts_of_two_tenants_at_once_carry_their_own_credentials() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        await asyncio.gather(
            *(
                session.carry(
                    tenant=name,
                    provider_key=name,
                    credential=Credential(secret=Secret(f"tok-{name}")),
                )
                for name in ("t1", "t2", "t3")
            )
        )
    assert sorted((seen.key, seen.headers["authorization"]) for seen in provider.requests) == [
        (name, f"Bearer tok-{name}") for name in ("t1", "t2", "t3")
    ]


@pytest.mark.case("SEC-03")
async def test_a_cancelled_attempt_shows_no_credential_in_its_traceback() -> None:
    async with (
        HttpProvider([HttpFault(delay_s=60)]) as provider,
        Session(declared(provider.url)) as session,
    ):
        held = Credential(secret=Secret("tok-CANARY"))
        running = asyncio.ensure_future(session.carry(credential=held))
        while not provider.requests:  # noqa: ASYNC110  # the provider sets no event
            await asyncio.sleep(0.005)
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(shown.format())
    assert "transport.py" in text
    assert "CANARY" not in text
    assert provider.requests[0].headers["authorization"] == "Bearer tok-CANARY"


async def test_it_can_be_closed_and_used_again() -> None:
    async with HttpProvider() as provider, Session(declared(provider.url)) as session:
        assert isinstance(session.connector, HttpConnector)
        assert isinstance(session.connector, Closable)
        await session.carry()
        await session.connector.aclose()
        assert isinstance(await session.carry(), Applied)
