"""Every history is cut after each of its change sets and recovered from what is left.

The store is built again from the change sets up to the cut; the provider keeps what it was sent by
then, or by the next change set. Every process is dead, all faults are over, and everybody asks
again for what was asked before.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pytest

from amends.simulation.cuts import cuts_of, recover_each_cut
from amends.simulation.scenarios import Playhouse

BATCHES: Final = 4
SIZE: Final = 80

PLACES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "execute prepared": 70,
        "execute committed": 18,
        "execute failed": 2,
        "execute outcome_unknown": 18,
        "execute reconciling": 12,
        "execute reconciled": 5,
        "plan planned": 40,
        "plan failed": 30,
        "commit committing": 10,
        "commit committed": 4,
        "commit outcome_unknown": 1,
        "commit reconciling": 1,
        "compensate compensating": 5,
        "compensate outcome_unknown": 2,
        "compensate reconciling": 1,
        "dry_run dry_run_completed": 4,
    }
)
"""How many cuts a batch makes at least, by the mode and status of the record written last."""


@pytest.mark.rule("TX-LEASE-2", "TX-EXEC-2", "TX-REV-4", "TX-ACT-1", "TX-RECON-2")
@pytest.mark.fault(2, 3, 4, 5)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_was_durable_is_recovered_from_every_cut(batch: int) -> None:
    house, made = Playhouse(), Counter[str]()
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        for cut in recover_each_cut(house, seed):
            made["all"] += 1
            if cut.about is not None:
                made[f"{cut.about.mode} {cut.about.status}"] += 1
    assert made["all"] > 5 * SIZE
    assert {place: made[place] for place, least in PLACES.items() if made[place] < least} == {}


def test_a_history_is_cut_after_each_change_set_and_wherever_something_was_sent() -> None:
    town = Playhouse().play(8)
    cuts = list(cuts_of(town))
    assert sorted({cut.changes for cut in cuts}) == list(range(1, len(town.chronicle.history) + 1))
    assert {cut.sent for cut in cuts} == set(range(len(town.bank.arrivals) + 1))
    assert len(cuts) == len({(cut.changes, cut.sent) for cut in cuts})


def test_a_cut_leaves_exactly_what_was_durable_and_sent_by_then() -> None:
    house = Playhouse()
    town = house.play(8)
    for cut in cuts_of(town):
        past = town.past(cut.changes, sent=cut.sent)
        again = house.recover(8, past, at_once=True)
        assert again.chronicle.history[: cut.changes] == town.chronicle.history[: cut.changes]
        assert again.bank.arrivals[: cut.sent] == town.bank.arrivals[: cut.sent]
        assert past.clock == town.chronicle.history[cut.changes - 1].at
