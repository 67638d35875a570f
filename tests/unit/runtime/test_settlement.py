"""How attempts end: certain only where declared so, and durable before anybody hears of it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.declarations import DataContract
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.errors import Corrupt, Refused
from amends.contracts.outcomes import (
    Applied,
    ErrorInfo,
    Failure,
    NotApplied,
    NotFound,
    Outcome,
    Partial,
    Pending,
    Uncertain,
)
from amends.contracts.times import after_ms
from amends.receipts.signing import KeyRing
from amends.receipts.verify import verify_chain
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import Workbench
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    LATER,
    OPERATION,
    UNSURE,
    Desk,
    action,
    ask,
    document,
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
        SystemExit("CANARY"),
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


async def test_a_connector_of_ones_own_may_raise_what_handlers_raise() -> None:
    class Declines:
        async def carry_out(self, _attempt: Attempt) -> Outcome:
            raise signals.NotApplied("card_declined")

    declared, _ = Desk(preview=[DONE]).served()
    async with Workbench(served=[(declared, Declines())]) as bench:
        made = await ask(bench, action())
        plan = await ask(bench, action(Mode.PLAN))
        assert (made.status, made.verdict) == ("failed", Verdict.NOT_COMMITTED)
        assert plan.error is not None
        assert (plan.status, plan.error.code) == ("failed", "card_declined")
