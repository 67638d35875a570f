"""Committing a plan through the engine: what must match, who wins, what time does."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.connectors.signals import NotApplied
from amends.contracts.declarations import ServiceLevelContract
from amends.contracts.enums import Freeze, Handler, Mode, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import PrincipalId
from amends.contracts.principals import Identity
from amends.contracts.times import after_ms
from amends.testing import faults
from amends.testing.invariants import check_history
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, TENANT, Workbench
from tests.unit.runtime.desk import (
    DONE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    claim,
    records,
)


async def planned(bench: Workbench, plan: str = "plan_1", **options: object) -> None:
    """A plan under an id of our own."""
    made = await ask(bench, action(Mode.PLAN, plan=plan, transaction=f"txn_{plan}"), **options)  # type: ignore[arg-type]  # from a table
    assert made.status == "planned"


@pytest.mark.rule("TX-CLAIM-1")
async def test_a_commit_claims_its_plan_and_finds_its_transaction_by_it(
    place: Path | None,
) -> None:
    async with Workbench(file=place) as bench:
        await planned(bench)
        done = await ask(bench, action(Mode.COMMIT, id="act_commit", plan="plan_1", key="k"))
        record = await bench.record("txn_plan_1")
        assert (done.status, done.transaction_id) == ("committed", "txn_plan_1")
        assert record.plan is not None
        assert (record.action_id, record.mode, record.idempotency_key) == (
            "act_commit",
            Mode.COMMIT,
            "k",
        )
        assert record.plan.action_id != "act_commit"
        assert await chain(bench, done) == [
            "planned",
            "commit_started",
            "provider_accepted",
            "dispatched",
            "committed",
        ]
        assert await bench.check() == []


@pytest.mark.rule(
    "TX-COMMIT-2",
    "TX-COMMIT-6",
    "TX-COMMIT-8",
    "TX-COMMIT-9",
    "TX-COMMIT-10",
    "TX-COMMIT-12",
)
async def test_a_commit_that_does_not_match_its_plan_is_refused_and_changes_nothing() -> None:
    identity = Identity(tenant=TENANT, external_account="acct_1")
    async with Workbench() as bench:
        await planned(bench, identity=identity)
        before = await bench.record("txn_plan_1")
        commit = action(Mode.COMMIT, plan="plan_1")
        for asked, options, code in (
            (action(Mode.COMMIT, plan="plan_9"), {}, "plan_not_found"),
            (
                commit,
                {"principal": replace(ALICE, id=PrincipalId("al"))},
                "plan_principal_mismatch",
            ),
            (
                action(Mode.COMMIT, plan="plan_1", transaction="txn_9"),
                {},
                "plan_transaction_mismatch",
            ),
            (
                action(Mode.COMMIT, plan="plan_1", input={"amount": 501}),
                {},
                "plan_input_hash_mismatch",
            ),
            (commit, {"identity": None}, "plan_identity_missing"),
            (
                commit,
                {"identity": replace(identity, external_account="acct_2")},
                "plan_external_account_mismatch",
            ),
        ):
            told = {"identity": identity, **options}
            with refused_with(f"transaction.{code}"):
                await ask(bench, asked, **told)  # type: ignore[arg-type]  # from a table
        assert await bench.record("txn_plan_1") == before
        assert bench.provider.charges == 0


@pytest.mark.rule("TX-COMMIT-7", "TX-PLAN-6")
@pytest.mark.case("TIM-01")
async def test_a_plan_expires_exactly_when_its_time_is_reached() -> None:
    async with Workbench() as bench:
        for plan, seconds, expired in (("a", 899.999, False), ("b", 900, True), ("c", 901, True)):
            start = bench.clock()
            await planned(bench, plan)
            bench.wait(seconds)
            if expired:
                with refused_with("transaction.plan_expired"):
                    await ask(bench, action(Mode.COMMIT, plan=plan))
            else:
                done = await ask(bench, action(Mode.COMMIT, plan=plan))
                assert done.status == "committed"
            assert bench.clock() > start


@pytest.mark.rule("TX-PLAN-6", "TX-COMMIT-4")
@pytest.mark.case("TIM-07")
async def test_a_plan_that_was_written_down_as_expired_stays_so_when_the_clock_goes_back() -> None:
    async with Workbench() as bench:
        await planned(bench)
        bench.wait(900)
        swept = await bench.sweep()
        assert swept.plans_expired == 1
        bench.wait(-3_600)
        with refused_with("transaction.plan_expired"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        record = await bench.record("txn_plan_1")
        assert (record.status, record.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
        assert record.plan is not None
        assert await bench.check() == []


@pytest.mark.rule("TX-CLAIM-1")
@pytest.mark.fault(11)
async def test_a_plan_that_expires_between_the_check_and_the_claim_is_not_claimed() -> None:
    async with Workbench() as bench:
        await planned(bench)

        async def time_passes() -> None:
            bench.wait(900)

        before_next_write(bench, time_passes)
        with refused_with("transaction.plan_expired"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        assert (await bench.record("txn_plan_1")).status is Status.PLANNED
        assert bench.provider.charges == 0


@pytest.mark.fault(11)
@pytest.mark.rule("TX-PIPE-5")
async def test_a_plan_that_expires_between_the_claim_and_the_call_is_not_dispatched() -> None:
    async with Workbench() as bench:
        await planned(bench)
        running = await claim(bench, action(Mode.COMMIT, plan="plan_1"))
        bench.wait(900)
        bench.engine.dispatch(running)
        done = await running.answer
        assert done.error is not None
        assert (done.status, done.error.code) == ("failed", "transaction.not_dispatched")
        assert done.verdict is Verdict.NOT_COMMITTED
        assert bench.provider.far_side.requests == ["validate"]
        assert "dispatched" not in await chain(bench, done)


@pytest.mark.fault(20)
async def test_a_process_that_was_paused_longer_than_its_lease_does_not_send() -> None:
    async with Workbench() as bench:
        running = await claim(bench, action(transaction="txn_1"))
        bench.wait(36)
        await bench.sweep()
        bench.engine.dispatch(running)
        done = await running.answer
        assert bench.provider.far_side.requests == []
        assert (done.status, done.verdict) == ("reconciled", Verdict.NOT_COMMITTED)
        assert await bench.check() == []


@pytest.mark.rule("TX-COMMIT-14", "TX-CLAIM-1", "TX-PIPE-5", "TX-REV-1")
@pytest.mark.fault(1)
@pytest.mark.case("DUP-02")
async def test_of_many_commits_at_once_one_wins_and_the_others_hear_whose_plan_it_is(
    place: Path | None,
) -> None:
    async with Workbench(file=place) as bench:
        await planned(bench)
        answers = await asyncio.gather(
            *(ask(bench, action(Mode.COMMIT, plan="plan_1")) for _ in range(16)),
            return_exceptions=True,
        )
        won = [one for one in answers if not isinstance(one, BaseException)]
        lost = [one.code for one in answers if isinstance(one, AmendsError)]
        assert len(won) == 1
        assert len(lost) == 15
        assert set(lost) <= {
            "transaction.plan_already_claimed",
            "transaction.plan_not_committable",
        }
        assert bench.provider.charges == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-PIPE-5", "TX-COMMIT-14")
async def test_a_commit_that_loses_its_claim_in_the_race_hears_that_the_plan_is_taken() -> None:
    async with Workbench() as bench:
        await planned(bench)

        async def overtaking() -> None:
            await ask(bench, action(Mode.COMMIT, id="act_fast", plan="plan_1"))

        before_next_write(bench, overtaking)
        with refused_with("transaction.plan_already_claimed") as caught:
            await ask(bench, action(Mode.COMMIT, id="act_slow", plan="plan_1"))
        assert caught.error.details["status"] == "committed"
        view = await bench.alice.get(action_id="act_slow")
        assert view.verdicts[-1].code == "transaction.plan_already_claimed"
        assert bench.provider.charges == 1


@pytest.mark.case("PLN-01")
@pytest.mark.rule("TX-CLAIM-1", "TX-COMMIT-4")
async def test_a_committed_plan_is_never_committed_again(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        await planned(bench)
        first = await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_1"))
        before = await bench.snapshot()
        same = await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_1"))
        with refused_with("transaction.plan_not_committable") as caught:
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        await bench.restart()
        again = await ask(bench, action(Mode.COMMIT, id="act_1", plan="plan_1"))
        assert (same.replayed, again.replayed) == (True, True)
        assert first.raw_output == same.raw_output == again.raw_output
        assert caught.error.details["status"] == "committed"
        assert bench.provider.charges == 1
        assert check_history(before, await bench.snapshot()) == []


@pytest.mark.case("PLN-03")
@pytest.mark.rule("TX-CANCEL-2")
async def test_of_two_plans_the_withdrawn_one_cannot_be_claimed(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        await planned(bench, "staging")
        await planned(bench, "prod")
        await bench.alice.withdraw("txn_prod")
        outcomes: dict[str, str] = {}
        for plan in ("staging", "prod"):
            try:
                outcomes[plan] = (await bench.alice.commit(plan)).status
            except AmendsError as error:
                outcomes[plan] = error.code
        assert outcomes == {
            "staging": "committed",
            "prod": "transaction.plan_not_committable",
        }
        assert bench.provider.charges == 1


@pytest.mark.case("PLN-04")
@pytest.mark.rule("TX-SETTLE-4")
async def test_a_plan_whose_precondition_moved_fails_for_certain_before_any_effect() -> None:
    etag, moved_by = [1], list[str]()

    async def applies(attempt: Attempt) -> object:
        order = attempt.call.input
        assert isinstance(order, dict)
        if order["etag"] != etag[0]:
            raise NotApplied("precondition_failed", details={"moved_by": moved_by[-1]})
        etag[0] += 1
        moved_by.append(attempt.call.transaction_id)
        return DONE

    async def validates(_attempt: Attempt) -> object:
        return {"etag": etag[0]}

    desk = Desk([applies], preview=[validates])
    async with Workbench(served=[desk.served()]) as bench:
        plans = [await ask(bench, action(Mode.PLAN, input={"etag": 1, "n": n})) for n in range(3)]
        assert [one.output for one in plans] == [{"etag": 1}] * 3
        ends = [await bench.alice.commit(one) for one in plans]
        assert [(one.status, one.verdict) for one in ends] == [
            ("committed", Verdict.COMMITTED),
            ("failed", Verdict.NOT_COMMITTED),
            ("failed", Verdict.NOT_COMMITTED),
        ]
        for failed in ends[1:]:
            shown = (await bench.alice.get(failed)).result
            assert shown is not None
            for error in (failed.error, shown.error):
                assert error is not None
                assert error.code == "precondition_failed"
                assert error.details == {"moved_by": plans[0].transaction_id}
        assert etag == [2]


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.fault(21)
async def test_a_licence_is_measured_by_the_latest_that_the_stores_clock_may_show() -> None:
    async with Workbench() as bench:
        store = bench.store

        async def by_now() -> datetime:
            return await store.now() + timedelta(hours=1)

        store.by_now = by_now  # type: ignore[method-assign]  # a store that is not sure
        done = await ask(bench, action())
        assert (done.status, bench.provider.charges) == ("failed", 0)


@pytest.mark.rule("TX-CLAIM-1")
async def test_a_failed_commit_never_reopens_its_plan() -> None:
    async with Workbench([faults.decline()]) as bench:
        await planned(bench)
        done = await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        assert done.status == "failed"
        with refused_with("transaction.plan_not_committable"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        assert bench.provider.charges == 0


@pytest.mark.case("DUP-02")
@pytest.mark.rule("TX-SETTLE-2", "TX-ACT-1")
async def test_a_slow_charge_that_looked_failed_is_not_made_again(place: Path | None) -> None:
    async with Workbench(
        [faults.late(0.03)],
        file=place,
        service_level=ServiceLevelContract(timeout_ms=10),
        grace_ms=1,
    ) as bench:
        await planned(bench)
        commit = action(Mode.COMMIT, id="act_1", plan="plan_1")
        first = await ask(bench, commit)
        assert first.error is not None
        assert (first.status, first.error.code) == ("outcome_unknown", "sla.timeout_exceeded")
        heard = await asyncio.gather(
            *(ask(bench, commit) for _ in range(5)), return_exceptions=True
        )
        for one in heard:
            assert isinstance(one, AmendsError)
            assert one.code == "transaction.reconciliation_required"
            assert one.details["transaction_id"] == "txn_plan_1"
            assert one.details["reconcile_after"] is not None
        with refused_with("transaction.plan_not_committable"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        bench.wait(5)
        found = await bench.alice.reconcile("txn_plan_1")
        assert (found.status, found.verdict) == ("reconciled", Verdict.COMMITTED)
        assert bench.provider.charges == 1
        assert await bench.check() == []


@pytest.mark.rule("TX-PLAN-5", "TX-COMMIT-13")
@pytest.mark.fault(12)
@pytest.mark.parametrize("freeze", list(Freeze))
async def test_a_changed_declaration_stops_a_commit_where_governance_is_frozen(
    freeze: Freeze,
) -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(freeze=freeze)]) as bench:
        await planned(bench)
        await bench.restart([desk.served(freeze=freeze, description="another one")])
        commit = action(Mode.COMMIT, plan="plan_1")
        if freeze is Freeze.GOVERNANCE:
            with refused_with("transaction.plan_governance_changed"):
                await ask(bench, commit)
            assert (await bench.record("txn_plan_1")).status is Status.PLANNED
        else:
            assert (await ask(bench, commit)).status == "committed"


@pytest.mark.fault(12)
async def test_the_gates_of_now_stop_a_commit_of_a_plan_made_under_older_ones() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        await planned(bench)
        await bench.restart([desk.served(required_scopes=("pay",))])
        with refused_with("policy.denied"):
            await bench.acting_as(replace(ALICE, scopes=())).commit("plan_1")
        await bench.restart([desk.served(input_schema={"type": "object", "required": ["to"]})])
        with refused_with("input.schema_mismatch"):
            await bench.alice.commit("plan_1")
        assert (await bench.record("txn_plan_1")).status is Status.PLANNED
        assert desk.entered(Handler.EXECUTE) == 0


@pytest.mark.rule("TX-LEASE-3")
async def test_a_frozen_plan_is_not_committed_until_it_is_released() -> None:
    async with Workbench() as bench:
        await planned(bench)
        [stored] = [
            one
            for one in [
                await bench.store.get(type(await bench.record("txn_plan_1")), TENANT, "txn_plan_1")
            ]
            if one is not None
        ]
        await bench.engine.upkeep.freeze(stored, "restored")
        with refused_with("transaction.frozen"):
            await bench.alice.commit("plan_1")
        bench.wait(900)
        assert (await bench.sweep()).total == 0
        bench.wait(-900)
        await bench.olga.release("txn_plan_1")
        assert (await bench.alice.commit("plan_1")).status == "committed"


async def test_a_plan_stays_readable_after_use_and_says_when_it_ended() -> None:
    async with Workbench() as bench:
        await planned(bench)
        await bench.alice.commit("plan_1")
        view = await bench.alice.get(plan_id="plan_1", include_result=True)
        assert view.plan is not None
        assert view.plan.expires_at == after_ms(view.plan.created_at, 900_000)
        assert view.result.status == "committed"
        [record] = await records(bench)
        assert record.plan == view.plan


@pytest.mark.rule("TX-COMMIT-3", "TX-COMMIT-1")
async def test_a_plan_is_not_committed_for_another_capability() -> None:
    desk, shop = Desk(), Desk()
    async with Workbench(served=[desk.served(), shop.served("shop.sell")]) as bench:
        await planned(bench)
        with refused_with("transaction.plan_capability_mismatch"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1", capability="shop.sell"))
        with refused_with("transaction.plan_required"):
            await ask(bench, action(Mode.COMMIT))
        assert (await bench.record("txn_plan_1")).status is Status.PLANNED
        assert (desk.seen, shop.seen) == ([], [])
