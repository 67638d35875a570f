"""Deciding: who may, once each, on what they saw; and what ends a request."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.approval_policy import ApprovalPolicy, ByRole, ByTenantPolicy, Quorum
from amends.contracts.approvals import ApprovalRequest, ApprovalStatus
from amends.contracts.declarations import CompensationContract, DataContract
from amends.contracts.enums import CompensationMode, Handler, Risk, Status
from amends.contracts.errors import AmendsError
from amends.contracts.ids import PrincipalId
from amends.contracts.outcomes import NotApplied
from amends.contracts.principals import Principal
from amends.contracts.redaction import hidden_text
from amends.contracts.results import Result
from amends.testing.refusals import refused_with
from amends.testing.workbench import BOB, CHARGE, TENANT, Workbench
from tests.unit.runtime.desk import (
    DONE,
    LATER,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    hidden,
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


@pytest.mark.rule("AP-3")
@pytest.mark.case("APR-10")
async def test_a_requester_can_withdraw_but_not_decide(place: Path | None) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        for decide in (bench.alice.approve, bench.alice.deny):
            with refused_with("approval.separation_of_duties"):
                await decide(waiting)
        stopped = await bench.alice.cancel("act_1", reason="changed my mind")
        request = await request_of(bench, waiting)
        assert (stopped.status, request.status) == ("cancelled", ApprovalStatus.WITHDRAWN)
        with refused_with("approval.closed"):
            await bench.bob.approve(waiting)
        with refused_with("action.cancelled"):
            await ask(bench, action(id="act_1"))
        assert desk.seen == []


@pytest.mark.rule("AP-3")
@pytest.mark.case("APR-10", "APR-12")
async def test_each_ending_of_a_request_is_a_state_of_its_own_with_actor_and_time() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        ends: dict[str, ApprovalRequest] = {}
        for name in ("denied", "expired", "withdrawn", "revoked", "consumed"):
            waiting = await ask(bench, action(id=f"act_{name}"))
            match name:
                case "denied":
                    await bench.bob.deny(waiting)
                case "withdrawn":
                    await bench.alice.cancel(waiting)
                case "revoked":
                    await bench.bob.approve(waiting)
                    await bench.bob.revoke(waiting)
                case "consumed":
                    await bench.bob.approve(waiting)
                    await ask(bench, action(id=f"act_{name}"))
                case _:
                    bench.wait(86_400)
                    await bench.sweep()
            ends[name] = await request_of(bench, waiting)
        assert {name: end.status.value for name, end in ends.items()} == {
            name: name for name in ends
        }
        assert all(end.decided_at is not None for end in ends.values())
        receipts = {
            name: await chain(bench, end.transaction_id)
            for name, end in ends.items()
            if name in ("consumed",)
        }
        assert "approval_granted" in receipts["consumed"]


@pytest.mark.rule("AP-3", "AP-4")
async def test_an_expired_request_is_refused_before_and_after_the_sweeper_wrote_it() -> None:
    desk = Desk()
    async with guarded(desk, ttl_ms=10_000) as bench:
        pending = await ask(bench, action(id="act_p"))
        granted = await ask(bench, action(id="act_g"))
        await bench.bob.approve(granted)
        bench.wait(10)
        for _ in range(2):
            for id_ in ("act_p", "act_g"):
                with refused_with("approval.expired"):
                    await ask(bench, action(id=id_))
            with refused_with("approval.expired"):
                await bench.bob.approve(pending)
            swept = await bench.sweep()
        assert swept.approvals_expired == 0
        assert (await request_of(bench, granted)).status is ApprovalStatus.EXPIRED
        assert desk.seen == []


@pytest.mark.rule("AP-4", "TX-CLAIM-1")
async def test_an_approval_that_expires_between_check_and_claim_is_not_used() -> None:
    desk = Desk()
    async with guarded(desk, ttl_ms=10_000) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)

        async def meanwhile() -> None:
            bench.wait(10)

        before_next_write(bench, meanwhile)
        with refused_with("approval.expired"):
            await ask(bench, action(id="act_1"))
        assert desk.seen == []


@pytest.mark.rule("AP-4")
async def test_an_approved_request_can_be_revoked_until_it_is_used() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        with refused_with("approval.not_allowed"):
            await bench.acting_as(DAN).revoke(waiting)
        await bench.bob.revoke(waiting, reason="second thoughts")
        with refused_with("approval.revoked"):
            await ask(bench, action(id="act_1"))
        other = await ask(bench, action(id="act_2"))
        await bench.bob.approve(other)
        await bench.olga.revoke(other)
        third = await ask(bench, action(id="act_3"))
        await bench.bob.approve(third)
        await ask(bench, action(id="act_3"))
        with refused_with("approval.closed"):
            await bench.bob.revoke(third)
        assert len(desk.seen) == 1


@pytest.mark.rule("AP-4", "TX-CLAIM-1")
async def test_a_revocation_and_a_claim_at_once_do_not_both_happen() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)

        async def overtaking() -> None:
            await bench.bob.revoke(waiting)

        before_next_write(bench, overtaking)
        with refused_with("approval.revoked"):
            await ask(bench, action(id="act_1"))
        assert desk.seen == []


@pytest.mark.rule("AP-4")
async def test_a_reopened_attempt_reuses_the_consumption_while_it_holds() -> None:
    desk = Desk([NotApplied(error=LATER), NotApplied(error=LATER), DONE])
    async with guarded(desk, ttl_ms=60_000) as bench:
        asked = action(id="act_1", key="k")
        waiting = await ask(bench, asked)
        await bench.bob.approve(waiting)
        first = await ask(bench, asked)
        second = await ask(bench, asked)
        assert (first.status, second.status) == ("failed", "failed")
        bench.wait(60)
        with refused_with("approval.expired"):
            await ask(bench, asked)
        assert len(desk.seen) == 2


@pytest.mark.rule("AP-4")
async def test_a_reopened_attempt_under_a_policy_that_asks_only_now_waits_for_people() -> None:
    desk = Desk([NotApplied(error=LATER), DONE])
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_1", key="k")
        await ask(bench, asked)
        await bench.restart([desk.served(approval=ApprovalPolicy())])
        waiting = await ask(bench, asked)
        assert (waiting.status, waiting.result_status) == ("failed", "pending_approval")
        await bench.bob.approve(waiting)
        done = await ask(bench, asked)
        assert (done.status, len(desk.seen)) == ("committed", 2)


@pytest.mark.rule("AP-4")
async def test_edits_make_a_new_plan_and_a_new_request() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        first = await bench.alice.commit(await bench.alice.plan(CHARGE, {"amount": 5}))
        await bench.bob.approve(first)
        edited = await bench.alice.commit(await bench.alice.plan(CHARGE, {"amount": 6}))
        assert edited.status == "requires_human"
        assert edited.approval_id != first.approval_id
        assert desk.seen == []


@pytest.mark.rule("AP-3", "AP-5")
async def test_two_approvers_at_once_see_the_same_truth(place: Path | None) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        answers = await asyncio.gather(
            bench.bob.approve(waiting, seen_revision=1),
            bench.acting_as(DAN).deny(waiting, seen_revision=1),
            return_exceptions=True,
        )
        stale = [one for one in answers if isinstance(one, AmendsError)]
        request = await request_of(bench, waiting)
        assert [one.code for one in stale] == ["approval.stale"]
        told = stale[0].details["current"]
        assert isinstance(told, dict)
        assert told["decisions"] == [
            {"answer": one.answer.value, "approver": one.approver.id, "at": one.at.isoformat()}
            for one in request.decisions
        ]
        assert (told["status"], told["revision"]) == (request.status.value, 2)
        assert len(request.decisions) == 1


@pytest.mark.rule("AP-1")
async def test_a_quorum_counts_people_and_roles_as_they_are_when_deciding() -> None:
    desk = Desk()
    lead = replace(BOB, id=PrincipalId("lea"), roles=("lead",))
    async with guarded(desk, rule=Quorum(2, ByRole("lead"))) as bench:
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("approval.not_allowed"):
            await bench.bob.approve(waiting)
        await bench.acting_as(lead).approve(waiting)
        with refused_with("approval.already_decided"):
            await bench.acting_as(lead).approve(waiting)
        assert (await ask(bench, action(id="act_1"))).status == "requires_human"
        await bench.acting_as(replace(lead, id=PrincipalId("lou"))).approve(waiting)
        assert (await ask(bench, action(id="act_1"))).status == "committed"


@pytest.mark.case("APR-12")
@pytest.mark.rule("AP-3", "TX-REQ-1")
async def test_who_decided_comes_from_authentication_alone() -> None:
    desk = Desk()
    intern = Principal(id=PrincipalId("intern"), tenant=TENANT)
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("approval.not_allowed"):
            await bench.acting_as(intern).approve(waiting, evidence={"decided_by": "cfo"})
        decided = await bench.bob.approve(waiting, evidence={"decided_by": "cfo"})
        assert [one.approver for one in decided.decisions] == [BOB.ref]


@pytest.mark.rule("AP-1")
async def test_a_policy_may_ask_for_evidence() -> None:
    desk = Desk()
    async with guarded(desk, evidence=("ticket",)) as bench:
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("approval.evidence_required"):
            await bench.bob.approve(waiting)
        decided = await bench.bob.approve(waiting, evidence={"ticket": "T-7"})
        assert decided.decisions[0].evidence == {"ticket": "T-7"}


@pytest.mark.case("CAN-06")
async def test_what_people_write_is_stored_or_refused_and_never_half(place: Path | None) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        waiting = await ask(bench, action(id="act_1"))
        before = await request_of(bench, waiting)
        for options, code in (
            ({"reason": "\ud800"}, "input.lone_surrogate"),
            ({"reason": "x" * 2_001}, "input.too_large"),
            ({"reason": 5}, "input.unsupported_type"),
            ({"evidence": {"ticket": "\udc00"}}, "input.lone_surrogate"),
            ({"evidence": {"ticket": 5}}, "input.unsupported_type"),
            ({"evidence": {" ": "T-7"}}, "input.invalid_id"),
            ({"evidence": {"tic\nket": "T-7"}}, "input.invalid_id"),
            ({"evidence": {"t" * 129: "T-7"}}, "input.invalid_id"),
            ({"evidence": {str(n): "x" * 2_000 for n in range(9)}}, "action.metadata_too_large"),
        ):
            with refused_with(code):
                await bench.bob.approve(waiting, **options)
        with refused_with("input.lone_surrogate"):
            await bench.alice.cancel("act_1", reason="\ud800")
        assert await request_of(bench, waiting) == before
        told = "Zeile eins\nZeile zwei\x00 🎈"
        assert (await bench.bob.approve(waiting, reason=told)).decisions[0].reason == told
        assert (await request_of(bench, waiting)).decisions[0].reason == told


@pytest.mark.rule("AP-1", "TX-PIPE-3")
@pytest.mark.parametrize("risk", [Risk.HIGH, Risk.CRITICAL])
async def test_a_risk_above_medium_asks_by_itself(risk: Risk) -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(risk=risk)]) as bench:
        waiting = await ask(bench, action(id="act_1"))
        request = await request_of(bench, waiting)
        assert (waiting.status, request.risk) == ("requires_human", risk)


@pytest.mark.rule("TX-PIPE-3")
async def test_a_forced_approval_stays_the_same_policy_when_the_action_is_resumed() -> None:
    desk = Desk(compensate=[DONE])
    contract = CompensationContract(mode=CompensationMode.SUPPORTED, requires_approval=True)
    declared = ApprovalPolicy(required=False, rule=ByRole("finance"))
    async with Workbench(served=[desk.served(compensation=contract, approval=declared)]) as bench:
        done = await ask(bench, action())
        waiting = await bench.alice.compensate(done)
        request = await request_of(bench, waiting)
        assert request.policy.rule == ByTenantPolicy()
        await bench.bob.approve(waiting)
        made = await bench.alice.resume(waiting)
        assert made.status == "compensated"


@pytest.mark.rule("AP-5")
async def test_waiting_ends_with_the_decision_or_with_patience() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        with refused_with("approval.wait_timeout"):
            await bench.alice.wait_for_approval(waiting, timeout_s=0.001)
        waits = asyncio.ensure_future(bench.alice.wait_for_approval(waiting, timeout_s=5))
        await asyncio.sleep(0)
        await bench.bob.approve(waiting)
        assert (await waits).status == "committed"
        other = await ask(bench, action(id="act_2"))
        await bench.bob.deny(other)
        with refused_with("approval.denied"):
            await bench.alice.wait_for_approval("act_2")
        with refused_with("approval.not_found"):
            await bench.alice.wait_for_approval("act_9")


@pytest.mark.rule("RD-1")
@pytest.mark.parametrize("hides", [True, False])
async def test_evidence_under_a_name_that_nobody_asked_for_is_kept_like_a_text(hides: bool) -> None:
    desk = Desk()
    policy = ApprovalPolicy(required=True, evidence=("ticket",))
    data = DataContract(redaction_required=hides)
    async with Workbench(served=[desk.served(approval=policy, data=data)]) as bench:
        waiting = await ask(bench, action(id="act_1"))
        told = {"ticket": "T-7", "Ann, 1 Elm Street": "her address"}
        await bench.bob.approve(waiting, evidence=told)
        [decision] = (await request_of(bench, waiting)).decisions
        assert set(decision.evidence) >= {"ticket"}
        if not hides:
            assert decision.evidence == told
            return
        assert "Elm" not in repr(await bench.snapshot())
        assert decision.evidence[hidden_text("Ann, 1 Elm Street")] == hidden_text("her address")


@pytest.mark.rule("AP-2")
async def test_an_action_whose_request_is_gone_does_not_run() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        hidden(bench, ApprovalRequest)
        with refused_with("approval.not_found"):
            await ask(bench, action(id="act_1"))
        stopped = await bench.alice.cancel(waiting)
        assert (stopped.status, desk.seen) == ("cancelled", [])


@pytest.mark.rule("TX-RECON-4")
async def test_a_look_up_by_the_scheduler_asks_nobody() -> None:
    async def lost(_attempt: Attempt) -> object:
        raise ConnectionResetError

    desk = Desk([lost], reconcile=[DONE])
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        await bench.bob.approve(waiting)
        made = await ask(bench, action(id="act_1"))
        bench.wait(5)
        swept = await bench.sweep()
        assert (made.status, swept.reconciled) == ("outcome_unknown", 1)
        assert (await bench.record(made)).status is Status.RECONCILED
        assert len((await bench.snapshot()).approvals) == 1
        assert desk.entered(Handler.RECONCILE) == 1


@pytest.mark.rule("AP-5")
async def test_the_same_request_sent_twice_at_once_asks_people_once(place: Path | None) -> None:
    desk = Desk()
    async with guarded(desk, place) as bench:
        both = await asyncio.gather(*(ask(bench, action(id="act_1")) for _ in range(4)))
        assert {one.status for one in both} == {"requires_human"}
        assert len({one.approval_id for one in both}) == 1
        assert len((await bench.snapshot()).approvals) == 1


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("approved", [False, True])
async def test_a_frozen_request_is_neither_decided_nor_used_until_it_is_released(
    approved: bool,
) -> None:
    desk = Desk()
    async with guarded(desk, ttl_ms=60_000) as bench:
        waiting = await ask(bench, action(id="act_1"))
        if approved:
            await bench.bob.approve(waiting)
        await bench.restart()
        stored = await bench.store.get(ApprovalRequest, TENANT, str(waiting.approval_id))
        assert stored is not None
        assert await bench.engine.upkeep.freeze_approval(stored, "restored") is not None
        with pytest.raises(AmendsError):
            await bench.bob.approve(waiting)
        if approved:
            with pytest.raises(AmendsError):
                await ask(bench, action(id="act_1"))
        assert desk.seen == []
        released = await bench.olga.release(waiting.transaction_id)
        assert released.status == "requires_human"
        if not approved:
            await bench.bob.approve(waiting)
        assert (await ask(bench, action(id="act_1"))).status == "committed"
        with refused_with("transaction.not_frozen"):
            await bench.olga.release(waiting.transaction_id)


@pytest.mark.rule("TX-LEASE-3")
async def test_releasing_a_request_that_changes_meanwhile_is_done_on_what_is_there() -> None:
    desk = Desk()
    async with guarded(desk) as bench:
        waiting = await ask(bench, action(id="act_1"))
        stored = await bench.store.get(ApprovalRequest, TENANT, str(waiting.approval_id))
        assert stored is not None
        await bench.engine.upkeep.freeze_approval(stored, "restored")

        async def overtaking() -> None:
            await bench.olga.release(waiting.transaction_id)

        before_next_write(bench, overtaking)
        with refused_with("transaction.not_found"):
            await bench.olga.release(waiting.transaction_id)
        assert (await request_of(bench, waiting)).frozen is None
