"""Ends of a process, of a caller, of patience: attempts go on, or are left recoverable."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.declarations import ServiceLevelContract
from amends.contracts.documents import Document
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.ids import TenantId
from amends.contracts.outcomes import Applied
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import Workbench
from tests.unit.runtime.desk import (
    DONE,
    OPERATION,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    records,
    replaced,
)


@pytest.mark.rule("TX-SETTLE-4")
async def test_a_caller_that_goes_away_does_not_stop_its_attempt(place: Path | None) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([slow])
    async with Workbench(served=[desk.served()], file=place) as bench:
        asked = action(id="act_1", transaction="txn_1")
        waits = asyncio.ensure_future(ask(bench, asked))
        await entered.wait()
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        go_on.set()
        await bench.engine.close(1_000)
        assert (await bench.record("txn_1")).status is Status.COMMITTED
        await bench.restart()
        again = await ask(bench, asked)
        assert (again.replayed, again.output, len(desk.seen)) == (True, DONE, 1)


@pytest.mark.rule("TX-PIPE-5")
@pytest.mark.parametrize("turns", range(12))
async def test_a_caller_that_goes_away_at_any_turn_leaves_no_claim_without_its_call(
    turns: int, tmp_path: Path
) -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()], file=tmp_path / "amends.db") as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        for _ in range(turns):
            await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        await bench.engine.close(1_000)
        assert {one.status for one in await records(bench)} <= {Status.COMMITTED}
        assert len(desk.seen) == len(await records(bench))


@pytest.mark.case("STK-07", "STK-08")
@pytest.mark.rule("TX-LEASE-2", "TX-SETTLE-4")
@pytest.mark.fault(45)
@pytest.mark.parametrize("killed", [False, True])
async def test_a_kind_end_and_a_hard_one_leave_the_same_kind_of_state(
    killed: bool, place: Path | None
) -> None:
    entered = asyncio.Event()

    async def hangs(_attempt: Attempt) -> object:
        entered.set()
        await asyncio.Event().wait()
        return DONE

    desk = Desk([hangs], reconcile=[DONE])
    async with Workbench(served=[desk.served()], file=place) as bench:
        await ask(bench, action(Mode.PLAN, plan="plan_1", transaction="txn_1"))
        waits = asyncio.ensure_future(ask(bench, action(Mode.COMMIT, plan="plan_1")))
        await entered.wait()
        if not killed:
            await bench.engine.close(1)
            made = await waits
            assert made.error is not None
            assert (made.status, made.error.code) == (
                "outcome_unknown",
                "transaction.attempt_interrupted",
            )
        await bench.restart()
        await asyncio.gather(waits, return_exceptions=True)
        bench.wait(36)
        await bench.sweep()
        record = await bench.record("txn_1")
        assert record.status in (Status.OUTCOME_UNKNOWN, Status.RECONCILED)
        bench.wait(5)
        await bench.sweep()
        assert (await bench.record("txn_1")).verdict is Verdict.COMMITTED


@pytest.mark.case("STK-07")
async def test_what_ends_within_the_drain_is_settled_as_it_ended() -> None:
    entered = asyncio.Event()

    async def short(_attempt: Attempt) -> object:
        entered.set()
        await asyncio.sleep(0.01)
        return DONE

    desk = Desk([short])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action()))
        await entered.wait()
        await bench.engine.close(1_000)
        assert (await waits).status == "committed"
        with refused_with("runtime.closed"):
            await ask(bench, action())


@pytest.mark.case("STK-07")
async def test_an_answer_that_is_being_written_down_is_not_thrown_away_by_the_shutdown() -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def answers(_attempt: Attempt) -> object:
        async def meanwhile() -> None:
            writing.set()
            await go_on.wait()

        before_next_write(bench, meanwhile)
        return Applied(output=DONE, operation=OPERATION)

    desk = Desk([answers])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        await writing.wait()
        closing = asyncio.ensure_future(bench.engine.close(5))
        await asyncio.sleep(0.02)
        go_on.set()
        await closing
        made = await waits
        assert (made.status, made.output) == ("committed", DONE)


async def test_a_request_that_has_begun_when_the_runtime_closes_is_waited_for() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        get = bench.store.get
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def slow(type_: type[Document], tenant: TenantId, id_: str) -> object:
            reached.set()
            await go_on.wait()
            return await get(type_, tenant, id_)

        replaced(bench, "get", slow)
        waits = asyncio.ensure_future(ask(bench, action(id="act_1")))
        await reached.wait()
        closing = asyncio.ensure_future(bench.engine.close(1_000))
        await asyncio.sleep(0)
        go_on.set()
        await closing
        assert (await waits).status == "committed"


@pytest.mark.rule("TX-SETTLE-2")
async def test_an_attempt_is_told_to_stop_at_its_limit_and_broken_off_after_its_grace() -> None:
    told: list[str] = []
    over = asyncio.Event()

    async def stubborn(attempt: Attempt) -> object:
        await attempt.cancelled.wait()
        told.append("stop")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("broken off")
            over.set()
            raise
        return DONE

    desk = Desk([stubborn])
    level = ServiceLevelContract(timeout_ms=5)
    async with Workbench(served=[desk.served(service_level=level)], grace_ms=10) as bench:
        made = await ask(bench, action())
        assert made.error is not None
        assert (made.status, made.error.code) == ("outcome_unknown", "sla.timeout_exceeded")
        await over.wait()
        assert told == ["stop", "broken off"]
        assert (await bench.record(made)).status is Status.OUTCOME_UNKNOWN


async def test_a_handler_that_does_not_let_itself_be_broken_off_does_not_hold_up_the_end() -> None:
    entered, free = asyncio.Event(), asyncio.Event()

    async def stubborn(_attempt: Attempt) -> object:
        entered.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return DONE

    desk = Desk([stubborn])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        await entered.wait()
        # Less than no time to drain, so that the second it gives afterwards is short as well.
        closing = asyncio.ensure_future(bench.engine.close(-980))
        await asyncio.wait((closing,), timeout=1)
        assert closing.done()
        assert (await bench.record("txn_1")).status is Status.PREPARED
        free.set()
        assert (await waits).status == "committed"


@pytest.mark.case("STK-06")
@pytest.mark.rule("TX-LEASE-2")
async def test_recovery_adopts_nothing_that_its_own_process_runs() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([slow])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        await entered.wait()
        bench.wait(36)
        assert (await bench.sweep()).total == 0
        assert (await bench.record("txn_1")).status is Status.PREPARED
        go_on.set()
        assert (await waits).status == "committed"
        assert len(desk.seen) == 1


@pytest.mark.rule("TX-LEASE-1", "TX-LEASE-2", "TX-SETTLE-6")
@pytest.mark.case("FEN-01")
@pytest.mark.fault(20)
async def test_another_process_takes_a_lapsed_attempt_over_and_the_old_one_settles_late() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([slow], reconcile=[UNSURE])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        await entered.wait()
        bench.wait(36)
        other = Engine(replace(bench.engine.environment, owner="elsewhere"))
        assert (await Sweeper(other).sweep()).lapsed == 1
        bench.wait(5)
        await Sweeper(other).sweep()
        looked = await bench.record("txn_1")
        assert looked.attempt is not None
        assert (looked.status, looked.attempt.owner) == (Status.OUTCOME_UNKNOWN, "elsewhere")
        go_on.set()
        made = await waits
        record = await bench.record("txn_1")
        assert (made.status, made.verdict) == ("reconciled", Verdict.COMMITTED)
        assert record.attempt == looked.attempt
        assert [one.kind for one in record.evidence] == ["late_applied"]


async def test_a_time_limit_that_passes_while_the_answer_is_written_changes_nothing() -> None:
    async def answers(_attempt: Attempt) -> object:
        async def meanwhile() -> None:
            await asyncio.sleep(0.02)

        before_next_write(bench, meanwhile)
        return DONE

    desk = Desk([answers])
    level = ServiceLevelContract(timeout_ms=5)
    async with Workbench(served=[desk.served(service_level=level)], grace_ms=1) as bench:
        made = await ask(bench, action())
        assert made.status == "committed"


async def test_closing_an_idle_runtime_takes_no_time() -> None:
    async with Workbench([faults.none()]) as bench:
        await ask(bench, action())
        await asyncio.wait_for(bench.engine.close(10_000), 1)


@pytest.mark.fault(45)
async def test_the_word_to_stop_lets_what_was_begun_go_on_and_takes_nothing_new() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([slow])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action()))
        await entered.wait()
        bench.engine.stop_taking()
        with refused_with("runtime.closed"):
            await ask(bench, action())
        go_on.set()
        assert (await waits).status == "committed"
        assert len(desk.seen) == 1
