"""What a user writes: one capability that charges a card, looks a charge up, and refunds it.

Read it as an example. `charge` makes the effect, `look_up` finds out what became of it, `refund`
offsets it. All of them are plain functions around the calls of `stripe_calls`; plans, approvals,
claims, receipts and recovery are not their business.

Three honest statements about this provider stand in the declaration, and nothing else makes the
difference between "try again" and "find out": it does not deduplicate by our key
(no `provider_dedup_window_ms`), a charge can be found by the key in its metadata
(`lookup_by_key`), and nobody promises when a late request is dead (no `in_flight_horizon_ms`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import msgspec
import stripe

from amends import (
    Applied,
    BlockingAttempt,
    ExecutionContract,
    FunctionCapability,
    NotApplied,
    NotFound,
    Pending,
    ProviderOperation,
    ProviderOperationId,
    capability,
)
from amends.cli.demo import stripe_calls

TIME_LIMIT: Final = timedelta(seconds=5)
"""After this the outcome of one attempt counts as unknown."""


class Order(msgspec.Struct, frozen=True):
    """What is charged, in minor units of its currency."""

    amount_minor: int
    currency: str


class Refund(msgspec.Struct, frozen=True):
    """Why the whole charge is given back."""

    reason: str


def card_charges(client: stripe.StripeClient) -> FunctionCapability[..., Applied]:
    """The capability over one Stripe account."""

    @capability(
        "payments.charge",
        title="Charge a card",
        side_effects=["financial"],
        risk="high",
        timeout=TIME_LIMIT,
        execution=ExecutionContract(lookup_by_key=True),
    )
    def charge(order: Order, attempt: BlockingAttempt) -> Applied:
        with _definite_refusals():
            made = stripe_calls.make_charge(
                client,
                amount_minor=order.amount_minor,
                currency=order.currency,
                provider_key=attempt.provider_key,
            )
        return _told(made)

    @charge.reconcile
    def look_up(_: object, attempt: BlockingAttempt) -> Applied:
        """Find the charge, or the refund where that is in doubt. Reading has no effect."""
        found: stripe_calls.Charge | stripe_calls.Refund | None
        if attempt.original is None:
            found = stripe_calls.find_charge_by_key(client, attempt.provider_key)
        else:
            found = stripe_calls.find_refund_by_key(client, attempt.provider_key)
        if found is None:
            raise NotFound
        return _told(found)

    @charge.compensate(requires_approval=True)
    def refund(_: Refund, attempt: BlockingAttempt) -> Applied:
        original = attempt.original
        assert original is not None
        assert original.operation is not None
        with _definite_refusals():
            made = stripe_calls.make_refund(
                client,
                charge_id=original.operation.operation_id,
                amount_minor=msgspec.convert(original.input, Order).amount_minor,
                provider_key=attempt.provider_key,
            )
        return _told(made)

    return charge


def _told(made: stripe_calls.Charge | stripe_calls.Refund) -> Applied:
    """What the provider's own word on a charge or refund means."""
    id_ = made.charge_id if isinstance(made, stripe_calls.Charge) else made.refund_id
    operation = ProviderOperation("stripe", ProviderOperationId(id_))
    match made.status:
        case "succeeded":
            return Applied(output={"id": id_}, operation=operation)
        case "failed" | "canceled":
            raise NotApplied("stripe.declined", operation=operation)
        case _:
            raise Pending(operation=operation)


@contextmanager
def _definite_refusals() -> Iterator[None]:
    """Only what the provider has certainly refused is "not applied"; all else stays unknown."""
    try:
        yield
    except stripe.StripeError as error:
        if stripe_calls.is_definite_refusal(error):
            raise NotApplied(f"stripe.{error.code or 'refused'}") from error
        raise
