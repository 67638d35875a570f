"""Twenty thousand small worlds: the real engine and sweeper in virtual time, dying at any await.

Every change set of every world is held against the laws and the provider's own books; in the end
everything has to have ended honestly. What each of the worlds does is drawn from its seed, so this
run is the same on every machine; `make sim` plays more of them.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pytest

from amends.simulation.scenarios import Playhouse

BATCHES: Final = 10
SIZE: Final = 2_000

SIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # what met the processes and their callers
        "a process dies at a step": 900,
        "a process dies in time": 300,
        "a process is paused": 500,
        "a process shuts down": 150,
        "a caller was left alone": 500,
        "a caller lost patience": 150,
        "a request was sent twice": 400,
        "the clock was stepped": 1_000,
        "store.unavailable": 300,
        "store.commit_unknown": 30,
        # how attempts went on
        "execute outcome_unknown": 1_000,
        "commit outcome_unknown": 250,
        "compensate outcome_unknown": 200,
        "lapsed": 300,
        "evidence_kept": 40,
        "re-driven": 80,
        "escalated": 200,
        # how they ended
        "execute committed": 700,
        "commit committed": 200,
        "compensate compensated": 80,
        "execute failed": 90,
        "commit failed": 15,
        "compensate failed": 10,
        "execute reconciled": 300,
        "commit reconciled": 60,
        "compensate reconciled": 50,
        "reconciled as committed": 280,
        "reconciled as not_committed": 150,
        "operator_resolved": 25,
        "plan_expired": 1_200,
        "plan_withdrawn": 60,
        "cancelled": 50,
        "cancellation_requested": 25,
        # what people said
        "approval_granted": 180,
        "approval_denied": 12,
        "approval_expired": 800,
        # who lost, and who was refused
        "a plan was raced for": 180,
        "a compensation was raced for": 220,
        "refused: transaction.plan_already_claimed": 30,
        "refused: transaction.compensation_exists": 140,
        "refused: transaction.in_progress": 120,
        "refused: transaction.reconciliation_required": 80,
        "refused: transaction.reconcile_not_due": 15,
        "refused: transaction.settlement_not_stored": 20,
        "refused: action.id_conflict": 170,
        "refused: idempotency.input_mismatch": 200,
        "refused: approval.separation_of_duties": 15,
    }
)
"""What a batch has to have seen at least, so that the worlds are not empty."""


def _short_of(seen: Counter[str]) -> dict[str, int]:
    return {what: seen[what] for what, least in SIGHTS.items() if seen[what] < least}


@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-EXEC-2", "TX-CLAIM-1", "TX-COMP-4", "TX-PIPE-5")
@pytest.mark.rule("TX-REV-1", "TX-REV-3", "TX-RECON-3", "TX-RECON-4", "TX-SETTLE-4", "TX-CANCEL-1")
@pytest.mark.fault(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 20, 21)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_small_world_breaks_a_law(batch: int) -> None:
    """Two effects, a lost record, a wrong verdict, or a status that hides something: in none."""
    house = Playhouse()
    house.play_all(range(batch * SIZE, (batch + 1) * SIZE))
    assert house.played == SIZE
    assert _short_of(house.seen) == {}


@pytest.mark.parametrize("seed", [8, 77, 143, 1057])
def test_a_seed_plays_the_same_scenario_again(seed: int) -> None:
    first, second = Playhouse().play(seed), Playhouse().play(seed)
    assert first.story == second.story
    assert first.chronicle.history == second.chronicle.history
    assert first.bank.arrivals == second.bank.arrivals
    assert first.chronicle.history != []


def test_other_seeds_play_other_scenarios() -> None:
    house = Playhouse()
    stories = {tuple(house.play(seed).story) for seed in range(50)}
    assert len(stories) == 50
