"""Approval requests as people find them: their own, and those that wait for their word."""

import asyncio

import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.principals import Principal
from amends.contracts.results import Result
from amends.runtime.engine import Engine
from amends.runtime.reading import READ_SCOPE
from amends.stores.port import Page, Stored
from amends.testing import faults
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, BOB, CHARGE, EVE, OLGA, Workbench

ORDER = {"amount": 500}
DAN = replace(BOB, id="dan", scopes=())
READER = replace(BOB, id="rita", scopes=(READ_SCOPE,))


def guarded() -> Workbench:
    return Workbench(approval=ApprovalPolicy())


async def seen_by(bench: Workbench, who: Principal, **where: str) -> list[str]:
    page: Page[ApprovalRequest] = await bench.acting_as(who).approvals(where=where)
    return [item.document.approval_id for item in page.items if isinstance(item, Stored)]


async def waiting(bench: Workbench) -> Result:
    return await bench.alice.execute(CHARGE, ORDER)


@pytest.mark.rule("TX-VIEW-1", "AP-3")
async def test_a_request_is_seen_by_who_asked_who_may_decide_and_who_may_read() -> None:
    async with guarded() as bench:
        id_ = (await waiting(bench)).approval_id
        for who in (ALICE, BOB, OLGA, READER):
            assert await seen_by(bench, who) == [id_]
            assert (await bench.acting_as(who).approval(str(id_))).approval_id == id_
        for who in (DAN, EVE):
            assert await seen_by(bench, who) == []
            with refused_with("approval.not_found"):
                await bench.acting_as(who).approval(str(id_))


async def test_who_has_decided_still_sees_what_was_decided() -> None:
    async with guarded() as bench:
        result = await waiting(bench)
        await bench.bob.approve(result)
        assert await seen_by(bench, BOB) == [result.approval_id]
        assert await seen_by(bench, replace(BOB, id="ben")) == []
        assert await seen_by(bench, BOB, status="pending") == []
        assert (await bench.bob.approval(result)).status == "approved"


async def test_a_request_whose_time_is_over_waits_for_nobody() -> None:
    async with guarded() as bench:
        result = await waiting(bench)
        bench.wait(ApprovalPolicy().ttl_ms / 1000)
        assert await seen_by(bench, BOB) == []
        assert await seen_by(bench, ALICE) == [result.approval_id]


async def test_requests_come_in_pages() -> None:
    async with guarded() as bench:
        ids = [(await waiting(bench)).approval_id for _ in range(3)]
        first = await bench.bob.approvals(limit=2)
        rest = await bench.bob.approvals(after=first.next)
        items = [*first.items, *rest.items]
        assert [one.document.approval_id for one in items if isinstance(one, Stored)] == ids[::-1]


async def test_a_result_that_waits_for_nobody_names_no_request() -> None:
    async with Workbench() as bench:
        done = await bench.alice.execute(CHARGE, ORDER)
        with refused_with("approval.not_found"):
            await bench.alice.approval(done)


async def test_a_view_shows_what_was_kept_with_the_action_and_who_ruled() -> None:
    async with Workbench([faults.acknowledgement()]) as bench:
        lost = await bench.alice.execute(CHARGE, ORDER, metadata={"ticket": 42})
        await bench.olga.settle(lost, "committed", reference="ticket 7", note="it is there")
        view = await bench.alice.get(lost)
        assert view.metadata == {"ticket": 42}
        assert view.ruling is not None
        assert (view.ruling.by, view.ruling.note) == (OLGA.ref, "it is there")


# ── recovery without a sweeper ───────────────────────────────────────────────────────────────────


@pytest.mark.rule("TX-EXEC-2", "TX-LEASE-2")
async def test_a_reconciliation_that_meets_a_lapsed_lease_writes_the_unknown_outcome() -> None:
    """Without a sweeper it is the first to see it; the next one asks the provider."""
    async with Workbench([faults.never()]) as bench:
        plan = await bench.alice.plan(CHARGE, ORDER)
        running = asyncio.ensure_future(bench.alice.commit(plan))
        while (await bench.record(plan)).status != "committing":  # noqa: ASYNC110  # it is a task of its own
            await asyncio.sleep(0)
        await bench.restart()
        running.cancel()
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.alice.reconcile(plan)
        bench.wait(60)
        with refused_with("transaction.reconciliation_required"):
            await bench.alice.reconcile(plan)
        assert (await bench.record(plan)).status == "outcome_unknown"
        bench.wait(60)
        found = await bench.alice.reconcile(plan)
        assert (found.status, found.verdict) == ("reconciled", "committed")
        assert await bench.check() == []


# ── told to stop ─────────────────────────────────────────────────────────────────────────────────


async def test_who_is_told_to_stop_while_a_credential_is_fetched_claims_nothing() -> None:
    """The word may come in the middle of the gates, as a signal does."""
    engines: list[Engine] = []

    class Source:
        def credential(self, *_: object) -> None:
            for engine in engines:
                engine.stop_taking()

    async with Workbench(credentials=Source()) as bench:
        plan = await bench.alice.plan(CHARGE, ORDER)
        engines.append(bench.engine)
        with refused_with("runtime.closed"):
            await bench.alice.commit(plan)
        assert (await bench.record(plan)).status == "planned"
        assert bench.provider.charges == 0
        with refused_with("runtime.closed"):
            await bench.alice.plan(CHARGE, ORDER)
        assert (await bench.alice.get(plan)).result.status == "planned"
