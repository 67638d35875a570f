"""What the same action gets when it comes again: in each mode, in each state (TX-ACT-1)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from amends.connectors.port import Attempt
from amends.contracts.actions import Action
from amends.contracts.declarations import ExecutionContract
from amends.contracts.documents import TransactionRecord
from amends.contracts.enums import Handler, Mode, RetrySafety, Status
from amends.contracts.ids import CapabilityId
from amends.contracts.outcomes import Failure, NotApplied, Partial
from amends.contracts.principals import Identity
from amends.stores.port import Accepted, ChangeSet, Due, Insert
from amends.testing.builders import record_in
from amends.testing.refusals import refused_with
from amends.testing.workbench import ALICE, CHARGE, OLGA, TENANT, Workbench
from tests.unit.runtime.desk import (
    DECLINED,
    DONE,
    LATER,
    OPERATION,
    UNSURE,
    Desk,
    action,
    ask,
    chain,
    claim,
    document,
    hidden,
)

SHOP = "shop.sell"


async def prepared(bench: Workbench, mode: Mode) -> Action:
    """An action of a mode that claims, with whatever it needs before it."""
    match mode:
        case Mode.EXECUTE:
            return action(id="act_1", transaction="txn_1")
        case Mode.COMMIT:
            await ask(bench, action(Mode.PLAN, plan="plan_1"))
            return action(mode, id="act_1", plan="plan_1")
        case _:
            await ask(bench, action(capability=SHOP, id="act_target"))
            return action(mode, id="act_1", target="act_target", capability=SHOP, input={})


def opened(answer: object, place: Path | None = None) -> Workbench:
    """Charges and refunds that all end in this way; the sale to be offset goes well."""
    desk = Desk([answer], preview=[DONE], reconcile=[DONE])
    shop = Desk([DONE], compensate=[answer], reconcile=[DONE])
    return Workbench(served=[desk.served(), shop.served(SHOP)], file=place)


CLAIMING = pytest.mark.parametrize("mode", [Mode.EXECUTE, Mode.COMMIT, Mode.COMPENSATE])
IN_FLIGHT = {
    Mode.EXECUTE: Status.PREPARED,
    Mode.COMMIT: Status.COMMITTING,
    Mode.COMPENSATE: Status.COMPENSATING,
}


@pytest.mark.rule("TX-ACT-1")
@CLAIMING
async def test_an_action_that_succeeded_returns_its_stored_result(
    mode: Mode, place: Path | None
) -> None:
    async with opened(DONE, place) as bench:
        asked = await prepared(bench, mode)
        first = await ask(bench, asked)
        before = await bench.snapshot()
        again = await ask(bench, asked)
        assert (again.replayed, again.output, again.revision) == (True, DONE, first.revision)
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-ACT-1", "TX-EXEC-1")
@CLAIMING
async def test_an_action_that_failed_for_good_returns_its_stored_failure(mode: Mode) -> None:
    async with opened(NotApplied(error=DECLINED)) as bench:
        asked = await prepared(bench, mode)
        first = await ask(bench, asked)
        before = await bench.snapshot()
        again = await ask(bench, asked)
        assert (first.status, again.status, again.replayed) == ("failed", "failed", True)
        assert again.error == first.error
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-ACT-1", "TX-EXEC-1")
@CLAIMING
async def test_an_unknown_outcome_is_pointed_to_reconciliation_with_all_that_is_known(
    mode: Mode,
) -> None:
    async with opened(replace(UNSURE, operation=OPERATION, cursor="page 2")) as bench:
        asked = await prepared(bench, mode)
        first = await ask(bench, asked)
        record = await bench.record(first)
        with refused_with("transaction.reconciliation_required") as caught:
            await ask(bench, asked)
        assert caught.error.details == {
            "transaction_id": first.transaction_id,
            "action_id": "act_1",
            "status": "outcome_unknown",
            "revision": record.revision,
            "provider_operation_id": "op_1",
            "cursor": "page 2",
            "reconcile_after": "2026-01-01T00:00:05Z",
        }
        assert await bench.record(first) == record


@pytest.mark.rule("TX-ACT-1", "TX-EXEC-2", "TX-PIPE-5")
@CLAIMING
async def test_an_action_that_still_runs_is_in_progress(mode: Mode) -> None:
    heard: list[object] = []

    async def asked_meanwhile(_attempt: Attempt) -> object:
        with refused_with("transaction.in_progress") as caught:
            await ask(bench, asked)
        heard.append(caught.error.details["status"])
        return DONE

    async with opened(asked_meanwhile) as bench:
        asked = await prepared(bench, mode)
        await ask(bench, asked)
        assert heard == [IN_FLIGHT[mode]]


@pytest.mark.rule("TX-EXEC-2", "TX-LEASE-1", "TX-LEASE-2")
@pytest.mark.fault(2, 3)
@CLAIMING
async def test_whoever_sees_a_lapsed_lease_first_writes_the_unknown_outcome(
    mode: Mode, place: Path | None
) -> None:
    async with opened(DONE, place) as bench:
        asked = await prepared(bench, mode)
        running = await claim(bench, asked)
        assert running.record.attempt is not None
        assert running.record.attempt.lease_ms == 35_000
        bench.wait(34.999)
        with refused_with("transaction.in_progress"):
            await ask(bench, asked)
        bench.wait(0.001)
        with refused_with("transaction.reconciliation_required"):
            await ask(bench, asked)
        record = await bench.record(running.record.transaction_id)
        assert record.status is Status.OUTCOME_UNKNOWN
        assert record.error is not None
        assert record.error.code == "transaction.attempt_abandoned"
        with refused_with("transaction.reconciliation_required"):
            await ask(bench, asked)


@pytest.mark.case("IDR-04")
@pytest.mark.rule("TX-EXEC-2")
async def test_an_old_claim_frees_the_recovery_of_a_record_and_never_a_new_attempt() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_1", transaction="txn_1", key="order-7")
        await claim(bench, asked)
        await bench.restart()
        for seconds in (36, 3_600, 30 * 86_400):
            bench.wait(seconds)
            with refused_with("transaction.reconciliation_required"):
                await ask(bench, asked)
        assert desk.seen == []


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.fault(13)
@pytest.mark.parametrize(
    "changes",
    [
        {"input": {"amount": 501}},
        {"mode": Mode.DRY_RUN},
        {"transaction": "txn_2"},
        {"capability": SHOP},
    ],
    ids=["input", "mode", "transaction", "capability"],
)
async def test_a_known_action_id_with_anything_else_is_a_conflict(
    changes: dict[str, object],
) -> None:
    async with opened(DONE) as bench:
        done = await ask(bench, action(id="act_1", transaction="txn_1"))
        before = await bench.snapshot()
        told = {"mode": Mode.EXECUTE, "id": "act_1", "transaction": "txn_1", **changes}
        with refused_with("action.id_conflict") as caught:
            await ask(bench, action(**told))  # type: ignore[arg-type]  # from a table
        assert caught.error.details == {"action_id": "act_1"}
        assert done.transaction_id == "txn_1"
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-ACT-1")
async def test_a_known_action_id_under_another_identity_or_principal_is_a_conflict() -> None:
    async with opened(DONE) as bench:
        asked = action(id="act_1")
        await ask(bench, asked, identity=Identity(tenant=TENANT, external_account="a"))
        for principal, account in ((OLGA, "a"), (ALICE, "b"), (ALICE, None)):
            identity = Identity(tenant=TENANT, external_account=account)
            with refused_with("action.id_conflict"):
                await ask(bench, asked, principal=principal, identity=identity)


@pytest.mark.rule("TX-ACT-1")
@pytest.mark.parametrize("mode", [Mode.DRY_RUN, Mode.PLAN])
async def test_a_preview_asked_again_is_the_stored_one(mode: Mode) -> None:
    desk = Desk(preview=[{"quote": 1}, {"quote": 2}])
    async with Workbench(served=[desk.served()]) as bench:
        first = await ask(bench, action(mode, id="act_1"))
        again = await ask(bench, action(mode, id="act_1"))
        assert (again.replayed, again.raw_output) == (True, first.raw_output)
        assert desk.entered(Handler.PREVIEW) == 1


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize(
    "changes",
    [
        {"id": "act_2"},
        {"id": "act_2", "input": {"amount": 1}},
        {"id": "act_2", "capability": SHOP},
    ],
    ids=["action", "input", "capability"],
)
async def test_a_known_transaction_executes_nothing_but_what_it_was_begun_with(
    changes: dict[str, str],
) -> None:
    async with opened(DONE) as bench:
        done = await ask(bench, action(id="act_1", transaction="txn_1"))
        record = await bench.record(done)
        with refused_with("transaction.execution_contract_mismatch"):
            await ask(bench, action(transaction="txn_1", **changes))  # type: ignore[arg-type]  # as odd as can be
        assert await bench.record(done) == record


@pytest.mark.rule("TX-EXEC-1")
async def test_a_transaction_that_was_not_executed_cannot_be_executed() -> None:
    async with opened(DONE) as bench:
        for mode in (Mode.DRY_RUN, Mode.PLAN):
            made = await ask(bench, action(mode, transaction=f"txn_{mode}"))
            record = await bench.record(made)
            with refused_with("transaction.execution_contract_mismatch"):
                await ask(bench, action(transaction=f"txn_{mode}"))
            assert await bench.record(made) == record


@pytest.mark.rule("TX-EXEC-1")
async def test_a_prepared_execution_without_an_attempt_goes_on() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        asked = action(id="act_effect", transaction="txn_1", key="order-7")
        done = await ask(bench, action())
        made = await bench.record(done)
        record = record_in(
            Status.PREPARED,
            revision=1,
            identity=None,
            attempt=None,
            attempts=0,
            effect_attempts=0,
            first_attempt_at=None,
            capability_id=CapabilityId(CHARGE),
            input_hash=made.input_hash,
        )
        answer = await bench.store.commit(ChangeSet(changes=(Insert(record),)))
        assert isinstance(answer, Accepted)
        went_on = await ask(bench, asked)
        assert (went_on.status, (await bench.record("txn_1")).attempts) == ("committed", 1)


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize(
    ("answer", "safety"),
    [
        (NotApplied(error=LATER), RetrySafety.UNKNOWN),
        (Failure(error=LATER), RetrySafety.SAFE),
        (Failure(error=LATER), RetrySafety.SAFE_WITH_IDEMPOTENCY_KEY),
    ],
    ids=["declared", "safe", "safe with key"],
)
async def test_a_safely_retryable_failure_is_reopened_under_the_same_key(
    answer: object, safety: RetrySafety
) -> None:
    desk = Desk([answer, DONE])
    execution = ExecutionContract(retry_safety=safety)
    async with Workbench(served=[desk.served(execution=execution)]) as bench:
        asked = action(id="act_1", transaction="txn_1", key="order-7")
        first = await ask(bench, asked)
        second = await ask(bench, asked)
        assert (first.status, second.status) == ("failed", "committed")
        keys = {one.provider_key for one in desk.seen}
        assert (len(desk.seen), len(keys)) == (2, 1)
        assert [one.number for one in desk.seen] == [1, 2]
        assert await chain(bench, second) == [
            "execution_started",
            "dispatched",
            "failed",
            "execution_started",
            "dispatched",
            "committed",
        ]


@pytest.mark.rule("TX-EXEC-1")
@pytest.mark.parametrize(
    ("answer", "first_key", "key", "code"),
    [
        (Failure(error=LATER), "k", "k", "transaction.retry_denied"),
        (NotApplied(error=LATER), None, None, "transaction.retry_denied"),
        (NotApplied(error=LATER), "k", None, "transaction.retry_denied"),
        (NotApplied(error=LATER), "k", "other", "transaction.retry_denied"),
        (NotApplied(error=LATER, operation=OPERATION), "k", "k", "transaction.retry_denied"),
        (Partial(error=LATER), "k", "k", "transaction.retry_denied"),
    ],
    ids=["unsafe", "no key", "key left out", "another key", "has operation", "partial"],
)
async def test_a_failure_that_is_not_safely_retryable_is_not_repeated(
    answer: object, first_key: str | None, key: str | None, code: str
) -> None:
    desk = Desk([answer, DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1", key=first_key))
        record = await bench.record("txn_1")
        with refused_with(code):
            await ask(bench, action(id="act_1", transaction="txn_1", key=key))
        assert await bench.record("txn_1") == record
        assert len(desk.seen) == 1


@pytest.mark.rule("TX-ACT-1")
async def test_a_known_action_keeps_its_first_key_and_reserves_no_other() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        waiting = await ask(bench, action(id="act_1", key="first", approval=True))
        await bench.bob.approve(waiting)
        done = await ask(bench, action(id="act_1", key="second", approval=True))
        assert done.status == "committed"
        [reservation] = (await bench.snapshot()).reservations
        stored, record = await document(bench, "act_1"), await bench.record(done)
        assert stored is not None
        assert stored.idempotency_key == record.idempotency_key == "first"
        assert stored.reservation is not None
        assert stored.reservation.reservation_id == reservation.reservation_id


@pytest.mark.rule("TX-ACT-1")
async def test_a_reconciliation_under_its_targets_id_keeps_its_own_result_apart() -> None:
    desk = Desk([UNSURE], reconcile=[UNSURE, {"id": "found"}])
    async with Workbench(served=[desk.served()]) as bench:
        first = await ask(bench, action(id="act_1", transaction="txn_1"))
        asked = action(Mode.RECONCILE, id="act_1", transaction="txn_1")
        bench.wait(5)
        still = await ask(bench, asked)
        kept = await document(bench, "act_1")
        assert kept is not None
        assert kept.reconcile_result is not None
        assert (still.status, kept.result) == ("outcome_unknown", None)
        bench.wait(60)
        found = await ask(bench, asked)
        kept = await document(bench, first.action_id)
        assert kept is not None
        assert kept.result is not None
        assert (found.status, found.output, kept.mode) == ("reconciled", {"id": "found"}, "execute")
        with refused_with("transaction.execute_state_invalid"):
            await ask(bench, action(id="act_1", transaction="txn_1"))


@pytest.mark.rule("TX-ACT-1")
async def test_a_reconciliation_borrows_no_other_actions_id() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        with refused_with("transaction.execution_contract_mismatch"):
            await ask(bench, action(id="act_other", transaction="txn_1"), principal=OLGA)
        before = await bench.snapshot()
        bench.wait(5)
        with refused_with("action.id_conflict"):
            await ask(bench, action(Mode.RECONCILE, id="act_other", transaction="txn_1"))
        assert await bench.snapshot() == before
        assert desk.entered(Handler.RECONCILE) == 0


@pytest.mark.rule("TX-ACT-1")
async def test_a_reconciliation_asked_again_after_it_found_out_returns_what_it_found() -> None:
    desk = Desk([UNSURE], reconcile=[{"id": "found"}])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(id="act_1", transaction="txn_1"))
        bench.wait(5)
        asked = action(Mode.RECONCILE, id="act_look", transaction="txn_1")
        first = await ask(bench, asked)
        again = await ask(bench, asked)
        assert (first.output, again.output, again.replayed) == (
            {"id": "found"},
            {"id": "found"},
            True,
        )
        with refused_with("transaction.reconcile_state_invalid"):
            await ask(bench, action(Mode.RECONCILE, id="act_more", transaction="txn_1"))
        assert desk.entered(Handler.RECONCILE) == 1


async def test_a_stored_record_whose_action_is_gone_is_not_executed_again() -> None:
    desk = Desk()
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action())
        made = await bench.record(done)
        orphan: TransactionRecord = record_in(
            Status.COMMITTED,
            revision=1,
            identity=None,
            plan=None,
            mode=Mode.EXECUTE,
            context=replace(made.context, transaction_id="txn_1"),
            input_hash=made.input_hash,
        )
        await bench.store.commit(ChangeSet(changes=(Insert(orphan, Due(at=None, after_ms=1)),)))
        with refused_with("transaction.execute_state_invalid"):
            await ask(bench, action(id="act_effect", transaction="txn_1"))
        assert len(desk.seen) == 1


@pytest.mark.rule("TX-ACT-1", "TX-RECON-1")
@pytest.mark.fault(2)
async def test_whoever_reconciles_again_after_a_look_up_died_writes_that_it_did() -> None:
    desk = Desk([UNSURE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        await ask(bench, action(transaction="txn_1"))
        bench.wait(5)
        await claim(bench, action(Mode.RECONCILE, transaction="txn_1"))
        await bench.restart()
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.alice.reconcile("txn_1")
        bench.wait(36)
        with refused_with("transaction.reconciliation_required"):
            await bench.alice.reconcile("txn_1")
        record = await bench.record("txn_1")
        assert (record.status, record.reconcile_attempts) == (Status.OUTCOME_UNKNOWN, 1)
        assert record.reconcile_after is not None
        bench.clock.set(record.reconcile_after)
        assert (await bench.alice.reconcile("txn_1")).status == "reconciled"


async def test_a_claimed_action_whose_record_is_gone_is_not_claimed_again() -> None:
    async with opened(DONE) as bench:
        asked = await prepared(bench, Mode.COMMIT)
        await ask(bench, asked)
        hidden(bench, TransactionRecord)
        with refused_with("transaction.not_found"):
            await ask(bench, asked)
