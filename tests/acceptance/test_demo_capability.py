"""The demonstration's capability against its provider: refusals, lost answers, and looking up."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe

from amends import Amends, Principal, Result
from amends.cli.demo import stripe_calls
from amends.cli.demo.capability import Order, Refund, card_charges
from amends.cli.demo.provider import API_KEY, LocalProvider
from amends.contracts.principals import APPROVE_SCOPE
from amends.transactions.hashing import provider_key

ALICE = Principal.named("alice")
BOB = Principal.named("bob", scopes=[APPROVE_SCOPE])
OLGA = Principal.named("olga", kind="operator")
ORDER = Order(amount_minor=1250, currency="eur")
REFUND = Refund(reason="broken")


class LosesAnswers(stripe.RequestsClient):
    """Delivers every request, and loses the answer to each that had an effect."""

    def request(self, method: str, *rest: Any, **options: Any) -> Any:
        answer = super().request(method, *rest, **options)
        if method == "post":
            raise ConnectionError("the answer was lost")
        return answer


class LosesRequests(stripe.RequestsClient):
    """Delivers nothing that would have an effect."""

    def request(self, method: str, *rest: Any, **options: Any) -> Any:
        if method == "post":
            raise ConnectionError("the request was lost")
        return super().request(method, *rest, **options)


class HasNoMoney(stripe.RequestsClient):
    """Replaces the card by one that the provider declines."""

    def request(self, method: str, *rest: Any, **options: Any) -> Any:
        url, headers, body = rest
        declined = body and body.replace("pm_card_visa", "pm_card_chargeCustomerFail")
        return super().request(method, url, headers, declined, **options)


class HasNoMoneyAndLosesAnswers(LosesAnswers, HasNoMoney):
    """Is declined, and does not hear of it."""


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.start() as running:
        yield running


@pytest.fixture
def client(provider: LocalProvider) -> stripe.StripeClient:
    return stripe_calls.connect(provider.base_address, API_KEY)


@pytest.fixture
async def alice(client: stripe.StripeClient) -> AsyncIterator[Amends]:
    async with Amends.open("memory:", [card_charges(client)], principal=ALICE) as amends:
        yield amends


async def charged_over(provider: LocalProvider, transport: type[stripe.RequestsClient]) -> Result:
    """An approved charge through this transport, and what an operator finds out at once."""
    client = stripe_calls.connect(provider.base_address, API_KEY, transport=transport)
    async with Amends.open("memory:", [card_charges(client)], principal=ALICE) as alice:
        waiting = await alice.execute("payments.charge", ORDER)
        await alice.acting_as(BOB).approve(waiting)
        unknown = await alice.resume(waiting)
        assert unknown.status == "outcome_unknown"
        return await alice.acting_as(OLGA).reconcile(unknown, insist=True)


async def approved(alice: Amends, waiting: Result) -> Result:
    await alice.acting_as(BOB).approve(waiting)
    return await alice.resume(waiting)


def operation_id(result: Result) -> str:
    assert result.provider_operation is not None
    return result.provider_operation.operation_id


async def test_a_charge_whose_answer_was_lost_is_found_by_its_key(
    provider: LocalProvider, client: stripe.StripeClient
) -> None:
    found = await charged_over(provider, LosesAnswers)
    assert (found.status, found.verdict) == ("reconciled", "committed")
    assert found.output == {"id": operation_id(found)}
    assert stripe_calls.count_charges(client) == 1


async def test_a_charge_that_is_not_on_the_list_stays_unknown_since_it_may_still_arrive(
    provider: LocalProvider, client: stripe.StripeClient
) -> None:
    """Nobody promises when a late request is dead, so absence from the list proves nothing."""
    found = await charged_over(provider, LosesRequests)
    assert (found.status, found.verdict) == ("outcome_unknown", None)
    assert stripe_calls.count_charges(client) == 0


async def test_a_declined_card_is_a_certain_failure(
    provider: LocalProvider, client: stripe.StripeClient
) -> None:
    declined = stripe_calls.connect(provider.base_address, API_KEY, transport=HasNoMoney)
    async with Amends.open("memory:", [card_charges(declined)], principal=ALICE) as alice:
        failed = await approved(alice, await alice.execute("payments.charge", ORDER))
    assert (failed.status, failed.verdict) == ("failed", "not_committed")
    assert failed.error is not None
    assert failed.error.code == "stripe.card_declined"
    assert stripe_calls.count_charges(client) == 0


async def test_a_declined_charge_that_a_look_up_finds_is_a_certain_failure_too(
    provider: LocalProvider, client: stripe.StripeClient
) -> None:
    found = await charged_over(provider, HasNoMoneyAndLosesAnswers)
    assert (found.status, found.verdict) == ("reconciled", "not_committed")
    assert stripe_calls.count_charges(client) == 0


async def test_the_whole_charge_is_refunded(alice: Amends, client: stripe.StripeClient) -> None:
    done = await approved(alice, await alice.execute("payments.charge", ORDER))
    back = await approved(alice, await alice.compensate(done, REFUND))
    assert (done.status, back.status) == ("committed", "compensated")
    key = provider_key(ALICE.tenant, back.transaction_id, back.action_id)
    refund = stripe_calls.find_refund_by_key(client, key)
    assert refund is not None
    assert (refund.charge_id, refund.amount_minor) == (operation_id(done), ORDER.amount_minor)


async def test_a_refund_whose_answer_was_lost_is_looked_up_as_a_refund(
    provider: LocalProvider, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """The look-up of a compensation is told what was to be offset, and seeks the refund."""
    url = f"sqlite:///{tmp_path}/amends.db"
    async with Amends.open(url, [card_charges(client)], principal=ALICE) as alice:
        done = await approved(alice, await alice.execute("payments.charge", ORDER))
    losing = stripe_calls.connect(provider.base_address, API_KEY, transport=LosesAnswers)
    async with Amends.open(url, [card_charges(losing)], principal=ALICE) as alice:
        unknown = await approved(alice, await alice.compensate(done, REFUND))
        assert unknown.status == "outcome_unknown"
        found = await alice.acting_as(OLGA).reconcile(unknown, insist=True)
    assert (found.status, found.verdict) == ("reconciled", "committed")
    assert operation_id(found).startswith("re_")
    assert (stripe_calls.count_charges(client), stripe_calls.count_refunds(client)) == (1, 1)
