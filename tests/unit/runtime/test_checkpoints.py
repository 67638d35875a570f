"""Checkpoints through the engine: durable inside the attempt, never replaced, never lost."""

import asyncio
from pathlib import Path

import pytest

from amends.connectors.port import Attempt
from amends.connectors.signals import Partial
from amends.contracts.declarations import ServiceLevelContract
from amends.contracts.documents import Correction, TransactionRecord
from amends.contracts.enums import Handler, Mode, Status, Verdict
from amends.contracts.errors import Unavailable
from amends.contracts.outcomes import Applied, NotApplied
from amends.stores.port import ChangeSet, Stored
from amends.testing.refusals import refused_with
from amends.testing.workbench import TENANT, Workbench
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    OPERATION,
    OTHER,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    claim,
    records,
    replaced,
)


@pytest.mark.rule("TX-CHECKPOINT-1")
async def test_a_checkpoint_is_durable_when_it_returns(place: Path | None) -> None:
    seen: list[TransactionRecord] = []

    async def notes(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1", request_id="req_1", cursor="c1")
        seen.extend(await records(bench))
        await attempt.checkpoint("desk", "op_1")
        await attempt.checkpoint("desk", "op_1", cursor="c2")
        seen.extend(await records(bench))
        return DONE

    async with Workbench(served=[Desk([notes]).served()], file=place) as bench:
        done = await ask(bench, action())
        first, moved = seen
        assert first.provider_operation is not None
        assert first.provider_operation.request_id == "req_1"
        assert (first.cursor, moved.cursor) == ("c1", "c2")
        assert moved.revision == first.revision + 1
        assert done.provider_operation == first.provider_operation
        assert await chain(bench, done) == [
            "execution_started",
            "provider_accepted",
            "provider_accepted",
            "dispatched",
            "committed",
        ]


@pytest.mark.rule("TX-CHECKPOINT-1")
@pytest.mark.parametrize("mode", [Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE])
async def test_a_crash_after_a_checkpoint_keeps_the_reference_for_the_look_up(mode: Mode) -> None:
    reached = asyncio.Event()

    async def dies(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1", cursor="c1")
        reached.set()
        await asyncio.Event().wait()
        return DONE

    compensating = mode is Mode.COMPENSATE
    desk = Desk([DONE if compensating else dies], compensate=[dies], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        if compensating:
            target = await ask(bench, action())
            asked = action(mode, target=target.action_id, transaction="txn_1", input={})
        elif mode is Mode.COMMIT:
            await ask(bench, action(Mode.PLAN, plan="plan_1", transaction="txn_1"))
            asked = action(mode, plan="plan_1")
        else:
            asked = action(transaction="txn_1")
        waits = asyncio.ensure_future(ask(bench, asked))
        await reached.wait()
        waits.cancel()
        await bench.restart()
        bench.wait(36)
        await bench.sweep()
        lost = await bench.record("txn_1")
        assert (lost.status, lost.cursor) == (Status.OUTCOME_UNKNOWN, "c1")
        bench.wait(6)
        await bench.sweep()
        looked = desk.seen[-1]
        assert looked.call.handler is Handler.RECONCILE
        assert looked.provider_operation is not None
        assert (looked.provider_operation.operation_id, looked.cursor) == ("op_1", "c1")
        assert (await bench.record("txn_1")).status is Status.RECONCILED


@pytest.mark.rule("TX-CHECKPOINT-1")
@pytest.mark.parametrize(
    ("provider", "id_"), [("", "op"), ("desk", ""), ("desk", " "), ("d", "\n")]
)
async def test_an_empty_or_unprintable_reference_is_refused(provider: str, id_: str) -> None:
    async def notes(attempt: Attempt) -> object:
        with refused_with("input.invalid_id"):
            await attempt.checkpoint(provider, id_)
        return DONE

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        done = await ask(bench, action())
        assert (done.status, done.provider_operation) == ("committed", None)


@pytest.mark.rule("TX-CHECKPOINT-1")
async def test_odd_request_ids_and_cursors_do_not_cost_the_reference(place: Path | None) -> None:
    async def notes(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1", request_id="\ud800", cursor="\udc00")
        await attempt.checkpoint("desk", "op_1", cursor="x" * 5_000)
        return DONE

    async with Workbench(served=[Desk([notes]).served()], file=place) as bench:
        done = await ask(bench, action())
        assert done.provider_operation is not None
        assert (done.provider_operation.operation_id, done.cursor) == ("op_1", None)
        assert done.provider_operation.request_id == "'\\ud800'"


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.fault(10)
async def test_a_second_reference_is_evidence_of_two_effects_and_settles_unknown() -> None:
    heard: list[str] = []

    async def notes(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1")
        for _ in range(2):
            with refused_with("transaction.provider_operation_conflict") as caught:
                await attempt.checkpoint("desk", "op_2")
            heard.append(caught.error.code)
        return DONE

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        made = await ask(bench, action())
        record = await bench.record(made)
        assert (record.status, record.attention) == (
            Status.OUTCOME_UNKNOWN,
            "two_provider_operations",
        )
        assert record.provider_operation is not None
        assert record.provider_operation.operation_id == "op_1"
        assert [one.operation for one in record.evidence] == [OTHER]
        assert record.error is not None
        assert record.error.code == "transaction.provider_operation_conflict"
        kinds = await chain(bench, made)
        assert kinds.count("evidence_kept") == 1  # a string enumeration
        assert (await bench.sweep()).total == 0


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.fault(10)
async def test_an_answer_that_names_another_operation_than_the_checkpoint_is_unknown() -> None:
    async def notes(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1")
        return Applied(output=DONE, operation=OTHER)

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.attention) == ("outcome_unknown", "two_provider_operations")
        assert made.provider_operation == OPERATION


def no_room(bench: Workbench) -> None:
    """Let the bench's next change set fail."""

    async def full() -> None:
        raise Unavailable("store.unavailable", "The disk is full.")

    before_next_write(bench, full)


@pytest.mark.rule("TX-CHECKPOINT-2")
@pytest.mark.parametrize("end", [DONE, ConnectionResetError(), NotApplied(error=DECLINED)])
async def test_a_checkpoint_that_could_not_be_written_travels_in_the_settlement(
    end: object,
) -> None:
    async def notes(attempt: Attempt) -> object:
        no_room(bench)
        with refused_with("store.unavailable"):
            await attempt.checkpoint("desk", "op_1")
        if isinstance(end, BaseException):
            raise end
        return end

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        made = await ask(bench, action())
        assert made.provider_operation == OPERATION


@pytest.mark.rule("TX-CHECKPOINT-2")
async def test_a_checkpoint_broken_off_by_a_shutdown_travels_in_the_settlement() -> None:
    reached = asyncio.Event()

    async def notes(attempt: Attempt) -> object:
        async def meanwhile() -> None:
            reached.set()
            await asyncio.Event().wait()

        before_next_write(bench, meanwhile)
        await attempt.checkpoint("desk", "op_1")
        return DONE

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(transaction="txn_1")))
        await reached.wait()
        await bench.engine.close(1)
        made = await waits
        assert (made.status, made.provider_operation) == ("outcome_unknown", OPERATION)


@pytest.mark.rule("TX-CHECKPOINT-2")
async def test_a_checkpoint_of_a_look_up_that_could_not_be_written_travels_too() -> None:
    async def notes(attempt: Attempt) -> object:
        no_room(bench)
        with refused_with("store.unavailable"):
            await attempt.checkpoint("desk", "op_1")
        return UNSURE

    async with Workbench(served=[Desk([UNSURE], reconcile=[notes]).served()]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        assert (looked.status, looked.provider_operation) == ("outcome_unknown", OPERATION)


@pytest.mark.rule("TX-CHECKPOINT-2")
async def test_an_attempt_past_its_time_limit_may_still_fill_an_empty_reference() -> None:
    done = asyncio.Event()

    async def slow(attempt: Attempt) -> object:
        await attempt.cancelled.wait()
        await asyncio.sleep(0.01)
        await attempt.checkpoint("desk", "op_1", cursor="c1")
        done.set()
        return UNSURE

    level = ServiceLevelContract(timeout_ms=5)
    desk = Desk([slow], reconcile=[DONE])
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.provider_operation) == ("outcome_unknown", None)
        await done.wait()
        record = await bench.record(made)
        assert (record.status, record.provider_operation) == (Status.OUTCOME_UNKNOWN, OPERATION)
        bench.wait(5)
        assert (await bench.sweep()).reconciled == 1
        assert desk.seen[-1].provider_operation == OPERATION


@pytest.mark.rule("TX-CHECKPOINT-2")
async def test_a_checkpoint_of_an_attempt_that_another_has_followed_is_refused() -> None:
    heard: list[str] = []
    go_on, done = asyncio.Event(), asyncio.Event()

    async def slow(attempt: Attempt) -> object:
        await go_on.wait()
        with refused_with("transaction.checkpoint_refused") as caught:
            await attempt.checkpoint("desk", "op_1")
        heard.append(str(caught.error.details["status"]))
        done.set()
        return UNSURE

    async def looks(_attempt: Attempt) -> object:
        go_on.set()
        await done.wait()
        return UNSURE

    level = ServiceLevelContract(timeout_ms=20)
    desk = Desk([slow], reconcile=[looks])
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        await bench.alice.reconcile(made)
        assert heard == ["reconciling"]
        assert (await bench.record(made)).provider_operation is None


@pytest.mark.rule("TX-CHECKPOINT-2", "TX-REV-3", "TX-SETTLE-6")
@pytest.mark.fault(49)
async def test_a_second_reference_after_the_end_corrects_it_and_freezes_compensation() -> None:
    go_on, over = asyncio.Event(), asyncio.Event()
    heard: list[str] = []

    async def zombie(attempt: Attempt) -> object:
        await go_on.wait()
        with refused_with("transaction.checkpoint_refused") as caught:
            await attempt.checkpoint("desk", "op_2")
        heard.append(caught.error.code)
        over.set()
        return DONE

    async def finds(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_1")
        return DONE

    level = ServiceLevelContract(timeout_ms=10)
    desk = Desk([zombie], reconcile=[finds], compensate=[DONE])
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert (found.status, found.verdict) == ("reconciled", Verdict.COMMITTED)
        before = await bench.record(made)
        go_on.set()
        await over.wait()
        await bench.engine.close(40)
        page = await bench.store.list(Correction, TENANT)
        [kept] = [one.document for one in page.items if isinstance(one, Stored)]
        assert (kept.evidence.kind, kept.evidence.operation) == ("two_provider_operations", OTHER)
        assert await bench.record(made) == before
        await bench.restart()
        with refused_with("transaction.compensation_frozen"):
            await bench.alice.compensate(made)
        view = await bench.alice.get(made)
        assert [one.evidence.kind for one in view.corrections] == ["two_provider_operations"]
        assert (await chain(bench, made))[-1] == "correction"


@pytest.mark.rule("TX-CHECKPOINT-1")
async def test_the_same_reference_again_is_no_change_even_when_all_is_over() -> None:
    async with Workbench() as bench:
        running = await claim(bench, action(transaction="txn_1"))
        bench.engine.dispatch(running)
        done = await running.answer
        before = await bench.record("txn_1")
        assert done.provider_operation is not None
        await bench.engine._checkpoints.write(running, done.provider_operation, None)
        assert await bench.record("txn_1") == before


@pytest.mark.rule("TX-CHECKPOINT-1")
async def test_a_checkpoint_and_a_cancellation_at_once_both_count() -> None:
    async def notes(attempt: Attempt) -> object:
        async def overtaking() -> None:
            await bench.alice.cancel("act_1")

        before_next_write(bench, overtaking)
        await attempt.checkpoint("desk", "op_1")
        raise Partial("half")

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        made = await ask(bench, action(id="act_1"))
        assert (made.status, made.verdict) == ("failed", Verdict.PARTIAL)
        assert made.provider_operation == OPERATION


@pytest.mark.rule("TX-CHECKPOINT-2")
async def test_of_two_checkpoints_at_once_the_one_that_failed_is_not_forgotten() -> None:
    async def notes(attempt: Attempt) -> object:
        commit = bench.store.commit
        written = 0

        async def first_only(change_set: ChangeSet) -> object:
            nonlocal written
            written += 1
            if written == 1:
                await asyncio.sleep(0)
                return await commit(change_set)
            mend()
            raise Unavailable("store.unavailable", "The disk is full.")

        mend = replaced(bench, "commit", first_only)
        both = await asyncio.gather(
            attempt.checkpoint("desk", "op_1"),
            attempt.checkpoint("desk", "op_2"),
            return_exceptions=True,
        )
        assert isinstance(both[1], Unavailable)
        return DONE

    async with Workbench(served=[Desk([notes]).served()]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.attention) == ("outcome_unknown", "two_provider_operations")
        assert made.provider_operation == OPERATION
