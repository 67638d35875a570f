"""Provider events confirm or settle an unknown; they never execute, never move a record back."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.documents import Correction, TransactionRecord, UnclaimedEffect
from amends.contracts.enums import Status, Verdict
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.outcomes import ErrorInfo
from amends.contracts.principals import Principal
from amends.contracts.results import Result
from amends.runtime.evidence import EVIDENCE_SCOPE, Taken
from amends.stores.port import Stored
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, TENANT, Workbench
from tests.unit.runtime.desk import DONE, OPERATION, OTHER, UNSURE, Desk, action, ask, claim

HOOK = replace(ALICE, id="hook", scopes=(EVIDENCE_SCOPE,))


async def tell(bench: Workbench, event: ProviderEvent, principal: Principal = HOOK) -> Taken:
    return await bench.acting_as(principal).evidence(event)


def about(record: TransactionRecord, said: Said, event_id: str = "evt_1") -> ProviderEvent:
    return ProviderEvent(
        provider=OPERATION.provider,
        event_id=event_id,
        said=said,
        provider_key=record.provider_key,
        operation_id=OPERATION.operation_id if said is Said.APPLIED else None,
        output={"id": "op_1"} if said is Said.APPLIED else None,
        error=None if said is Said.APPLIED else ErrorInfo(code="charge.failed"),
    )


async def unknown(bench: Workbench) -> tuple[Result, TransactionRecord]:
    lost = await ask(bench, action(id="act_1"))
    record = await bench.record(lost)
    assert record.status is Status.OUTCOME_UNKNOWN
    return lost, record


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (Said.APPLIED, Verdict.COMMITTED),
        (Said.PARTIAL, Verdict.PARTIAL),
        (Said.NOT_APPLIED, Verdict.NOT_COMMITTED),
    ],
)
async def test_an_event_settles_an_unknown_outcome_as_the_provider_says(
    said: Said, verdict: Verdict
) -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        _, record = await unknown(bench)
        assert await tell(bench, about(record, said)) is Taken.TAKEN
        settled = await bench.record(record.transaction_id)
        assert (settled.status, settled.verdict) == (Status.RECONCILED, verdict)


async def test_an_event_is_taken_once_however_often_it_is_delivered() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        _, record = await unknown(bench)
        event = about(record, Said.APPLIED)
        assert [await tell(bench, event) for _ in range(3)] == [
            Taken.TAKEN,
            Taken.KNOWN,
            Taken.KNOWN,
        ]
        assert (await bench.record(record.transaction_id)).revision == record.revision + 1


async def test_an_event_confirms_what_is_settled_and_changes_nothing() -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        done = await ask(bench, action(id="act_1"))
        before = await bench.record(done)
        assert await tell(bench, about(before, Said.APPLIED)) is Taken.KNOWN
        assert await bench.record(done) == before


async def test_an_event_that_contradicts_a_settled_record_becomes_one_correction() -> None:
    async with Workbench(served=[Desk(reconcile=[DONE], compensate=[DONE]).served()]) as bench:
        done = await ask(bench, action(id="act_1"))
        before = await bench.record(done)
        for _ in range(2):
            await tell(bench, about(before, Said.NOT_APPLIED))
        assert await bench.record(done) == before
        page = await bench.store.list(Correction, TENANT)
        assert len(page.items) == 1
        with refused_with("transaction.compensation_frozen"):
            await bench.alice.compensate(done)


async def test_an_event_during_the_attempt_waits_as_evidence_and_the_answer_stands() -> None:
    seen: list[Status] = []

    async def told_meanwhile(attempt: Attempt) -> object:
        record = await bench.record(attempt.transaction_id)
        assert await tell(bench, about(record, Said.APPLIED)) is Taken.TAKEN
        seen.append((await bench.record(attempt.transaction_id)).status)
        return {"id": "op_1"}

    answer: Callable[[Attempt], Awaitable[object]] = told_meanwhile
    async with Workbench(served=[Desk([answer]).served()]) as bench:
        done = await ask(bench, action(id="act_1"))
        record = await bench.record(done)
        assert seen == [Status.PREPARED]
        assert (record.status, record.verdict) == (Status.COMMITTED, Verdict.COMMITTED)


async def test_an_event_that_overtook_the_crash_settles_the_next_look_up() -> None:
    """The effect is known although the process died and the look-up finds nothing."""
    desk = Desk(reconcile=[UNSURE])
    async with Workbench(served=[desk.served()]) as bench:
        running = await claim(bench, action(id="act_1"))
        assert await tell(bench, about(running.record, Said.APPLIED)) is Taken.TAKEN
        await bench.restart()
        bench.wait(60)
        await bench.sweep()
        bench.wait(60)
        await bench.sweep()
        record = await bench.record(running.record.transaction_id)
        assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)


async def test_an_event_is_matched_by_the_operation_where_it_carries_no_key_of_ours() -> None:
    async def accepted(attempt: Attempt) -> object:
        await attempt.checkpoint(OPERATION.provider, OPERATION.operation_id)
        return UNSURE

    async with Workbench(served=[Desk([accepted]).served()]) as bench:
        _, record = await unknown(bench)
        event = replace(about(record, Said.APPLIED), provider_key=None)
        other = replace(event, provider="somebody-else", event_id="evt_2")
        assert await tell(bench, other) is Taken.UNCLAIMED
        assert await tell(bench, event) is Taken.TAKEN


@pytest.mark.parametrize("key", [None, "foreign", "amends-txn_9-0123456789abcdef"])
async def test_an_effect_that_nobody_claims_is_kept_once_and_makes_no_transaction(
    key: str | None,
) -> None:
    async with Workbench(served=[Desk().served()]) as bench:
        event = ProviderEvent(
            provider="desk",
            event_id="evt_9",
            said=Said.APPLIED,
            provider_key=key,
            operation_id=OTHER.operation_id,
        )
        assert [await tell(bench, event) for _ in range(2)] == [Taken.UNCLAIMED, Taken.KNOWN]
        page = await bench.store.list(UnclaimedEffect, TENANT)
        (kept,) = [item.document for item in page.items if isinstance(item, Stored)]
        assert (kept.event_id, kept.operation) == ("evt_9", replace(OTHER, provider="desk"))
        assert (await bench.store.list(TransactionRecord, TENANT)).items == ()


async def test_a_key_that_was_copied_to_another_tenant_matches_nothing_there() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        _, record = await unknown(bench)
        assert await bench.eve.evidence(about(record, Said.APPLIED)) is Taken.UNCLAIMED
        assert await bench.record(record.transaction_id) == record


async def test_only_operators_and_those_granted_by_name_bring_events() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        _, record = await unknown(bench)
        with refused_with("evidence.not_allowed", record):
            await tell(bench, about(record, Said.APPLIED), ALICE)
        assert await bench.olga.evidence(about(record, Said.APPLIED)) is Taken.TAKEN


@pytest.mark.parametrize(
    "changes", [{"event_id": ""}, {"provider": "a b"}, {"operation_id": "\x00"}]
)
async def test_an_event_whose_references_cannot_be_kept_is_refused(
    changes: dict[str, str],
) -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        _, record = await unknown(bench)
        with refused_with("input.invalid_id", record):
            await tell(bench, replace(about(record, Said.APPLIED), **changes))


@pytest.mark.rule("TX-REV-3", "TX-VIEW-2")
async def test_a_failure_that_evidence_speaks_against_tells_nobody_to_begin_anew() -> None:
    async with Workbench(served=[Desk([signals.NotApplied("card_declined")]).served()]) as bench:
        failed = await ask(bench, action(id="act_1"))
        await tell(bench, about(await bench.record(failed), Said.APPLIED))
        view = await bench.olga.get(failed)
        assert (view.result.status, view.result.attention) == ("failed", "contradicted")
        assert [step.call for step in view.result.next] == ["rule"]
        (correction,) = view.corrections
        await bench.olga.rule(
            correction.correction_id, "Refunded by hand.", allow_compensation=False
        )
        assert (await bench.olga.get(failed)).result.attention is None
