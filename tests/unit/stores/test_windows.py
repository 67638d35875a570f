"""Chains within a window of time: as if everything had been read, without reading it."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.ids import TenantId
from amends.contracts.times import format_instant
from amends.stores.surveys import ChainName
from amends.stores.windows import AT_ONCE, SLACK_MS, chains_within

BEGAN: Final = datetime(2025, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
TENANTS: Final = (TenantId("a"), TenantId("b"))


class Feed:
    """Receipts in a list; it counts what was read of them."""

    def __init__(self, times: Sequence[datetime | None]) -> None:
        self.rows: list[tuple[int, TenantId, str, bytes]] = []
        self.read = 0
        for number, at in enumerate(times):
            told = None if at is None else {"step": {"at": format_instant(at)}}
            body = b"{" if told is None else msgspec.json.encode(told)
            # Positions have gaps.
            self.rows.append((number * 3 + 1, TENANTS[number % 2], f"chain {number // 4}", body))

    @property
    def end(self) -> int:
        return self.rows[-1][0] if self.rows else 0

    def pages(self, after: int, tenant: str, limit: int) -> Sequence[Sequence[Any]]:
        begin = bisect_right(self.rows, after, key=lambda row: row[0])
        behind = (row for row in islice(self.rows, begin, None) if tenant in ("", row[1]))
        found = list(islice(behind, limit))
        self.read += len(found)
        return found


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(-12, 12), st.booleans()), max_size=40),
    st.none() | st.integers(-70, 3000),
    st.none() | st.integers(-70, 3000),
    st.none() | st.sampled_from(TENANTS),
)
def test_the_same_chains_are_found_as_if_everything_had_been_read(
    steps: list[tuple[int, int, bool]],
    since: int | None,
    until: int | None,
    tenant: TenantId | None,
) -> None:
    """Times go on, out of order by less than a day, and receipts in between cannot be read."""
    hours, times = 0, list[datetime | None]()
    for on, late, damaged in steps:
        hours += on
        times.append(None if damaged else BEGAN + timedelta(hours=hours + late))
    feed = Feed(times)
    low, high = [None if one is None else BEGAN + timedelta(hours=one) for one in (since, until)]
    wanted, near = set(), set()
    for at, (_, owner, chain, _) in zip(times, feed.rows, strict=True):
        if tenant in (None, owner):
            if at is None:
                near.add(ChainName(owner, chain))
            elif (low is None or at >= low) and (high is None or at < high):
                wanted.add(ChainName(owner, chain))
    found = set(chains_within(feed.pages, feed.end, tenant, low, high))
    assert wanted <= found <= wanted | near


def test_of_a_year_only_the_days_around_the_window_are_read() -> None:
    apart = timedelta(minutes=5)
    feed = Feed([BEGAN + apart * number for number in range(100_000)])
    since = BEGAN + DAY * 100
    chains = chains_within(feed.pages, feed.end, None, since, since + timedelta(hours=1))
    assert len(chains) == 12 // 4 * len(TENANTS)
    around = (2 * SLACK_MS / 1000 + 3600) / apart.total_seconds()
    assert feed.read <= around + AT_ONCE + 20 * 20


def test_an_empty_feed_and_a_window_behind_its_end_have_no_chains() -> None:
    assert chains_within(Feed([]).pages, 0, None, BEGAN, None) == ()
    feed = Feed([BEGAN, BEGAN])
    assert chains_within(feed.pages, feed.end, None, BEGAN + DAY * 9, None) == ()
