"""What operators do by hand: ruling on an unknown outcome, and releasing what was frozen."""

from pathlib import Path

import pytest

from amends.contracts.declarations import ExecutionContract
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Mode, Status, Verdict
from amends.contracts.outcomes import NotApplied
from amends.stores.port import Stored
from amends.testing.refusals import refused_with
from amends.testing.workbench import TENANT, Workbench
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

REFERENCE, NOTE = "ticket 7", "seen in the provider's ledger"


async def stored(bench: Workbench, transaction: str) -> Stored[TransactionRecord]:
    """The record as the store hands it out."""
    found = await bench.store.get(TransactionRecord, TENANT, transaction)
    assert found is not None
    return found


@pytest.mark.rule("TX-RECON-5")
@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("committed", None),
        ("partial", "transaction.effect_partial"),
        ("not_committed", "transaction.effect_absent"),
    ],
)
async def test_an_operator_rules_with_evidence_under_the_own_name(
    verdict: str, code: str | None, place: Path | None
) -> None:
    async with Workbench(served=[Desk([UNSURE]).served()], file=place) as bench:
        made = await ask(bench, action(id="act_1", key="k"))
        ruled = await bench.olga.settle(
            made, verdict, accept_risk=True, reference=REFERENCE, note=NOTE
        )
        record, own = await bench.record(made), await document(bench, "act_1")
        assert record.ruling is not None
        assert own is not None
        assert (ruled.status, ruled.verdict) == ("reconciled", verdict)
        assert (record.ruling.by.id, record.ruling.reference) == ("olga", "ticket 7")
        assert (record.ruling.at, record.ruling.risk_accepted) == (bench.clock(), True)
        assert (record.error.code if record.error else None) == code
        assert own.result == record.result
        assert (await chain(bench, made))[-1] == "operator_resolved"
        assert (await bench.sweep()).total == 0
        again = await ask(bench, action(key="k"))
        assert (again.action_id, again.replayed) == ("act_1", True)


@pytest.mark.rule("TX-RECON-5")
async def test_a_ruling_is_refused_without_right_evidence_revision_or_risk() -> None:
    horizon = ExecutionContract(lookup_by_key=False, in_flight_horizon_ms=60_000)
    async with Workbench(served=[Desk([UNSURE, DONE]).served(execution=horizon)]) as bench:
        made = await ask(bench, action())
        before = await bench.record(made)
        with refused_with("transaction.settle_not_allowed"):
            await bench.alice.settle(made, "committed", reference=REFERENCE, note=NOTE)
        with refused_with("transaction.settle_evidence_required"):
            await bench.olga.settle(made, "committed", reference=" ", note="n")
        with refused_with("transaction.settle_evidence_required"):
            await bench.olga.settle(made, "committed", reference="r", note="")
        with refused_with("transaction.revision_conflict"):
            await bench.olga.settle(
                made, "committed", seen_revision=1, reference=REFERENCE, note=NOTE
            )
        with refused_with("transaction.settle_risk_not_accepted"):
            await bench.olga.settle(made, "not_committed", reference=REFERENCE, note=NOTE)
        with refused_with("transaction.not_found"):
            await bench.olga.settle("txn_9", "committed", reference=REFERENCE, note=NOTE)
        with refused_with("input.lone_surrogate"):
            await bench.olga.settle(made, "committed", reference="r", note="\ud800")
        assert await bench.record(made) == before
        bench.wait(35 + 60.001)
        late = await bench.olga.settle(
            made, "not_committed", seen_revision=2, reference=REFERENCE, note=NOTE
        )
        assert late.verdict is Verdict.NOT_COMMITTED
        done = await ask(bench, action())
        with refused_with("transaction.settle_state_invalid"):
            await bench.olga.settle(done, "committed", reference=REFERENCE, note=NOTE)


@pytest.mark.rule("TX-RECON-5")
async def test_an_outcome_whose_capability_is_gone_can_still_be_ruled_on() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        made = await ask(bench, action())
        await bench.restart([Desk().served("shop.sell")])
        bench.wait(20 * 60)
        assert (await bench.sweep()).escalated == 1
        assert (await bench.record(made)).attention == "capability_not_registered"
        with refused_with("transaction.settle_risk_not_accepted"):
            await bench.olga.settle(made, "not_committed", reference=REFERENCE, note=NOTE)
        ruled = await bench.olga.settle(made, "committed", reference=REFERENCE, note=NOTE)
        assert (ruled.status, ruled.attention) == ("reconciled", None)


@pytest.mark.rule("TX-RECON-5", "TX-REV-1")
async def test_a_ruling_that_is_overtaken_is_made_on_what_is_there_or_not_at_all() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        made = await ask(bench, action())
        bench.wait(5)

        async def overtaking() -> None:
            await bench.alice.reconcile(made)

        before_next_write(bench, overtaking)
        with refused_with("transaction.settle_state_invalid"):
            await bench.olga.settle(
                made, "not_committed", accept_risk=True, reference=REFERENCE, note=NOTE
            )
        assert (await bench.record(made)).verdict is Verdict.COMMITTED


@pytest.mark.rule("TX-LEASE-3")
@pytest.mark.parametrize("state", ["claimed", "unknown", "reopenable"])
async def test_a_frozen_record_neither_moves_nor_is_tried_again_until_released(
    state: str,
) -> None:
    answers = {"unknown": UNSURE, "reopenable": NotApplied(error=LATER)}
    desk = Desk([answers.get(state, DONE), DONE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_1", transaction="txn_1", key="k")
        if state == "claimed":
            await claim(bench, asked)
        else:
            await ask(bench, asked)
        await bench.restart()
        frozen = await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "restored")
        assert frozen is not None
        bench.wait(3_600)
        assert (await bench.sweep()).total == 0
        with refused_with(
            "transaction.reconciliation_required" if state == "unknown" else "transaction.frozen"
        ):
            await ask(bench, asked)
        if state == "unknown":
            with refused_with("transaction.frozen"):
                await bench.olga.reconcile("txn_1")
        assert (await bench.alice.get("txn_1")).frozen == "restored"
        assert await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "again") is None
        await bench.olga.release("txn_1")
        swept = await bench.sweep()
        assert swept.total == (0 if state == "reopenable" else 1)
        bench.wait(5)
        await bench.sweep()
        if state == "reopenable":
            assert (await ask(bench, asked)).status == "committed"
        else:
            assert (await bench.record("txn_1")).status is Status.RECONCILED
        assert (await chain(bench, "txn_1")).count("released") == 1


@pytest.mark.rule("TX-LEASE-3", "TX-RECON-5")
async def test_a_frozen_unknown_outcome_can_be_ruled_on_by_hand() -> None:
    async with Workbench(served=[Desk([UNSURE]).served()]) as bench:
        made = await ask(bench, action(transaction="txn_1"))
        await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "restored")
        ruled = await bench.olga.settle(made, "committed", reference=REFERENCE, note=NOTE)
        assert (ruled.status, (await bench.record("txn_1")).frozen) == ("reconciled", None)


@pytest.mark.rule("TX-LEASE-3")
async def test_only_operators_release_and_only_what_is_frozen() -> None:
    async with Workbench() as bench:
        await ask(bench, action(Mode.PLAN, transaction="txn_1"))
        with refused_with("transaction.release_not_allowed"):
            await bench.alice.release("txn_1")
        with refused_with("transaction.not_frozen"):
            await bench.olga.release("txn_1")
        with refused_with("transaction.not_found"):
            await bench.olga.release("txn_9")


@pytest.mark.rule("TX-LEASE-3")
async def test_what_has_ended_for_good_is_not_frozen() -> None:
    desk = Desk([DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(transaction="txn_1"))
        assert await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "restored") is None


@pytest.mark.rule("TX-LEASE-3")
async def test_a_release_that_is_overtaken_is_tried_again() -> None:
    async with Workbench() as bench:
        await ask(bench, action(Mode.PLAN, transaction="txn_1"))
        await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "restored")

        async def overtaking() -> None:
            await bench.olga.release("txn_1")
            await bench.engine.upkeep.freeze(await stored(bench, "txn_1"), "again")

        before_next_write(bench, overtaking)
        released = await bench.olga.release("txn_1")
        assert (released.status, (await bench.record("txn_1")).frozen) == ("planned", None)
