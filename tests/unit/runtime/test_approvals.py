"""Approvals as a durable gate: bound, used once, outliving restarts, never bypassed (AP-*)."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.actions import Action
from amends.contracts.approval_policy import ApprovalPolicy, ByTenantPolicy, Quorum
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.enums import Mode, Status
from amends.contracts.ids import CapabilityId, PrincipalId
from amends.contracts.results import Result
from amends.stores.port import Accepted, ChangeSet, Lost
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, BOB, CHARGE, TENANT, Workbench
from amends.transactions.hashing import input_hash
from tests.unit.runtime.desk import (
    DONE,
    ORDER,
    Desk,
    action,
    ask,
    chain,
    claim,
    document,
    records,
)

DAN = replace(BOB, id=PrincipalId("dan"))


async def request_of(bench: Workbench, waiting: Result) -> ApprovalRequest:
    """The stored approval request that a result waits for."""
    assert waiting.approval_id is not None
    found = await bench.store.get(ApprovalRequest, TENANT, waiting.approval_id)
    assert found is not None
    return found.document


def guarded(desk: Desk, place: Path | None = None, **policy: object) -> Workbench:
    """The desk behind this approval policy."""
    approval = ApprovalPolicy(**policy)  # type: ignore[arg-type]  # fields by name
    return Workbench(served=[desk.served(approval=approval)], file=place)


@pytest.mark.rule("AP-5", "AP-4")
async def test_an_action_waits_runs_once_when_resumed_and_not_by_being_approved(
    place: Path | None,
) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        assert (waiting.status, waiting.result_status) == ("requires_human", "pending_approval")
        still = await ask(bench, action(id="act_1"))
        assert (still.status, still.replayed) == ("requires_human", True)
        await bench.bob.approve(waiting, reason="fine")
        assert desk.seen == []
        done = await ask(bench, action(id="act_1"))
        assert (done.status, len(desk.seen)) == ("committed", 1)
        assert (await request_of(bench, waiting)).status is ApprovalStatus.CONSUMED
        assert await chain(bench, done) == [
            "approval_requested",
            "approval_granted",
            "execution_started",
            "dispatched",
            "committed",
        ]


@pytest.mark.rule("AP-4")
async def test_an_approval_is_consumed_in_the_very_change_set_of_the_claim() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        running = await claim(bench, action(id="act_1"))
        request = await request_of(bench, waiting)
        assert (request.status, running.record.status) == (
            ApprovalStatus.CONSUMED,
            Status.PREPARED,
        )
        await bench.restart()
        bench.wait(36)
        await bench.sweep()
        with refused_with("transaction.reconciliation_required"):
            await ask(bench, action(id="act_1"))
        assert desk.seen == []


@pytest.mark.rule("AP-5")
@pytest.mark.case("APR-10")
async def test_a_pending_approval_survives_restarts_in_every_mode(place: Path | None) -> None:
    desk = Desk(compensate=[DONE])
    free = Desk(compensate=[DONE])
    served = [
        desk.served(approval=ApprovalPolicy()),
        free.served("shop.sell"),
    ]
    async with Workbench(served=served, file=place) as bench:
        sold = await ask(bench, action(capability="shop.sell"))
        await ask(bench, action(Mode.PLAN, plan="plan_1"))
        asked: list[Action] = [
            action(id="act_e"),
            action(Mode.COMMIT, id="act_c", plan="plan_1"),
            action(
                Mode.COMPENSATE,
                id="act_o",
                target=sold.action_id,
                capability="shop.sell",
                input={},
                approval=True,
            ),
        ]
        for one in asked:
            assert (await ask(bench, one)).status == "requires_human"
            await bench.restart()
        for one in asked:
            stored = await document(bench, str(one.action_id))
            assert stored is not None
            await bench.bob.approve(str(stored.approval_id))
            await bench.restart()
            done = await bench.alice.resume(str(one.action_id))
            assert done.status in ("committed", "compensated")
        assert (len(desk.seen), len(free.seen)) == (2, 2)


@pytest.mark.rule("AP-2")
@pytest.mark.case("APR-02")
async def test_approver_plan_and_connector_see_the_same_bytes() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        value = {"currency": "EUR", "amount": 5.0, "lines": ({"n": 1e2},)}
        plan = await ask(bench, action(Mode.PLAN, plan="plan_1", input=value))  # type: ignore[arg-type]  # a tuple is an array
        waiting = await bench.alice.commit(plan)
        request = await request_of(bench, waiting)
        record = await bench.record(plan)
        assert request.input is not None
        assert input_hash(record.capability_id, request.input.encode()) == request.input_hash
        assert request.input_hash == record.input_hash
        await bench.bob.approve(waiting)
        await bench.alice.resume(waiting)
        ran = msgspec.json.encode(desk.seen[0].call.input, order="sorted")
        assert input_hash(record.capability_id, ran) == request.input_hash
        assert record.plan is not None
        assert request.plan_digest == record.plan.digest


@pytest.mark.case("APR-05")
@pytest.mark.rule("AP-2")
async def test_what_the_caller_changes_after_asking_is_not_what_runs() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        lines: list[object] = ["a"]
        value: dict[str, object] = {"amount": 5, "lines": lines}
        plan = await bench.alice.plan(CHARGE, value)
        lines.append("b")
        value["amount"] = 6
        waiting = await bench.alice.commit(plan)
        lines.append("c")
        await bench.bob.approve(waiting)
        done = await bench.alice.resume(waiting)
        assert done.status == "committed"
        assert desk.seen[0].call.input == {"amount": 5, "lines": ["a"]}


@pytest.mark.case("APR-05")
@pytest.mark.rule("AP-2")
async def test_what_the_caller_changes_while_the_request_is_written_is_not_what_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The value is the caller's own again as soon as the call has begun to wait for anything."""
    desk = Desk()
    async with guarded(desk) as bench:
        lines: list[object] = ["a"]
        value: dict[str, object] = {"amount": 5, "lines": lines}
        commit = bench.store.commit

        async def changed_meanwhile(changes: ChangeSet) -> Accepted | Lost:
            lines.append("b")
            value["amount"] = 6
            return await commit(changes)

        monkeypatch.setattr(bench.store, "commit", changed_meanwhile)
        waiting = await bench.alice.execute(CHARGE, value, action_id="act_1")
        request = await request_of(bench, waiting)
        assert request.input == '{"amount":5,"lines":["a"]}'
        await bench.bob.approve(waiting)
        assert (await bench.alice.resume(waiting)).status == "committed"
        assert desk.seen[0].call.input == {"amount": 5, "lines": ["a"]}


@pytest.mark.case("APR-03")
@pytest.mark.rule("AP-4")
async def test_an_approval_serves_the_approved_action_and_no_other() -> None:
    desk, other = Desk(), Desk()
    served = [
        desk.served(approval=ApprovalPolicy()),
        other.served("shop.sell", approval=ApprovalPolicy()),
    ]
    async with Workbench(served=served) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        for asked in (
            action(id="act_1", input={"amount": 501}),
            action(id="act_1", capability="shop.sell"),
        ):
            with refused_with("action.id_conflict"):
                await ask(bench, asked)
        assert (await request_of(bench, waiting)).status is ApprovalStatus.APPROVED
        done = await ask(bench, action(id="act_1", key="a key of this call only"))
        assert done.status == "committed"
        assert (len(desk.seen), other.seen) == (1, [])
        steps = [one.step for one in await bench.alice.receipts(done)]
        ran = input_hash(CapabilityId(CHARGE), b'{"amount":500}')
        assert {(one.action_id, one.capability_id, one.hashes["input"]) for one in steps} == {
            ("act_1", CHARGE, ran)
        }


@pytest.mark.case("APR-06")
@pytest.mark.rule("AP-2", "AP-4")
async def test_an_approved_plan_says_nothing_for_another_plan() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        for plan, target in (("plan_1", "dev"), ("plan_2", "prod")):
            await ask(bench, action(Mode.PLAN, plan=plan, input={"target": target}))
        dev = action(Mode.COMMIT, id="act_1", plan="plan_1", input={"target": "dev"})
        first = await ask(bench, dev)
        await bench.bob.approve(first)
        with refused_with("action.id_conflict"):
            await ask(
                bench, action(Mode.COMMIT, id="act_1", plan="plan_2", input={"target": "prod"})
            )
        prod = await bench.alice.commit("plan_2")
        assert (prod.status, prod.approval_id != first.approval_id) == ("requires_human", True)
        assert {one.status for one in await records(bench)} == {Status.PLANNED}
        assert desk.seen == []


@pytest.mark.case("APR-09")
@pytest.mark.rule("AP-4")
async def test_a_policy_or_grant_that_changed_after_approval_stops_the_claim() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        tightened = ApprovalPolicy(rule=Quorum(2, ByTenantPolicy()))
        await bench.restart([desk.served(approval=tightened)])
        with refused_with("approval.mismatch"):
            await ask(bench, action(id="act_1"))
        await bench.restart([desk.served(approval=ApprovalPolicy(), required_scopes=("pay",))])
        with refused_with("policy.denied"):
            await ask(bench, action(id="act_1"), principal=replace(ALICE, scopes=()))
        assert (await request_of(bench, waiting)).status is ApprovalStatus.APPROVED
        assert desk.seen == []


@pytest.mark.rule("AP-3")
@pytest.mark.case("APR-10")
async def test_a_denial_is_final_whatever_the_requester_sends_afterwards() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        waiting = await ask(bench, action(id="act_1", approval=True))
        await bench.bob.deny(waiting, reason="no")
        for approval in (True, False):
            with refused_with("approval.denied"):
                await ask(bench, action(id="act_1", approval=approval))
        with refused_with("approval.denied"):
            await bench.alice.resume("act_1")
        with refused_with("approval.closed"):
            await bench.acting_as(DAN).approve(waiting)
        assert desk.seen == []
        request = await request_of(bench, waiting)
        assert (request.status, request.decisions[0].approver) == (
            ApprovalStatus.DENIED,
            BOB.ref,
        )


@pytest.mark.rule("AP-4", "AP-5")
async def test_a_wish_for_a_second_pair_of_eyes_is_not_dropped_by_asking_again_without_it() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        waiting = await ask(bench, action(id="act_1", approval=True))
        assert (await ask(bench, action(id="act_1"))).status == "requires_human"
        await bench.bob.approve(waiting)
        assert (await ask(bench, action(id="act_1"))).status == "committed"


@pytest.mark.rule("TX-PLAN-1", "AP-4")
async def test_a_plan_made_with_a_wish_for_approval_is_not_committed_without_one() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        plan = await bench.alice.plan(CHARGE, dict(ORDER), approval_required=True)
        waiting = await bench.alice.commit(plan)
        assert (plan.approval_required, waiting.status) == (True, "requires_human")
        await bench.bob.approve(waiting)
        done = await bench.alice.resume(waiting)
        assert (done.status, len(desk.seen)) == ("committed", 1)
