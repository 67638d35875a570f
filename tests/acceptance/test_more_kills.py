"""Processes killed at random, a few in every run of the tests; `make kills` kills a thousand."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from amends.contracts.enums import Mode
from amends.testing import kills
from amends.testing.effects import Arrival, FileLedger
from amends.testing.errands import Answer
from amends.testing.kills import Broken, World, kill_many
from amends.testing.reckoning import doubled, lost, unended
from amends.testing.snapshots import Snapshot
from amends.testing.workbench import Workbench

KILLS: Final = 40
SEED: Final = 7


@pytest.mark.fault(2, 3, 4, 5)
@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-ACT-1", "TX-RECON-2", "TX-REV-4")
async def test_forty_random_kills_double_nothing_and_lose_nothing() -> None:
    said: list[str] = []
    killed = await kill_many(KILLS, SEED, say=said.append)
    assert killed.total() == KILLS
    assert {mode for mode, _ in killed} == {
        Mode.EXECUTE,
        Mode.COMMIT,
        Mode.COMPENSATE,
        Mode.RECONCILE,
    }
    assert said[-1].startswith(f"{KILLS} of {KILLS} kills")


def test_what_is_broken_is_told_with_its_story_and_how_to_play_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(world: World, many: int) -> None:
        raise Broken(11, many, ["txn_1 is left committing"], ["Execute", "killed"])

    monkeypatch.setattr(World, "play", broken)
    assert kills.main(["--kills", "1", "--seed", "11"]) == 1
    told = capsys.readouterr().out
    assert "killed" in told
    assert "txn_1 is left committing" in told
    assert "Again: python -m amends.testing.kills --kills 1 --seed 11" in told


async def test_an_answer_that_the_store_does_not_bear_out_counts_as_lost() -> None:
    async with Workbench() as bench:
        done = await bench.alice.execute("payments.charge", {"amount": 5})
        plan = await bench.alice.plan("payments.charge", {"amount": 5})
        there = await bench.snapshot()
    heard = Answer(transaction_id=done.transaction_id, status="committed", revision=done.revision)
    assert lost([heard], there) == []
    assert unended(there) == []
    gone = msgspec.structs.replace(there, records=())
    assert len(lost([heard], gone)) == 1
    older = _changed(there, done.transaction_id, revision=0)
    assert len(lost([heard], older)) == 1
    other = msgspec.structs.replace(heard, status="compensated")
    assert len(lost([other], there)) == 1
    open_still = _changed(there, plan.transaction_id, status="committing")
    assert unended(open_still) == [f"{plan.transaction_id} is left committing"]


async def test_money_that_moved_twice_for_one_action_is_noticed(tmp_path: Path) -> None:
    async with Workbench() as bench:
        done = await bench.alice.execute("payments.charge", {"amount": 5})
        there = await bench.snapshot()
    (record,) = there.records
    ledger = FileLedger(tmp_path / "provider.jsonl")
    for times, told in ((1, []), (2, [f"{done.action_id} moved money 2 times"])):
        ledger.append(lambda: Arrival(kind="charge", key=record.provider_key, amount=5))
        assert (times, doubled(there, ledger)) == (times, told)


def _changed(snapshot: Snapshot, transaction_id: str, **changes: object) -> Snapshot:
    return msgspec.structs.replace(
        snapshot,
        records=tuple(
            msgspec.structs.replace(one, **changes) if one.transaction_id == transaction_id else one
            for one in snapshot.records
        ),
    )
