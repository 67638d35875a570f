"""The sweeper and the scheduler: what they write, whom they ask, when they call a person."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import (
    CredentialPolicy,
    ExecutionContract,
    RecoveryContract,
    ServiceLevelContract,
)
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import Handler, Mode, Status
from amends.contracts.errors import Corrupt, Unavailable
from amends.contracts.outcomes import NotApplied
from amends.contracts.secrets import Credential, Secret
from amends.contracts.times import after_ms
from amends.recovery.pacing import Pace
from amends.recovery.sweeper import Sweeper
from amends.runtime.engine import Engine
from amends.testing import faults
from amends.testing.workbench import TENANT, Workbench, contract_of
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    UNSURE,
    Desk,
    action,
    ask,
    chain,
    claim,
    hidden,
    records,
    refusals,
    replaced,
)

GONE = Unavailable("store.unavailable", "The disk is gone.")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look once every millisecond until something holds, for a second at most."""
    for _ in range(1_000):
        if await holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came")


@pytest.mark.rule("TX-LEASE-2", "TX-PLAN-6", "AP-3", "TX-RECON-4")
async def test_one_round_writes_all_that_time_made_and_asks_what_is_unknown(
    tmp_path: Path,
) -> None:
    desk = Desk([UNSURE, DONE], reconcile=[DONE])
    guarded = Desk()
    served = [desk.served(), guarded.served("shop.guarded", approval=ApprovalPolicy(ttl_ms=1_000))]
    async with Workbench(served=served, file=tmp_path / "amends.db") as bench:
        await ask(bench, action(Mode.PLAN, transaction="txn_plan"))
        await ask(bench, action(transaction="txn_lost"))
        await ask(bench, action(id="act_w", capability="shop.guarded"))
        await claim(bench, action(transaction="txn_dead"))
        bench.wait(900)
        swept = await bench.sweep()
        assert (swept.lapsed, swept.plans_expired, swept.approvals_expired, swept.reconciled) == (
            1,
            1,
            1,
            1,
        )
        assert swept.total == 4
        assert (await bench.sweep()).total == 0
        statuses = {one.transaction_id: one.status for one in await records(bench)}
        assert statuses == {
            "txn_plan": Status.FAILED,
            "txn_lost": Status.RECONCILED,
            "txn_dead": Status.OUTCOME_UNKNOWN,
        }
        assert (await chain(bench, "txn_plan"))[-1] == "plan_expired"


@pytest.mark.rule("TX-LEASE-2")
async def test_the_sweeper_never_calls_a_provider_for_a_lapsed_lease() -> None:
    desk = Desk(reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await claim(bench, action(transaction="txn_1"))
        bench.wait(36)
        assert (await bench.sweep()).lapsed == 1
        assert desk.seen == []
        record = await bench.record("txn_1")
        assert record.attempt is not None
        assert record.attempt.lease_ended_at is not None
        assert record.last_effect_lease_end == record.attempt.lease_ended_at


@pytest.mark.rule("TX-LEASE-2")
async def test_many_sweepers_over_one_store_write_each_change_once(tmp_path: Path) -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()], file=tmp_path / "amends.db") as bench:
        for n in range(3):
            await ask(bench, action(transaction=f"txn_{n}"))
            await ask(bench, action(Mode.PLAN))
        bench.wait(900)
        hosts = [Engine(replace(bench.engine.environment, owner=f"host-{n}")) for n in range(3)]
        rounds = await asyncio.gather(*(Sweeper(host).sweep() for host in hosts))
        assert sum(one.plans_expired for one in rounds) == 3
        assert desk.entered(Handler.RECONCILE) == 3
        kinds = [await chain(bench, f"txn_{n}") for n in range(3)]
        assert all(one.count("reconciled") == 1 for one in kinds)


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.parametrize(
    ("changes", "attention"),
    [
        ({"recovery": RecoveryContract(automatic=False)}, "reconcile_by_hand"),
        ({"execution": ExecutionContract()}, "no_provider_reference"),
        ({"credential": CredentialPolicy(required=True)}, "reconcile_refused"),
    ],
)
async def test_what_only_a_person_can_find_out_is_said_so_once(
    changes: dict[str, object], attention: str
) -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(transaction="txn_1"))
        await bench.restart([desk.served(**changes)])
        bench.wait(5)
        assert (await bench.sweep()).escalated == 1
        record = await bench.record("txn_1")
        assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, attention)
        assert (await chain(bench, "txn_1"))[-1] == "escalated"
        bench.wait(86_400)
        assert (await bench.sweep()).total == 0
        assert await refusals(bench) == []
        assert desk.entered(Handler.RECONCILE) == 0


@pytest.mark.rule("TX-RECON-4")
@pytest.mark.fault(24)
async def test_a_look_up_that_kills_its_process_each_time_is_bounded_and_calls_a_person() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    recovery = RecoveryContract(max_attempts=3, initial_delay_ms=1_000, max_delay_ms=8_000)
    async with Workbench(served=[desk.served(recovery=recovery)]) as bench:
        await ask(bench, action(transaction="txn_1"))
        for _ in range(3):
            due = (await bench.record("txn_1")).reconcile_after
            assert due is not None
            bench.clock.set(due)
            await claim(bench, action(Mode.RECONCILE, transaction="txn_1"))
            await bench.restart()
            bench.wait(36)
            assert (await bench.sweep()).lapsed == 1
        record = await bench.record("txn_1")
        assert record.attention == "reconcile_attempts_exhausted"
        bench.wait(86_400)
        assert (await bench.sweep()).total == 0
        assert desk.entered(Handler.RECONCILE) == 0


@pytest.mark.fault(26)
async def test_a_handler_that_always_raises_does_not_keep_the_others_from_being_found() -> None:
    async def mixed(attempt: Attempt) -> object:
        if attempt.transaction_id == "txn_poison":
            raise RuntimeError("always")
        return DONE

    desk = Desk([UNSURE], reconcile=[mixed])
    recovery = RecoveryContract(max_attempts=2)
    async with Workbench(served=[desk.served(recovery=recovery)]) as bench:
        for name in ("poison", "one", "two"):
            await ask(bench, action(transaction=f"txn_{name}"))
        for seconds in (5, 600):
            bench.wait(seconds)
            await bench.sweep()
        assert [one.status for one in await records(bench)] == [
            Status.OUTCOME_UNKNOWN,
            Status.RECONCILED,
            Status.RECONCILED,
        ]
        assert (await records(bench))[0].attention == "reconcile_attempts_exhausted"


class Failing:
    """A method of the bench's store that fails for one document."""

    def __init__(self, bench: Workbench, method: str, name: str, error: Exception) -> None:
        self._real = getattr(bench.store, method)
        self._name, self._error = name, error
        setattr(bench.store, method, self)

    async def __call__(self, *args: object, **kwargs: object) -> object:
        if self._name in str(args):
            raise self._error
        return await self._real(*args, **kwargs)


@pytest.mark.fault(26)
async def test_a_record_whose_action_cannot_be_read_gets_a_person_and_stops_nobody() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        for name in ("poison", "fine"):
            await ask(bench, action(id=f"act_{name}", transaction=f"txn_{name}"))
        bench.wait(5)
        corrupt = Corrupt("store.record_corrupt", "A row cannot be read.")
        Failing(bench, "get", "act_poison", corrupt)
        swept = await bench.sweep()
        assert (swept.reconciled, swept.escalated, swept.failed) == (1, 1, 0)
        assert (await bench.record("txn_poison")).attention == "recovery_failed"
        assert (await bench.record("txn_fine")).status is Status.RECONCILED


@pytest.mark.fault(26)
async def test_a_change_that_cannot_be_written_rests_and_stops_nobody() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        for name in ("poison", "fine"):
            await claim(bench, action(transaction=f"txn_{name}"))
        bench.wait(36)
        Failing(bench, "tail", "txn_poison", RuntimeError("a bug"))
        sweeper = Sweeper(bench.engine, batch=1)
        first = await sweeper.sweep()
        second = await sweeper.sweep()
        assert (first.failed, first.lapsed) == (1, 0)
        assert (second.failed, second.lapsed) == (0, 1)
        bench.wait(1)
        assert (await sweeper.sweep()).failed == 1


@pytest.mark.fault(26)
async def test_a_person_who_cannot_be_called_does_not_stop_the_round() -> None:
    desk = Desk([UNSURE])
    async with Workbench(served=[desk.served(execution=ExecutionContract())]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        Failing(bench, "tail", "txn_1", RuntimeError("a bug"))
        swept = await bench.sweep()
        assert (swept.failed, swept.escalated) == (1, 0)


async def test_a_credential_source_that_is_down_is_asked_again_later_and_less_and_less() -> None:
    asked: list[str] = []
    down = [False]

    class Vault:
        def credential(self, *_: object) -> Credential:
            asked.append("now")
            if down[0]:
                raise RuntimeError("down")
            return Credential(secret=Secret("tok"))

    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()], credentials=Vault()) as bench:
        await ask(bench, action(transaction="txn_1"))
        down[0] = True
        asked.clear()
        bench.wait(5)
        sweeper = Sweeper(bench.engine)
        for _ in range(100):
            await sweeper.sweep()
            bench.wait(1)
        assert 5 < len(asked) < 10
        assert await refusals(bench) == []
        down[0] = False
        bench.wait(60)
        assert (await sweeper.sweep()).reconciled == 1


async def test_a_store_that_is_gone_during_a_look_up_leaves_the_record_for_later() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        bench.wait(5)
        Failing(bench, "get", "act_1", GONE)
        swept = await bench.sweep()
        assert (swept.total, swept.failed) == (0, 0)
        assert (await bench.record("txn_1")).attention is None


async def test_a_settlement_that_could_not_be_stored_is_left_to_the_lease() -> None:
    async def breaks(_attempt: Attempt) -> object:
        Failing(bench, "commit", "txn_1", GONE)
        return DONE

    desk = Desk([UNSURE], reconcile=[breaks])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        swept = await bench.sweep()
        assert (swept.total, swept.failed) == (0, 0)
        assert (await bench.record("txn_1")).status is Status.RECONCILING


@pytest.mark.rule("TX-RECON-4")
async def test_look_ups_are_bounded_in_number() -> None:
    running, most = 0, 0

    async def looks(_attempt: Attempt) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return DONE

    desk = Desk([UNSURE], reconcile=[looks])
    async with Workbench(served=[desk.served()]) as bench:
        for _ in range(9):
            await ask(bench, action())
        bench.wait(5)
        swept = await Sweeper(bench.engine, concurrency=2).sweep()
        assert (swept.reconciled, most) == (9, 2)


@pytest.mark.fault(25)
async def test_after_an_outage_a_provider_is_asked_at_a_pace_until_nothing_is_left() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        for _ in range(7):
            await ask(bench, action())
        bench.wait(5)
        sweeper = Sweeper(bench.engine, batch=2, pace=Pace(burst=3, per_s=2))
        found = []
        for _ in range(6):
            found.append((await sweeper.sweep()).reconciled)
            bench.wait(1)
        assert sum(found) == 7
        assert max(found) <= 3


@pytest.mark.rule("TX-LEASE-2", "TX-RECON-4")
async def test_lapsed_leases_do_not_wait_for_slow_look_ups() -> None:
    stuck = asyncio.Event()

    async def hangs(_attempt: Attempt) -> object:
        stuck.set()
        await asyncio.Event().wait()
        return DONE

    desk = Desk([UNSURE], reconcile=[hangs])
    async with Workbench(served=[desk.served()]) as bench:
        for n in range(3):
            await ask(bench, action(transaction=f"txn_{n}"))
        bench.wait(5)
        sweeping = asyncio.ensure_future(Sweeper(bench.engine, poll_s=0.001, concurrency=2).run())
        await stuck.wait()
        await claim(bench, action(transaction="txn_dead"))
        bench.wait(36)

        async def lapsed() -> bool:
            return (await bench.record("txn_dead")).status is Status.OUTCOME_UNKNOWN

        await until(lapsed)
        assert desk.entered(Handler.RECONCILE) == 2
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def test_the_sweeper_goes_on_after_the_store_was_gone_and_until_it_is_cancelled() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        for _ in range(5):
            await ask(bench, action())
        bench.wait(5)
        due, times = bench.store.due, 0

        async def flaky(type_: type[TransactionRecord], limit: int) -> object:
            nonlocal times
            times += 1
            if times <= 2:
                raise GONE
            return await due(type_, limit)

        replaced(bench, "due", flaky)
        sweeping = asyncio.ensure_future(
            Sweeper(bench.engine, poll_s=0.001, batch=2, concurrency=2).run()
        )

        async def all_found() -> bool:
            return all(one.status is Status.RECONCILED for one in await records(bench))

        await until(all_found)
        sweeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sweeping


async def test_a_backlog_of_plans_is_worked_off_without_pauses() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        for _ in range(7):
            await ask(bench, action(Mode.PLAN))
        bench.wait(900)
        sweeping = asyncio.ensure_future(Sweeper(bench.engine, poll_s=60, batch=2).run())

        async def all_expired() -> bool:
            return all(one.status is Status.FAILED for one in await records(bench))

        await until(all_expired)
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def test_two_rounds_at_once_ask_once() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action())
        bench.wait(5)
        sweeper = Sweeper(bench.engine)
        await asyncio.gather(sweeper.sweep(), sweeper.sweep())
        assert desk.entered(Handler.RECONCILE) == 1


async def test_whoever_was_faster_makes_the_others_change_nothing() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    guarded = desk.served("shop.guarded", approval=ApprovalPolicy(ttl_ms=1_000))
    async with Workbench(served=[desk.served(), guarded]) as bench:
        await claim(bench, action(transaction="txn_dead"))
        await ask(bench, action(Mode.PLAN, transaction="txn_plan"))
        waiting = await ask(bench, action(capability="shop.guarded"))
        bench.wait(900)
        other = Sweeper(bench.engine)
        due = bench.store.due

        async def late(type_: type[TransactionRecord], limit: int) -> object:
            found = await due(type_, limit)
            mend()
            await other.sweep()
            return found

        mend = replaced(bench, "due", late)
        swept = await bench.sweep()
        assert swept.total == 0
        assert waiting.status == "requires_human"


async def test_a_request_that_is_not_due_any_more_is_not_expired() -> None:
    guarded = Desk().served(approval=ApprovalPolicy(ttl_ms=1_000))
    async with Workbench(served=[guarded]) as bench:
        waiting = await ask(bench, action())
        bench.wait(1)
        [stored] = await bench.store.due(ApprovalRequest, 10)
        assert stored.document.approval_id == waiting.approval_id
        early = replace(stored, read_at=stored.document.created_at)
        assert await bench.engine.upkeep.expire_approval(early) is False


@pytest.mark.rule("TX-RECON-3", "TX-RECON-4")
async def test_the_scheduler_drives_again_only_what_it_can_send_whole() -> None:
    desk = Desk([UNSURE, DONE])
    modes = replace(
        contract_of(desk.handlers),
        supported_modes=(Mode.EXECUTE, Mode.PLAN, Mode.COMMIT, Mode.RECONCILE),
    )
    window = ExecutionContract(provider_dedup_window_ms=3_600_000)
    async with Workbench(served=[desk.served(execution=window, transaction=modes)]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        assert (await bench.sweep()).reconciled == 1
        assert [one.call.redrive for one in desk.seen] == [False, True]
        assert (await bench.record("txn_1")).status is Status.RECONCILED


async def test_a_record_without_its_action_is_not_driven_again() -> None:
    desk = Desk([UNSURE, DONE])
    modes = replace(
        contract_of(desk.handlers),
        supported_modes=(Mode.EXECUTE, Mode.PLAN, Mode.COMMIT, Mode.RECONCILE),
    )
    window = ExecutionContract(provider_dedup_window_ms=3_600_000)
    async with Workbench(served=[desk.served(execution=window, transaction=modes)]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        bench.wait(5)
        found_again = hidden(bench, ActionDocument)
        assert (await bench.sweep()).escalated == 1
        found_again()
        assert (await bench.record("txn_1")).attention == "input_required"


@pytest.mark.case("CMP-17")
async def test_definite_failures_are_in_no_queue() -> None:
    async with Workbench([faults.decline(), faults.connect()]) as bench:
        for _ in range(2):
            await ask(bench, action())
        assert (await ask(bench, action())).status == "committed"
        bench.wait(86_400 * 365)
        for _ in range(10):
            swept = await bench.sweep()
            assert (swept.total, swept.failed) == (0, 0)
        assert await bench.check() == []


@pytest.mark.rule("TX-RECON-3")
async def test_a_compensation_with_a_stored_reference_is_looked_up() -> None:
    level = ServiceLevelContract(timeout_ms=1_000)
    desk = Desk(compensate=[UNSURE], reconcile=[NotApplied(error=DECLINED)])
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done)
        bench.wait(5)
        assert (await bench.sweep()).reconciled == 1
        assert (await bench.record(lost)).status is Status.OUTCOME_UNKNOWN


@pytest.mark.rule("TX-LEASE-2")
async def test_a_lapsed_look_up_of_a_capability_that_is_gone_waits_by_the_default() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    recovery = RecoveryContract(initial_delay_ms=3_600_000, max_delay_ms=3_600_000)
    async with Workbench(served=[desk.served(recovery=recovery)]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        await claim(bench, action(Mode.RECONCILE, transaction="txn_1"))
        await bench.restart([])
        bench.wait(36)
        assert (await bench.sweep()).lapsed == 1
        record = await bench.record("txn_1")
        assert record.reconcile_after == after_ms(bench.clock(), 10_000)


async def test_what_is_no_plan_and_holds_no_lease_is_left_alone() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        done = await ask(bench, action(transaction="txn_1"))
        stored = await bench.store.get(TransactionRecord, TENANT, "txn_1")
        assert stored is not None

        async def mistaken(type_: type[TransactionRecord], _limit: int) -> list[object]:
            return [stored] if type_ is TransactionRecord else []

        replaced(bench, "due", mistaken)
        swept = await bench.sweep()
        assert (swept.total, swept.failed) == (0, 1)
        assert (await bench.record(done)).revision == done.revision


@pytest.mark.rule("TX-RECON-4")
async def test_a_record_that_only_another_process_can_look_up_is_left_to_it_for_a_while() -> None:
    """A host without the capability, as in a rolling deployment, calls nobody too soon."""
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        lost = await ask(bench, action())
        await bench.restart([Desk().served("shop.sell")])
        bench.wait(60)
        await bench.sweep()
        assert (await bench.record(lost)).attention is None
        bench.wait(15 * 60)
        await bench.sweep()
        assert (await bench.record(lost)).attention == "capability_not_registered"


async def test_the_process_that_has_the_capability_finds_out_in_the_meantime() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        lost = await ask(bench, action())
        await bench.restart([Desk().served("shop.sell")])
        bench.wait(60)
        await bench.sweep()
        await bench.restart([desk.served()])
        await bench.sweep()
        assert (await bench.record(lost)).status is Status.RECONCILED
