"""Dry runs and plans: what is entered, what is bound, what a preview must not do."""

import asyncio
from pathlib import Path

import pytest

from amends.connectors.port import Attempt
from amends.connectors.signals import NotApplied
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    CompensationContract,
    DataContract,
    ServiceLevelContract,
)
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import (
    CompensationMode,
    Fidelity,
    Handler,
    Mode,
    SideEffect,
    Status,
    Verdict,
)
from amends.contracts.outcomes import Pending, Uncertain
from amends.contracts.principals import Identity
from amends.contracts.times import after_ms
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE, TENANT, Workbench, contract_of
from amends.transactions.hashing import plan_digest
from tests.unit.runtime.desk import DONE, LATER, Desk, action, ask, chain, records


def previewing(desk: Desk, fidelity: Fidelity, place: Path | None = None) -> Workbench:
    """The desk at this fidelity."""
    return Workbench(
        served=[desk.served(transaction=contract_of(desk.handlers, fidelity))], file=place
    )


@pytest.mark.rule("TX-DRY-1")
@pytest.mark.parametrize("fidelity", list(Fidelity))
async def test_only_the_downstream_fidelities_enter_the_handler(
    fidelity: Fidelity, place: Path | None
) -> None:
    desk = Desk(preview=[{"quote": 7}])
    downstream = fidelity in (Fidelity.DOWNSTREAM_VALIDATION, Fidelity.FULL_SIMULATION)
    async with previewing(desk, fidelity, place) as bench:
        dry = await ask(bench, action(Mode.DRY_RUN))
        shown = dry.output
        assert isinstance(shown, dict)
        assert (dry.status, shown["fidelity"]) == ("dry_run_completed", fidelity.value)
        inner = {"status": "completed", "output": {"quote": 7}} if downstream else None
        assert shown.get("provider") == inner
        assert desk.entered(Handler.PREVIEW) == downstream
        assert desk.entered(Handler.EXECUTE) == 0
        assert await chain(bench, dry) == ["dry_run_completed"]


@pytest.mark.rule("TX-DRY-1")
async def test_a_preview_sees_no_key_and_no_licence() -> None:
    desk = Desk(preview=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(Mode.DRY_RUN, key="order-7"))
        [attempt] = desk.seen
        assert (attempt.provider_key, attempt.call.fence, attempt.number) == ("", None, 0)
        [record] = await records(bench)
        assert (record.attempts, record.attempt) == (0, None)


@pytest.mark.rule("TX-DRY-1")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (NotApplied("card_declined", "No."), "card_declined"),
        (Uncertain(error=LATER), "try_later"),
        (Pending(), "transaction.outcome_unknown"),
        (RuntimeError("CANARY"), "transaction.unclassified_exception"),
        (SystemExit("CANARY"), "transaction.unclassified_exception"),
        (asyncio.CancelledError(), "transaction.attempt_interrupted"),
    ],
    ids=["refused", "uncertain", "pending", "exception", "exit", "gave itself up"],
)
async def test_a_failed_preview_is_shown_inside_a_completed_dry_run(
    answer: object, code: str
) -> None:
    desk = Desk(preview=[answer])
    async with Workbench(served=[desk.served()]) as bench:
        dry = await ask(bench, action(Mode.DRY_RUN))
        shown = dry.output
        assert isinstance(shown, dict)
        provider = shown["provider"]
        assert isinstance(provider, dict)
        assert (dry.result_status, provider["status"]) == ("completed", "failed")
        error = provider["error"]
        assert isinstance(error, dict)
        assert error["code"] == code
        assert "CANARY" not in str(dry)


@pytest.mark.rule("TX-DRY-2")
@pytest.mark.parametrize("mode", [Mode.DRY_RUN, Mode.PLAN])
async def test_a_checkpoint_from_a_preview_is_refused_and_flagged_even_if_swallowed(
    mode: Mode,
) -> None:
    async def leaks(attempt: Attempt) -> object:
        with refused_with("transaction.checkpoint_refused"):
            await attempt.checkpoint("desk", "op_leaked")
        return DONE

    desk = Desk(preview=[leaks])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action(mode))
        assert (await chain(bench, made))[0] == "preview_effect"
        assert (await bench.record(made)).provider_operation is None


@pytest.mark.rule("TX-DRY-2", "TX-PLAN-4")
async def test_a_checkpoint_that_a_preview_does_not_survive_rejects_the_plan_and_is_flagged() -> (
    None
):
    async def leaks(attempt: Attempt) -> object:
        await attempt.checkpoint("desk", "op_leaked")
        return DONE

    desk = Desk(preview=[leaks])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action(Mode.PLAN))
        assert made.status == "failed"
        assert await chain(bench, made) == ["preview_effect", "failed"]


@pytest.mark.rule("TX-PLAN-4")
@pytest.mark.parametrize(
    "answer",
    [
        NotApplied("card_declined"),
        RuntimeError("boom"),
        ExceptionGroup("several", [ValueError("one")]),
        Uncertain(error=LATER),
    ],
    ids=["refused", "exception", "group", "uncertain"],
)
async def test_a_failed_validation_leaves_a_failed_record_without_a_plan(
    answer: object, place: Path | None
) -> None:
    desk = Desk(preview=[answer])
    async with Workbench(served=[desk.served()], file=place) as bench:
        made = await ask(bench, action(Mode.PLAN, id="act_1", plan="plan_1"))
        record = await bench.record(made)
        assert (record.status, record.plan, record.verdict) == (
            Status.FAILED,
            None,
            Verdict.NOT_COMMITTED,
        )
        assert record.error is not None
        with refused_with("transaction.plan_not_found"):
            await ask(bench, action(Mode.COMMIT, plan="plan_1"))
        assert desk.entered(Handler.EXECUTE) == 0


@pytest.mark.rule("TX-PLAN-4")
async def test_a_preview_that_never_answers_is_given_up_at_the_time_limit() -> None:
    async def hangs(_attempt: Attempt) -> object:
        await asyncio.Event().wait()
        return DONE

    desk = Desk(preview=[hangs])
    level = ServiceLevelContract(timeout_ms=10)
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        made = await ask(bench, action(Mode.PLAN))
        assert made.error is not None
        assert (made.status, made.error.code) == ("failed", "sla.timeout_exceeded")


async def test_a_caller_that_goes_away_during_a_preview_ends_it_without_a_record() -> None:
    entered = asyncio.Event()

    async def hangs(_attempt: Attempt) -> object:
        entered.set()
        await asyncio.Event().wait()
        return DONE

    desk = Desk(preview=[hangs])
    async with Workbench(served=[desk.served()]) as bench:
        asking = asyncio.ensure_future(ask(bench, action(Mode.DRY_RUN)))
        await entered.wait()
        await bench.engine.close(1)
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await records(bench) == []


@pytest.mark.rule("TX-PLAN-1", "TX-PLAN-2", "TX-PLAN-3")
async def test_a_plan_binds_everything_a_commit_is_compared_with(place: Path | None) -> None:
    approval = ApprovalPolicy(reason="two eyes", ttl_ms=60_000)
    data = DataContract(contains_pii=True)
    desk = Desk(preview=[{"quote": 7}], compensate=[DONE])
    served = desk.served(approval=approval, data=data, plan_ttl_ms=120_000)
    identity = Identity(tenant=TENANT, external_account="acct_1")
    async with Workbench(served=[served], file=place) as bench:
        asked = action(Mode.PLAN, id="act_1", transaction="txn_1", input={"b": 1.0, "a": "é"})
        made = await ask(bench, asked, identity=identity)
        plan = (await bench.record(made)).plan
        capability = served[0]
        assert plan is not None
        assert (plan.plan_id, plan.transaction_id, plan.action_id) == (
            "plan:txn_1",
            "txn_1",
            "act_1",
        )
        assert (plan.capability_id, plan.requester.id) == (CHARGE, "alice")
        assert plan.snapshot.input == '{"a":"é","b":1}'
        assert plan.side_effects == capability.side_effects
        assert (plan.approval_required, plan.approval_policy) == (True, approval)
        assert plan.compensation == CompensationContract(mode=CompensationMode.SUPPORTED)
        assert (plan.fidelity, plan.identity) == (Fidelity.DOWNSTREAM_VALIDATION, identity)
        assert plan.expires_at == after_ms(plan.created_at, 120_000)
        assert (plan.data, plan.service_level) == (data, capability.service_level)
        assert plan.validation is not None
        assert plan.validation.output == '{"quote":7}'
        assert plan.digest == plan_digest(plan)
        assert made.output == {"quote": 7}


@pytest.mark.rule("TX-PLAN-2")
async def test_a_plan_lives_fifteen_minutes_and_warns_of_a_longer_approval() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(approval=ApprovalPolicy())]) as bench:
        made = await ask(bench, action(Mode.PLAN))
        assert made.plan_expires_at == after_ms(bench.clock(), 15 * 60 * 1000)
        assert made.warnings == ("plan.expires_before_approval",)


@pytest.mark.rule("TX-PLAN-3")
@pytest.mark.case("CAN-02", "APR-02")
async def test_what_runs_is_read_back_from_the_bytes_that_were_hashed() -> None:
    seen: list[object] = []

    async def keeps(attempt: Attempt) -> object:
        seen.append(attempt.call.input)
        return DONE

    desk = Desk([keeps])
    async with Workbench(served=[desk.served()]) as bench:
        first = await ask(bench, action(Mode.PLAN, input={"n": 1.0, "zero": -0.0, "t": [1e2]}))
        done = await bench.alice.commit(first, {"n": 1, "zero": 0, "t": (100,)})
        assert done.status == "committed"
        [value] = seen
        assert isinstance(value, dict)
        assert {name: type(one) for name, one in value.items()} == {
            "n": int,
            "zero": int,
            "t": list,
        }
        waiting = await ask(bench, action(Mode.PLAN, input={"n": 1.0}))
        with refused_with("transaction.plan_input_hash_mismatch"):
            await bench.alice.commit(waiting, {"n": True})


async def test_ids_that_are_taken_make_no_second_preview() -> None:
    desk = Desk(preview=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(Mode.PLAN, transaction="txn_1", plan="plan_1"))
        with refused_with("transaction.id_conflict"):
            await ask(bench, action(Mode.PLAN, transaction="txn_1"))
        with refused_with("transaction.plan_id_conflict"):
            await ask(bench, action(Mode.PLAN, plan="plan_1"))
        with refused_with("transaction.id_conflict"):
            await ask(bench, action(Mode.DRY_RUN, transaction="txn_1"))
        assert len(await records(bench)) == 1
        assert desk.entered(Handler.PREVIEW) == 1


@pytest.mark.case("INJ-02")
async def test_a_chosen_plan_id_cannot_imitate_the_one_of_another_transaction() -> None:
    async with Workbench() as bench:
        with refused_with("input.invalid_id"):
            await ask(bench, action(Mode.PLAN, transaction="txn_b", plan="plan:txn_a"))
        own = await ask(bench, action(Mode.PLAN, transaction="txn_a", plan="plan:txn_a"))
        assert own.plan_id == "plan:txn_a"


@pytest.mark.fault(15)
async def test_the_same_preview_sent_twice_at_once_makes_one_record(place: Path | None) -> None:
    desk = Desk(preview=[DONE])
    async with Workbench(served=[desk.served()], file=place) as bench:
        asked = action(Mode.PLAN, id="act_1")
        one, other = await asyncio.gather(ask(bench, asked), ask(bench, asked))
        assert one.plan_id == other.plan_id
        assert len(await records(bench)) == 1


@pytest.mark.rule("TX-SETTLE-5")
async def test_an_unusable_preview_output_does_not_keep_a_plan_from_being_made() -> None:
    desk = Desk(preview=[{"note": "\ud800"}])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action(Mode.PLAN))
        assert (made.status, made.raw_output) == ("planned", None)


@pytest.mark.rule("TX-ROLLBACK-1")
async def test_rollback_not_supported_is_a_terminal_policy_answer(place: Path | None) -> None:
    desk = Desk()
    firm = CompensationContract(mode=CompensationMode.ROLLBACK_NOT_SUPPORTED)
    async with Workbench(
        served=[desk.served(compensation=firm, approval=ApprovalPolicy())], file=place
    ) as bench:
        made = await ask(bench, action(Mode.ROLLBACK_NOT_SUPPORTED, id="act_1"))
        record: TransactionRecord = await bench.record(made)
        assert made.error is not None
        assert (made.status, made.error.code) == (
            "rollback_not_supported",
            "transaction.rollback_not_supported",
        )
        assert (made.error.category, made.error.retryable) == ("policy", False)
        assert (record.status, record.settled_at) == (
            Status.ROLLBACK_NOT_SUPPORTED,
            bench.clock(),
        )
        assert (await bench.snapshot()).approvals == ()
        again = await ask(bench, action(Mode.ROLLBACK_NOT_SUPPORTED, id="act_1"))
        assert again.replayed
        assert desk.seen == []


@pytest.mark.rule("TX-CONTRACT-1")
async def test_without_a_transaction_contract_only_execute_is_admitted() -> None:
    desk = Desk()
    read = desk.served(transaction=None, side_effects=(SideEffect.READ,))
    async with Workbench(served=[read]) as bench:
        for mode in (Mode.DRY_RUN, Mode.PLAN, Mode.RECONCILE):
            with refused_with("transaction.mode_not_supported"):
                await ask(bench, action(mode, transaction="txn_1"))
        with refused_with("transaction.mode_not_supported"):
            await ask(bench, action(Mode.COMMIT), trusted=True)
        with refused_with("transaction.mode_not_supported"):
            await ask(bench, action(Mode.COMPENSATE, target="act_1"))
        assert (await ask(bench, action())).status == "committed"
