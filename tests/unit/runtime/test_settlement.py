"""How attempts end: certain only where declared so, and durable before anybody hears of it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.declarations import DataContract, ServiceLevelContract
from amends.contracts.documents import ActionDocument, Correction, TransactionRecord
from amends.contracts.enums import Status, Verdict
from amends.contracts.errors import AmendsError, Corrupt, Refused, Unavailable
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Partial,
    Pending,
    Uncertain,
)
from amends.contracts.times import after_ms
from amends.receipts.signing import KeyRing
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

DETAILS = {"provider_operation": {"provider": "desk", "operation_id": "op_1"}}


@pytest.mark.rule("TX-SETTLE-1", "TX-REV-4")
async def test_a_completed_attempt_is_settled_in_one_change_set(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        done = await ask(bench, action(id="act_1", key="k"))
        record, stored = await bench.record(done), await document(bench, "act_1")
        assert stored is not None
        assert (record.status, record.verdict, record.settled_at) == (
            Status.COMMITTED,
            Verdict.COMMITTED,
            bench.clock(),
        )
        assert (stored.result, stored.settled_at) == (record.result, record.settled_at)
        assert record.attempt is not None
        assert record.attempt.lease_ended_at == after_ms(bench.clock(), 35_000)
        assert await bench.check() == []


@pytest.mark.rule("RC-1", "RC-2")
async def test_the_head_of_each_settlement_is_signed_and_a_tampered_copy_is_found_out() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action())
        receipts = await bench.alice.receipts(done)
        assert [one.signature is not None for one in receipts] == [False, False, False, True]
        assert verify_chain(receipts, bench.keys).findings == ()
        forged = (
            *receipts[:-1],
            replace(receipts[-1], step=replace(receipts[-1].step, verdict=Verdict.NOT_COMMITTED)),
        )
        assert verify_chain(forged, bench.keys).findings != ()
        assert verify_chain(receipts, KeyRing([bytes(32)])).findings != ()


@pytest.mark.rule("TX-SETTLE-2", "TX-SETTLE-3", "TX-SETTLE-4")
@pytest.mark.parametrize(
    ("answer", "status", "verdict", "code"),
    [
        (Failure(error=DECLINED), "failed", "not_committed", "card_declined"),
        (NotApplied(error=DECLINED), "failed", "not_committed", "card_declined"),
        (signals.NotApplied("card_declined"), "failed", "not_committed", "card_declined"),
        (signals.Partial("half_done"), "failed", "partial", "half_done"),
        (
            Failure(error=ErrorInfo(code="x", details={"side_effects_committed": True})),
            "failed",
            "partial",
            "x",
        ),
        (
            Failure(error=ErrorInfo(code="sla.timeout_exceeded")),
            "outcome_unknown",
            None,
            "sla.timeout_exceeded",
        ),
        (
            Failure(error=ErrorInfo(code="x", details={"uncertain_outcome": True})),
            "outcome_unknown",
            None,
            "x",
        ),
        (
            NotApplied(error=ErrorInfo(code="x", details={"uncertain_outcome": True})),
            "outcome_unknown",
            None,
            "x",
        ),
        (Uncertain(error=LATER), "outcome_unknown", None, "try_later"),
        (Pending(), "outcome_unknown", None, "transaction.outcome_unknown"),
        (signals.Pending(), "outcome_unknown", None, "transaction.outcome_unknown"),
        (NotFound(), "outcome_unknown", None, "transaction.provider_answer_invalid"),
        (signals.NotFound(), "outcome_unknown", None, "transaction.provider_answer_invalid"),
    ],
)
async def test_only_what_is_declared_definite_is_definite(
    answer: object, status: str, verdict: str | None, code: str
) -> None:
    async with Workbench(served=[Desk([answer]).served()]) as bench:
        made = await ask(bench, action())
        assert made.error is not None
        assert (made.status, made.verdict, made.error.code) == (status, verdict, code)


@pytest.mark.case("DUP-07")
@pytest.mark.rule("TX-SETTLE-4")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CANARY"),
        TimeoutError("CANARY"),
        ConnectionRefusedError("CANARY"),
        KeyError("CANARY"),
        MemoryError("CANARY"),
        RecursionError("CANARY"),
        ExceptionGroup("CANARY", [ValueError("CANARY")]),
        asyncio.CancelledError("CANARY"),
        StopAsyncIteration("CANARY"),
        Refused("input.invalid_id", "CANARY"),
        Corrupt("store.record_corrupt", "CANARY"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.fault(44)
async def test_an_exception_says_nothing_certain_and_its_words_are_not_kept(
    error: BaseException,
) -> None:
    async with Workbench(served=[Desk([error]).served()]) as bench:
        made = await ask(bench, action())
        assert made.status == "outcome_unknown"
        assert "CANARY" not in str(made)
        assert "CANARY" not in str(await bench.snapshot())


@pytest.mark.case("P5X-01")
@pytest.mark.rule("TX-SETTLE-4")
@pytest.mark.fault(4, 7)
@pytest.mark.parametrize(
    ("fault", "charges"),
    [
        (faults.headers(), 0),
        (faults.body(effect=True), 1),
        (faults.body(effect=False), 0),
        (faults.acknowledgement(), 1),
        (faults.server_error(), 0),
        (faults.server_error_after_commit(), 1),
        (faults.duplicate(), 0),
        (faults.stranger(), 1),
        (faults.accepted(), 1),
    ],
)
async def test_an_answer_that_went_astray_is_unknown_and_is_not_sent_again(
    fault: faults.Fault, charges: int
) -> None:
    async with Workbench([fault]) as bench:
        made = await ask(bench, action(id="act_1", key="k"))
        assert (made.status, bench.provider.charges) == ("outcome_unknown", charges)
        with refused_with("transaction.reconciliation_required"):
            await ask(bench, action(id="act_1", key="k"))
        assert bench.provider.far_side.requests == ["charge"]
        assert await bench.check() == []


@pytest.mark.fault(9)
@pytest.mark.rule("TX-SETTLE-4")
async def test_the_answer_to_somebody_elses_request_is_not_taken_for_ours() -> None:
    async with Workbench([faults.stranger()]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.provider_operation) == ("outcome_unknown", None)
        bench.wait(5)
        await bench.sweep()
        found = await bench.record(made)
        assert (found.status, found.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert found.provider_operation is not None
        assert found.provider_operation.operation_id == "charge_1"
        assert await bench.check() == []


@pytest.mark.rule("TX-SETTLE-4")
@pytest.mark.parametrize("answer", [faults.connect(), faults.decline()])
async def test_what_is_certain_is_settled_at_once(answer: faults.Fault) -> None:
    async with Workbench([answer]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.verdict) == ("failed", Verdict.NOT_COMMITTED)
        assert await bench.check() == []


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize(
    ("answer", "delay_ms"),
    [
        (UNSURE, 5_000),
        (replace(UNSURE, retry_after_ms=60_000), 60_000),
        (replace(UNSURE, retry_after_ms=10**9), 24 * 3_600_000),
        (replace(UNSURE, retry_after_ms=-5), 5_000),
        (replace(UNSURE, retry_after_ms=1_500.5), 1_500),
        (replace(UNSURE, retry_after_ms=float("inf")), 5_000),
        (replace(UNSURE, retry_after_ms=float("nan")), 5_000),
        (replace(UNSURE, retry_after_ms=True), 5_000),
        (replace(UNSURE, retry_after_ms="soon"), 5_000),
        (Pending(retry_after_ms=10**400), 24 * 3_600_000),
        (Pending(retry_after_ms=2_000), 2_000),
        (Uncertain(error=replace(LATER, details={"retry_after_ms": 7_000})), 7_000),
        (Uncertain(error=replace(LATER, details={"retry_after_ms": 10**30})), 5_000),
    ],
)
async def test_the_next_look_up_is_when_the_provider_says_within_bounds(
    answer: object, delay_ms: int
) -> None:
    async with Workbench(served=[Desk([answer]).served()]) as bench:
        made = await ask(bench, action())
        assert made.reconcile_after == after_ms(bench.clock(), delay_ms)


@pytest.mark.rule("TX-SETTLE-2")
@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("kind", [Failure, Uncertain, NotApplied, Partial])
async def test_an_operation_named_only_in_the_details_is_kept_even_where_these_are_redacted(
    kind: type, redacted: bool
) -> None:
    error = ErrorInfo(code="x", details={**DETAILS, "uncertain_outcome": True})  # type: ignore[dict-item]  # as odd as can be
    desk = Desk([kind(error=error)])
    data = DataContract(redaction_required=redacted)
    async with Workbench(served=[desk.served(data=data)]) as bench:
        made = await ask(bench, action())
        assert (made.status, made.provider_operation) == ("outcome_unknown", OPERATION)


@pytest.mark.rule("TX-SETTLE-2")
async def test_no_number_of_details_hides_the_one_that_says_uncertain() -> None:
    many = {f"field_{n}": n for n in range(200)} | {"uncertain_outcome": True}
    desk = Desk([Failure(error=ErrorInfo(code="x", details=many))])  # type: ignore[arg-type]  # as odd as can be
    async with Workbench(served=[desk.served()]) as bench:
        assert (await ask(bench, action())).status == "outcome_unknown"


@pytest.mark.rule("TX-SETTLE-5")
@pytest.mark.case("CAN-06", "CAN-08", "CAN-10", "BIG-01", "BIG-04")
@pytest.mark.parametrize(
    ("output", "invalid"),
    [
        ({"n": float("nan")}, "output.not_storable"),
        ({"text": "\ud800"}, "output.not_storable"),
        ({"\udc00": 1}, "output.not_storable"),
        ({"n": 10**5_000}, "output.not_storable"),
        (object(), "output.not_storable"),
        ("x" * 1_100_000, "output.not_storable"),
        ({"text": "\x00"}, None),
        ({"id": 7}, "output.schema_mismatch"),
    ],
    ids=["nan", "surrogate", "key", "huge integer", "object", "large", "nul", "schema"],
)
async def test_an_output_that_cannot_be_kept_does_not_undo_the_effect(
    output: object, invalid: str | None, place: Path | None
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    desk = Desk([output], compensate=[DONE])
    async with Workbench(served=[desk.served(output_schema=schema)], file=place) as bench:
        done = await ask(bench, action(id="act_1"))
        assert (done.status, done.verdict, done.output_invalid) == (
            "committed",
            Verdict.COMMITTED,
            invalid,
        )
        assert done.attention == ("output_invalid" if invalid else None)
        assert (await ask(bench, action(id="act_1"))).replayed
        view = await bench.alice.get(done, include_result=True)
        assert view.result.output_invalid == invalid
        assert (await bench.alice.compensate(done)).status == "compensated"
        assert desk.entered(desk.seen[0].call.handler) == 1


@pytest.mark.case("BIG-01")
@pytest.mark.rule("TX-SETTLE-5")
async def test_an_output_that_nests_without_end_does_not_cost_the_settlement() -> None:
    nested: list[object] = []
    for _ in range(20_000):
        nested = [nested]
    async with Workbench(served=[Desk([{"deep": nested}]).served()]) as bench:
        done = await ask(bench, action())
        assert (done.status, done.output_invalid) == ("committed", "output.not_storable")


@pytest.mark.case("CAN-06", "CAN-08")
@pytest.mark.parametrize(
    "error",
    [
        ErrorInfo(code="\ud800", message="\ud800\x00", details={"\udc00": "\ud800"}),
        ErrorInfo(code="x" * 500, message="m" * 50_000, details={"deep": [[["\x00"]]]}),
        ErrorInfo(code="", message="", details={"o": object()}),  # type: ignore[dict-item]  # as odd as can be
        ErrorInfo(code=7, message=None, category="odd", details=None),  # type: ignore[arg-type]  # as odd as can be
        ErrorInfo(code="x", retryable="yes", details=[1]),  # type: ignore[arg-type]  # as odd as can be
    ],
)
async def test_an_odd_error_is_stored_in_a_form_that_can_be(
    error: ErrorInfo, place: Path | None
) -> None:
    async with Workbench(served=[Desk([NotApplied(error=error)]).served()], file=place) as bench:
        made = await ask(bench, action())
        assert (made.status, made.verdict) == ("failed", Verdict.NOT_COMMITTED)
        assert made.error is not None
        assert (await bench.alice.get(made)).result.error == made.error
        assert made.error.retryable is False


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Applied(output=DONE, operation="op_1"), "committed"),  # type: ignore[arg-type]  # as odd as can be
        (Applied(output=DONE, operation=replace(OPERATION, operation_id=7)), "committed"),
        (Applied(output=DONE, operation=replace(OPERATION, provider="\ud800")), "committed"),
        (Applied(output=DONE, operation=replace(OPERATION, operation_id="")), "committed"),
        (Applied(output=DONE, operation=replace(OPERATION, request_id="\x00")), "committed"),
        (Failure(error=None), "outcome_unknown"),  # type: ignore[arg-type]  # as odd as can be
        (Uncertain(error=LATER, cursor=7), "outcome_unknown"),  # type: ignore[arg-type]  # as odd as can be
        (signals.Signal("no outcome"), "outcome_unknown"),  # type: ignore[arg-type]  # as odd as can be
    ],
)
async def test_an_odd_report_is_taken_for_what_can_be_read_of_it(
    answer: object, status: str, place: Path | None
) -> None:
    async with Workbench(served=[Desk([answer]).served()], file=place) as bench:
        made = await ask(bench, action())
        assert made.status == status
        assert (await bench.record(made)).status == status


async def test_an_answer_that_is_no_outcome_is_uncertain() -> None:
    class Broken:
        async def carry_out(self, _attempt: Attempt) -> object:
            return {"this": "is no outcome"}

    declared, _ = Desk().served()
    async with Workbench(served=[(declared, Broken())]) as bench:  # type: ignore[list-item]  # as odd as can be
        made = await ask(bench, action())
        assert made.error is not None
        assert (made.status, made.error.code) == (
            "outcome_unknown",
            "transaction.provider_answer_invalid",
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


async def test_a_late_answer_that_cannot_be_kept_disturbs_nobody() -> None:
    _desk, bench, go_on = late(DONE)
    async with bench:
        made = await ask(bench, action())
        broken = Broken(bench, "get", GONE)
        go_on.set()
        await bench.engine.close(40)
        broken.mend()
        assert (await bench.record(made)).status is Status.OUTCOME_UNKNOWN


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
