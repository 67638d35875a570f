"""Everything happens to four runtimes on one PostgreSQL; `make chaos` goes on for three minutes."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from amends.testing import chaos
from amends.testing.chaos import WORLD_S, Report, Trouble, play_many
from amends.testing.chaos_race import commit_by_all
from amends.testing.postgres_server import PostgresServer

SEED: Final = 46
"""Every kind of trouble is among its first twelve."""
PLANS: Final = 200


@pytest.mark.fault(2, 3, 4, 5, 16, 20)
@pytest.mark.case("DBC-01", "DBC-02")
@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-SETTLE-6", "TX-RECON-2")
async def test_twenty_seconds_in_which_everything_happens_double_nothing_and_lose_nothing() -> None:
    said: list[str] = []
    (report,) = await play_many(WORLD_S, SEED, say=said.append)
    assert report.problems == [], said
    assert report.troubles.keys() == set(Trouble)
    assert report.heard["committed"] > 20
    assert report.effects > 20


@pytest.mark.fault(1)
@pytest.mark.rule("TX-CLAIM-1")
async def test_plans_that_four_runtimes_commit_at_once_have_one_effect_and_one_winner_each(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    assert await commit_by_all(postgres_server, tmp_path, PLANS, runtimes=4) == []


def test_what_is_broken_is_told_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(seconds: float, seed: int, **_: object) -> tuple[Report, ...]:
        return (Report(seed, Counter(), Counter(), 0, ["txn_1 moved money 2 times"]),)

    monkeypatch.setattr(chaos, "play_many", broken)
    assert chaos.main(["--seconds", "1", "--seed", "11"]) == 1
    said = capsys.readouterr().out
    assert "Again: python -m amends.testing.chaos --seconds 20 --seed 11" in said
    told = chaos.told(Report(11, Counter(), Counter(), 0, ["txn_1 is lost"]))
    assert "BROKEN: txn_1 is lost" in told
