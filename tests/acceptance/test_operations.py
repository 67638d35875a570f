"""Backups under load, and processes that die in the middle of a restore or after a spill."""

import signal
from pathlib import Path

import pytest

from amends.cli import exits
from amends.testing.errands import Execute, run_errand
from amends.testing.till import Setup, open_till
from tests.acceptance.children import Child, stored
from tests.acceptance.command_line import WAIT_S, amends, integrity, start
from tests.acceptance.disk_full_app import BOOKS


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(store=str(tmp_path / "amends.db"), ledger=str(tmp_path / "provider.jsonl"))


@pytest.mark.case("SQL-04")
async def test_a_backup_of_a_store_under_load_is_whole(setup: Setup, tmp_path: Path) -> None:
    store = f"sqlite:///{setup.store}"
    with Child(setup) as worker:
        worker.ask(Execute(action_id="act_0"))
        worker.tell(*(Execute(action_id=f"act_{number}") for number in range(1, 60)))
        for number in range(3):
            backup = str(tmp_path / f"{number}.db")
            assert amends("backup", backup, "--store", store)[0] == exits.OK
            assert amends("verify", "--store", f"sqlite:///{backup}")[0] == exits.OK
        worker.answers()
    assert amends("verify", "--store", store)[0] == exits.OK


@pytest.mark.case("SQL-04")
async def test_a_kill_half_way_through_a_restore_leaves_the_store_as_it_was(
    setup: Setup, tmp_path: Path
) -> None:
    store, backup = f"sqlite:///{setup.store}", str(tmp_path / "b.db")
    async with open_till(setup) as till:
        for number in range(20):
            await run_errand(till, Execute(action_id=f"act_{number}"))
        lineage = await till.store.lineage()
    amends("backup", backup, "--store", store)
    async with open_till(setup) as till:
        await run_errand(till, Execute(action_id="act_x", transaction_id="txn_x"))
    with start("restore", backup, setup.store) as dying:
        assert dying.wait(WAIT_S) == -signal.SIGKILL
    async with open_till(setup) as till:
        assert await till.store.lineage() == lineage
        found = await stored(till, "txn_x")
        assert found is not None
        assert found.document.status == "committed"
        assert await till.check() == []
    assert integrity(Path(setup.store)) == "ok"
    assert amends("restore", backup, "--store", store, "--yes")[0] == exits.OK


@pytest.mark.case("RST-01")
def test_a_kill_after_the_spill_loses_nothing(tmp_path: Path) -> None:
    store, books = f"sqlite:///{tmp_path}/amends.db", str(tmp_path / "books")
    with start("spill", tmp_path / "amends.db", **{BOOKS: books}) as dying:
        heard, _ = dying.communicate(timeout=WAIT_S)
        assert dying.returncode == -signal.SIGKILL
    code, kept_in = heard.split()
    assert code == "transaction.settlement_not_stored"
    assert (tmp_path / kept_in).is_file()
    assert amends("doctor", "--store", store)[0] == exits.OK
    _, said = amends("tx", "show", "txn_1", "--store", store)
    assert said["data"]["result"]["verdict"] == "committed"
    assert amends("verify", "--store", store)[0] == exits.OK
    assert Path(books).read_text().count("\n") == 1
