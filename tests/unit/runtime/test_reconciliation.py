"""Finding out: who may ask, how the provider is asked, what its answer proves, what ends it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.declarations import (
    ExecutionContract,
)
from amends.contracts.enums import Handler, Mode, Status, Verdict
from amends.contracts.ids import PrincipalId
from amends.contracts.outcomes import Applied, NotApplied, NotFound, Pending
from amends.contracts.times import after_ms
from amends.testing import faults
from amends.testing.clock import FixedClock
from amends.testing.provider import ScriptedProvider
from amends.testing.refusals import refused_with
from amends.testing.workbench import (
    ALICE,
    Workbench,
    charging,
    seconds_of,
)
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    OPERATION,
    OTHER,
    UNSURE,
    Desk,
    action,
    ask,
    chain,
    claim,
)

CAROL = replace(ALICE, id=PrincipalId("carol"))
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


@pytest.mark.rule("TX-RECON-1", "TX-RECON-2")
@pytest.mark.fault(5)
async def test_a_lost_answer_is_found_again_by_our_own_key(place: Path | None) -> None:
    async with provided(LOST, place=place) as bench:
        made = await ask(bench, action())
        with refused_with("transaction.reconcile_not_due"):
            await bench.alice.reconcile(made)
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert (found.status, found.verdict) == ("reconciled", Verdict.COMMITTED)
        assert found.provider_operation is not None
        assert found.provider_operation.operation_id == "charge_1"
        assert await chain(bench, made) == [
            "execution_started",
            "dispatched",
            "outcome_unknown",
            "reconciliation_started",
            "dispatched",
            "reconciled",
        ]
        assert bench.provider.charges == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-1")
async def test_only_an_unknown_outcome_is_reconciled_by_its_owner_or_an_operator() -> None:
    async with provided(LOST) as bench:
        done = await ask(bench, action(transaction="txn_lost"))
        well = await ask(bench, action(transaction="txn_well"))
        bench.wait(5)
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.alice.reconcile(well)
        with refused_with("transaction.reconcile_not_allowed"):
            await bench.acting_as(CAROL).reconcile(done)
        with refused_with("transaction.not_found"):
            await bench.alice.reconcile("txn_9")
        with refused_with("transaction.not_found"):
            await ask(bench, action(Mode.RECONCILE, transaction="txn_9"))
        found = await bench.olga.reconcile(done)
        assert found.status == "reconciled"


@pytest.mark.rule("TX-RECON-1")
async def test_an_operator_may_insist_before_the_time_and_nobody_else() -> None:
    async with provided(LOST) as bench:
        made = await ask(bench, action())
        with refused_with("transaction.reconcile_not_due"):
            await bench.alice.reconcile(made, insist=True)
        with refused_with("transaction.reconcile_not_due"):
            await bench.olga.reconcile(made)
        assert (await bench.olga.reconcile(made, insist=True)).status == "reconciled"


@pytest.mark.rule("TX-RECON-1")
async def test_a_reconciliation_of_another_capability_is_refused() -> None:
    desk, shop = Desk([UNSURE], reconcile=[DONE]), Desk(reconcile=[DONE])
    async with Workbench(served=[desk.served(), shop.served("shop.sell")]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        asked = action(Mode.RECONCILE, transaction="txn_1", capability="shop.sell")
        with refused_with("transaction.execution_contract_mismatch"):
            await ask(bench, asked)


@pytest.mark.rule("TX-RECON-1")
@pytest.mark.case("STK-02")
async def test_without_reference_or_key_nobody_is_asked_and_the_span_to_search_is_named() -> None:
    desk = Desk(reconcile=[DONE])
    blind = ExecutionContract()
    async with Workbench(served=[desk.served(execution=blind)]) as bench:
        await claim(bench, action(transaction="txn_1"))
        await bench.restart()
        bench.wait(36)
        await bench.sweep()
        bench.wait(5)
        with refused_with("transaction.provider_operation_required") as caught:
            await bench.alice.reconcile("txn_1")
        assert caught.error.details["search_from"] == "2026-01-01T00:00:00Z"
        assert caught.error.details["search_until"] == "2026-01-01T00:00:36Z"
        swept = await bench.sweep()
        record = await bench.record("txn_1")
        assert (swept.escalated, record.attention) == (1, "no_provider_reference")
        assert (record.status, desk.seen) == (Status.OUTCOME_UNKNOWN, [])


@pytest.mark.rule("TX-RECON-1")
async def test_a_reference_or_cursor_is_taken_from_operators_and_stored_before_the_call() -> None:
    seen: list[object] = []

    async def looks(attempt: Attempt) -> object:
        record = await bench.record("txn_1")
        seen.append((record.provider_operation, record.cursor, attempt.provider_operation))
        return DONE

    desk = Desk([UNSURE], reconcile=[looks])
    async with Workbench(served=[desk.served(execution=ExecutionContract())]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        with refused_with("transaction.provider_operation_not_accepted"):
            await bench.alice.reconcile("txn_1", provider_operation=OPERATION)
        with refused_with("transaction.provider_operation_not_accepted"):
            await bench.alice.reconcile("txn_1", cursor="c1")
        await bench.olga.reconcile("txn_1", provider_operation=OPERATION, cursor="c1")
        assert seen == [(OPERATION, "c1", OPERATION)]


@pytest.mark.rule("TX-RECON-1")
async def test_a_stored_reference_wins_over_a_supplied_one() -> None:
    desk = Desk([replace(UNSURE, operation=OPERATION)], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        found = await bench.olga.reconcile(made, provider_operation=OTHER)
        assert found.provider_operation == OPERATION
        assert desk.seen[-1].provider_operation == OPERATION


@pytest.mark.case("TEN-04")
@pytest.mark.rule("TX-RECON-1")
async def test_a_foreign_reference_under_an_own_transaction_is_not_accepted() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        mine = await ask(bench, action())
        bench.wait(5)
        with refused_with("transaction.provider_operation_not_accepted"):
            await bench.alice.reconcile(mine, provider_operation=OTHER)
        with refused_with("transaction.provider_operation_not_accepted"):
            await bench.alice.reconcile(mine, cursor="page of somebody else")
        assert desk.entered(Handler.RECONCILE) == 0


@pytest.mark.rule("TX-RECON-2")
async def test_the_record_is_reconciling_before_the_handler_is_entered() -> None:
    seen: list[Status] = []

    async def looks(attempt: Attempt) -> object:
        seen.append((await bench.record("txn_1")).status)
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.alice.reconcile("txn_1")
        assert attempt.provider_key == (await bench.record("txn_1")).provider_key
        return replace(UNSURE, cursor="c2", retry_after_ms=60_000)

    desk = Desk([replace(UNSURE, operation=OPERATION, cursor="c1")], reconcile=[looks])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        still = await bench.alice.reconcile("txn_1")
        assert seen == [Status.RECONCILING]
        assert (still.status, still.cursor) == ("outcome_unknown", "c2")
        assert still.reconcile_after == after_ms(bench.clock(), 60_000)
        assert desk.seen[-1].cursor == "c1"


@pytest.mark.rule("TX-RECON-2")
async def test_reconciled_never_becomes_committed_and_is_final() -> None:
    async with provided(LOST) as bench:
        made = await ask(bench, action(id="act_1", key="k"))
        bench.wait(5)
        await bench.sweep()
        before = await bench.record(made)
        assert before.status is Status.RECONCILED
        for _ in range(3):
            bench.wait(HOUR_MS / 1000)
            assert (await bench.sweep()).total == 0
        assert await bench.record(made) == before


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.case("EVC-01", "EVC-03")
@pytest.mark.fault(6)
async def test_not_found_is_no_proof_of_absence_while_a_request_may_be_under_way() -> None:
    execution = ExecutionContract(
        lookup_by_key=True, in_flight_horizon_ms=60_000, consistency_delay_ms=10_000
    )
    in_flight = faults.body(effect=True, after_s=50)
    async with provided(in_flight, execution=execution, consistency_delay_s=10) as bench:
        made = await ask(bench, action())
        for _ in range(4):
            record = await bench.record(made)
            assert record.status is Status.OUTCOME_UNKNOWN
            assert record.reconcile_after is not None
            bench.clock.set(record.reconcile_after)
            await bench.sweep()
        found = await bench.record(made)
        assert (found.status, found.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
        assert bench.provider.charges == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
async def test_absence_counts_from_a_look_up_that_began_after_everything_is_dead() -> None:
    execution = ExecutionContract(
        lookup_by_key=True, in_flight_horizon_ms=60_000, consistency_delay_ms=10_000
    )
    async with provided(faults.headers(), execution=execution) as bench:
        made = await ask(bench, action())
        bench.wait(35 + 60 + 10)
        early = await bench.olga.reconcile(made, insist=True)
        assert early.status == "outcome_unknown"
        bench.wait(0.001)
        late = await bench.olga.reconcile(made, insist=True)
        assert (late.status, late.verdict) == ("reconciled", Verdict.NOT_COMMITTED)
        assert late.error is not None
        assert late.error.code == "transaction.effect_absent"
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
async def test_a_voided_key_proves_absence_at_once_and_stays_so() -> None:
    async with provided(faults.headers(), voids=True) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        found = await bench.alice.reconcile(made)
        assert (found.status, found.verdict) == ("reconciled", Verdict.NOT_COMMITTED)
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (NotFound(), None),
        (Pending(), None),
        (UNSURE, None),
        (NotApplied(error=DECLINED), None),
        (NotApplied(error=DECLINED, operation=OPERATION), "not_committed"),
        (NotFound(voided=True), "not_committed"),
        (signals.Partial("half"), "partial"),
        (Applied(output=DONE), "committed"),
        (RuntimeError(), None),
        (None, None),
    ],
)
async def test_what_a_look_up_proves(answer: object, verdict: str | None) -> None:
    desk = Desk([UNSURE], reconcile=[answer])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        bench.wait(5)
        looked = await bench.alice.reconcile(made)
        assert looked.verdict == verdict
        assert looked.status == ("reconciled" if verdict else "outcome_unknown")
