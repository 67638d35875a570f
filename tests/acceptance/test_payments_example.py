"""The example of payments without code, at our own provider and at one that others wrote."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from amends import Amends, Principal, Result
from amends.cli.demo.provider import LocalProvider
from amends.connectors.credentials import environment_credentials
from amends.connectors.http import load_capabilities
from amends.connectors.port import Closable
from amends.contracts.enums import Verdict, WireStatus
from amends.testing.http_provider import Break, HttpFault, HttpProvider

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "payments.toml"
CHARGE: Final = "payments.charge"
ORDER: Final = {"amount": 1200, "currency": "eur", "source": "pm_card_visa"}
ANN: Final = Principal.named("ann")
OLGA: Final = Principal.named("olga", scopes=("*", "amends:operate", "amends:approve"))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPE_KEY", "sk_test_12345")


@asynccontextmanager
async def _opened(base_url: str) -> AsyncIterator[Amends]:
    capabilities = load_capabilities(EXAMPLE, base_url=base_url)
    credentials = environment_credentials("STRIPE_KEY")
    opening = Amends.open(
        "memory:", capabilities, principal=ANN, credentials=credentials, recover=False
    )
    async with opening as amends:
        yield amends
    for _, connector in capabilities:
        assert isinstance(connector, Closable)
        await connector.aclose()


async def _approved(amends: Amends, waiting: Result) -> Result:
    assert waiting.status is WireStatus.REQUIRES_HUMAN
    await amends.acting_as(OLGA).approve(waiting)
    return await amends.wait_for_approval(waiting)


async def _charged(amends: Amends) -> Result:
    plan = await amends.plan(CHARGE, ORDER)
    return await _approved(amends, await amends.commit(plan))


async def _charge_and_refund(amends: Amends) -> tuple[Result, Result]:
    charge = await _charged(amends)
    refund = await _approved(amends, await amends.compensate(charge, {"amount": 200}))
    return charge, refund


def _booked(provider: HttpProvider) -> list[tuple[str, int]]:
    return [(one.kind, one.amount) for one in provider.books]


async def test_a_charge_is_planned_approved_made_and_refunded_in_part() -> None:
    async with HttpProvider() as provider, _opened(provider.url) as amends:
        charge, refund = await _charge_and_refund(amends)
    assert (charge.status, refund.status) == (WireStatus.COMMITTED, WireStatus.COMPENSATED)
    assert _booked(provider) == [("charge", 1200), ("refund", 200)]
    assert len({seen.key for seen in provider.requests}) == 2
    assert {seen.headers["authorization"] for seen in provider.requests} == {"Bearer sk_test_12345"}


async def test_lost_answers_are_found_again_and_nothing_happens_twice() -> None:
    lost = HttpFault(breaks=Break.AFTER_REQUEST)
    async with HttpProvider([lost, lost]) as provider, _opened(provider.url) as amends:
        operator = amends.acting_as(OLGA)
        charge = await _charged(amends)
        found = await operator.reconcile(charge.transaction_id, insist=True)
        refund = await _approved(amends, await amends.compensate(charge, {}))
        refunded = await operator.reconcile(refund.transaction_id, insist=True)
    assert charge.status is WireStatus.OUTCOME_UNKNOWN
    assert refund.status is WireStatus.OUTCOME_UNKNOWN
    assert (found.verdict, refunded.verdict) == (Verdict.COMMITTED, Verdict.COMMITTED)
    assert [(one.kind, one.amount) for one in provider.books] == [
        ("charge", 1200),
        ("refund", 1200),
    ]


async def test_a_declined_card_is_a_failure_and_charges_nothing() -> None:
    async with HttpProvider() as provider, _opened(provider.url) as amends:
        plan = await amends.plan(CHARGE, {**ORDER, "amount": 2_000_000})
        declined = await _approved(amends, await amends.commit(plan))
    assert (declined.status, declined.verdict) == (WireStatus.FAILED, Verdict.NOT_COMMITTED)
    assert declined.error is not None
    assert declined.error.details["provider_code"] == "card_declined"
    assert provider.books == []


async def test_it_works_at_a_provider_that_others_wrote() -> None:
    with LocalProvider.start() as provider:
        async with _opened(provider.base_address) as amends:
            charge, refund = await _charge_and_refund(amends)
    assert (charge.status, refund.status) == (WireStatus.COMMITTED, WireStatus.COMPENSATED)
    assert charge.provider_operation is not None
    assert charge.provider_operation.operation_id.startswith("ch_")
    assert isinstance(refund.output, dict)
    assert (refund.output["amount"], refund.output["charge"]) == (
        200,
        charge.provider_operation.operation_id,
    )
