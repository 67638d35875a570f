"""The calls the demonstration makes at its provider, through the official Stripe client.

Invariants: one call of `make_charge` or `make_refund` is one request on the wire, since the client
is told never to repeat a request by itself; every effect carries the attempt's provider key in its
metadata, and a search that returns None has read the provider's list to its end; amounts are whole
minor units. The functions block: call them in a thread.

Not here: what a failure means for a transaction (`is_definite_refusal` only says what the provider
has said), and any provider of real money.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import stripe

PROVIDER_KEY_FIELD = "amends_provider_key"
TEST_CARD = "pm_card_visa"
PAGE_SIZE = 100
TIMEOUT_S = 10.0


class Charge(msgspec.Struct, frozen=True):
    """A charge as the provider tells it. `status` is its word: succeeded, pending or failed."""

    charge_id: str
    amount_minor: int
    currency: str
    status: str
    provider_key: str | None


class Refund(msgspec.Struct, frozen=True):
    """A refund as the provider tells it."""

    refund_id: str
    charge_id: str
    amount_minor: int
    currency: str
    status: str
    provider_key: str | None


def connect(
    base_address: str,
    api_key: str,
    *,
    timeout_s: float = TIMEOUT_S,
    transport: "type[stripe.RequestsClient] | None" = None,
) -> "stripe.StripeClient":
    """A client that sends each request once, directly, and gives up after `timeout_s`.

    Stripe's library repeats a failed request twice by default, unseen by its user, when called
    through its module-wide functions. A client object inherits that from no one today; the zero is
    said all the same, since it is what everything here rests on. `transport` replaces the class
    that puts requests on the wire, for a process that is meant to die there.
    """
    import stripe

    # An empty proxy is none: a proxy named in the environment cannot reach our loopback.
    http = (transport or stripe.RequestsClient)(timeout=timeout_s, proxy={"http": "", "https": ""})
    return stripe.StripeClient(
        api_key,
        base_addresses={"api": base_address},
        max_network_retries=0,
        http_client=http,
    )


def make_charge(
    client: "stripe.StripeClient",
    *,
    amount_minor: int,
    currency: str,
    provider_key: str,
    card: str = TEST_CARD,
) -> Charge:
    """Charge the card once. When this returns, the provider has taken the money.

    The key goes along as Stripe's idempotency key too. The fake ignores that; Stripe would not.

    Raises:
        stripe.StripeError: refused, failed or unknown; see `is_definite_refusal`.
    """
    made = client.v1.charges.create(
        {
            "amount": amount_minor,
            "currency": currency,
            "source": card,
            "metadata": {PROVIDER_KEY_FIELD: provider_key},
        },
        {"idempotency_key": provider_key},
    )
    return _charge(made)


def make_refund(
    client: "stripe.StripeClient", *, charge_id: str, amount_minor: int, provider_key: str
) -> Refund:
    """Give back part or all of a charge, once. The fake never refuses to give back too much.

    Raises:
        stripe.StripeError: refused, failed or unknown; see `is_definite_refusal`.
    """
    made = client.v1.refunds.create(
        {
            "charge": charge_id,
            "amount": amount_minor,
            "metadata": {PROVIDER_KEY_FIELD: provider_key},
        },
        {"idempotency_key": provider_key},
    )
    return _refund(made)


def find_charge_by_key(
    client: "stripe.StripeClient", provider_key: str, *, page_size: int = PAGE_SIZE
) -> Charge | None:
    """The charge that carries the key, failed ones included; None if no page has it.

    Raises:
        stripe.StripeError: a page could not be read, so that nothing is known.
    """
    return next((c for c in _charges(client, page_size) if c.provider_key == provider_key), None)


def find_refund_by_key(
    client: "stripe.StripeClient", provider_key: str, *, page_size: int = PAGE_SIZE
) -> Refund | None:
    """The refund that carries the key; None if no page has it.

    Raises:
        stripe.StripeError: a page could not be read, so that nothing is known.
    """
    return next((r for r in _refunds(client, page_size) if r.provider_key == provider_key), None)


def count_charges(client: "stripe.StripeClient", *, page_size: int = PAGE_SIZE) -> int:
    """How many charges the provider holds for which it took money (or will)."""
    return sum(charge.status != "failed" for charge in _charges(client, page_size))


def count_refunds(client: "stripe.StripeClient", *, page_size: int = PAGE_SIZE) -> int:
    """How many refunds the provider holds for which it gave money back (or will)."""
    return sum(
        refund.status not in ("failed", "canceled") for refund in _refunds(client, page_size)
    )


def is_definite_refusal(error: Exception) -> bool:
    """Whether the provider has answered that it did nothing. All else leaves the outcome open."""
    import stripe

    return isinstance(
        error,
        stripe.AuthenticationError
        | stripe.CardError
        | stripe.InvalidRequestError
        | stripe.PermissionError
        | stripe.RateLimitError,
    )


def _charges(client: "stripe.StripeClient", page_size: int) -> Iterator[Charge]:
    return map(_charge, client.v1.charges.list({"limit": page_size}).auto_paging_iter())


def _refunds(client: "stripe.StripeClient", page_size: int) -> Iterator[Refund]:
    return map(_refund, client.v1.refunds.list({"limit": page_size}).auto_paging_iter())


def _charge(charge: "stripe.Charge") -> Charge:
    return Charge(
        charge_id=charge.id,
        amount_minor=charge.amount,
        currency=charge.currency,
        status=charge.status,
        provider_key=_provider_key(charge.metadata),
    )


def _refund(refund: "stripe.Refund") -> Refund:
    return Refund(
        refund_id=refund.id,
        charge_id=refund.charge if isinstance(refund.charge, str) else "",
        amount_minor=refund.amount,
        currency=refund.currency,
        status=refund.status or "",
        provider_key=_provider_key(refund.metadata),
    )


def _provider_key(metadata: "stripe.StripeObject | None") -> str | None:
    if metadata is None or PROVIDER_KEY_FIELD not in metadata:
        return None
    return str(metadata[PROVIDER_KEY_FIELD])
