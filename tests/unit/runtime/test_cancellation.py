"""Cancelling and withdrawing: one of two wins before the claim, nothing is masked after it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import ExecutionContract
from amends.contracts.enums import Mode, ResultStatus, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import PrincipalId
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, Workbench
from tests.unit.runtime.desk import (
    DONE,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    document,
)

CAROL = replace(ALICE, id=PrincipalId("carol"))


def guarded(desk: Desk, place: Path | None = None, **changes: object) -> Workbench:
    """The desk behind an approval."""
    return Workbench(served=[desk.served(approval=ApprovalPolicy(), **changes)], file=place)


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize("mode", [Mode.EXECUTE, Mode.COMMIT])
async def test_before_the_claim_cancelling_ends_the_action_and_leaves_the_plan(
    mode: Mode, place: Path | None
) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        await ask(bench, action(Mode.PLAN, plan="plan_1", transaction="txn_plan"))
        asked = action(mode, id="act_1", plan="plan_1" if mode is Mode.COMMIT else None)
        waiting = await ask(bench, asked)
        await bench.bob.approve(waiting)
        stopped = await bench.alice.cancel("act_1", reason="not now")
        assert stopped.result_status is ResultStatus.CANCELLED
        assert (await bench.record("txn_plan")).status is Status.PLANNED
        with refused_with("action.cancelled"):
            await ask(bench, asked)
        assert (await chain(bench, waiting.transaction_id))[-1] == "cancelled"
        again = await bench.alice.cancel("act_1")
        assert again.result_status is ResultStatus.CANCELLED
        assert desk.seen == []


@pytest.mark.rule("TX-CANCEL-1")
async def test_only_its_requester_or_an_operator_cancels_an_action() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        await ask(bench, action(id="act_1"))
        with refused_with("action.cancel_not_allowed"):
            await bench.acting_as(CAROL).cancel("act_1")
        with refused_with("action.not_found"):
            await bench.alice.cancel("act_9")
        stopped = await bench.olga.cancel("act_1")
        stored = await document(bench, "act_1")
        assert stored is not None
        assert stored.cancellation is not None
        assert (stopped.status, stored.cancellation.by.id) == ("cancelled", "olga")


@pytest.mark.rule("TX-CANCEL-1", "TX-CLAIM-1")
@pytest.mark.case("CXL-02")
@pytest.mark.parametrize("cancel_first", [True, False])
async def test_of_a_cancellation_and_a_claim_at_once_exactly_one_wins(
    cancel_first: bool, place: Path | None
) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        both = [bench.alice.cancel("act_1"), ask(bench, action(id="act_1"))]
        answers = await asyncio.gather(
            *(both if cancel_first else reversed(both)), return_exceptions=True
        )
        refused = [one.code for one in answers if isinstance(one, AmendsError)]
        record = await document(bench, "act_1")
        assert record is not None
        if refused:
            assert refused == ["action.cancelled"]
            assert (desk.seen, record.attempted) == ([], False)
        else:
            assert {getattr(one, "status", None) for one in answers} <= {"committed", "prepared"}
            assert (len(desk.seen), record.attempted) == (1, True)


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.parametrize("winner", ["cancel", "claim"])
async def test_whichever_is_written_first_decides(winner: str) -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)

        async def overtaking() -> None:
            if winner == "cancel":
                await bench.alice.cancel("act_1")
            else:
                await ask(bench, action(id="act_1"))

        before_next_write(bench, overtaking)
        if winner == "cancel":
            with refused_with("action.cancelled"):
                await ask(bench, action(id="act_1"))
            assert desk.seen == []
        else:
            late = await bench.alice.cancel("act_1")
            assert (late.status, len(desk.seen)) == ("committed", 1)


@pytest.mark.rule("TX-CANCEL-1")
@pytest.mark.case("CXL-02")
@pytest.mark.parametrize(
    ("confirms", "status", "result"),
    [
        (signals.NotApplied("stopped"), "cancelled", "cancelled"),
        (DONE, "committed", "completed"),
        (UNSURE, "outcome_unknown", None),
        (signals.Partial("half"), "failed", "failed"),
        (asyncio.CancelledError(), "outcome_unknown", None),
    ],
    ids=["confirmed", "done", "unknown", "partial", "gave up"],
)
async def test_after_the_claim_cancelling_is_a_request_that_hides_nothing(
    confirms: object, status: str, result: str | None
) -> None:
    entered = asyncio.Event()

    async def stops(attempt: Attempt) -> object:
        entered.set()
        await attempt.cancelled.wait()
        if isinstance(confirms, BaseException):
            raise confirms
        return confirms

    desk = Desk([stops])
    can = ExecutionContract(supports_cancel=True)
    async with Workbench(served=[desk.served(execution=can)]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(id="act_1", transaction="txn_1")))
        await entered.wait()
        meanwhile = await bench.alice.cancel("act_1")
        assert meanwhile.status in ("prepared", status)
        again = await bench.alice.cancel("act_1")
        assert again.transaction_id == "txn_1"
        made = await waits
        assert (made.status, made.result_status) == (status, result)
        kinds = await chain(bench, "txn_1")
        assert kinds.count("cancellation_requested") == 1
        record = await bench.record("txn_1")
        assert (record.verdict is Verdict.NOT_COMMITTED) == (status == "cancelled")


@pytest.mark.rule("TX-CANCEL-1")
async def test_a_connector_that_cannot_be_stopped_is_not_told_to() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def works(attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        assert not attempt.cancelled.is_set()
        return DONE

    async with Workbench(served=[Desk([works]).served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(id="act_1")))
        await entered.wait()
        await bench.alice.cancel("act_1")
        go_on.set()
        assert (await waits).status == "committed"


@pytest.mark.rule("TX-CANCEL-1")
async def test_cancelling_what_has_ended_returns_its_real_outcome(place: Path | None) -> None:
    desk = Desk([DONE, UNSURE])
    async with Workbench(served=[desk.served()], file=place) as bench:
        done = await ask(bench, action(id="act_1"))
        lost = await ask(bench, action(id="act_2"))
        before = await bench.record(done)
        real = await bench.alice.cancel(done)
        assert (real.status, real.output) == ("committed", DONE)
        assert await bench.record(done) == before
        still = await bench.alice.cancel(lost)
        assert (still.status, still.verdict) == ("outcome_unknown", None)


async def test_an_action_whose_attempt_runs_in_another_process_gets_the_mark_all_the_same() -> None:
    desk = Desk([UNSURE])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action(id="act_1"))
        await bench.restart()
        await bench.alice.cancel(made)
        stored = await document(bench, "act_1")
        assert stored is not None
        assert (stored.cancellation is not None, stored.result) == (True, None)


@pytest.mark.rule("TX-CANCEL-2")
async def test_a_plan_is_withdrawn_by_its_requester_or_an_operator_alone(
    place: Path | None,
) -> None:
    async with Workbench(file=place) as bench:
        for plan in ("plan_1", "plan_2"):
            await ask(bench, action(Mode.PLAN, plan=plan, transaction=f"txn_{plan}"))
        with refused_with("transaction.withdraw_not_allowed"):
            await bench.acting_as(CAROL).withdraw("txn_plan_1")
        with refused_with("transaction.not_found"):
            await bench.alice.withdraw("txn_9")
        mine = await bench.alice.withdraw("txn_plan_1")
        theirs = await bench.olga.withdraw("txn_plan_2")
        record = await bench.record("txn_plan_1")
        assert (mine.status, theirs.status) == ("cancelled", "cancelled")
        assert (record.status, record.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
        with refused_with("transaction.withdraw_state_invalid"):
            await bench.alice.withdraw("txn_plan_1")
        with refused_with("transaction.plan_not_committable"):
            await bench.alice.commit("plan_1")
        assert (await chain(bench, "txn_plan_1")) == ["planned", "plan_withdrawn"]
        assert (await bench.sweep()).total == 0
        assert await bench.check() == []


@pytest.mark.rule("TX-CANCEL-2", "TX-CLAIM-1")
async def test_a_withdrawal_and_a_commit_at_once_do_not_both_happen(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        await ask(bench, action(Mode.PLAN, plan="plan_1", transaction="txn_1"))
        answers = await asyncio.gather(
            bench.alice.withdraw("txn_1"),
            ask(bench, action(Mode.COMMIT, plan="plan_1")),
            return_exceptions=True,
        )
        lost = [one.code for one in answers if isinstance(one, AmendsError)]
        record = await bench.record("txn_1")
        assert len(lost) == 1
        assert (record.status is Status.COMMITTED) == (bench.provider.charges == 1)
        assert await bench.check() == []


@pytest.mark.rule("TX-CANCEL-2")
async def test_a_waiting_commit_of_a_withdrawn_plan_shows_that_it_is_cancelled() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        plan = await ask(bench, action(Mode.PLAN))
        waiting = await bench.alice.commit(plan)
        await bench.alice.withdraw(plan)
        view = await bench.alice.get(waiting)
        assert view.result.status == "cancelled"
        await bench.bob.approve(waiting)
        with refused_with("transaction.plan_not_committable"):
            await bench.alice.resume(waiting)
        assert desk.seen == []


@pytest.mark.rule("TX-CANCEL-2", "TX-REV-1")
async def test_a_withdrawal_that_is_overtaken_by_the_commit_is_refused() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(Mode.PLAN, plan="plan_1", transaction="txn_1"))

        async def overtaking() -> None:
            await bench.alice.commit("plan_1")

        before_next_write(bench, overtaking)
        with refused_with("transaction.withdraw_state_invalid"):
            await bench.alice.withdraw("txn_1")
        assert (await bench.record("txn_1")).status is Status.COMMITTED
