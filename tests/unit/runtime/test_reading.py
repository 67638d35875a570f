"""Views: one selector, who sees what, and that another tenant's record does not exist."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.app.amends import Amends
from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.errors import AmendsError
from amends.contracts.ids import PrincipalId, TenantId
from amends.contracts.principals import Principal
from amends.runtime.reading import READ_SCOPE
from amends.stores.port import Stored
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, EVE, TENANT, Workbench
from tests.unit.runtime.desk import DONE, UNSURE, Desk, action, ask, hidden, refusals

CAROL = replace(ALICE, id=PrincipalId("carol"), scopes=("pay",))
AUDITOR = replace(CAROL, id=PrincipalId("audra"), scopes=(READ_SCOPE,))


@pytest.mark.rule("TX-VIEW-1")
async def test_a_view_is_selected_by_exactly_one_identity(place: Path | None) -> None:
    async with Workbench(file=place) as bench:
        plan = await ask(bench, action(Mode.PLAN, id="act_p", plan="plan_1", transaction="txn_1"))
        await bench.alice.commit(plan, action_id="act_c")
        views = [
            await bench.alice.get("txn_1"),
            await bench.alice.get(plan_id="plan_1"),
            await bench.alice.get(action_id="act_p"),
            await bench.alice.get(action_id="act_c"),
        ]
        assert {one.result.transaction_id for one in views} == {"txn_1"}
        assert {one.result.status for one in views} == {"committed"}
        for selected in ({}, {"plan_id": "plan_1", "action_id": "act_p"}):
            with refused_with("view.selector_invalid"):
                await bench.alice.get(**selected)  # type: ignore[arg-type]  # from a table
        with refused_with("view.selector_invalid"):
            await bench.alice.get("txn_1", plan_id="plan_1")


@pytest.mark.rule("TX-VIEW-1")
async def test_results_and_receipts_are_shown_only_when_asked_for() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action())
        bare = await bench.alice.get(done)
        full = await bench.alice.get(done, include_result=True, include_receipts=True)
        assert (bare.result.raw_output, bare.receipts) == (None, ())
        assert full.result.output == done.output
        assert len(full.receipts) == 4


@pytest.mark.rule("TX-VIEW-2")
async def test_a_view_shows_all_that_helps_to_go_on() -> None:
    async with Workbench([faults.acknowledgement()]) as bench:
        made = await ask(bench, action())
        view = await bench.alice.get(made)
        assert view.result.revision == 2
        assert view.result.reconcile_after is not None
        assert view.attempt is not None
        assert (view.attempts, view.attempt.number, view.owner.id) == (1, 1, "alice")
        assert [one.gate for one in view.verdicts][-1] == "policy"
        assert [one.call for one in view.result.next] == ["reconcile", "settle"]
        bench.wait(5)
        await bench.sweep()
        found = await bench.alice.get(made)
        assert (found.result.verdict, found.attempts) == (Verdict.COMMITTED, 2)
        assert found.result.provider_operation is not None


@pytest.mark.rule("TX-VIEW-1")
async def test_within_a_tenant_owner_operators_and_readers_see_a_record() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action(id="act_1", transaction="txn_1"))
        for reader in (bench.alice, bench.olga, bench.acting_as(AUDITOR)):
            assert (await reader.get("txn_1")).result.status == "committed"
            assert [
                one.document.transaction_id
                for one in (await reader.list()).items
                if isinstance(one, Stored)
            ] == ["txn_1"]
        stranger = bench.acting_as(CAROL)
        for selected in (
            {"transaction_id": "txn_1"},
            {"action_id": "act_1"},
            {"plan_id": "plan_9"},
        ):
            with refused_with("transaction.not_found"):
                await stranger.get(**selected)  # type: ignore[arg-type]  # from a table
        assert (await stranger.list()).items == ()
        assert done.status == "committed"


@pytest.mark.rule("TX-VIEW-2")
async def test_whoever_was_refused_sees_why_and_nothing_of_what_they_named() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        mallory = bench.acting_as(CAROL)
        with refused_with("transaction.execution_contract_mismatch"):
            await ask(bench, action(id="act_m", transaction="txn_1"), principal=CAROL)
        view = await mallory.get(action_id="act_m", include_result=True, include_receipts=True)
        assert view.verdicts[-1].code == "transaction.execution_contract_mismatch"
        assert (view.result.status, view.receipts, view.attempts) == ("failed", (), 0)
        assert view.result.raw_output is None
        assert (await bench.alice.get(action_id="act_m")).owner.id == "carol"


@pytest.mark.rule("TX-VIEW-2")
async def test_requests_refused_at_a_gate_are_listed_for_whoever_sent_them() -> None:
    async with Workbench() as bench:
        with refused_with("capability.not_found"):
            await ask(bench, action(id="act_1", capability="nobody"))
        [mine] = await bench.alice.refusals("act_1")
        assert (mine.code, mine.verdicts[-1].gate) == ("capability.not_found", "capability")
        assert await bench.alice.refusals("act_2") == ()
        assert await bench.acting_as(CAROL).refusals() == ()
        assert len(await bench.olga.refusals()) == 1


@pytest.mark.rule("TX-VIEW-1")
async def test_a_plan_with_a_waiting_commit_shows_that_it_waits_for_people() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(approval=ApprovalPolicy())]) as bench:
        plan = await ask(bench, action(Mode.PLAN, transaction="txn_1", plan="plan_1"))
        assert (await bench.alice.get("txn_1")).result.status == "planned"
        waiting = await bench.alice.commit(plan)
        for selected in ({"transaction_id": "txn_1"}, {"plan_id": "plan_1"}):
            view = await bench.alice.get(**selected)  # type: ignore[arg-type]  # from a table
            assert view.result.status == "requires_human"
            assert view.approval is not None
            assert view.approval.approval_id == waiting.approval_id
        await bench.bob.deny(waiting)
        assert (await bench.alice.get("txn_1")).result.status == "planned"


@pytest.mark.rule("TX-VIEW-1")
async def test_a_transaction_that_waits_without_a_record_is_found_by_its_id() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(approval=ApprovalPolicy())]) as bench:
        waiting = await ask(bench, action(transaction="txn_1"))
        view = await bench.alice.get("txn_1", include_receipts=True)
        assert (view.result.status, view.plan, view.attempts) == ("requires_human", None, 0)
        assert view.result.action_id == waiting.action_id
        assert [one.step.type for one in view.receipts] == ["approval_requested"]
        with refused_with("transaction.not_found"):
            await bench.acting_as(CAROL).get("txn_1")
        with refused_with("transaction.not_found"):
            await bench.alice.get("txn_2")


async def test_pages_are_newest_first_filtered_and_bounded(place: Path | None) -> None:
    desk = Desk([DONE, UNSURE])
    async with Workbench(served=[desk.served()], file=place) as bench:
        for n in range(5):
            await ask(bench, action(transaction=f"txn_{n}"))
        first = await bench.alice.list(limit=3)
        rest = await bench.alice.list(after=first.next, limit=10_000)
        seen = [
            one.document.transaction_id
            for one in (*first.items, *rest.items)
            if isinstance(one, Stored)
        ]
        assert seen == [f"txn_{n}" for n in (4, 3, 2, 1, 0)]
        assert rest.next is None
        known = await bench.alice.list(where={"status": "committed"})
        assert len(known.items) == 1


async def test_a_record_whose_action_is_gone_is_not_found() -> None:
    async with Workbench() as bench:
        done = await ask(bench, action(id="act_1", transaction="txn_1"))
        hidden(bench, "act_1")
        with refused_with("transaction.not_found"):
            await bench.alice.get("txn_1")
        assert done.status == "committed"


@pytest.mark.case("TEN-03", "TEN-04")
@pytest.mark.rule("TX-VIEW-1")
@pytest.mark.fault(63)
async def test_another_tenants_ids_are_answered_like_ids_that_nobody_has(
    place: Path | None,
) -> None:
    desk = Desk([DONE, UNSURE], compensate=[DONE], reconcile=[DONE])
    served = [desk.served(), Desk().served("shop.guarded", approval=ApprovalPolicy())]
    async with Workbench(served=served, file=place) as bench:
        await ask(bench, action(id="act_done", transaction="txn_done"))
        await ask(bench, action(id="act_lost", transaction="txn_lost"))
        await ask(bench, action(Mode.PLAN, id="act_plan", plan="plan_1", transaction="txn_plan"))
        waiting = await ask(bench, action(id="act_wait", capability="shop.guarded"))
        before, entries = await bench.snapshot(), len(await refusals(bench))
        bench.wait(5)
        eve = bench.eve
        attempts: list[Callable[[dict[str, str]], Awaitable[object]]] = [
            lambda ids: eve.get(ids["done"]),
            lambda ids: eve.get(action_id=ids["act"]),
            lambda ids: eve.get(plan_id=ids["plan"]),
            lambda ids: eve.receipts(ids["done"]),
            lambda ids: eve.cancel(ids["act"]),
            lambda ids: eve.withdraw(ids["planned"]),
            lambda ids: eve.commit(ids["plan"], {"amount": 500}),
            lambda ids: eve.approve(ids["approval"]),
            lambda ids: eve.deny(ids["approval"]),
            lambda ids: eve.revoke(ids["approval"]),
            lambda ids: eve.wait_for_approval(ids["act"]),
            lambda ids: eve.resume(ids["act"]),
            lambda ids: eve.reconcile(ids["lost"]),
            lambda ids: eve.compensate(ids["act"]),
            lambda ids: eve.settle(ids["lost"], "committed", reference="r", note="n"),
            lambda ids: eve.release(ids["lost"]),
            lambda ids: ask(bench, action(Mode.COMMIT, plan=ids["plan"]), principal=EVE),
            lambda ids: ask(
                bench, action(Mode.COMPENSATE, target=ids["act"], input={}), principal=EVE
            ),
            lambda ids: ask(bench, action(Mode.RECONCILE, transaction=ids["lost"]), principal=EVE),
        ]
        theirs = {
            "done": "txn_done",
            "lost": "txn_lost",
            "planned": "txn_plan",
            "act": "act_done",
            "plan": "plan_1",
            "approval": str(waiting.approval_id),
        }
        unknown = {name: f"{value}_unknown" for name, value in theirs.items()}
        for attempt in attempts:
            with pytest.raises(AmendsError) as foreign:
                await attempt(theirs)
            with pytest.raises(AmendsError) as nobody:
                await attempt(unknown)
            assert (foreign.value.code, foreign.value.message) == (
                nobody.value.code,
                nobody.value.message,
            )
            assert foreign.value.details == nobody.value.details
        mine = [one for one in (await bench.snapshot()).documents.values() if one.tenant == TENANT]
        assert mine == list(before.documents.values())
        assert len(await refusals(bench)) == entries
        assert [one.principal.id for one in await eve.refusals()] == []
        assert len(desk.seen) == 2


@pytest.mark.rule("TX-VIEW-1")
async def test_two_tenants_use_the_same_ids_without_meeting() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        eve = Principal(id=PrincipalId("alice"), tenant=TenantId("globex"))
        await ask(bench, action(Mode.PLAN, id="act_1", transaction="txn_1", plan="plan_1"))
        other = await ask(
            bench,
            action(Mode.PLAN, id="act_1", transaction="txn_1", plan="plan_1"),
            principal=eve,
        )
        assert (other.status, other.replayed) == ("planned", False)
        done = await Amends.commit(bench.acting_as(eve), "plan_1")
        assert done.status == "committed"
        assert (await bench.record("txn_1")).status is Status.PLANNED


@pytest.mark.rule("TX-VIEW-1")
async def test_approval_requests_are_listed_for_who_asked_may_decide_or_reads() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served(approval=ApprovalPolicy())]) as bench:
        for n in range(2):
            await ask(bench, action(id=f"act_{n}"))

        async def listed(who: Amends, **options: object) -> list[str]:
            page = await who.approvals(**options)  # type: ignore[arg-type]  # options by name
            return [one.document.action_id for one in page.items if isinstance(one, Stored)]

        assert await listed(bench.alice) == ["act_1", "act_0"]
        assert await listed(bench.bob, limit=1) == ["act_1"]
        assert await listed(bench.olga, where={"action_id": "act_0"}) == ["act_0"]
        assert await listed(bench.acting_as(CAROL)) == []
        assert await listed(bench.eve) == []
