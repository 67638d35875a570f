"""Operators rule on corrections: slots open or stay closed, and a receipt says who said what."""

import pytest
from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.documents import CompensationSlots, Correction, Document
from amends.contracts.enums import Verdict
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.results import Result
from amends.runtime.rulings import ALLOWED, KEPT
from amends.stores.port import Page, Stored, Unreadable
from amends.testing.invariants import chains_reach_their_records, receipts_verify
from amends.testing.refusals import refused_with
from amends.testing.workbench import TENANT, Workbench
from tests.unit.runtime.desk import (
    DONE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    hidden,
    replaced,
)

pytestmark = pytest.mark.rule("TX-REV-3")


def bench() -> Workbench:
    return Workbench(served=[Desk(reconcile=[DONE], compensate=[DONE]).served()])


async def contradict(bench: Workbench, done: Result, event_id: str) -> Correction:
    """The provider says that it never happened; that becomes a correction."""
    record = await bench.record(done)
    known = {one.correction_id for one in await corrections(bench)}
    event = ProviderEvent(
        provider="desk",
        event_id=event_id,
        said=Said.NOT_APPLIED,
        provider_key=record.provider_key,
    )
    await bench.olga.evidence(event)
    (made,) = [one for one in await corrections(bench) if one.correction_id not in known]
    return made


async def corrections(bench: Workbench) -> list[Correction]:
    page = await bench.store.list(Correction, TENANT)
    return [one.document for one in page.items if isinstance(one, Stored)]


async def slots(bench: Workbench, done: Result) -> CompensationSlots:
    found = await bench.store.get(CompensationSlots, TENANT, done.transaction_id)
    assert found is not None
    return found.document


async def whole(bench: Workbench) -> bool:
    """Whether every chain verifies and reaches its record."""
    snapshot = await bench.snapshot()
    return not (chains_reach_their_records(snapshot) or receipts_verify(snapshot, bench.keys))


async def test_a_ruling_opens_the_target_and_leaves_the_record_as_it_was() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        before = await made.record(done)
        with refused_with("transaction.compensation_frozen"):
            await made.alice.compensate(done)
        ruled = await made.olga.rule(correction, "It did happen.", allow_compensation=True)
        assert (ruled.ruled_by, ruled.ruling) == (made.olga._by.principal.ref, "It did happen.")
        assert (await slots(made, done)).frozen is None
        assert await made.record(done) == before
        receipt = (await made.olga.receipts(done))[-1]
        assert (receipt.step.type, receipt.step.code) == ("operator_resolved", ALLOWED)
        assert receipt.step.verdict is Verdict.COMMITTED
        offset = await made.alice.compensate(done)
        assert offset.status == "compensated"
        assert await whole(made)


async def test_a_ruling_may_keep_the_target_closed_and_a_later_one_opens_it() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        await made.olga.rule(correction.correction_id, "Wait.", allow_compensation=False)
        assert (await slots(made, done)).frozen == correction.evidence.kind
        assert (await made.olga.receipts(done))[-1].step.code == KEPT
        await made.olga.rule(correction, "Go on.", allow_compensation=True)
        assert (await slots(made, done)).frozen is None


async def test_a_target_stays_closed_until_every_correction_of_it_was_ruled_on() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        first = await contradict(made, done, "evt_1")
        second = await contradict(made, done, "evt_2")
        await made.olga.rule(first, "Fine.", allow_compensation=True)
        with refused_with("transaction.compensation_frozen"):
            await made.alice.compensate(done)
        await made.olga.rule(second, "Fine.", allow_compensation=True)
        assert (await made.alice.compensate(done)).status == "compensated"


async def test_a_correction_that_comes_during_the_ruling_keeps_the_target_closed() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        before_next_write(made, lambda: contradict(made, done, "evt_2"))
        await made.olga.rule(correction, "Fine.", allow_compensation=True)
        assert len(await corrections(made)) == 2
        assert (await slots(made, done)).frozen is not None
        assert await whole(made)


async def test_only_operators_of_the_same_tenant_rule() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        before = (await slots(made, done), await made.snapshot())
        with refused_with("correction.ruling_not_allowed"):
            await made.alice.rule(correction, "Mine.", allow_compensation=True)
        with refused_with("correction.not_found"):
            await made.eve.rule(correction, "Mine too.", allow_compensation=True)
        with refused_with("correction.not_found"):
            await made.olga.rule("cor_none", "Which?", allow_compensation=True)
        with refused_with("correction.ruling_required"):
            await made.olga.rule(correction, "", allow_compensation=True)
        with refused_with("input.lone_surrogate"):
            await made.olga.rule(correction, "\ud800", allow_compensation=True)
        assert (await slots(made, done), await made.snapshot()) == before


async def test_a_correction_that_cannot_be_read_keeps_the_target_closed() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        listed = made.store.list

        async def unreadable(*args: object, **asked: object) -> object:
            page: Page[Correction] = await listed(*args, **asked)  # type: ignore[arg-type]  # passed on as it came
            other = Unreadable(Correction, TENANT, "cor_x", "damaged", b"{")
            return replace(page, items=(*page.items, other))

        mend = replaced(made, "list", unreadable)
        with refused_with("correction.unreadable", await slots(made, done)):
            await made.olga.rule(correction, "Fine.", allow_compensation=True)
        mend()
        assert "operator_resolved" not in await chain(made, done)


async def test_corrections_are_found_however_many_pages_they_fill() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        await contradict(made, done, "evt_2")
        listed = made.store.list

        async def page_by_page(*args: object, **asked: object) -> object:
            return await listed(*args, **(asked | {"limit": 1}))  # type: ignore[arg-type]  # passed on

        mend = replaced(made, "list", page_by_page)
        await made.olga.rule(correction, "Fine.", allow_compensation=True)
        mend()
        assert (await slots(made, done)).frozen is not None


async def test_what_a_correction_stands_on_is_never_taken_for_granted() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        show = hidden(made, CompensationSlots)
        with pytest.raises(AssertionError):
            await made.olga.rule(correction, "Fine.", allow_compensation=True)
        show()
        assert (await slots(made, done)).frozen is not None


async def rule(made: Workbench, correction: Correction) -> None:
    await made.olga.rule(correction, "It did happen.", allow_compensation=True)


@pytest.mark.rule("TX-REV-3", "TX-VIEW-2")
@pytest.mark.parametrize("many", [False, True], ids=["one correction", "more than a page of them"])
async def test_every_reading_says_that_evidence_speaks_against_it_until_somebody_rules(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(limits, "PAGE_SIZE", 1)
    async with bench() as made:
        asked = action(id="act_1", transaction="txn_1", key="order-7")
        done = await ask(made, asked)
        sound = await ask(made, action(id="act_2", transaction="txn_2"))
        firsts = [await contradict(made, one, f"evt_{one.action_id}") for one in (done, sound)]
        await rule(made, firsts[1])

        async def shown() -> list[str | None]:
            again = await ask(made, asked)
            by_key = await ask(made, action(transaction="txn_1", key="order-7"))
            view = await made.alice.get("txn_1")
            listed: dict[str, str | None] = {}
            after = None
            while True:
                page = await made.alice.list(after=after, limit=limits.PAGE_SIZE)
                read = [one.document for one in page.items if isinstance(one, Stored)]
                listed |= {one.transaction_id: one.attention for one in read}
                if (after := page.next) is None:
                    break
            assert listed["txn_2"] is None
            assert again.replayed
            assert by_key.replayed
            return [one.attention for one in (again, by_key, view.result)] + [listed["txn_1"]]

        assert await shown() == ["contradicted"] * 4
        assert (await ask(made, asked)).next[0].call == "rule"
        assert (await made.record(done)).attention is None
        await rule(made, firsts[0])
        assert await shown() == [None] * 4


@pytest.mark.rule("TX-REV-3")
async def test_a_correction_that_cannot_be_read_counts_as_open() -> None:
    async with bench() as made:
        done = await ask(made, action(id="act_1"))
        correction = await contradict(made, done, "evt_1")
        await rule(made, correction)
        row = Unreadable(Correction, TENANT, correction.correction_id, "no JSON", b"")
        lists = made.store.list

        async def spoilt(type_: type[Document], *told: object, **where: object) -> object:
            page = await lists(type_, *told, **where)  # type: ignore[arg-type]  # handed through
            return replace(page, items=(row,)) if type_ is Correction else page

        made.store.list = spoilt  # type: ignore[assignment,method-assign]  # one row is damaged
        [listed] = (await made.alice.list()).items
        assert isinstance(listed, Stored)
        assert listed.document.attention == "contradicted"
        assert (await made.alice.get(done)).result.attention == "contradicted"
