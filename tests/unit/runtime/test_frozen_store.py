"""A restored store: what was open in it waits for an operator, approvals and their actions too."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.enums import Mode, Status
from amends.contracts.ids import PrincipalId
from amends.contracts.outcomes import NotApplied
from amends.contracts.results import Result
from amends.recovery.freezing import Freezer, Frozen
from amends.stores.port import Stored
from amends.testing.invariants import chains_reach_their_records, receipts_verify
from amends.testing.refusals import refused_with
from amends.testing.workbench import BOB, TENANT, Workbench
from tests.unit.runtime.desk import (
    DONE,
    LATER,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    claim,
    document,
)

pytestmark = pytest.mark.rule("TX-LEASE-3")


async def freeze(bench: Workbench, tenants: Iterable[str] = (TENANT,)) -> Frozen:
    counted: list[int] = []
    frozen = await Freezer(bench.engine, counted.append).freeze(
        [type(TENANT)(one) for one in tenants], "restored"
    )
    made = (frozen.records, frozen.approvals, frozen.delegations)
    assert counted[-1] == sum(map(len, made))
    return frozen


def asking() -> Workbench:
    return Workbench(served=[Desk(compensate=[DONE]).served(approval=ApprovalPolicy())])


async def request_of(bench: Workbench, waiting: Result) -> ApprovalRequest:
    found = await bench.store.get(ApprovalRequest, TENANT, waiting.approval_id or "")
    assert found is not None
    return found.document


async def whole(bench: Workbench) -> bool:
    """Whether every chain verifies and reaches its record."""
    snapshot = await bench.snapshot()
    return not (chains_reach_their_records(snapshot) or receipts_verify(snapshot, bench.keys))


async def test_a_delegation_of_the_backup_lends_nothing_for_it_may_have_been_revoked() -> None:
    async with asking() as bench:
        until = bench.clock() + timedelta(days=1)
        lent = await bench.bob.delegate("dan", ends_at=until)
        over = await bench.bob.delegate("dan", ends_at=bench.clock() + timedelta(seconds=1))
        taken = await bench.bob.delegate("dan", ends_at=until)
        await bench.bob.revoke_delegation(taken)
        bench.wait(2)
        (void,) = (await freeze(bench)).delegations
        assert (void.delegation_id, void.delegator) == (lent.delegation_id, "bob")
        stored = {one.delegation_id: one for one in await bench.olga.delegations()}
        assert stored[lent.delegation_id].revocation == "restored"
        assert stored[over.delegation_id].revoked_at is None
        assert (await freeze(bench)).delegations == ()
        waiting = await ask(bench, action())
        dan = bench.acting_as(replace(BOB, id=PrincipalId("dan"), scopes=()))
        with refused_with("delegation.revoked"):
            await dan.approve(waiting, under=lent)


async def test_an_execution_that_waited_in_the_backup_is_neither_approved_nor_run() -> None:
    """It may have been approved and carried out in the store that was lost."""
    async with asking() as bench:
        asked = action(id="act_1", transaction="txn_1")
        waiting = await ask(bench, asked)
        frozen = await freeze(bench)
        assert [one.approval_id for one in frozen.approvals] == [waiting.approval_id]
        with refused_with("approval.frozen"):
            await bench.bob.approve(waiting)
        with refused_with("approval.frozen"):
            await bench.alice.cancel("act_1")
        assert (await document(bench, "act_1")).cancellation is None  # type: ignore[union-attr]  # it is there
        assert (await ask(bench, asked)).status == "requires_human"
        bench.wait(48 * 3600)
        assert (await bench.sweep()).total == 0
        assert bench.effects == ()


async def test_an_execution_that_was_approved_in_the_backup_is_not_run_by_asking_again() -> None:
    async with asking() as bench:
        asked = action(id="act_1", transaction="txn_1")
        waiting = await ask(bench, asked)
        await bench.bob.approve(waiting)
        await freeze(bench)
        with refused_with("approval.frozen", await request_of(bench, waiting)):
            await ask(bench, asked)
        released = await bench.olga.release("txn_1")
        assert released.status == "requires_human"
        assert await chain(bench, "txn_1") == [
            "approval_requested",
            "approval_granted",
            "frozen",
            "released",
        ]
        assert (await ask(bench, asked)).status == "committed"
        assert await whole(bench)


async def test_a_released_request_expires_when_it_would_have() -> None:
    async with asking() as bench:
        waiting = await ask(bench, action(id="act_1", transaction="txn_1"))
        await freeze(bench)
        await bench.olga.release("txn_1")
        bench.wait(25 * 3600)
        assert (await bench.sweep()).approvals_expired == 1
        assert (await request_of(bench, waiting)).status == "expired"


async def test_a_plan_and_the_approvals_of_its_commits_are_released_together() -> None:
    async with asking() as bench:
        plan = await ask(bench, action(Mode.PLAN, transaction="txn_1"))
        commit = action(Mode.COMMIT, id="act_c", plan=plan.plan_id, transaction="txn_1")
        other = action(Mode.COMMIT, id="act_d", plan=plan.plan_id, transaction="txn_1")
        waiting = [await ask(bench, one) for one in (commit, other)]
        frozen = await freeze(bench)
        assert [one.status for one in frozen.records] == ["planned"]
        assert len(frozen.approvals) == 2
        await bench.olga.release("txn_1")
        assert (await bench.record("txn_1")).frozen is None
        assert [(await request_of(bench, one)).frozen for one in waiting] == [None, None]
        await bench.bob.approve(waiting[0])
        assert (await ask(bench, commit)).status == "committed"


async def test_only_an_operator_releases_and_only_what_is_frozen() -> None:
    async with asking() as bench:
        waiting = await ask(bench, action(id="act_1", transaction="txn_1"))
        with refused_with("transaction.not_found"):
            await bench.olga.release("txn_1")
        await freeze(bench)
        with refused_with("transaction.release_not_allowed", await request_of(bench, waiting)):
            await bench.alice.release("txn_1")
        with refused_with("transaction.not_found", await request_of(bench, waiting)):
            await bench.eve.release("txn_1")
        await bench.olga.release(waiting)
        with refused_with("transaction.not_found"):
            await bench.olga.release("txn_1")


async def test_two_operators_who_release_at_once_both_see_it_released() -> None:
    async with asking() as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        await freeze(bench)
        before_next_write(bench, lambda: bench.olga.release("txn_1"))
        with refused_with("transaction.not_found"):
            await bench.olga.release("txn_1")
        assert (await chain(bench, "txn_1")).count("released") == 1


async def test_requests_are_released_however_many_pages_they_fill() -> None:
    async with asking() as bench:
        plan = await ask(bench, action(Mode.PLAN, transaction="txn_1"))
        for number in range(201):
            commit = action(Mode.COMMIT, id=f"act_{number}", plan=plan.plan_id, transaction="txn_1")
            await ask(bench, commit)
        assert len((await freeze(bench)).approvals) == 201
        await bench.olga.release("txn_1")
        page = await bench.store.list(ApprovalRequest, TENANT)
        assert {one.document.frozen for one in page.items if isinstance(one, Stored)} == {None}


async def test_everything_that_is_open_is_frozen_and_what_has_ended_is_not() -> None:
    desk = Desk([DONE, UNSURE, NotApplied(error=LATER), DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_done", transaction="txn_done"))
        await ask(bench, action(id="act_lost", transaction="txn_lost"))
        await ask(bench, action(id="act_again", transaction="txn_again", key="k"))
        await claim(bench, action(id="act_held", transaction="txn_held"))
        await ask(bench, action(Mode.PLAN, id="act_plan", transaction="txn_plan"))
        frozen = await freeze(bench)
        assert {one.transaction_id: one.status for one in frozen.records} == {
            "txn_lost": "outcome_unknown",
            "txn_again": "failed",
            "txn_held": "prepared",
            "txn_plan": "planned",
        }
        before = await bench.snapshot()
        assert (await freeze(bench)).records == ()
        bench.wait(7 * 24 * 3600)
        assert (await bench.sweep()).total == 0
        assert await bench.snapshot() == before
        with refused_with("transaction.frozen"):
            await ask(bench, action(id="act_again", transaction="txn_again", key="k"))
        await bench.olga.release("txn_held")
        assert (await bench.sweep()).lapsed == 1
        assert (await bench.record("txn_held")).status is Status.OUTCOME_UNKNOWN
        assert await whole(bench)


async def test_other_tenants_are_frozen_only_where_they_are_named() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        await ask(bench, action(Mode.PLAN, transaction="txn_plan"))
        assert (await freeze(bench, ["globex"])).records == ()
        assert len((await freeze(bench, ["globex", TENANT])).records) == 1
