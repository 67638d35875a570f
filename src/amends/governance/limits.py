"""Limits of rate and value: what an action takes of one, and whether that still fits (PO-2).

A limit holds in every window of its length, not only in calendar ones. What was taken is kept in
spans of time; a span counts as a whole until its end has left the window, and a claim is written
before its span ends. So the count may be too high for a moment, and never too low. Amounts are
exact decimals.

What an action took is not given back, whatever becomes of it: a failure that was certain would have
to be told from all others while others wait for the same limit.

Deliberately not here: where usages are kept, and which action takes something (`runtime`).
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from amends.contracts.canonical import parts_digest
from amends.contracts.codes import coded
from amends.contracts.documents import LimitUsage, Used
from amends.contracts.ids import TenantId

SPANS: Final = 32
"""Into how many spans a window is divided: as many, and one more, are kept."""

SHORTEST_SPAN_MS: Final = 1_000
"""A claim has to be written before its span ends, so there has to be time for that."""

MOST: Final = Decimal(10) ** 15
DECIMALS: Final = 9
"""Bounds of every amount: what lies within them is added up without rounding."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_USAGE_PREFIX: Final = "use_"


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What one action takes of one limit: `amount`, of at most `maximum` in `within_ms`.

    `subject` is who shares the limit. `of` is what is counted: `count`, or where the amount stands.
    """

    rule: str
    subject: str
    of: str
    within_ms: int
    maximum: Decimal
    amount: Decimal

    @property
    def usage_id(self) -> str:
        """The id of the document in which this limit is counted for this subject."""
        parts = (self.rule, self.subject, self.of, str(self.within_ms))
        return _USAGE_PREFIX + parts_digest("amends-limit-v1", *parts)


class Booked(NamedTuple):
    """The usage with the charge in it, and the instant before which it has to be written."""

    usage: LimitUsage
    before: datetime


def book(charge: Charge, known: LimitUsage | None, tenant: TenantId, now: datetime) -> Booked:
    """Take a charge, at the store's time `now`.

    Raises `policy.limit_exceeded` with the time after which it fits, and `policy.limit_too_small`
    for what never does.
    """
    spans = known.spans if known is not None else ()
    now_ms = max((now - _EPOCH) // _MILLISECOND, spans[-1].from_ms if spans else 0)
    spans = tuple(span for span in spans if span.until_ms > now_ms - charge.within_ms)
    _check(charge, spans, now_ms)
    spans = _with(charge, spans, now_ms)
    before = _EPOCH + spans[-1].until_ms * _MILLISECOND
    if known is not None:
        later = max(now, known.updated_at)
        usage = replace(known, revision=known.revision + 1, updated_at=later, spans=spans)
        return Booked(usage, before)
    usage = LimitUsage(
        tenant=tenant,
        revision=1,
        created_at=now,
        updated_at=now,
        usage_id=charge.usage_id,
        rule=charge.rule,
        subject=charge.subject,
        spans=spans,
    )
    return Booked(usage, before)


def _check(charge: Charge, spans: tuple[Used, ...], now_ms: int) -> None:
    amounts = [Decimal(span.amount) for span in spans]
    missing = charge.amount - (charge.maximum - sum(amounts))
    if missing <= 0:
        return
    if charge.amount > charge.maximum:
        raise coded("policy.limit_too_small", {"rule": charge.rule})
    until_ms = next(
        span.until_ms
        for span, lapsed in zip(spans, accumulate(amounts), strict=True)
        if lapsed >= missing
    )
    wait_ms = until_ms + charge.within_ms - now_ms
    raise coded("policy.limit_exceeded", {"rule": charge.rule, "retry_after_ms": wait_ms})


def _with(charge: Charge, spans: tuple[Used, ...], now_ms: int) -> tuple[Used, ...]:
    if spans and now_ms < spans[-1].until_ms:
        last = spans[-1]
        total = str(Decimal(last.amount) + charge.amount)
        return (*spans[:-1], Used(last.from_ms, last.until_ms, total))
    width = max(charge.within_ms // SPANS, SHORTEST_SPAN_MS)
    return (*spans, Used(now_ms, now_ms + width, str(charge.amount)))
