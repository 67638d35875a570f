"""Forgetting through the engine: what goes, what stays, what is kept, and who wins a race."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from amends.contracts.approval_policy import ApprovalPolicy
from amends.contracts.approvals import ApprovalRequest
from amends.contracts.declarations import DataContract
from amends.contracts.documents import (
    ActionDocument,
    Document,
    LegalHold,
    Refusal,
    TransactionRecord,
)
from amends.contracts.enums import Verdict
from amends.contracts.events import ProviderEvent, Said
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import TenantId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import ErrorInfo, NotApplied
from amends.contracts.principals import OPERATE_SCOPE
from amends.contracts.redaction import hidden_text
from amends.recovery.retaining import Retained
from amends.stores.port import Page, Stored, Unreadable
from amends.stores.sqlite.compacting import compact
from amends.testing.invariants import canary_absent, chains_reach_their_records, receipts_verify
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, TENANT, Workbench
from tests.unit.runtime.desk import (
    DONE,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    chain,
    replaced,
)

pytestmark = pytest.mark.rule("RD-3")
CANARY: Final = "kanarienvogel-7319"
DAY_S: Final = 24 * 3600
KEEPS: Final = DataContract(retention_ms=DAY_S * 1000)
ORDER: Final[Json] = {"card": CANARY}


def bench(desk: Desk | None = None, *, file: Path | None = None, **changes: object) -> Workbench:
    told = desk or Desk([{"echo": CANARY}])
    return Workbench(served=[told.served(**{"data": KEEPS, **changes})], file=file)


async def forget(made: Workbench, *, days: float = 1) -> Retained:
    made.wait(days * DAY_S)
    return await made.olga.retain()


async def whole(made: Workbench) -> bool:
    """Whether every chain verifies and reaches its record."""
    snapshot = await made.snapshot()
    return not (chains_reach_their_records(snapshot) or receipts_verify(snapshot, made.keys))


async def write_much(made: Workbench) -> None:
    """A plan that was approved and committed, a failure, a ruling by hand, a cancellation."""
    plan = await made.alice.plan(
        "payments.charge", ORDER, transaction_id="t_plan", metadata={"note": CANARY}
    )
    waiting = await made.alice.commit(plan)
    await made.bob.approve(waiting, reason=CANARY, evidence={"ticket": CANARY})
    assert (await made.alice.resume(waiting)).status == "committed"
    for name in ("t_no", "t_open"):
        asked = action(id=f"act_{name}", transaction=name, input=ORDER, metadata={"m": CANARY})
        await made.bob.approve(await ask(made, asked), reason=CANARY)
        await ask(made, asked)
    await made.olga.settle(
        "t_open", Verdict.COMMITTED, reference=CANARY, note=CANARY, accept_risk=True
    )
    left = await ask(made, action(id="act_left", transaction="t_left", input=ORDER))
    await made.alice.cancel(left, reason=CANARY)


def leaky() -> Desk:
    no = NotApplied(error=ErrorInfo(code="no", message=CANARY, details={"why": CANARY}))
    return Desk([{"echo": CANARY}, no, UNSURE])


async def test_everything_that_was_written_goes_and_everything_that_happened_stays() -> None:
    async with bench(leaky(), approval=ApprovalPolicy()) as made:
        await write_much(made)
        before, views = await made.snapshot(), await views_of(made)
        done = await forget(made)
        assert set(done.forgotten) == {"t_plan", "t_no", "t_open", "t_left"}
        assert (done.kept, done.dry_run) == ((), False)
        assert await whole(made)
        after = await made.snapshot()
        texts = [msgspec.json.encode(one) for one in after.documents.values()]
        assert canary_absent(CANARY, *texts) == []
        assert after.feed[: len(before.feed)] == before.feed
        assert await views_of(made) == views
        for old, new in zip(before.records, after.records, strict=True):
            assert (new.input_hash, new.settled_at) == (old.input_hash, old.settled_at)
            assert new.forgotten_at == made.clock()
        assert (await chain(made, "t_plan"))[-1] == "forgotten"
        receipt = (await made.olga.receipts("t_plan"))[-1]
        assert (receipt.step.type, receipt.step.actor.id) == (ReceiptType.FORGOTTEN, "olga")


async def views_of(made: Workbench) -> list[tuple[object, ...]]:
    """What a reader is told of how each transaction went."""
    told: list[tuple[object, ...]] = []
    for name in ("t_plan", "t_no", "t_open", "t_left"):
        result = (await made.olga.get(name)).result
        told.append((result.status, result.verdict, result.output_hash, result.plan_id))
    return told


async def test_the_second_run_finds_nothing_and_a_repeated_request_gets_its_answer() -> None:
    async with bench() as made:
        await ask(made, action(id="act_1", key="k", input=ORDER))
        assert len((await forget(made)).forgotten) == 1
        assert await made.olga.retain() == Retained()
        again = await ask(made, action(key="k", input=ORDER))
        assert (again.status, again.replayed, again.raw_output) == ("committed", True, None)
        with refused_with("action.input_required"):
            await made.alice.resume("act_1")
        view = await made.olga.get(action_id="act_1")
        assert view.forgotten_at is not None


async def test_a_dry_run_says_what_would_go_and_writes_nothing() -> None:
    async with bench() as made:
        await ask(made, action(transaction="t1", input=ORDER))
        made.wait(DAY_S)
        before = await made.snapshot()
        said = await made.olga.retain(dry_run=True)
        assert (said.forgotten, said.dry_run) == (("t1",), True)
        assert await made.snapshot() == before


async def test_nothing_goes_before_its_time_or_without_one() -> None:
    async with bench() as made:
        await ask(made, action(input=ORDER))
        assert await forget(made, days=0.99) == Retained()
    async with bench(data=DataContract()) as made:
        await ask(made, action(input=ORDER))
        assert await forget(made, days=9999) == Retained()


async def test_a_capability_that_is_not_registered_here_keeps_all() -> None:
    async with bench() as made:
        await ask(made, action(input=ORDER))
        await made.restart([Desk().served("payments.other")])
        assert await forget(made) == Retained()


async def test_what_may_still_be_needed_is_kept_and_the_reason_is_told() -> None:
    desk = Desk([DONE, UNSURE], compensate=[UNSURE])
    async with bench(desk) as made:
        done = await ask(made, action(id="act_1", transaction="t_done"))
        await made.alice.compensate(done, transaction_id="t_back")
        await ask(made, action(transaction="t_open"))
        kept = (await forget(made)).kept
        assert {str(one.transaction_id): one.reason for one in kept} == {
            "t_done": "compensation_open",
            "t_back": "open",
            "t_open": "open",
        }


async def test_a_contradicted_effect_is_kept_until_somebody_rules() -> None:
    async with bench(Desk([DONE])) as made:
        done = await ask(made, action(transaction="t1"))
        key = (await made.record(done)).provider_key
        no = ProviderEvent(provider="desk", event_id="e", said=Said.NOT_APPLIED, provider_key=key)
        await made.olga.evidence(no)
        assert [one.reason for one in (await forget(made)).kept] == ["contradicted"]
        [correction] = (await made.olga.get("t1")).corrections
        await made.olga.rule(correction, CANARY, allow_compensation=False)
        assert (await made.olga.retain()).forgotten == ("t1",)
        [left] = (await made.olga.get("t1")).corrections
        assert left.ruling is not None
        assert left.ruling.startswith("[redacted] sha256:")


async def test_a_refused_request_is_forgotten_by_its_own_time() -> None:
    async with bench(required_scopes=("pay",)) as made:
        with refused_with("policy.denied"):
            await ask(made, action(), principal=replace(ALICE, scopes=()))
        assert (await made.olga.retain()).refusals == 0
        made.wait(DAY_S)
        assert (await made.olga.retain(dry_run=True)).refusals == 1
        assert (await made.olga.retain()).refusals == 1
        assert (await made.olga.retain()).refusals == 0
        page = await made.store.list(Refusal, TENANT)
        [left] = [one.document for one in page.items if isinstance(one, Stored)]
        assert left.code == "policy.denied"
        assert left.forgotten_at is not None


# ── holds ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("RD-4")
async def test_a_hold_keeps_a_transaction_until_it_is_lifted() -> None:
    async with bench() as made:
        done = await ask(made, action(transaction="t1", input=ORDER))
        placed = await made.olga.place_hold(done, reason="case 7")
        assert (placed.placed, placed.by.id, placed.reason) == (True, "olga", "case 7")
        assert [one.reason for one in (await forget(made)).kept] == ["held"]
        with refused_with("hold.placed"):
            await made.olga.place_hold("t1", reason="case 8")
        lifted = await made.olga.lift_hold("t1", reason="settled")
        assert (lifted.placed, lifted.revision, lifted.created_at) == (
            False,
            2,
            placed.created_at,
        )
        with refused_with("hold.not_placed"):
            await made.olga.lift_hold("t1", reason="again")
        assert (await made.olga.retain()).forgotten == ("t1",)
        types = await chain(made, "t1")
        assert types[-3:] == ["hold_placed", "hold_lifted", "forgotten"]
        assert await whole(made)
        again = await made.olga.place_hold("t1", reason="too late for the texts")
        assert (again.placed, again.revision) == (True, 4)
        view = await made.olga.get("t1")
        assert view.hold == again
        assert view.forgotten_at is not None


@pytest.mark.rule("RD-4")
async def test_a_hold_wants_a_reason_a_transaction_and_somebody_who_may() -> None:
    async with bench() as made:
        done = await ask(made, action(transaction="t1"))
        with refused_with("hold.reason_required"):
            await made.olga.place_hold(done, reason=" ")
        with refused_with("transaction.not_found"):
            await made.olga.place_hold("t2", reason="r")
        with refused_with("hold.not_placed"):
            await made.olga.lift_hold("t1", reason="r")
        with refused_with("hold.not_allowed"):
            await made.alice.place_hold("t1", reason="r")
        with refused_with("retention.not_allowed"):
            await made.acting_as(replace(ALICE, scopes=(OPERATE_SCOPE,))).retain()


@pytest.mark.rule("RD-4", "RD-1")
async def test_the_reason_of_a_hold_is_kept_like_every_text_beside_its_transaction() -> None:
    hides = DataContract(redaction_required=True)
    waits = {"approval": ApprovalPolicy(required=True)}
    for changes in ({"data": hides}, {"data": hides, **waits}):
        async with bench(**changes) as made:
            done = await ask(made, action(id="act_1", transaction="t_1", input=ORDER))
            held = await made.olga.place_hold(done, reason=CANARY)
            lifted = await made.olga.lift_hold(done, reason="It is over.")
            assert {one.reason[:18] for one in (held, lifted)} == {"[redacted] sha256:"}
            assert held.reason == hidden_text(CANARY)
            assert CANARY not in repr(await made.snapshot())
    async with bench() as made:
        done = await ask(made, action(id="act_1", transaction="t_1", input=ORDER))
        held = await made.olga.place_hold(done, reason="Case 7, password=hunter22")
        assert held.reason == "Case 7, password=[redacted]"


async def test_holds_are_listed_and_those_that_were_lifted_on_request() -> None:
    async with bench() as made:
        for name in ("t1", "t2"):
            await ask(made, action(transaction=name))
            await made.olga.place_hold(name, reason=f"case {name}")
        await made.olga.lift_hold("t1", reason="over")
        assert await held(made, lifted=False) == ["t2"]
        assert await held(made, lifted=True) == ["t2", "t1"]


async def held(made: Workbench, *, lifted: bool) -> list[str]:
    page = await made.olga.holds(lifted=lifted)
    return [one.document.transaction_id for one in page.items if isinstance(one, Stored)]


async def test_a_transaction_that_only_waits_can_be_held() -> None:
    async with bench(approval=ApprovalPolicy()) as made:
        await ask(made, action(id="a1", transaction="t1"))
        await made.olga.place_hold("t1", reason="case 7")
        await made.alice.cancel("a1")
        assert [one.reason for one in (await forget(made)).kept] == ["held"]
        await made.olga.lift_hold("t1", reason="over")
        assert (await made.olga.retain()).forgotten == ("t1",)
        assert await whole(made)


@pytest.mark.rule("RD-4")
async def test_a_hold_that_is_first_wins_and_nothing_is_forgotten() -> None:
    async with bench() as made:
        await ask(made, action(transaction="t1", input=ORDER))
        made.wait(DAY_S)
        before_next_write(made, lambda: made.olga.place_hold("t1", reason="case 7"))
        done = await made.olga.retain()
        assert (done.forgotten, [one.reason for one in done.kept]) == ((), ["changed_meanwhile"])
        assert (await made.record("t1")).forgotten_at is None
        assert [one.reason for one in (await made.olga.retain()).kept] == ["held"]
        assert await whole(made)


@pytest.mark.rule("RD-4")
async def test_a_forgetting_that_is_first_wins_and_the_hold_comes_after_it() -> None:
    async with bench() as made:
        await ask(made, action(transaction="t1", input=ORDER))
        made.wait(DAY_S)
        before_next_write(made, made.olga.retain)
        placed = await made.olga.place_hold("t1", reason="case 7")
        assert placed.placed
        assert (await made.record("t1")).forgotten_at is not None
        assert (await chain(made, "t1"))[-2:] == ["forgotten", "hold_placed"]
        assert await whole(made)


async def test_a_compensation_that_is_first_wins_and_its_target_is_kept() -> None:
    async with bench(Desk([DONE], compensate=[UNSURE])) as made:
        done = await ask(made, action(transaction="t1"))
        made.wait(DAY_S)
        before_next_write(made, lambda: made.alice.compensate(done, transaction_id="t2"))
        assert [one.reason for one in (await made.olga.retain()).kept] == ["changed_meanwhile"]
        reasons = {str(one.transaction_id): one.reason for one in (await made.olga.retain()).kept}
        assert reasons["t1"] == "compensation_open"


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def unreadable(made: Workbench, type_: type[Document]) -> Callable[[], None]:
    """From now on rows of this type are listed as unreadable; returns how to undo it."""
    listed = made.store.list

    async def broken(asked: type[Document], tenant: TenantId, **more: Any) -> Page[Any]:
        page = await listed(asked, tenant, **more)
        if asked is not type_:
            return page
        rows = [Unreadable(asked, TENANT, "row", "damaged", b"") for _ in page.items]
        return Page(tuple(rows), page.next)

    return replaced(made, "list", broken)


async def test_a_transaction_with_a_row_that_cannot_be_read_is_left_alone() -> None:
    async with bench(approval=ApprovalPolicy()) as made:
        asked = action(id="a1", transaction="t1", input=ORDER)
        await made.bob.approve(await ask(made, asked))
        await ask(made, asked)
        made.wait(DAY_S)

        mend = unreadable(made, ApprovalRequest)
        assert [one.reason for one in (await made.olga.retain()).kept] == ["unreadable"]
        mend()
        assert (await made.olga.retain()).forgotten == ("t1",)


async def test_an_action_that_cannot_be_read_stops_nothing_else() -> None:
    async with bench() as made:
        await ask(made, action(transaction="t1", input=ORDER))
        made.wait(DAY_S)
        unreadable(made, ActionDocument)
        assert await made.olga.retain() == Retained()


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────


def bytes_of(database: Path) -> list[bytes]:
    return [one.read_bytes() for one in sorted(database.parent.glob(f"{database.name}*"))]


async def test_the_bytes_are_gone_from_the_files_once_the_store_was_compacted(
    tmp_path: Path,
) -> None:
    database = tmp_path / "amends.db"
    async with bench(leaky(), file=database, approval=ApprovalPolicy()) as made:
        await write_much(made)
        assert canary_absent(CANARY, *bytes_of(database)) != []
        await forget(made)
        compact(database)
        assert canary_absent(CANARY, *bytes_of(database)) == []
        assert await whole(made)
        found = await made.store.get(TransactionRecord, TENANT, "t_plan")
        assert found is not None
        assert await made.store.get(LegalHold, TENANT, "t_plan") is None
    assert canary_absent(CANARY, *bytes_of(database)) == []
