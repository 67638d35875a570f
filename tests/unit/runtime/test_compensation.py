"""Offsetting an effect: when it may be done, how often, by whom, and that nothing does it alone."""

import asyncio
from pathlib import Path

import pytest

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.actions import Action
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.declarations import (
    CompensationContract,
)
from amends.contracts.enums import (
    CompensationMode,
    Handler,
    Mode,
    Status,
    Verdict,
)
from amends.contracts.errors import AmendsError
from amends.contracts.outcomes import Applied, NotApplied
from amends.governance.policy import PolicyDecision, PolicyQuestion, PolicyVerdict
from amends.testing import faults
from amends.testing.invariants import check_history
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE, Workbench
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    LATER,
    OPERATION,
    UNSURE,
    Desk,
    action,
    ask,
    chain,
    document,
    hidden,
)


def offsetting(target: str, capability: str = CHARGE) -> Action:
    """A compensation of this target."""
    return action(Mode.COMPENSATE, target=target, capability=capability, input={})


@pytest.mark.rule("TX-COMP-3", "TX-COMP-5")
async def test_a_compensation_is_a_governed_action_of_its_own(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        done = await ask(bench, action(id="act_1"))
        before = await bench.snapshot()
        made = await bench.alice.compensate(done, {"amount": 500}, action_id="act_2")
        record, own = await bench.record(made), await document(bench, "act_2")
        assert own is not None
        assert (made.status, made.mode, record.status) == (
            "compensated",
            "compensate",
            Status.COMPENSATED,
        )
        assert record.transaction_id != done.transaction_id
        assert record.context.compensation_for == own.context.compensation_for == "act_1"
        assert await chain(bench, made) == [
            "compensation_started",
            "provider_accepted",
            "dispatched",
            "compensated",
        ]
        assert (bench.provider.balance, bench.provider.refunds) == (0, 1)
        assert check_history(before, await bench.snapshot()) == []
        assert await bench.check() == []


@pytest.mark.rule("TX-COMP-3")
async def test_the_handler_is_told_the_original_result_and_coordinates() -> None:
    desk = Desk([Applied(output=DONE, operation=OPERATION)], compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action(id="act_1"))
        await bench.alice.compensate(done, {"reason": "broken"})
        told = desk.seen[-1].original
        record = await bench.record(done)
        assert told is not None
        assert (told.action_id, told.transaction_id) == ("act_1", done.transaction_id)
        assert (told.input, told.output, told.operation) == ({"amount": 500}, DONE, OPERATION)
        assert told.provider_key == record.provider_key != desk.seen[-1].provider_key


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.parametrize(
    ("contract", "code"),
    [
        (CompensationContract(), "transaction.mode_not_supported"),
        (
            CompensationContract(mode=CompensationMode.ROLLBACK_NOT_SUPPORTED),
            "transaction.mode_not_supported",
        ),
    ],
)
async def test_only_supported_and_best_effort_compensations_are_admitted(
    contract: CompensationContract, code: str
) -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(compensation=contract)]) as bench:
        done = await ask(bench, action(id="act_1"))
        with refused_with(code):
            await ask(bench, offsetting(done.action_id))
    best = CompensationContract(mode=CompensationMode.BEST_EFFORT)
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served(compensation=best)]) as bench:
        done = await ask(bench, action(id="act_1"))
        assert (await bench.alice.compensate(done)).status == "compensated"


@pytest.mark.rule("TX-COMP-1")
@pytest.mark.fault(48)
@pytest.mark.case("CMP-09")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (UNSURE, "transaction.compensation_target_not_completed"),
        (NotApplied(error=DECLINED), "transaction.compensation_target_not_completed"),
        (NotApplied(error=LATER), "transaction.compensation_target_not_completed"),
    ],
    ids=["unknown", "failed", "retryable"],
)
async def test_what_is_not_known_to_be_there_is_not_offset(answer: object, code: str) -> None:
    desk = Desk([answer], compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        with refused_with(code) as caught:
            await bench.alice.compensate(made)
        assert caught.error.details["target_status"] == made.status
        assert desk.entered(Handler.COMPENSATE) == 0


@pytest.mark.case("CMP-09")
@pytest.mark.rule("TX-COMP-6")
async def test_a_committed_step_is_offset_beside_an_unknown_one_without_a_cascade() -> None:
    desk = Desk([DONE, UNSURE], compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        first, second = await ask(bench, action()), await ask(bench, action())
        with refused_with("transaction.compensation_target_not_completed") as caught:
            await bench.alice.compensate(second)
        assert "reconcile" in caught.error.next_step
        made = await bench.alice.compensate(first)
        assert made.status == "compensated"
        assert (await bench.record(second)).status is Status.OUTCOME_UNKNOWN
        assert desk.entered(Handler.COMPENSATE) == 1


@pytest.mark.rule("TX-COMP-1")
async def test_a_partial_effect_and_a_reconciled_one_are_offset_once() -> None:
    desk = Desk(
        [signals.Partial("half"), UNSURE, UNSURE],
        reconcile=[DONE, signals.Partial("half")],
        compensate=[DONE],
    )
    async with Workbench(served=[desk.served()]) as bench:
        partial = await ask(bench, action())
        unknown = [await ask(bench, action()) for _ in range(2)]
        bench.wait(5)
        await bench.sweep()
        assert {(await bench.record(one)).status for one in unknown} == {Status.RECONCILED}
        for target in (partial, *unknown):
            assert (await bench.alice.compensate(target)).status == "compensated"
            with refused_with("transaction.compensation_exists"):
                await bench.alice.compensate(target)


@pytest.mark.rule("TX-COMP-1")
async def test_an_effect_that_was_found_absent_or_never_made_is_no_target() -> None:
    desk = Desk([UNSURE], compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        await bench.olga.settle(made, "not_committed", reference="r", note="n", accept_risk=True)
        with refused_with("transaction.compensation_target_not_committed"):
            await bench.alice.compensate(made)
        dry = await ask(bench, action(Mode.DRY_RUN))
        with refused_with("transaction.compensation_target_invalid"):
            await bench.alice.compensate(dry)
        plan = await ask(bench, action(Mode.PLAN))
        with refused_with("transaction.compensation_target_not_committed"):
            await bench.alice.compensate(plan)


@pytest.mark.rule("TX-COMP-1")
async def test_compensations_are_never_targets_and_targets_are_named_by_their_own_capability() -> (
    None
):
    desk, shop = Desk(compensate=[DONE]), Desk(compensate=[DONE])
    async with Workbench(served=[desk.served(), shop.served("shop.sell")]) as bench:
        done = await ask(bench, action())
        made = await bench.alice.compensate(done)
        with refused_with("transaction.compensation_target_invalid"):
            await bench.alice.compensate(made)
        with refused_with("transaction.compensation_target_mismatch"):
            await ask(bench, offsetting(done.action_id, capability="shop.sell"))
        with refused_with("transaction.compensation_target_not_found"):
            await ask(bench, offsetting("act_9"))
        with refused_with("transaction.compensation_target_not_found"):
            await bench.alice.compensate("act_9")


@pytest.mark.rule("TX-COMP-1")
async def test_an_action_that_only_named_a_transaction_is_no_way_to_its_effect() -> None:
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        with refused_with("transaction.execution_contract_mismatch"):
            await ask(bench, action(id="act_2", transaction="txn_1"))
        with refused_with("transaction.compensation_target_not_completed"):
            await ask(bench, offsetting("act_2"))


@pytest.mark.rule("TX-COMP-4")
async def test_planning_and_committing_action_name_one_effect() -> None:
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        plan = await ask(bench, action(Mode.PLAN, id="act_plan"))
        await bench.alice.commit(plan, action_id="act_commit")
        made = await bench.alice.compensate("act_commit")
        assert made.status == "compensated"
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate("act_plan")


@pytest.mark.case("CMP-01")
@pytest.mark.rule("TX-COMP-4", "AP-4")
@pytest.mark.fault(46)
async def test_of_several_approved_compensations_one_is_made(place: Path | None) -> None:
    desk = Desk(compensate=[DONE])
    served = desk.served(approval=ApprovalPolicy(ttl_ms=3_600_000))
    async with Workbench(served=[served], file=place) as bench:
        first = await ask(bench, action(id="act_1"))
        await bench.bob.approve(first)
        done = await bench.alice.resume(first)
        waiting = [await bench.alice.compensate(done, {"n": n}) for n in range(3)]
        for one in waiting:
            await bench.bob.approve(one)
        answers = await asyncio.gather(
            *(bench.alice.resume(one) for one in waiting), return_exceptions=True
        )
        lost = [one for one in answers if isinstance(one, AmendsError)]
        assert {one.code for one in lost} == {"transaction.compensation_exists"}
        assert (len(lost), desk.entered(Handler.COMPENSATE)) == (2, 1)
        [slots] = (await bench.snapshot()).slots
        assert lost[0].details["held_by"] == [slots.holders[0].action_id]


@pytest.mark.rule("TX-COMP-4")
async def test_more_than_one_compensation_is_declared_never_assumed() -> None:
    thrice = CompensationContract(mode=CompensationMode.SUPPORTED, max_compensations=3)
    async with Workbench(compensation=thrice) as bench:
        done = await ask(bench, action())
        for _ in range(3):
            assert (await bench.alice.compensate(done, {"amount": 100})).status == "compensated"
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done, {"amount": 100})
        assert (bench.provider.balance, bench.provider.refunds) == (200, 3)
        assert await bench.check() == []


class Large:
    """A policy that wants people to look at what is large."""

    revision = "large-1"

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        is_small = question.input == {"amount": 1}
        return PolicyDecision(
            verdict=PolicyVerdict.ALLOW if is_small else PolicyVerdict.REQUIRE_APPROVAL,
            rules=(),
            reason="",
            revision=self.revision,
            approval=None if is_small else ApprovalPolicy(ttl_ms=3_600_000),
        )


@pytest.mark.case("CMP-01")
@pytest.mark.rule("TX-COMP-4", "AP-4")
async def test_a_small_compensation_that_overtakes_leaves_nothing_to_those_that_wait(
    place: Path | None,
) -> None:
    """Whether a target can be offset is looked at in the claim, not when it was asked for."""
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served()], policy=Large(), file=place) as bench:
        done = await ask(bench, action(input={"amount": 1}))
        waiting = [await bench.alice.compensate(done, {"amount": 500}) for _ in range(2)]
        assert {one.status for one in waiting} == {"requires_human"}
        assert (await bench.alice.compensate(done, {"amount": 1})).status == "compensated"
        for one in waiting:
            await bench.bob.approve(one)
            with refused_with("transaction.compensation_exists"):
                await bench.alice.resume(one)
            assert (await bench.bob.approval(one)).status == "approved"
        assert desk.entered(Handler.COMPENSATE) == 1


@pytest.mark.case("CMP-03")
@pytest.mark.rule("TX-COMP-4", "TX-ACT-1")
async def test_a_compensation_that_was_made_is_not_made_again_on_any_path(
    place: Path | None,
) -> None:
    """What counts is how often the handler was entered: a provider may merge what has one key."""
    desk = Desk(compensate=[DONE], reconcile=[DONE])
    async with Workbench(served=[desk.served()], file=place) as bench:
        done = await ask(bench, action())
        made = await bench.alice.compensate(done, {"amount": 500}, action_id="act_2")
        for _ in range(2):
            again = await bench.alice.resume("act_2")
            assert (again.replayed, again.raw_output) == (True, made.raw_output)
            with refused_with("transaction.compensation_exists"):
                await bench.alice.compensate(done, {"amount": 500})
            with refused_with("transaction.reconcile_state_invalid"):
                await bench.olga.reconcile(made)
            with refused_with("transaction.settle_state_invalid"):
                await bench.olga.settle(made, "committed", reference="r", note="n")
            bench.wait(86_400)
            assert (await bench.sweep()).total == 0
            await bench.restart()
        assert [one.call.handler for one in desk.seen] == [Handler.EXECUTE, Handler.COMPENSATE]


@pytest.mark.fault(47)
async def test_the_same_compensation_with_another_input_is_a_conflict() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action())
        await bench.alice.compensate(done, {"amount": 100}, action_id="act_2")
        with refused_with("action.id_conflict"):
            await bench.alice.compensate(done, {"amount": 200}, action_id="act_2")
        assert bench.provider.refunds == 1


@pytest.mark.rule("TX-COMP-4", "TX-COMP-5")
async def test_a_definite_failure_gives_the_slot_back_and_a_new_action_may_try() -> None:
    async with Workbench([faults.none(), faults.connect(), faults.none()]) as bench:
        done = await ask(bench, action())
        failed = await bench.alice.compensate(done, {"amount": 500}, action_id="act_2")
        assert (failed.status, failed.verdict) == ("failed", Verdict.NOT_COMMITTED)
        stored = await bench.alice.resume("act_2")
        assert (stored.status, stored.replayed) == ("failed", True)
        again = await bench.alice.compensate(done, {"amount": 500})
        assert (again.status, bench.provider.refunds) == ("compensated", 1)
        assert await bench.check() == []


@pytest.mark.rule("TX-COMP-4")
async def test_a_partial_compensation_keeps_its_slot() -> None:
    desk = Desk(compensate=[signals.Partial("half"), DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action())
        half = await bench.alice.compensate(done)
        assert (half.status, half.verdict) == ("failed", Verdict.PARTIAL)
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done)


@pytest.mark.rule("TX-COMP-4")
@pytest.mark.fault(46)
async def test_two_compensations_at_once_do_not_both_take_the_slot(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        done = await ask(bench, action())
        answers = await asyncio.gather(
            *(bench.alice.compensate(done, {"amount": 500}) for _ in range(8)),
            return_exceptions=True,
        )
        won = [one for one in answers if not isinstance(one, BaseException)]
        assert (len(won), bench.provider.refunds) == (1, 1)
        assert await bench.check() == []


async def test_a_compensation_whose_targets_action_is_gone_is_settled_all_the_same() -> None:
    async def loses(_attempt: Attempt) -> object:
        hidden(bench, "act_1")
        raise signals.NotApplied("cannot_undo")

    desk = Desk(compensate=[loses])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1"))
        made = await bench.alice.compensate("act_1")
        assert (made.status, made.verdict) == ("failed", Verdict.NOT_COMMITTED)
