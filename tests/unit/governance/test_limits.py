"""Limits: what fits into every window, when it fits again, and exact sums."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.documents import LimitUsage
from amends.contracts.errors import AmendsError
from amends.contracts.ids import TenantId
from amends.governance.limits import SPANS, Charge, book
from amends.testing.builders import NOW
from amends.testing.refusals import refused_with

TENANT = TenantId("acme")
HOUR_MS = 3_600_000


def charge(amount: str = "1", maximum: str = "3", within_ms: int = HOUR_MS) -> Charge:
    return Charge(
        rule="few",
        subject="principal:alice",
        of="count",
        within_ms=within_ms,
        maximum=Decimal(maximum),
        amount=Decimal(amount),
    )


def booked(*at_ms: int, amount: str = "1", maximum: str = "3") -> LimitUsage:
    usage: LimitUsage | None = None
    for ms in at_ms:
        usage = book(charge(amount, maximum), usage, TENANT, NOW + timedelta(milliseconds=ms)).usage
    assert usage is not None
    return usage


def test_the_first_charge_makes_a_document_of_the_limit_and_its_subject() -> None:
    usage = booked(0)
    assert (usage.revision, usage.rule, usage.subject) == (1, "few", "principal:alice")
    assert usage.usage_id == charge().usage_id
    assert [span.amount for span in usage.spans] == ["1"]


def test_another_rule_subject_length_or_thing_that_is_counted_is_another_document() -> None:
    ids = {
        charge().usage_id,
        charge(within_ms=1000).usage_id,
        Charge(
            rule="few",
            subject="principal:bob",
            of="count",
            within_ms=HOUR_MS,
            maximum=Decimal(1),
            amount=Decimal(1),
        ).usage_id,
    }
    assert len(ids) == 3


@pytest.mark.rule("PO-2")
def test_what_does_not_fit_is_told_when_it_will() -> None:
    usage = booked(0, 0, 0)
    later = NOW + timedelta(minutes=30)
    with refused_with("policy.limit_exceeded") as refused:
        book(charge(), usage, TENANT, later)
    wait = refused.error.details["retry_after_ms"]
    assert isinstance(wait, int)
    assert HOUR_MS // 2 < wait <= HOUR_MS // 2 + HOUR_MS // SPANS
    assert book(charge(), usage, TENANT, later + timedelta(milliseconds=wait)).usage.revision == 4
    with refused_with("policy.limit_exceeded"):
        book(charge(), usage, TENANT, later + timedelta(milliseconds=wait - 1))


def test_it_is_told_when_enough_has_lapsed_for_a_large_amount() -> None:
    usage = booked(0, HOUR_MS // 4, HOUR_MS // 2)
    with refused_with("policy.limit_exceeded") as refused:
        book(charge("2"), usage, TENANT, NOW + timedelta(milliseconds=HOUR_MS // 2))
    width = HOUR_MS // SPANS
    assert refused.error.details == {
        "rule": "few",
        "retry_after_ms": HOUR_MS // 4 + width + HOUR_MS - HOUR_MS // 2,
    }


def test_what_is_more_than_the_limit_never_fits() -> None:
    with refused_with("policy.limit_too_small"):
        book(charge("4"), None, TENANT, NOW)
    with refused_with("policy.limit_too_small"):
        book(charge("4"), booked(0), TENANT, NOW)


def test_a_claim_is_written_before_the_end_of_the_span_that_it_counts_in() -> None:
    first = book(charge(), None, TENANT, NOW)
    assert first.before - NOW == timedelta(milliseconds=HOUR_MS // SPANS)
    second = book(charge(), first.usage, TENANT, NOW + timedelta(seconds=60))
    assert second.before == first.before
    assert [span.amount for span in second.usage.spans] == ["2"]


def test_a_clock_that_goes_backwards_counts_in_the_last_span() -> None:
    usage = booked(60_000)
    back = book(charge(), usage, TENANT, NOW)
    assert [span.amount for span in back.usage.spans] == ["2"]
    assert back.usage.updated_at == usage.updated_at


def test_amounts_are_added_up_exactly() -> None:
    usage = booked(*[0] * 10, amount="0.1", maximum="1")
    assert usage.spans[0].amount == "1.0"
    with refused_with("policy.limit_exceeded"):
        book(charge("0.000000001", "1"), usage, TENANT, NOW)


@pytest.mark.rule("PO-2")
@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 3)), min_size=1, max_size=60),
    st.sampled_from([1_000, 10_000, 40_000]),
)
def test_no_window_of_its_length_ever_holds_more_than_the_limit(
    steps: list[tuple[int, int]], within_ms: int
) -> None:
    usage: LimitUsage | None = None
    now, taken = NOW, list[tuple[int, int]]()
    for step, amount in steps:
        now += timedelta(milliseconds=step)
        try:
            made = book(charge(str(amount), "4", within_ms), usage, TENANT, now)
        except AmendsError:
            continue
        usage = made.usage
        # The claim may be written as late as just before the span's end.
        taken.append(((made.before - NOW) // timedelta(milliseconds=1) - 1, amount))
        taken.append(((now - NOW) // timedelta(milliseconds=1), 0))
        assert len(usage.spans) <= within_ms // 1_000 + SPANS + 1
    for instant, _ in taken:
        inside = sum(amount for at, amount in taken if instant <= at < instant + within_ms)
        assert inside <= 4
