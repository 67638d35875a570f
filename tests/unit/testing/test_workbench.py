"""The bench: time and ids in the test's hands, restarts that cut the old life off, fixtures."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from amends.contracts.enums import Status
from amends.testing import faults
from amends.testing.clock import START
from amends.testing.snapshots import take_snapshot
from amends.testing.workbench import CHARGE, Workbench


async def test_two_benches_tell_the_same_story() -> None:
    told = []
    for _ in range(2):
        async with Workbench() as bench:
            await bench.alice.execute(CHARGE, {"amount": 5}, transaction_id="txn_1")
            told.append(await bench.snapshot())
    assert told[0].documents == told[1].documents
    assert told[0].records[0].created_at == START


async def test_time_moves_only_when_told_to() -> None:
    async with Workbench() as bench:
        before = await bench.store.now()
        await asyncio.sleep(0.01)
        assert await bench.store.now() == before
        bench.wait(1.5)
        assert (await bench.store.now() - before).total_seconds() == 1.5


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_restart_cuts_the_old_life_off_and_keeps_the_store(
    kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "amends.db" if kind == "sqlite" else None
    async with Workbench([faults.never()], file=file) as bench:
        old = bench.engine
        waits = asyncio.ensure_future(
            bench.alice.execute(CHARGE, {"amount": 5}, transaction_id="txn_1")
        )
        await asyncio.sleep(0.01)
        assert bench.provider.charges == 1
        await bench.restart()
        with pytest.raises(Exception, match="settlement_not_stored"):
            await waits
        assert bench.engine is not old
        assert bench.engine.environment.owner != old.environment.owner
        assert (await bench.record("txn_1")).status is Status.PREPARED
        bench.wait(36)
        assert (await bench.sweep()).lapsed == 1


async def test_a_restart_may_bring_other_code() -> None:
    async with Workbench() as bench:
        await bench.restart([])
        with pytest.raises(Exception, match="no such capability"):
            await bench.alice.execute(CHARGE, {"amount": 5})


async def test_a_snapshot_reads_every_tenant_and_every_page() -> None:
    async with Workbench() as bench:
        for n in range(70):
            await bench.alice.execute(CHARGE, {"amount": 5}, transaction_id=f"txn_{n}")
        await bench.eve.execute(CHARGE, {"amount": 5}, transaction_id="txn_1")
        snapshot = await take_snapshot(bench.store)
        assert (len(snapshot.records), len(snapshot.feed)) == (71, 284)
        assert {one.tenant for one in snapshot.records} == {"acme", "globex"}
        assert len(snapshot.chains) == 71


def test_the_fixtures_load_as_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["amends.testing.fixtures"]\n')
    (tmp_path / "test_mine.py").write_text(
        """
import pytest

@pytest.mark.asyncio
async def test_it(workbench, make_workbench, clock, ids, provider):
    done = await workbench.alice.execute("payments.charge", {"amount": 5})
    assert (done.status, provider.charges) == ("committed", 1)
    assert workbench.clock is clock
    other = await make_workbench(plan_ttl_ms=1_000)
    assert (await other.alice.plan("payments.charge", {"amount": 5})).status == "planned"
    assert ids("act_") == "act_00000000000000000000000000000001"
"""
    )
    source = Path(__file__).parents[3] / "src"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(source), "PATH": ""},
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
