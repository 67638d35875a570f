"""Each invariant finds what it is for, and a world that is well has no violation."""

import asyncio
import base64
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from amends.contracts.declarations import CompensationContract
from amends.contracts.documents import CompensationSlots, SlotHolder, TransactionRecord
from amends.contracts.enums import CompensationMode, Mode, Status, Verdict
from amends.contracts.evidence import ReceiptType
from amends.contracts.ids import ActionId, TransactionId
from amends.receipts.signing import KeyRing
from amends.stores.port import FeedEntry
from amends.testing import faults
from amends.testing.builders import OTHER_OPERATION, record_in
from amends.testing.invariants import (
    canary_absent,
    chains_reach_their_records,
    check_history,
    check_snapshot,
    compensations_are_bounded,
    effects_are_claimed,
    one_effect_per_intent,
    one_winner_per_plan,
    receipts_only_grow,
    receipts_verify,
    references_are_never_replaced,
    references_stay,
    revisions_grow,
    revisions_grow_in_receipts,
    terminal_records_stand,
    unknown_is_never_repeated,
    verdicts_are_true,
)
from amends.testing.refusals import refused_with
from amends.testing.snapshots import Snapshot
from amends.testing.workbench import CHARGE, Workbench


async def busy() -> tuple[Workbench, Snapshot]:
    """A world in which much has happened: a lost answer, a refund, a plan, a refusal."""
    bench = Workbench([faults.none(), faults.none(), faults.acknowledgement()])
    async with bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 500})
        done = await bench.alice.commit(plan)
        await bench.alice.compensate(done, {"amount": 100})
        lost = await bench.alice.execute(CHARGE, {"amount": 7})
        bench.wait(5)
        await bench.sweep()
        waiting = await bench.alice.execute(CHARGE, {"amount": 9}, approval_required=True)
        await bench.bob.deny(waiting)
        with refused_with("approval.denied"):
            await bench.alice.resume(waiting)
        assert (await bench.record(lost)).status is Status.RECONCILED
        return bench, await bench.snapshot()


def reshaped(snapshot: Snapshot, number: int, **changes: object) -> Snapshot:
    """The snapshot with one record changed."""
    records = list(snapshot.records)
    records[number] = replace(records[number], **changes)
    return replace(snapshot, records=tuple(records))


def restepped(snapshot: Snapshot, place: int, **changes: object) -> Snapshot:
    """The snapshot with one receipt's step changed."""
    feed = list(snapshot.feed)
    receipt = feed[place].receipt
    told = replace(receipt, step=replace(receipt.step, **changes))
    feed[place] = replace(feed[place], receipt=told)
    return replace(snapshot, feed=tuple(feed))


def place_of(snapshot: Snapshot, type_: ReceiptType) -> int:
    """Where the first receipt of a type stands in the feed."""
    return next(n for n, one in enumerate(snapshot.feed) if one.receipt.step.type is type_)


def record_of(snapshot: Snapshot, status: Status) -> int:
    """Which record has this status."""
    return next(n for n, one in enumerate(snapshot.records) if one.status is status)


async def test_a_chain_that_was_cut_behind_its_record_is_seen() -> None:
    _, snapshot = await busy()
    assert chains_reach_their_records(snapshot) == []
    cut = replace(snapshot, feed=snapshot.feed[:1])
    assert len(chains_reach_their_records(cut)) == len(snapshot.records)
    behind = reshaped(snapshot, 0, revision=1)
    assert len(chains_reach_their_records(behind)) == 1


async def test_a_world_that_is_well_has_no_violation() -> None:
    bench, snapshot = await busy()
    assert check_snapshot(snapshot, bench.effects, bench.keys) == []
    assert check_history(snapshot, snapshot) == []
    assert len(bench.effects) == 3


async def test_a_second_winner_of_a_plan_is_found() -> None:
    _, snapshot = await busy()
    [commit] = [one for one in snapshot.actions if one.mode is Mode.COMMIT]
    twice = replace(snapshot, actions=(*snapshot.actions, replace(commit, action_id="act_other")))
    assert len(one_winner_per_plan(twice)) == 1
    place = place_of(snapshot, ReceiptType.COMMIT_STARTED)
    again = replace(snapshot, feed=(*snapshot.feed, snapshot.feed[place]))
    assert len(one_winner_per_plan(again)) == 1


async def test_an_effect_without_a_claim_or_twice_is_found() -> None:
    bench, snapshot = await busy()
    assert len(effects_are_claimed(snapshot, [*bench.effects, "stray"])) == 1
    key = bench.effects[0]
    number = next(n for n, one in enumerate(snapshot.records) if one.provider_key == key)
    unlicensed = reshaped(snapshot, number, effect_attempts=0)
    assert len(effects_are_claimed(unlicensed, bench.effects)) == 1
    assert one_effect_per_intent(["a", "b", "a"]) == ["'a' had 2 effects"]


async def test_a_replaced_reference_is_found_within_a_moment_and_between_two() -> None:
    _, snapshot = await busy()
    number = record_of(snapshot, Status.COMMITTED)
    other = reshaped(snapshot, number, provider_operation=OTHER_OPERATION)
    assert len(references_stay(other)) == 1
    assert len(references_are_never_replaced(snapshot, other)) == 1
    gone = reshaped(snapshot, number, provider_operation=None)
    assert len(references_stay(gone)) == 1
    filled = record_in(Status.OUTCOME_UNKNOWN, provider_operation=None)
    before = replace(snapshot, records=(filled,), feed=())
    after = replace(before, records=(replace(filled, provider_operation=OTHER_OPERATION),))
    assert references_are_never_replaced(before, after) == []


async def test_a_revision_that_falls_or_lies_is_found() -> None:
    _, snapshot = await busy()
    place = place_of(snapshot, ReceiptType.COMMITTED)
    assert len(revisions_grow_in_receipts(restepped(snapshot, place, revision=1))) == 1
    back = reshaped(snapshot, 0, revision=1)
    assert len(revisions_grow(snapshot, back)) == 1
    changed = reshaped(snapshot, 0, attention="moved")
    assert len(revisions_grow(snapshot, changed)) == 1
    gone = replace(snapshot, records=snapshot.records[1:])
    assert len(revisions_grow(snapshot, gone)) == 1


async def test_a_repetition_after_an_unknown_outcome_is_found() -> None:
    _, snapshot = await busy()
    unknown = snapshot.feed[place_of(snapshot, ReceiptType.OUTCOME_UNKNOWN)]
    step = replace(unknown.receipt.step, type=ReceiptType.EXECUTION_STARTED)
    again: FeedEntry = replace(unknown, receipt=replace(unknown.receipt, step=step))
    assert len(unknown_is_never_repeated(replace(snapshot, feed=(*snapshot.feed, again)))) == 1
    assert unknown_is_never_repeated(snapshot) == []


async def test_a_tampered_cut_or_unsigned_chain_is_found() -> None:
    bench, snapshot = await busy()
    place = place_of(snapshot, ReceiptType.COMMITTED)
    tampered = restepped(snapshot, place, code="other")
    assert receipts_verify(tampered, bench.keys) != []
    feed = list(snapshot.feed)
    feed[place] = replace(
        feed[place], receipt=replace(feed[place].receipt, signature=None, key_id=None)
    )
    assert receipts_verify(replace(snapshot, feed=tuple(feed)), bench.keys) != []
    assert receipts_verify(snapshot, KeyRing([bytes(32)])) != []
    without = tuple(one for n, one in enumerate(snapshot.feed) if n != place - 1)
    assert receipts_verify(replace(snapshot, feed=without), bench.keys) != []


async def test_a_chain_of_an_open_transaction_may_end_unsigned() -> None:
    async with Workbench([faults.never()]) as bench:
        waits = asyncio.ensure_future(bench.alice.execute(CHARGE, {"amount": 5}))
        await asyncio.sleep(0.01)
        assert bench.provider.charges == 1
        assert await bench.check() == []
        waits.cancel()


async def test_one_compensation_too_many_is_found_wherever_it_shows() -> None:
    bench, snapshot = await busy()
    refund = next(one for one in snapshot.records if one.mode is Mode.COMPENSATE)
    assert len(compensations_are_bounded(snapshot, [*bench.effects, refund.provider_key])) == 1
    without = replace(snapshot, slots=())
    assert len(compensations_are_bounded(without, bench.effects)) == 2
    [slots] = snapshot.slots
    holder = SlotHolder(action_id=ActionId("act_x"), transaction_id=TransactionId("txn_x"))
    full: CompensationSlots = replace(slots, holders=(*slots.holders, holder))
    assert len(compensations_are_bounded(replace(snapshot, slots=(full,)), bench.effects)) == 1


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda one: replace(one, verdict=Verdict.NOT_COMMITTED), True),
        (lambda one: replace(one, provider_key="other"), True),
        (lambda one: replace(one, verdict=None), False),
        (lambda one: replace(one, verdict=Verdict.PARTIAL), False),
    ],
)
async def test_a_verdict_that_the_provider_does_not_bear_out_is_found(
    change: Callable[[TransactionRecord], TransactionRecord], broken: bool
) -> None:
    bench, snapshot = await busy()
    number = record_of(snapshot, Status.COMMITTED)
    records = list(snapshot.records)
    records[number] = change(records[number])
    told = verdicts_are_true(replace(snapshot, records=tuple(records)), bench.effects)
    assert bool(told) == broken


async def test_an_operators_word_is_not_held_against_the_provider() -> None:
    async with Workbench([faults.headers()]) as bench:
        made = await bench.alice.execute(CHARGE, {"amount": 5})
        await bench.olga.settle(made, "committed", reference="r", note="n")
        assert await bench.check() == []


async def test_a_terminal_record_that_moves_and_a_receipt_that_changes_are_found() -> None:
    _, snapshot = await busy()
    number = record_of(snapshot, Status.COMMITTED)
    moved = reshaped(snapshot, number, revision=9, attention="late")
    assert len(terminal_records_stand(snapshot, moved)) == 1
    assert len(receipts_only_grow(snapshot, restepped(snapshot, 0, code="x"))) == 1
    assert receipts_only_grow(replace(snapshot, feed=snapshot.feed[:2]), snapshot) == []
    assert check_history(snapshot, moved) != []


@pytest.mark.parametrize("shift", range(6))
def test_a_canary_is_found_in_every_spelling(shift: int) -> None:
    canary = "kanarienvogel-7319"
    around = "x" * shift + canary + "y" * shift
    for place in (
        around,
        around.encode(),
        around.encode().hex(),
        around.encode().hex().upper(),
        base64.b64encode(around.encode()),
        around.encode("utf-16-le"),
    ):
        assert canary_absent(canary, "nothing", place) != [], place
    assert canary_absent(canary, "nothing", b"\xff\xfe", "kanarienvogel", "\ud800") == []


def test_a_canary_beyond_ascii_is_found_escaped() -> None:
    assert canary_absent("vögelchen", r"v\xf6gelchen") != []


async def test_more_compensations_are_no_violation_where_they_are_declared() -> None:
    twice = CompensationContract(mode=CompensationMode.SUPPORTED, max_compensations=2)
    async with Workbench(compensation=twice) as bench:
        done = await bench.alice.execute(CHARGE, {"amount": 5})
        for _ in range(2):
            await bench.alice.compensate(done, {"amount": 1})
        assert await bench.check() == []
