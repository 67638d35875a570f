"""How often and until when an effect is offset, and who carries a compensation out."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from amends.connectors import signals
from amends.connectors.port import Attempt
from amends.contracts.actions import Action
from amends.contracts.declarations import (
    CompensationContract,
    CredentialPolicy,
    DataContract,
    ExecutionContract,
    IdempotencyContract,
    ServiceLevelContract,
)
from amends.contracts.documents import ActionDocument, TransactionRecord
from amends.contracts.enums import (
    CompensationMode,
    Handler,
    KeyRequirement,
    Mode,
    SideEffect,
    Status,
    Verdict,
)
from amends.contracts.ids import CapabilityId
from amends.contracts.json_types import Json
from amends.contracts.outcomes import Applied
from amends.contracts.principals import Identity
from amends.contracts.secrets import Credential, Secret
from amends.stores.port import Accepted, ChangeSet, Insert, Replace
from amends.testing import faults
from amends.testing.builders import action as action_document
from amends.testing.builders import result as stored_result
from amends.testing.clock import FixedClock
from amends.testing.invariants import check_history
from amends.testing.refusals import refused_with
from amends.testing.workbench import CHARGE, TENANT, Served, Workbench, contract_of
from tests.unit.runtime.desk import (
    DONE,
    OPERATION,
    UNSURE,
    Desk,
    action,
    ask,
    before_next_write,
    claim,
    records,
)

UNDO = CHARGE + ".undo"


def undone_by_another(desk: Desk, other: Desk | None, **changes: object) -> list[Served]:
    """The desk, whose effects another capability offsets."""
    offset = CompensationContract(
        mode=CompensationMode.SUPPORTED, compensation_capability_id=CapabilityId(UNDO)
    )
    modes = replace(contract_of(desk.handlers), supported_modes=(Mode.EXECUTE, Mode.COMPENSATE))
    served = [desk.served(compensation=offset, transaction=modes)]
    return served if other is None else [*served, other.served(UNDO, **changes)]


def offsetting(target: str, capability: str = CHARGE) -> Action:
    """A compensation of this target."""
    return action(Mode.COMPENSATE, target=target, capability=capability, input={})


@pytest.mark.case("CMP-10")
@pytest.mark.rule("TX-COMP-5")
async def test_an_effect_that_was_reversed_behind_our_back_is_a_definite_failure() -> None:
    twice = CompensationContract(mode=CompensationMode.SUPPORTED, max_compensations=2)
    async with Workbench(compensation=twice) as bench:
        done = await ask(bench, action(input={"amount": 100}))
        before = await bench.record(done)
        bench.provider.far_side.reverse("charge_1", 40)
        refused = await bench.alice.compensate(done, {"amount": 100})
        assert refused.error is not None
        assert (refused.status, refused.verdict, refused.error.code) == (
            "failed",
            Verdict.NOT_COMMITTED,
            "provider.already_refunded",
        )
        rest = await bench.alice.compensate(done, {"amount": 60})
        assert (rest.status, bench.provider.balance) == ("compensated", 0)
        bench.wait(86_400)
        assert (await bench.sweep()).total == 0
        assert await bench.record(done) == before


@pytest.mark.case("CMP-11")
@pytest.mark.rule("TX-COMP-2")
async def test_the_window_runs_from_the_settlement_whatever_was_looked_at_since() -> None:
    day = CompensationContract(mode=CompensationMode.SUPPORTED, window_ms=86_400_000)
    async with Workbench(compensation=day) as bench:
        plan = await bench.alice.plan(CHARGE, {"amount": 500})
        done = await bench.alice.commit(plan, action_id="act_1")
        before = await bench.record(done)
        bench.wait(20 * 3_600)
        await bench.alice.get(done, include_result=True, include_receipts=True)
        await bench.alice.commit(plan, action_id="act_1")
        await bench.alice.receipts(done)
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.olga.reconcile(done, insist=True)
        assert (await bench.sweep()).total == 0
        with refused_with("input.schema_mismatch"):
            await bench.alice.compensate(done, {"amount": -1})
        assert await bench.record(done) == before
        bench.wait(5 * 3_600)
        with refused_with("transaction.compensation_window_expired") as caught:
            await bench.alice.compensate(done, {"amount": 500})
        assert caught.error.details["happened_at"] == "2026-01-01T00:00:00Z"
        assert await bench.record(done) == before


@pytest.mark.case("TIM-04")
@pytest.mark.rule("TX-COMP-2")
async def test_the_window_is_elapsed_time_whatever_the_clocks_on_the_walls_do() -> None:
    summer, winter = timezone(timedelta(hours=2)), timezone(timedelta(hours=1))
    day = CompensationContract(mode=CompensationMode.SUPPORTED, window_ms=86_400_000)
    clock = FixedClock(datetime(2026, 10, 24, 12, 0, tzinfo=summer).astimezone(UTC))
    async with Workbench(clock=clock, compensation=day) as bench:
        done = await ask(bench, action())
        clock.set(datetime(2026, 10, 25, 11, 30, tzinfo=winter).astimezone(UTC))
        with refused_with("transaction.compensation_window_expired"):
            await bench.alice.compensate(done, {"amount": 500})
        clock.set(datetime(2026, 10, 25, 10, 59, tzinfo=winter).astimezone(UTC))
        assert (await bench.alice.compensate(done, {"amount": 500})).status == "compensated"


@pytest.mark.fault(53)
@pytest.mark.rule("TX-COMP-2")
async def test_a_window_that_closes_while_people_decide_refuses_with_its_reason() -> None:
    desk = Desk(compensate=[DONE])
    hour = CompensationContract(
        mode=CompensationMode.SUPPORTED, window_ms=3_600_000, requires_approval=True
    )
    async with Workbench(served=[desk.served(compensation=hour)]) as bench:
        done = await ask(bench, action())
        waiting = await bench.alice.compensate(done)
        bench.wait(3_600)
        await bench.bob.approve(waiting)
        with refused_with("transaction.compensation_window_expired"):
            await bench.alice.resume(waiting)
        assert desk.entered(Handler.COMPENSATE) == 0


def unrecorded(bench: Workbench, **changes: object) -> ActionDocument:
    """An action from before records were kept, whose capability and result are known."""
    made: ActionDocument = action_document(
        revision=1,
        identity=None,
        capability_id=CapabilityId(CHARGE),
        action_id="act_old",
        transaction_id="txn_old",
        **changes,
    )
    return made


@pytest.mark.case("CMP-11")
@pytest.mark.rule("TX-COMP-2")
@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        (None, "transaction.compensation_time_unknown"),
        ("2026-01-02T00:00:00Z", "transaction.compensation_time_unknown"),
        ("2025-12-30T00:00:00Z", "transaction.compensation_window_expired"),
        ("yesterday", "input.invalid_time"),
        (17, "input.invalid_time"),
        ("2025-12-31T12:00:00Z", None),
    ],
)
async def test_a_time_that_the_caller_claims_counts_only_where_no_record_knows_it(
    claimed: Json, code: str | None
) -> None:
    desk = Desk(compensate=[DONE])
    day = CompensationContract(mode=CompensationMode.SUPPORTED, window_ms=86_400_000)
    async with Workbench(served=[desk.served(compensation=day)]) as bench:
        old = unrecorded(bench, result=stored_result(completed_at=None), settled_at=None)
        answer = await bench.store.commit(ChangeSet(changes=(Insert(old),)))
        assert isinstance(answer, Accepted)
        metadata = {} if claimed is None else {"original_completed_at": claimed}
        asked = action(Mode.COMPENSATE, target="act_old", input={}, metadata=metadata)
        if code is None:
            assert (await ask(bench, asked)).status == "compensated"
        else:
            with refused_with(code):
                await ask(bench, asked)


@pytest.mark.rule("TX-COMP-3")
async def test_another_capability_carries_the_compensation_out_under_its_own_contracts() -> None:
    desk = Desk([Applied(output=DONE, operation=OPERATION)])
    other = Desk([{"undone": True}])
    served = undone_by_another(
        desk,
        other,
        input_schema={"type": "object", "required": ["why"]},
        idempotency=IdempotencyContract(requirement=KeyRequirement.REQUIRED),
        service_level=ServiceLevelContract(timeout_ms=7_000),
        output_schema={"type": "object", "required": ["done"]},
    )
    async with Workbench(served=served) as bench:
        done = await ask(bench, action(id="act_1"))
        with refused_with("input.schema_mismatch"):
            await bench.alice.compensate(done, {})
        with refused_with("idempotency.key_required"):
            await bench.alice.compensate(done, {"why": "broken"})
        made = await bench.alice.compensate(done, {"why": "broken"}, idempotency_key="k")
        record = await bench.record(made)
        assert (made.status, made.capability_id) == ("compensated", CHARGE)
        assert (record.capability_id, record.connector_capability_id) == (CHARGE, UNDO)
        assert (made.output, made.output_invalid) == ({"undone": True}, "output.schema_mismatch")
        [attempt] = other.seen
        assert (attempt.call.handler, attempt.call.capability.id) == (Handler.EXECUTE, UNDO)
        assert attempt.call.deadline_in_ms == 7_000
        assert attempt.original is not None
        assert (attempt.original.action_id, attempt.original.operation) == ("act_1", OPERATION)


@pytest.mark.rule("TX-COMP-3")
async def test_another_capability_enters_its_compensate_handler_where_it_has_one() -> None:
    other = Desk(compensate=[DONE])
    async with Workbench(served=undone_by_another(Desk(), other)) as bench:
        done = await ask(bench, action())
        await bench.alice.compensate(done, {})
        assert [one.call.handler for one in other.seen] == [Handler.COMPENSATE]


@pytest.mark.case("CMP-12")
@pytest.mark.rule("TX-COMP-3")
@pytest.mark.parametrize("other", [None, "look-up only"])
async def test_a_compensating_capability_that_cannot_do_it_is_refused_before_any_claim(
    other: str | None,
) -> None:
    desk = Desk()
    served = undone_by_another(desk, None)
    if other:
        looks = Desk(reconcile=[DONE])
        looks.handlers.pop(Handler.EXECUTE)
        read = replace(
            Desk().served(UNDO, side_effects=(SideEffect.READ,))[0],
            handlers=(Handler.RECONCILE,),
            transaction=replace(contract_of(()), supported_modes=(Mode.RECONCILE,)),
        )
        served.append((read, served[0][1]))
    async with Workbench(served=served) as bench:
        done = await ask(bench, action())
        with refused_with("transaction.compensation_capability_unavailable") as caught:
            await ask(bench, offsetting(done.action_id))
        assert caught.error.details == {"capability_id": UNDO}
        assert len(await records(bench)) == 1


@pytest.mark.case("CMP-15", "CMP-16")
@pytest.mark.rule("TX-COMP-5", "TX-COMP-6")
@pytest.mark.fault(52)
async def test_a_compensation_that_fails_is_not_tried_again_nor_by_anything_stronger() -> None:
    desk = Desk(compensate=[signals.NotApplied("cannot_undo")], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action(key="k"))
        failed = await bench.alice.compensate(done, action_id="act_2", idempotency_key="k2")
        assert (failed.status, failed.next[0].call) == ("failed", "execute")
        before = await bench.snapshot()
        for _ in range(100):
            bench.wait(3_600)
            assert (await bench.sweep()).total == 0
        assert (await bench.alice.resume("act_2")).status == "failed"
        assert await bench.snapshot() == before
        with refused_with("transaction.reconcile_state_invalid"):
            await bench.olga.reconcile(failed, insist=True)
        assert check_history(before, await bench.snapshot()) == []
        assert [one.call.handler for one in desk.seen] == [Handler.EXECUTE, Handler.COMPENSATE]


@pytest.mark.case("CMP-17")
@pytest.mark.rule("TX-COMP-6")
async def test_failures_before_any_effect_are_not_swept_over_again_and_again() -> None:
    async with Workbench([faults.connect(), faults.decline()]) as bench:
        with refused_with("input.schema_mismatch"):
            await ask(bench, action(input={"amount": "x"}))
        for _ in range(2):
            assert (await ask(bench, action())).status == "failed"
        before = await bench.snapshot()
        for _ in range(10):
            bench.wait(3_600)
            assert (await bench.sweep()).total == 0
        assert await bench.snapshot() == before


@pytest.mark.rule("TX-COMP-4")
async def test_a_target_that_moves_between_check_and_claim_loses_the_claim() -> None:
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action())
        target = await bench.record(done)

        async def overtaking() -> None:
            moved: TransactionRecord = replace(
                target, revision=target.revision + 1, status=Status.FAILED, result=None
            )
            await bench.store.commit(ChangeSet(changes=(Replace(moved),)))

        before_next_write(bench, overtaking)
        with refused_with("transaction.compensation_target_not_completed"):
            await bench.alice.compensate(done)
        assert desk.entered(Handler.COMPENSATE) == 0


@pytest.mark.rule("TX-REV-2")
async def test_a_compensation_takes_no_transaction_that_exists() -> None:
    desk = Desk(compensate=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action(transaction="txn_1"))
        with refused_with("transaction.id_conflict"):
            await bench.alice.compensate(done, transaction_id="txn_1")


@pytest.mark.rule("TX-COMP-5")
async def test_a_crash_in_a_compensation_is_looked_up_and_holds_the_slot() -> None:
    desk = Desk(compensate=[DONE], reconcile=[DONE])
    async with Workbench(served=[desk.served()]) as bench:
        done = await ask(bench, action())
        await claim(bench, action(Mode.COMPENSATE, target=done.action_id, id="act_2", input={}))
        await bench.restart()
        bench.wait(36)
        await bench.sweep()
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done)
        bench.wait(5)
        await bench.sweep()
        assert [one.status for one in await records(bench)] == [
            Status.COMMITTED,
            Status.RECONCILED,
        ]
        assert desk.entered(Handler.COMPENSATE) == 0


async def test_a_credential_is_found_for_whoever_carries_it_out_before_anything_is_claimed() -> (
    None
):
    asked: list[str] = []
    sealed = [False]

    class Vault:
        def credential(self, capability: str, *_: object) -> Credential:
            asked.append(capability)
            if sealed[0] and capability == UNDO:
                raise RuntimeError("sealed")
            return Credential(secret=Secret(f"for {capability}"))

    desk, other = Desk(), Desk([UNSURE], reconcile=[DONE])
    served = undone_by_another(desk, other, credential=CredentialPolicy(required=True))
    modes = replace(
        contract_of(desk.handlers),
        supported_modes=(Mode.EXECUTE, Mode.COMPENSATE, Mode.RECONCILE),
    )
    window = ExecutionContract(provider_dedup_window_ms=1)
    served[0] = (replace(served[0][0], transaction=modes, execution=window), served[0][1])
    async with Workbench(served=served, credentials=Vault()) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done, {})
        assert asked == [CHARGE, UNDO]
        bench.wait(5)
        sealed[0] = True
        before = await bench.record(lost)
        with refused_with("credential.unavailable"):
            await bench.alice.reconcile(lost)
        assert await bench.record(lost) == before
        sealed[0] = False
        assert (await bench.alice.reconcile(lost)).status == "reconciled"
        credential = other.seen[-1].credential
        assert credential is not None
        assert credential.secret.reveal() == f"for {UNDO}"


async def test_an_original_that_cannot_be_shown_is_offset_by_its_coordinates_alone() -> None:
    desk = Desk([Applied(output={"card": "4242"}, operation=OPERATION)], compensate=[DONE])
    data = DataContract(redaction_required=True)
    async with Workbench(served=[desk.served(data=data)]) as bench:
        identity = Identity(tenant=TENANT)
        done = await ask(bench, action(), identity=identity)
        await ask(bench, offsetting(done.action_id), identity=identity)
        told = desk.seen[-1].original
        assert told is not None
        assert (told.input, told.output, told.operation) == (None, None, OPERATION)


async def test_a_slow_compensation_that_is_found_late_holds_its_slot() -> None:
    go_on = asyncio.Event()

    async def slow(_attempt: Attempt) -> object:
        await go_on.wait()
        raise signals.NotApplied("cannot_undo")

    desk = Desk(compensate=[slow, DONE])
    level = ServiceLevelContract(timeout_ms=10)
    async with Workbench(served=[desk.served(service_level=level)]) as bench:
        done = await ask(bench, action())
        lost = await bench.alice.compensate(done)
        assert lost.status == "outcome_unknown"
        with refused_with("transaction.compensation_exists"):
            await bench.alice.compensate(done)
        go_on.set()
        await bench.engine.close(40)
        assert (await bench.record(lost)).verdict is Verdict.NOT_COMMITTED
        await bench.restart()
        assert (await bench.alice.compensate(done)).status == "compensated"
