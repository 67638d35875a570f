"""A capability whose worker is on another machine, through the whole engine, on the loopback."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from amends import RemoteWorker, worker_capability
from amends.contracts.enums import Status, Verdict, WireStatus
from amends.contracts.errors import Misuse, Unavailable
from amends.contracts.worker_payload import Failed
from amends.host.link import EntryRuling
from amends.testing.workbench import Workbench
from amends.transports.tls_files import TlsFiles
from amends.wiring.workers import WorkerPlace, close_by_hand
from tests.unit.host.loop_worker import WITHDRAWAL, Release, Withdrawal
from tests.unit.transports.certificates import HOST, STRANGER, WORKER, files
from tests.unit.wiring.machines import Machines, published
from tests.unit.worker.stage import GRANT

LATER_S: Final = 3600.0


@pytest.mark.rule("INT-1", "INT-5")
async def test_a_worker_elsewhere_publishes_and_withdraws_once(machines: Machines) -> None:
    async with machines.supervised(), machines.bench() as bench:
        done = await published(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
    assert (done.status, undone.status) == (WireStatus.COMMITTED, WireStatus.COMPENSATED)
    assert list(machines.provider.effects.values()) == [1, 1]


@pytest.mark.rule("INT-2", "INT-5")
async def test_a_host_that_the_worker_refuses_has_asked_nothing_and_recorded_nothing(
    machines: Machines,
) -> None:
    files(machines.folder / "host", STRANGER, WORKER)
    async with machines.supervised(), machines.bench() as bench:
        record = await bench.record(await published(bench))
    assert (record.status, record.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
    assert record.provider_operation is None
    assert machines.provider.entered == {}


@pytest.mark.rule("INT-2", "INT-5")
async def test_another_secret_is_a_failure_before_anything_was_asked(machines: Machines) -> None:
    files(machines.folder / "host", HOST, WORKER, secret="6f" * 32)
    async with machines.supervised(), machines.bench() as bench:
        record = await bench.record(await published(bench))
    assert (record.status, record.provider_operation) == (Status.FAILED, None)
    assert machines.provider.entered == {}


@pytest.mark.rule("INT-5")
async def test_a_worker_that_is_being_started_is_waited_for(machines: Machines) -> None:
    async with machines.bench() as bench:
        asking = asyncio.ensure_future(published(bench))
        await asyncio.sleep(0.3)
        assert not asking.done()
        async with machines.supervised():
            assert (await asking).status is WireStatus.COMMITTED


@pytest.mark.rule("INT-5")
async def test_attempts_that_come_together_take_turns(machines: Machines) -> None:
    async with machines.supervised(), machines.bench() as bench:
        done = await asyncio.gather(*(published(bench) for _ in range(3)))
    assert {one.status for one in done} == {WireStatus.COMMITTED}
    assert list(machines.provider.effects.values()) == [1, 1, 1]


@pytest.mark.rule("INT-2", "INT-5")
async def test_a_tenant_without_a_worker_is_refused_before_anything_is_recorded(
    machines: Machines,
) -> None:
    other = RemoteWorker({"globex": machines.address}, machines.folder / "state", machines.host)
    machines.remote = other
    async with machines.bench() as bench:
        record = await bench.record(await published(bench))
    assert record.error is not None
    assert (record.status, record.error.code) == (Status.FAILED, "worker.tenant_unserved")


@pytest.mark.rule("INT-2", "INT-5")
async def test_a_channel_that_breaks_behind_the_request_leaves_the_outcome_unknown(
    machines: Machines,
) -> None:
    async def hang_up(_: object) -> None:
        await machines.transports[-1].close()

    machines.provider.after = hang_up
    async with machines.supervised(), machines.bench() as bench:
        done = await published(bench)
        assert done.status is WireStatus.OUTCOME_UNKNOWN
        machines.provider.after = None
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert list(machines.provider.effects.values()) == [1]


@pytest.mark.rule("INT-3", "INT-5")
async def test_a_journal_elsewhere_is_ruled_on_there_and_reconciled_here(
    machines: Machines,
) -> None:
    asked: list[bool] = []

    def verify(question: object, _: object) -> bool:
        asked.append(True)
        return len(asked) != 3  # not right before it would be sealed

    made = worker_capability(
        GRANT.tool, worker=machines.remote, grant=GRANT, input=Release, inverse=Withdrawal
    )
    made.verify_compensation(verify)
    async with machines.supervised(), Workbench(served=[made.build()]) as bench:
        done = await published(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        with pytest.raises(Unavailable) as elsewhere:
            await bench.olga.settle(
                undone.transaction_id,
                Verdict.NOT_COMMITTED,
                reference="ticket 7",
                note="it is still there",
                accept_risk=True,
            )
        named = elsewhere.value.details
        assert elsewhere.value.code == "worker.journal_elsewhere"
        assert (await bench.record(undone)).status is Status.OUTCOME_UNKNOWN
        await asyncio.to_thread(rule_there, machines.place, named)
        bench.wait(LATER_S)
        await bench.olga.reconcile(undone, insist=True)
        record = await bench.record(undone)
    await machines.remote.aclose()
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.NOT_COMMITTED)
    assert machines.provider.entered["compensate"] == 0


def rule_there(place: WorkerPlace, named: Mapping[str, Any]) -> None:
    told = {key: value for key, value in named.items() if key != "scope"}
    assert named["scope"] == place.scope
    close_by_hand(
        place,
        EntryRuling(
            **told, ending=Failed("it is still there"), who="olga", why="seen", evidence="ticket 7"
        ),
    )


@pytest.mark.rule("INT-5")
def test_nothing_is_claimed_about_a_container_that_nobody_can_see(machines: Machines) -> None:
    report = machines.remote.report
    assert report.summary == "Not known: the worker runs on another machine."
    assert report.document()["contained"] is None
    assert not report.contained


def test_an_address_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    nothing = TlsFiles(certificate="", private_key="", peers="", secret="")
    with pytest.raises(Misuse, match="tls_address"):
        RemoteWorker({"default": "worker.example:7443"}, tmp_path, nothing)
