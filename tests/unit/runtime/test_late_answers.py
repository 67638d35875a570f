"""Answers that come late, cannot be kept, or meet another attempt: evidence, never lost."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.declarations import ServiceLevelContract
from amends.contracts.documents import ActionDocument, Correction, TransactionRecord
from amends.contracts.enums import Status, Verdict
from amends.contracts.errors import AmendsError, Conflict, Corrupt, Unavailable
from amends.contracts.outcomes import (
    Applied,
    NotApplied,
    NotFound,
    Partial,
)
from amends.receipts.verify import verify_chain
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.stores.port import Loss, Lost, Stored
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import TENANT, Workbench
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    LATER,
    OPERATION,
    OTHER,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    claim,
    document,
    hidden,
    replaced,
)


@pytest.mark.rule("TX-SETTLE-2", "TX-SETTLE-6")
@pytest.mark.case("P5X-03")
async def test_a_late_success_moves_an_unknown_outcome_to_reconciled_once() -> None:
    async with Workbench(
        [faults.late(0.02)], service_level=ServiceLevelContract(timeout_ms=5), grace_ms=1_000
    ) as bench:
        made = await ask(bench, action(id="act_1"))
        assert made.status == "outcome_unknown"
        await bench.engine.close(100)
        record, stored = await bench.record(made), await document(bench, "act_1")
        assert stored is not None
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert stored.result == record.result
        assert (await chain(bench, made))[-1] == "reconciled"
        assert await bench.check() == []


def late(
    answer: object, *, attempts_answer: object = DONE
) -> tuple[Desk, Workbench, asyncio.Event]:
    """A desk whose first attempt answers after its time limit, when told to go on."""
    go_on = asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        await go_on.wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    desk = Desk([slow], reconcile=[attempts_answer], compensate=[DONE])
    level = ServiceLevelContract(timeout_ms=10)
    return desk, Workbench(served=[desk.served(service_level=level)]), go_on


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize(
    ("answer", "status", "verdict"),
    [
        (DONE, "reconciled", "committed"),
        (Applied(output=DONE, operation=OPERATION), "reconciled", "committed"),
        (Partial(error=DECLINED), "reconciled", "partial"),
        (NotApplied(error=DECLINED), "reconciled", "not_committed"),
        (UNSURE, "outcome_unknown", None),
        (RuntimeError(), "outcome_unknown", None),
    ],
)
async def test_a_late_answer_counts_for_what_it_proves(
    answer: object, status: str, verdict: str | None
) -> None:
    _desk, bench, go_on = late(answer)
    async with bench:
        made = await ask(bench, action())
        assert made.status == "outcome_unknown"
        go_on.set()
        await bench.engine.close(40)
        record = await bench.record(made)
        assert (record.status, record.verdict) == (status, verdict)
        assert [one.kind for one in record.evidence] == [
            {
                "committed": "late_applied",
                "partial": "late_partial",
                "not_committed": "late_not_applied",
            }.get(str(verdict), "late_uncertain")
        ]


@pytest.mark.rule("TX-SETTLE-6", "TX-REV-3")
@pytest.mark.fault(49)
async def test_a_late_answer_against_a_terminal_record_corrects_it_without_moving_it() -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())
        await bench.olga.settle(
            made, "not_committed", reference="ledger 7", note="not there", accept_risk=True
        )
        before = await bench.record(made)
        go_on.set()
        await bench.engine.close(40)
        assert await bench.record(made) == before
        page = await bench.store.list(Correction, TENANT)
        [kept] = [one.document for one in page.items if isinstance(one, Stored)]
        assert kept.evidence.kind == "late_applied"
        assert (await chain(bench, made))[-1] == "correction"


@pytest.mark.rule("TX-SETTLE-6")
async def test_a_late_answer_that_agrees_with_a_terminal_record_changes_nothing() -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())
        bench.wait(5)
        await bench.alice.reconcile(made)
        before = await bench.snapshot()
        go_on.set()
        await bench.engine.close(40)
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-SETTLE-6")
async def test_a_late_answer_during_a_look_up_is_kept_and_examined_at_its_end() -> None:
    go_on, taken = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        await go_on.wait()
        return DONE

    async def looks(_attempt: Attempt) -> object:
        go_on.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert [one.kind for one in (await bench.record("txn_1")).evidence] == ["late_applied"]
        taken.set()
        return UNSURE

    desk = Desk([slow], reconcile=[looks])
    level = ServiceLevelContract(timeout_ms=20)
    bench = Workbench(served=[desk.served(service_level=level)])
    async with bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        found = await bench.alice.reconcile("txn_1")
        assert taken.is_set()
        assert (found.status, found.verdict) == ("reconciled", Verdict.COMMITTED)
        kinds = await chain(bench, "txn_1")
        assert kinds[-3:] == ["evidence_kept", "dispatched", "reconciled"]


@pytest.mark.rule("TX-SETTLE-6")
async def test_a_look_up_that_finds_the_effect_after_its_time_limit_is_believed() -> None:
    go_on = asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        await go_on.wait()
        return {"id": "found"}

    desk = Desk([UNSURE], reconcile=[slow])
    level = ServiceLevelContract(timeout_ms=5)
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        assert looked.status == "outcome_unknown"
        go_on.set()
        await bench.engine.close(40)
        record = await bench.record(made)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)


@pytest.mark.rule("TX-SETTLE-6")
@pytest.mark.parametrize("answer", [NotFound(), UNSURE, NotApplied(error=DECLINED)])
async def test_a_look_up_that_fails_after_its_time_limit_says_nothing(answer: object) -> None:
    go_on = asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        await go_on.wait()
        return answer

    desk = Desk([UNSURE], reconcile=[slow])
    level = ServiceLevelContract(timeout_ms=5)
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        await bench.alice.reconcile(made)
        before = await bench.snapshot()
        go_on.set()
        await bench.engine.close(40)
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-LEASE-1", "TX-SETTLE-6")
@pytest.mark.case("FEN-01")
async def test_an_attempt_that_outlived_its_lease_settles_as_a_late_answer() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    desk = Desk([slow])
    async with Workbench(served=[desk.served()]) as bench:
        waits = asyncio.ensure_future(ask(bench, action(id="act_1", transaction="txn_1")))
        await entered.wait()
        bench.wait(36)
        with refused_with("transaction.reconciliation_required"):
            await ask(bench, action(id="act_1", transaction="txn_1"))
        go_on.set()
        made = await waits
        assert (made.status, made.verdict) == ("reconciled", Verdict.COMMITTED)


class Broken:
    """Lets the bench's store fail in one method, from the next call on."""

    def __init__(self, bench: Workbench, method: str, error: Exception, skip: int = 0) -> None:
        self._real = getattr(bench.store, method)
        self._error = error
        self._skip = skip
        self._bench, self._method = bench, method
        setattr(bench.store, method, self)

    async def __call__(self, *args: object, **kwargs: object) -> object:
        if self._skip:
            self._skip -= 1
            return await self._real(*args, **kwargs)
        raise self._error

    def mend(self) -> None:
        """Work again."""
        setattr(self._bench.store, self._method, self._real)


GONE = Unavailable("store.unavailable", "The disk is gone.")
BAD = Corrupt("store.record_corrupt", "A row cannot be read.")


@pytest.mark.rule("TX-SETTLE-4", "TX-REV-4")
@pytest.mark.fault(23)
@pytest.mark.case("RST-01")
@pytest.mark.parametrize("error", [GONE, BAD, RuntimeError("a bug")])
async def test_an_answer_that_the_store_cannot_keep_is_an_unknown_outcome(
    error: Exception,
) -> None:
    broken: list[Broken] = []

    async def breaks(_attempt: Attempt) -> object:
        broken.append(Broken(bench, "commit", error))
        return Applied(output=DONE, operation=OPERATION)

    desk = Desk([breaks], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_1", transaction="txn_1")
        with pytest.raises(AmendsError) as caught:
            await ask(bench, asked)
        assert caught.value.family == "outcome_unknown"
        if isinstance(error, AmendsError):
            assert caught.value.code == "transaction.settlement_not_stored"
            assert caught.value.details == {
                "transaction_id": "txn_1",
                "provider_operation_id": "op_1",
            }
        broken[0].mend()
        assert (await bench.record("txn_1")).status is Status.PREPARED
        bench.wait(36)
        assert (await bench.sweep()).lapsed == 1
        bench.wait(5)
        await bench.sweep()
        assert (await bench.record("txn_1")).status is Status.RECONCILED
        assert len(desk.seen) == 2


@pytest.mark.fault(23)
@pytest.mark.rule("TX-PIPE-5")
async def test_a_store_that_fails_before_the_call_leaves_the_connector_unentered() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        running = await claim(bench, action(transaction="txn_1"))
        broken = Broken(bench, "now", GONE)
        bench.engine.dispatch(running)
        with refused_with("transaction.settlement_not_stored"):
            await running.answer
        broken.mend()
        assert desk.seen == []
        assert (await bench.record("txn_1")).status is Status.PREPARED


@pytest.mark.parametrize("error", [GONE, BAD, Conflict("store.contended", "Others were faster.")])
async def test_a_late_answer_that_cannot_be_kept_disturbs_nobody(error: AmendsError) -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())
        broken = Broken(bench, "get", error)
        go_on.set()
        await bench.engine.close(40)
        broken.mend()
        assert (await bench.record(made)).status is Status.OUTCOME_UNKNOWN
        assert {task.exception() for task in bench._tasks if task.done()} == {None}


@pytest.mark.rule("TX-SETTLE-6")
async def test_a_late_answer_that_is_overtaken_is_taken_on_what_is_there_then() -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())

        async def overtaking() -> None:
            await bench.olga.settle(made, "committed", reference="r", note="n")

        before_next_write(bench, overtaking)
        go_on.set()
        await bench.engine.close(40)
        record: TransactionRecord = await bench.record(made)
        assert (record.status, record.ruling is not None) == (Status.RECONCILED, True)


async def always_lost(_change_set: object) -> Lost:
    """A store in which somebody else is always faster."""
    return Lost(0, Loss.TAIL)


async def test_a_settlement_that_is_always_overtaken_says_that_it_was_not_stored() -> None:
    async def breaks(_attempt: Attempt) -> object:
        replaced(bench, "commit", always_lost)
        return DONE

    async with Workbench(served=[Desk([breaks]).served()]) as bench:
        with refused_with("transaction.settlement_not_stored"):
            await ask(bench, action())


async def test_a_request_that_is_always_overtaken_gives_up_and_has_changed_nothing() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        mend = replaced(bench, "commit", always_lost)
        with refused_with("store.contended"):
            await ask(bench, action())
        mend()
        assert (await bench.snapshot()).feed == ()
        assert desk.seen == []


@pytest.mark.rule("TX-SETTLE-6")
async def test_late_evidence_freezes_a_failure_that_could_have_been_tried_again() -> None:
    desk = Desk([NotApplied(error=LATER)])
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_1", transaction="txn_1", key="k")
        running = await claim(bench, asked)
        bench.engine.dispatch(running)
        await running.answer
        await bench.engine.settlement.late(running, Applied(output=DONE, operation=OTHER))
        record = await bench.record("txn_1")
        assert (record.status, record.frozen) == (Status.FAILED, "late_applied")
        with refused_with("transaction.frozen"):
            await ask(bench, asked)
        assert (await chain(bench, "txn_1"))[-2:] == ["frozen", "correction"]


@pytest.mark.rule("TX-SETTLE-6", "TX-LEASE-1")
@pytest.mark.case("FEN-01")
async def test_an_old_attempt_that_settles_during_anothers_look_up_is_evidence_for_it() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    old: list[asyncio.Future[object]] = []

    async def slow(_attempt: Attempt) -> object:
        entered.set()
        await go_on.wait()
        return DONE

    async def looks(_attempt: Attempt) -> object:
        go_on.set()
        await old[0]
        return UNSURE

    desk = Desk([slow], reconcile=[looks])
    async with Workbench(served=[desk.served()]) as bench:
        old.append(asyncio.ensure_future(ask(bench, action(transaction="txn_1"))))
        await entered.wait()
        bench.wait(36)
        other = Engine(replace(bench.engine.environment, owner="elsewhere"))
        await Sweeper(other).sweep()
        bench.wait(5)
        assert (await Sweeper(other).sweep()).reconciled == 1
        record = await bench.record("txn_1")
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert [one.kind for one in record.evidence] == ["late_applied"]


async def test_a_late_answer_of_an_action_whose_document_is_gone_still_moves_the_record() -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())
        hidden(bench, ActionDocument)
        go_on.set()
        await bench.engine.close(40)
        assert (await bench.record(made)).status is Status.RECONCILED


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize("fails", [False, True])
async def test_an_attempt_torn_down_while_its_limit_is_written_answers_once_and_honestly(
    fails: bool,
) -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def slow(attempt: Attempt) -> object:
        async def stuck() -> None:
            writing.set()
            await go_on.wait()
            if fails:
                raise GONE

        before_next_write(bench, stuck)
        await attempt.cancelled.wait()
        await writing.wait()
        return UNSURE

    desk = Desk([slow])
    level = ServiceLevelContract(timeout_ms=5)
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        running = await claim(bench, action(transaction="txn_1"))
        bench.engine.dispatch(running)
        await writing.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        assert running.task is not None
        assert running.giving_up is not None
        running.task.cancel()
        with refused_with("transaction.outcome_unknown"):
            await running.answer
        go_on.set()
        await running.giving_up
        expected = Status.PREPARED if fails else Status.OUTCOME_UNKNOWN
        assert (await bench.record("txn_1")).status is expected


@pytest.mark.case("TIM-07")
@pytest.mark.rule("TX-REV-1", "RC-1")
@pytest.mark.fault(21)
@pytest.mark.parametrize("jump", [-3_600, 3_600])
async def test_a_clock_that_jumps_breaks_no_order_and_loses_nothing(
    jump: float, place: Path | None
) -> None:
    async def jumps(_attempt: Attempt) -> object:
        bench.wait(jump)
        return UNSURE

    async def finds(_attempt: Attempt) -> object:
        bench.wait(-jump)
        return DONE

    desk = Desk([jumps], reconcile=[finds])
    async with Workbench(served=[desk.served()], file=place) as bench:
        made = await ask(bench, action(transaction="txn_1"))
        assert made.status == "outcome_unknown"
        due = (await bench.record("txn_1")).reconcile_after
        assert due is not None
        bench.clock.set(due)
        found = await bench.alice.reconcile("txn_1")
        record = await bench.record("txn_1")
        assert (found.status, record.revision) == ("reconciled", 4)
        assert record.updated_at >= record.created_at
        receipts = await bench.alice.receipts("txn_1")
        assert [one.number for one in receipts] == list(range(1, len(receipts) + 1))
        assert verify_chain(receipts, bench.keys).findings == ()
