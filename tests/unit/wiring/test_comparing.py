"""A journal beside the ledgers of its host: what agrees, and what nobody claims."""

import asyncio
import shutil
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from amends.contracts.enums import WireStatus
from amends.ledger.records import LedgerState
from amends.testing.refusals import refused_with
from amends.wiring.comparing import Standing, compare
from amends.wiring.hosts import Ledgers
from amends.worker.adapters import Call
from tests.unit.host.loop_worker import WITHDRAWAL
from tests.unit.wiring.machines import Machines, published
from tests.unit.wiring.sides import DID_NOT, DONE, Sides


@pytest.mark.case("CMP-08")
async def test_a_late_success_that_the_host_forgot_is_shown_as_an_orphan(
    machines: Machines,
) -> None:
    """The host gave up, then lost its ledgers; only then did the effect come about."""
    going = asyncio.Event()

    async def late(_: Call) -> None:
        await machines.transports[-1].close()
        await going.wait()

    async with machines.supervised(), machines.bench() as bench:
        first = await published(bench)
        await bench.alice.compensate(first, WITHDRAWAL)
        machines.provider.before = late
        lost = await published(bench)
        assert lost.status is WireStatus.OUTCOME_UNKNOWN
        going.set()
        await asyncio.sleep(0.2)
    host = machines.folder / "state" / "host"
    assert [one.standing for one in compare(machines.place, host)] == [
        Standing.AGREED,
        Standing.AGREED,
        Standing.AHEAD,
    ]
    shutil.rmtree(host)
    machines.remote.initialise()
    orphans = compare(machines.place, host)
    assert [one.standing for one in orphans] == [Standing.ORPHAN] * 3
    assert [one.journal for one in orphans] == [LedgerState.SUCCEEDED] * 3
    assert [one.compensation_key is not None for one in orphans] == [False, True, False]
    assert list(machines.provider.effects.values()) == [1, 1, 1]


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


STORIES: Final = (
    (DONE, LedgerState.SUCCEEDED, Standing.AGREED),
    (DONE, LedgerState.PENDING, Standing.AHEAD),
    (DID_NOT, LedgerState.RUNNING, Standing.AHEAD),
    (DONE, LedgerState.FAILED, Standing.CONTRADICTED),
    (DID_NOT, LedgerState.SUCCEEDED, Standing.CONTRADICTED),
    (DONE, None, Standing.ORPHAN),
    (None, LedgerState.PENDING, None),
)


def test_each_entry_of_the_journal_stands_to_the_ledgers_in_one_way(sides: Sides) -> None:
    expected = {sides.story(*told[:2]): told[2] for told in STORIES}
    found = sides.compared()
    assert found == {key: one for key, one in expected.items() if one is not None}


def test_comparing_takes_no_fence_and_changes_nothing(sides: Sides) -> None:
    sides.story(DONE, LedgerState.PENDING)
    with closing(Ledgers.open(sides.ledgers)) as ledgers:
        held = ledgers.opener("release-1")()
        sides.compared()
        held.save(held.payload)


def test_a_ledger_that_was_put_back_is_not_compared_with(sides: Sides) -> None:
    sides.story(DONE, LedgerState.PENDING)
    (file,) = [one for one in (sides.ledgers / "workflow-ledger").iterdir() if not one.suffix]
    before = file.read_bytes()
    with closing(Ledgers.open(sides.ledgers)) as ledgers:
        held = ledgers.opener("release-1")()
        held.save(held.payload)
    file.write_bytes(before)
    with refused_with("sealed.rolled_back"):
        sides.compared()
