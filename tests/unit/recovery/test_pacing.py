"""The pace of look-ups, and turns: many things due at once become few at a time, from everybody."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.recovery.pacing import Pace, in_turns
from amends.testing.clock import START


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


@pytest.mark.fault(25)
def test_a_bucket_gives_its_burst_and_then_so_many_a_second() -> None:
    pace = Pace(burst=3, per_s=2)
    assert [pace.takes("a", START) for _ in range(4)] == [True, True, True, False]
    assert pace.takes("b", START)
    assert not pace.takes("a", START + after(0.4))
    assert [pace.takes("a", START + after(1)) for _ in range(3)] == [True, True, False]
    assert [pace.takes("a", START + after(60)) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_goes_back_fills_nothing() -> None:
    pace = Pace(burst=1, per_s=1)
    assert pace.takes("a", START)
    assert not pace.takes("a", START - after(3600))
    assert pace.takes("a", START - after(3599))


def test_only_full_buckets_are_forgotten() -> None:
    pace = Pace(burst=2, per_s=1)
    assert all(pace.takes("a", START) for _ in range(2))
    pace.forget_full(START + after(1))
    assert [pace.takes("a", START + after(1)) for _ in range(2)] == [True, False]
    pace.forget_full(START + after(10))
    assert all(pace.takes("a", START + after(10)) for _ in range(2))


@pytest.mark.fault(27)
@given(st.lists(st.sampled_from("abc")))
def test_owners_take_turns_and_keep_their_own_order(owners: list[str]) -> None:
    items = [(owner, place) for place, owner in enumerate(owners)]
    ordered = in_turns(items, lambda item: item[0])
    assert Counter(ordered) == Counter(items)
    for owner in "abc":
        mine = [item for item in ordered if item[0] == owner]
        assert mine == sorted(mine)
    for place in range(len(ordered)):
        seen = Counter(owner for owner, _ in ordered[:place])
        left = {owner for owner, _ in ordered[place:]}
        assert all(seen[owner] >= max(seen.values(), default=0) - 1 for owner in left)
