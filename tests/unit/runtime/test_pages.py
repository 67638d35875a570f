"""What is looked for in a list is found, whatever fills its first page, and whatever is damaged."""

from datetime import timedelta

from msgspec.structs import replace

from amends.contracts import limits
from amends.contracts.documents import ActionDocument
from amends.contracts.enums import Status
from amends.contracts.events import Said
from amends.contracts.ids import PrincipalId
from amends.contracts.outcomes import ErrorInfo, Uncertain
from amends.contracts.principals import HOLD_SCOPE
from amends.runtime.evidence import Taken
from amends.stores.port import Accepted, AnyDocument, ChangeSet, Insert, Page, Unreadable
from amends.testing.clock import START
from amends.testing.store_documents import a_correction, a_refusal, a_transaction, an_action
from amends.testing.workbench import ALICE, BOB, TENANT, Workbench
from tests.unit.runtime.desk import DONE, OPERATION, Desk, action, ask, replaced
from tests.unit.runtime.test_evidence import about, tell

LATER = START + timedelta(hours=1)
MANY = range(limits.PAGE_SIZE + 1)


async def keep(bench: Workbench, *documents: AnyDocument) -> None:
    for one in documents:
        written = await bench.store.commit(ChangeSet(changes=(Insert(one),)))
        assert isinstance(written, Accepted)


async def test_refusals_of_others_hide_none_of_the_callers_own() -> None:
    async with Workbench(served=[Desk([DONE]).served()]) as bench:
        own = replace(a_refusal("own", tenant=TENANT), principal=BOB.ref)
        other = replace(BOB.ref, id=PrincipalId("mallory"))
        newer = (a_refusal(f"{n}", tenant=TENANT, at=LATER) for n in MANY)
        await keep(bench, own, *(replace(one, principal=other) for one in newer))
        assert [one.refusal_id for one in await bench.bob.refusals()] == [own.refusal_id]


async def test_no_more_refusals_are_shown_than_a_page_holds() -> None:
    async with Workbench(served=[Desk([DONE]).served()]) as bench:
        made = (a_refusal(f"{n}", tenant=TENANT) for n in MANY)
        await keep(bench, *(replace(one, principal=ALICE.ref) for one in made))
        assert len(await bench.alice.refusals()) == limits.PAGE_SIZE


async def test_an_event_finds_its_record_among_those_of_other_providers() -> None:
    unsure = Uncertain(error=ErrorInfo(code="unsure"), operation=OPERATION)
    async with Workbench(served=[Desk([unsure]).served()]) as bench:
        record = await bench.record(await ask(bench, action(id="act_1")))
        elsewhere = replace(OPERATION, provider="elsewhere")
        newer = (a_transaction(f"{n}", tenant=TENANT, at=LATER) for n in range(3))
        await keep(bench, *(replace(one, provider_operation=elsewhere) for one in newer))
        event = replace(about(record, Said.APPLIED), provider_key=None)
        assert await tell(bench, event) is Taken.TAKEN
        assert (await bench.record(record.transaction_id)).status is Status.RECONCILED


async def test_an_event_that_became_a_correction_is_known_behind_a_page_of_others() -> None:
    async with Workbench(served=[Desk([DONE]).served()]) as bench:
        record = await bench.record(await ask(bench, action(id="act_1")))
        event = about(record, Said.NOT_APPLIED)
        assert await tell(bench, event) is Taken.TAKEN
        newer = (a_correction(f"{n}", tenant=TENANT, at=LATER) for n in MANY)
        id_ = record.transaction_id
        await keep(bench, *(replace(one, transaction_id=id_) for one in newer))
        assert await tell(bench, event) is Taken.KNOWN


async def test_a_hold_is_placed_although_the_newest_action_cannot_be_read() -> None:
    async with Workbench(served=[Desk([DONE]).served()]) as bench:
        await keep(bench, an_action("1", tenant=TENANT))
        listed = bench.store.list

        async def damaged(*args: object, **asked: object) -> Page[ActionDocument]:
            newest = Unreadable(ActionDocument, TENANT, "act_x", "damaged", b"{")
            page: Page[ActionDocument] = await listed(*args, **asked)  # type: ignore[arg-type]  # passed on as it came
            limit = asked.get("limit", limits.PAGE_SIZE)
            assert isinstance(limit, int)
            return replace(page, items=(newest, *page.items)[:limit])

        mend = replaced(bench, "list", damaged)
        keeper = bench.acting_as(replace(ALICE, scopes=(HOLD_SCOPE,)))
        hold = await keeper.place_hold("txn_1", reason="asked for")
        mend()
        assert hold.placed
