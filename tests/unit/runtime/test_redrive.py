"""Driving again under the same key, compensations under look-up, and the scheduler."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import (
    CompensationContract,
    DataContract,
    ExecutionContract,
    RecoveryContract,
)
from amends.contracts.documents import ActionDocument
from amends.contracts.enums import CompensationMode, Handler, Mode, Status, Verdict
from amends.contracts.ids import CapabilityId
from amends.contracts.outcomes import Applied, NotApplied
from amends.contracts.times import after_ms
from amends.testing import faults
from amends.testing.clock import FixedClock
from amends.testing.provider import ScriptedProvider
from amends.testing.refusals import refused_with
from amends.testing.workbench import (
    CHARGE,
    TENANT,
    Workbench,
    charging,
    contract_of,
    seconds_of,
)
from tests.unit.runtime.desk import (
    DONE,
    LATER,
    OPERATION,
    OTHER,
    UNSURE,
    Desk,
    action,
    ask,
)

LOST = faults.acknowledgement()


HOUR_MS = 3_600_000


def provided(
    *script: faults.Fault,
    lookups: tuple[faults.Fault, ...] = (),
    place: Path | None = None,
    execution: ExecutionContract | None = None,
    voids: bool = False,
    dedup_window_s: float | None = None,
    consistency_delay_s: float = 0,
    **changes: object,
) -> Workbench:
    """A bench whose provider goes by this script."""
    clock = FixedClock()
    provider = ScriptedProvider(
        script,
        lookups=lookups,
        voids=voids,
        dedup_window_s=dedup_window_s,
        consistency_delay_s=consistency_delay_s,
        clock=seconds_of(clock),
    )
    declared = execution or ExecutionContract(lookup_by_key=True)
    served = [charging(provider, execution=declared, **changes)]
    return Workbench(provider=provider, served=served, clock=clock, file=place)


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.fault(2)
async def test_a_re_drive_uses_the_very_same_key_within_the_providers_window(
    place: Path | None,
) -> None:
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    async with provided(LOST, execution=execution, dedup_window_s=3_600, place=place) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        await bench.sweep()
        record = await bench.record(made)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert bench.provider.far_side.requests == ["charge", "charge"]
        assert bench.provider.charges == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.fault(14)
async def test_after_the_providers_window_nothing_is_sent_again() -> None:
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    async with provided(LOST, execution=execution, dedup_window_s=3_600) as bench:
        made = await ask(bench, action())
        bench.wait(3_600 - 29)
        assert (await bench.sweep()).escalated == 1
        record = await bench.record(made)
        assert (record.status, record.attention) == (
            Status.OUTCOME_UNKNOWN,
            "no_provider_reference",
        )
        with refused_with("transaction.provider_operation_required"):
            await bench.olga.reconcile(made)
        assert bench.provider.far_side.requests == ["charge"]


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.case("TIM-07")
async def test_a_clock_that_goes_back_does_not_open_the_window_again() -> None:
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    async with provided(LOST, execution=execution, dedup_window_s=3_600) as bench:
        made = await ask(bench, action())
        bench.wait(3_600)
        await bench.sweep()
        bench.wait(-3_500)
        with refused_with("transaction.provider_operation_required"):
            await bench.olga.reconcile(made, insist=True)
        assert bench.provider.charges == 1


@pytest.mark.rule("TX-RECON-3")
async def test_a_look_up_comes_before_a_re_drive_and_a_re_drive_after_it_found_nothing() -> None:
    execution = ExecutionContract(lookup_by_key=True, provider_dedup_window_ms=HOUR_MS)
    async with provided(faults.headers(), execution=execution, dedup_window_s=3_600) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        await bench.sweep()
        assert (await bench.record(made)).negative_lookup_at == bench.clock()
        bench.wait(60)
        await bench.sweep()
        record = await bench.record(made)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert bench.provider.far_side.requests == ["charge", "find", "charge"]
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
async def test_a_redacted_input_has_to_be_supplied_again_for_a_re_drive_and_is_checked() -> None:
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    data = DataContract(redaction_required=True)
    async with provided(LOST, execution=execution, dedup_window_s=3_600, data=data) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        with refused_with("action.input_required"):
            await bench.alice.reconcile(made)
        with refused_with("action.input_required"):
            await bench.alice.reconcile(made, input={"amount": 501})
        swept = await bench.sweep()
        assert (swept.escalated, (await bench.record(made)).attention) == (1, "input_required")
        found = await bench.alice.reconcile(made, input={"amount": 500})
        assert (found.status, bench.provider.charges) == ("reconciled", 1)


@pytest.mark.rule("TX-RECON-3")
async def test_a_look_up_of_a_redacted_effect_needs_no_input() -> None:
    data = DataContract(redaction_required=True)
    async with provided(LOST, data=data) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert found.status == "reconciled"
        assert bench.provider.far_side.requests == ["charge", "find"]


@pytest.mark.rule("TX-RECON-3", "TX-COMP-5")
async def test_a_compensation_is_never_driven_again_but_looked_up() -> None:
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    async with provided(faults.none(), LOST, execution=execution, dedup_window_s=3_600) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done, {"amount": 500})
        assert lost.status == "outcome_unknown"
        bench.wait(5)
        assert (await bench.sweep()).escalated == 1
        assert bench.provider.refunds == 1
        with refused_with("transaction.provider_operation_required"):
            await bench.olga.reconcile(lost)


@pytest.mark.rule("TX-RECON-3", "TX-COMP-5")
async def test_a_compensation_whose_answer_was_lost_is_found_and_holds_its_slot() -> None:
    async with provided(faults.none(), LOST) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done, {"amount": 500})
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done, {"amount": 500})
        bench.wait(5)
        await bench.sweep()
        record = await bench.record(lost)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done, {"amount": 500})
        assert bench.provider.refunds == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-COMP-4", "TX-RECON-3")
async def test_a_compensation_that_is_proven_absent_gives_its_slot_back() -> None:
    execution = ExecutionContract(lookup_by_key=True, in_flight_horizon_ms=1_000)
    async with provided(faults.none(), faults.headers(), execution=execution) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done, {"amount": 500})
        bench.wait(60)
        await bench.sweep()
        record = await bench.record(lost)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.NOT_COMMITTED)
        again = await bench.alice.compensate(done, {"amount": 500})
        assert (again.status, bench.provider.refunds) == ("compensated", 1)
        assert await bench.check() == []


@pytest.mark.fault(8)
async def test_a_duplicate_key_answer_is_success_only_after_a_look_up_that_matches() -> None:
    async with provided(LOST, lookups=(faults.none(),)) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert found.output == {"operation_id": "charge_1", "amount": 500, "currency": "eur"}
    async with provided(faults.duplicate()) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        assert (looked.status, bench.provider.charges) == ("outcome_unknown", 0)


@pytest.mark.rule("TX-RECON-3")
async def test_a_second_operation_that_a_look_up_names_is_no_proof_but_an_alarm() -> None:
    desk = Desk(
        [replace(UNSURE, operation=OPERATION)], reconcile=[Applied(output=DONE, operation=OTHER)]
    )
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        assert (looked.status, looked.attention) == ("outcome_unknown", "two_provider_operations")
        assert looked.provider_operation == OPERATION


@pytest.mark.rule("TX-RECON-2")
@pytest.mark.parametrize("answer", [NotApplied(error=LATER), UNSURE])
async def test_a_re_drive_that_fails_leaves_it_open(answer: object) -> None:
    desk = Desk([UNSURE, answer])
    modes = replace(
        contract_of(desk.handlers),
        supported_modes=(Mode.EXECUTE, Mode.PLAN, Mode.COMMIT, Mode.RECONCILE),
    )
    execution = ExecutionContract(provider_dedup_window_ms=HOUR_MS)
    async with Workbench(served=[desk.served(execution=execution, transaction=modes)]) as bench:
        made = await ask(bench, action(key="k"))
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        record = await bench.record(made)
        assert looked.status == "outcome_unknown"
        assert (record.attempts, record.effect_attempts) == (2, 2)
        assert [one.call.redrive for one in desk.seen] == [False, True]
        assert record.last_effect_lease_end == after_ms(bench.clock(), 35_000)


@pytest.mark.rule("TX-RECON-1")
async def test_a_look_up_goes_where_the_effect_went() -> None:
    desk, undo = Desk(), Desk([UNSURE], reconcile=[DONE])
    offset = CompensationContract(
        mode=CompensationMode.SUPPORTED,
        compensation_capability_id=CapabilityId(CHARGE + ".undo"),
    )
    modes = replace(
        contract_of(desk.handlers),
        supported_modes=(Mode.EXECUTE, Mode.COMPENSATE, Mode.RECONCILE),
    )
    declared = desk.served(
        compensation=offset,
        transaction=modes,
        execution=ExecutionContract(provider_dedup_window_ms=1),
    )
    async with Workbench(served=[declared, undo.served(CHARGE + ".undo")]) as bench:
        done = await ask(bench, action(id="act_1"))
        lost = await bench.alice.compensate(done, {})
        assert lost.status == "outcome_unknown"
        bench.wait(5)
        found = await bench.alice.reconcile(lost)
        assert (found.status, undo.entered(Handler.RECONCILE)) == ("reconciled", 1)
        assert undo.seen[-1].original is not None
        assert undo.seen[-1].original.action_id == "act_1"


@pytest.mark.rule("TX-RECON-4")
async def test_bounded_look_ups_with_back_off_end_with_a_call_for_a_person() -> None:
    desk = Desk([UNSURE], reconcile=[UNSURE])
    recovery = RecoveryContract(initial_delay_ms=1_000, max_delay_ms=4_000, max_attempts=4)
    async with Workbench(served=[desk.served(recovery=recovery)]) as bench:
        made = await ask(bench, action())
        gaps = []
        for _ in range(4):
            due = (await bench.record(made)).reconcile_after
            assert due is not None
            gaps.append((due - bench.clock()).total_seconds())
            bench.clock.set(due)
            await bench.sweep()
        record = await bench.record(made)
        assert gaps == [5, 2, 4, 4]
        assert (record.attention, record.status) == (
            "reconcile_attempts_exhausted",
            Status.OUTCOME_UNKNOWN,
        )
        bench.wait(HOUR_MS)
        assert (await bench.sweep()).total == 0
        assert desk.entered(Handler.RECONCILE) == 4


@pytest.mark.rule("TX-RECON-4")
async def test_the_scheduler_acts_under_the_original_action_as_recovery() -> None:
    async with provided(LOST) as bench:
        made = await ask(bench, action(id="act_1"))
        bench.wait(5)
        await bench.sweep()
        receipts = await bench.olga.receipts(made)
        actors = [(one.step.actor.id, one.step.action_id) for one in receipts[-3:]]
        assert actors == [("recovery", "act_1")] * 3
        page = await bench.store.list(ActionDocument, TENANT)
        assert len(page.items) == 1


@pytest.mark.rule("TX-RECON-4")
async def test_a_capability_with_scopes_is_looked_up_all_the_same() -> None:
    async with provided(LOST, required_scopes=("pay",)) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        assert (await bench.sweep()).reconciled == 1
        assert (await bench.record(made)).status is Status.RECONCILED
