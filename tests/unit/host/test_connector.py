"""A capability that a worker serves, through the one pipeline: real engine and shell."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from amends.app.worker_capabilities import WorkerCapability
from amends.contracts.codes import coded
from amends.contracts.enums import Status, Verdict, WireStatus
from amends.contracts.errors import AmendsError, Misuse
from amends.contracts.results import Result
from amends.contracts.worker_grant import CapabilityGrant
from amends.contracts.worker_payload import Cancelled, Failed, Running, Succeeded, ToolPayload
from amends.journal.capacity import JournalLimits
from amends.journal.records import Ruling
from amends.ledger.records import LedgerState
from amends.ledger.targets import Stage
from amends.protocol.versions import Version
from amends.testing.durable import Moment
from amends.testing.workbench import Workbench
from amends.worker.adapters import Call
from amends.worker.ruling import resolve
from tests.unit.host.loop_worker import RELEASE, WITHDRAWAL, Withdrawal, World
from tests.unit.worker.stage import GRANT

TOOL: Final = GRANT.tool
LATER_S: Final = 3600.0


async def executed(bench: Workbench) -> Result:
    return await bench.alice.execute(TOOL, RELEASE)


async def committed(bench: Workbench) -> Result:
    return await bench.alice.commit(await bench.alice.plan(TOOL, RELEASE))


async def refusal(asked: object) -> str:
    with pytest.raises(AmendsError) as refused:
        await asked  # type: ignore[misc]  # every test hands over an awaitable
    return refused.value.code


def raises(_: Call) -> object:
    raise RuntimeError("the adapter has a fault")


def hangs_up(world: World) -> Callable[[Call], object]:
    """The worker dies where it stands."""

    def die(_: Call) -> object:
        for end in world.worker.wires:
            end.cut()
        raise RuntimeError("killed")

    return die


# ── INT-1, INT-2: originals ──────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-1")
@pytest.mark.parametrize("ask", [executed, committed])
async def test_an_effect_is_carried_out_by_the_worker_and_stands_in_the_ledger(
    ask: Callable[[Workbench], object],
) -> None:
    world = World()
    async with world.bench() as bench:
        done = await ask(bench)  # type: ignore[misc]  # both are coroutine functions
        record = await bench.record(done)
    assert done.status is WireStatus.COMMITTED
    (operation,) = world.worker.ledger_of_all.operations
    assert operation.state is LedgerState.SUCCEEDED
    assert record.provider_operation is not None
    assert str(record.provider_operation.operation_id) == operation.operation_key
    assert world.effects == [1]


@pytest.mark.rule("INT-1")
async def test_the_key_stands_in_the_transaction_before_the_worker_is_asked() -> None:
    """So a host that dies while the worker acts leaves what its effect can be found by."""
    world = World()
    seen: list[str] = []

    async with world.bench() as bench:

        async def look(call: Call) -> None:
            record = await bench.record("txn_1")
            assert record.provider_operation is not None
            assert str(record.provider_operation.operation_id) == call.key
            seen.append(call.key)

        world.worker.provider.before = look
        done = await bench.alice.execute(TOOL, RELEASE, transaction_id="txn_1")
    assert len(seen) == 1
    assert done.status is WireStatus.COMMITTED


OUTCOMES: Final[dict[str, tuple[object, Status, str | None]]] = {
    "succeeded": (Succeeded(ToolPayload.json({"done": 1})), Status.COMMITTED, None),
    "failed": (Failed("declined"), Status.FAILED, None),
    "cancelled": (Cancelled(), Status.OUTCOME_UNKNOWN, "worker.cancelled"),
    "running": (Running(), Status.OUTCOME_UNKNOWN, None),
    "malformed": (42, Status.OUTCOME_UNKNOWN, None),
    "raised": (raises, Status.OUTCOME_UNKNOWN, None),
}


@pytest.mark.rule("INT-2")
@pytest.mark.parametrize("ask", [executed, committed])
@pytest.mark.parametrize("said", OUTCOMES)
async def test_what_the_worker_reports_settles_the_transaction(
    said: str, ask: Callable[[Workbench], object]
) -> None:
    answer, status, attention = OUTCOMES[said]
    world = World()
    world.worker.provider.before = answer if callable(answer) else lambda _: answer
    async with world.bench() as bench:
        done = await ask(bench)  # type: ignore[misc]  # both are coroutine functions
        record = await bench.record(done)
    assert (record.status, record.attention) == (status, attention)
    unknown = status is Status.OUTCOME_UNKNOWN
    assert (record.reconcile_after is not None) == unknown
    assert record.provider_operation is not None


@pytest.mark.fault(60)
async def test_a_success_that_only_the_worker_vouches_for_says_that_the_worker_said_so() -> None:
    world = World()
    world.worker.provider.before = lambda _: Succeeded(ToolPayload.json({"done": 1}))
    async with world.bench() as bench:
        done = await executed(bench)
        record = await bench.record(done)
    assert world.effects == []
    assert done.status is WireStatus.COMMITTED
    assert record.provider_operation is not None
    assert record.provider_operation.provider == "worker"


@pytest.mark.rule("INT-2")
async def test_cancelled_is_a_definite_failure_where_its_contract_says_so() -> None:
    world = World(cancelled_is_absent=True)
    world.worker.provider.before = lambda _: Cancelled()
    async with world.bench() as bench:
        record = await bench.record(await executed(bench))
    assert (record.status, record.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)


@pytest.mark.rule("INT-2")
@pytest.mark.parametrize("absent", [False, True])
async def test_cancelled_means_the_same_when_a_look_up_finds_it(absent: bool) -> None:
    world = World(cancelled_is_absent=absent)
    world.worker.provider.after = hangs_up(world)
    world.worker.provider.found = lambda _: Cancelled()
    async with world.bench() as bench:
        done = await executed(bench)
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    expected = (
        (Status.RECONCILED, Verdict.NOT_COMMITTED, None)
        if absent
        else (Status.OUTCOME_UNKNOWN, None, "worker.cancelled")
    )
    assert (record.status, record.verdict, record.attention) == expected


@pytest.mark.rule("INT-2")
async def test_a_worker_that_says_nothing_leaves_the_outcome_unknown_with_a_next_look_up() -> None:
    world = World(timeout=timedelta(milliseconds=200))

    async def silent(_: Call) -> None:
        await asyncio.sleep(0.5)

    world.worker.provider.after = silent
    async with world.bench() as bench:
        done = await executed(bench)
        record = await bench.record(done)
        assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, None)
        assert record.reconcile_after is not None
        bench.wait(LATER_S)
        await asyncio.sleep(0.5)
        await bench.sweep()
        assert (await bench.record(done)).verdict is Verdict.COMMITTED
    assert world.effects == [1]


@pytest.mark.rule("INT-2")
async def test_a_worker_that_cannot_write_down_what_it_did_leaves_the_outcome_unknown() -> None:
    world = World()

    def full(_: Call) -> None:
        world.worker.journal.at = dies_at(1)

    world.worker.provider.after = full
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.journal.at = None
        assert done.status is WireStatus.OUTCOME_UNKNOWN
        bench.wait(LATER_S)
        await bench.sweep()
        assert (await bench.record(done)).verdict is Verdict.COMMITTED
    assert world.effects == [1]


@pytest.mark.rule("INT-2")
async def test_a_failure_that_a_worker_reported_is_never_reopened() -> None:
    world = World()
    world.worker.provider.before = lambda _: Failed("declined")
    async with world.bench() as bench:
        done = await bench.alice.execute(TOOL, RELEASE, action_id="act_1", idempotency_key="k")
        world.worker.provider.before = None
        again = await bench.alice.execute(
            TOOL,
            RELEASE,
            action_id="act_1",
            idempotency_key="k",
            transaction_id=done.transaction_id,
        )
    assert again.status is WireStatus.FAILED
    assert world.effects == []


@pytest.mark.rule("INT-2")
@pytest.mark.case("BIG-04")
async def test_a_success_with_too_large_an_output_is_committed_with_its_digest_and_size() -> None:
    world = World()
    large = Succeeded(ToolPayload.json({"log": "x" * 100_000}))
    world.worker.provider.after = lambda _: large
    async with world.bench() as bench:
        done = await executed(bench)
        kept = (await bench.record(done)).result
    assert done.status is WireStatus.COMMITTED
    assert kept is not None
    assert kept.output is not None
    assert "result_too_large" in str(msgspec.json.decode(kept.output))
    assert world.effects == [1]


@pytest.mark.rule("INT-2")
@pytest.mark.parametrize("why", ["worker", "grant", "broken grant check", "size"])
async def test_what_is_refused_before_the_intent_is_a_definite_failure(why: str) -> None:
    narrow = GRANT if why != "size" else CapabilityGrant(TOOL, max_input_bytes=4)
    world = World(grant=narrow, verified=False)
    world.granted = why != "grant"
    world.breaks = why == "broken grant check"
    world.worker.down = coded("containment.unavailable") if why == "worker" else None
    async with world.bench() as bench:
        record = await bench.record(await executed(bench))
    assert (record.status, record.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
    assert record.provider_operation is None
    assert all(not one.payload.count(b"op-") for one in world.worker.ledgers.values())


# ── INT-3: finding out ───────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-2", "INT-3")
async def test_a_worker_that_dies_behind_its_effect_is_looked_up_by_the_scheduler() -> None:
    world = World()
    world.worker.provider.after = hangs_up(world)
    async with world.bench() as bench:
        done = await executed(bench)
        assert done.status is WireStatus.OUTCOME_UNKNOWN
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert world.effects == [1]
    assert world.worker.provider.entered == {"dispatch": 1, "status": 1}


@pytest.mark.rule("INT-3")
async def test_a_worker_that_died_before_its_effect_is_found_to_have_failed_and_stays_so() -> None:
    world = World()
    world.worker.provider.before = hangs_up(world)
    async with world.bench() as bench:
        done = await executed(bench)
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.NOT_COMMITTED)
    assert world.effects == []


@pytest.mark.rule("INT-3")
async def test_running_is_asked_for_until_it_ends() -> None:
    world = World()
    world.worker.provider.before = lambda _: Running()
    world.worker.provider.found = lambda _: Running()
    async with world.bench() as bench:
        done = await executed(bench)
        bench.wait(LATER_S)
        await bench.sweep()
        assert (await bench.record(done)).status is Status.OUTCOME_UNKNOWN
        world.worker.provider.found = lambda _: Succeeded(ToolPayload.json({"late": True}))
        bench.wait(LATER_S)
        await bench.sweep()
        assert (await bench.record(done)).verdict is Verdict.COMMITTED


def dies_at(number: int) -> Callable[[Moment, bytes], None]:
    """The host's disk stops answering right behind its n-th write."""
    left = [number]

    def watch(moment: Moment, _: bytes) -> None:
        if moment is Moment.AFTER:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("the host died")

    return watch


@pytest.mark.rule("INT-1", "INT-3")
@pytest.mark.parametrize("horizon", [None, timedelta(minutes=1)])
async def test_a_host_that_died_between_record_and_dispatch_never_sends_it_again(
    horizon: timedelta | None,
) -> None:
    world = World(horizon=horizon)
    worker = world.worker
    opened = worker.ledger

    async def failing(*about: object, **how: object) -> object:
        found = await opened(*about, **how)  # type: ignore[arg-type]  # handed on
        for record in worker.ledgers.values():
            record.at = dies_at(1)
        return found

    worker.ledger = failing  # type: ignore[method-assign,assignment]  # the disk of this host
    async with world.bench() as bench:
        done = await executed(bench)
        assert done.status is WireStatus.OUTCOME_UNKNOWN
        worker.ledger = opened  # type: ignore[method-assign]  # another host
        for kept in worker.ledgers.values():
            kept.at = None
        await bench.restart()
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    found = Status.RECONCILED if horizon else Status.OUTCOME_UNKNOWN
    assert record.status is found
    assert world.worker.provider.entered["dispatch"] == 0


async def test_a_look_up_without_a_ledger_says_that_nothing_was_found() -> None:
    world = World(horizon=timedelta(minutes=1))
    world.worker.provider.after = hangs_up(world)
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.ledgers.clear()
        bench.wait(LATER_S)
        await bench.sweep()
        assert (await bench.record(done)).verdict is Verdict.NOT_COMMITTED


@pytest.mark.rule("INT-2")
async def test_a_look_up_that_reaches_nobody_is_made_again() -> None:
    world = World()
    world.worker.provider.after = hangs_up(world)
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.down = coded("channel.lost")
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(done)
    assert record.status is Status.OUTCOME_UNKNOWN


# ── compensation ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-1", "INT-4")
async def test_a_compensation_goes_through_both_verifiers_and_one_permit() -> None:
    world = World()
    async with world.bench() as bench:
        done = await committed(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        record = await bench.record(undone)
    assert undone.status is WireStatus.COMPENSATED
    assert [question.stage for question in world.asked] == list(Stage)
    (operation,) = world.worker.ledger_of_all.operations
    assert operation.compensation is not None
    assert operation.compensation.state is LedgerState.SUCCEEDED
    assert record.provider_operation is not None
    assert str(record.provider_operation.operation_id) == operation.compensation.compensation_key
    assert world.effects == [1, 1]


@pytest.mark.rule("INT-3a")
async def test_a_second_compensation_is_refused() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        await bench.alice.compensate(done, WITHDRAWAL)
        code = await refusal(bench.alice.compensate(done, Withdrawal(undo="all")))
    assert code == "transaction.compensation_exists"
    assert world.effects == [1, 1]


COMPENSATIONS: Final[dict[str, tuple[object, Status]]] = {
    "failed": (Failed("it is used by others"), Status.FAILED),
    "cancelled": (Cancelled(), Status.OUTCOME_UNKNOWN),
    "running": (Running(), Status.OUTCOME_UNKNOWN),
    "malformed": (42, Status.OUTCOME_UNKNOWN),
    "raised": (raises, Status.OUTCOME_UNKNOWN),
}


@pytest.mark.rule("INT-2", "INT-3a")
@pytest.mark.parametrize("said", COMPENSATIONS)
async def test_a_compensation_that_did_not_succeed_keeps_its_slot(said: str) -> None:
    answer, status = COMPENSATIONS[said]
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.before = answer if callable(answer) else lambda _: answer
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        assert undone.status.value == status.value
        world.worker.provider.before = None
        code = await refusal(bench.alice.compensate(done, WITHDRAWAL))
    failed = status is Status.FAILED
    kind = "recovery_required" if failed else "exists"
    assert code == f"transaction.compensation_{kind}"
    assert world.effects == [1]


@pytest.mark.rule("INT-2", "INT-3a")
async def test_a_cancelled_compensation_keeps_its_slot_also_where_it_did_nothing() -> None:
    world = World(cancelled_is_absent=True)
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.before = lambda _: Cancelled()
        undone = await bench.record(await bench.alice.compensate(done, WITHDRAWAL))
        assert (undone.status, undone.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
        world.worker.provider.before = None
        code = await refusal(bench.alice.compensate(done, WITHDRAWAL))
    assert code == "transaction.compensation_recovery_required"
    assert world.effects == [1]


@pytest.mark.rule("INT-3", "INT-3a")
async def test_a_cancelled_compensation_that_a_person_found_absent_keeps_its_slot() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.before = lambda _: Cancelled()
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        assert await refusal(bench.alice.compensate(done, WITHDRAWAL)) == (
            "transaction.compensation_exists"
        )
        await bench.olga.settle(
            undone,
            Verdict.NOT_COMMITTED,
            reference="ticket 7",
            note="it is still there",
            accept_risk=True,
        )
        world.worker.provider.before = None
        code = await refusal(bench.alice.compensate(done, WITHDRAWAL))
    assert code == "transaction.compensation_recovery_required"
    assert world.effects == [1]


@pytest.mark.rule("INT-2")
async def test_a_compensation_whose_worker_is_not_there_fails_and_frees_its_slot() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.down = coded("channel.lost")
        undone = await bench.record(await bench.alice.compensate(done, WITHDRAWAL))
        assert (undone.status, undone.verdict) == (Status.FAILED, Verdict.NOT_COMMITTED)
        world.worker.down = None
        assert (await bench.alice.compensate(done, WITHDRAWAL)).status is WireStatus.COMPENSATED
    assert world.effects == [1, 1]


@pytest.mark.rule("INT-3", "INT-4")
async def test_an_inverse_is_still_looked_for_where_its_verifier_is_registered_no_more() -> None:
    world = World(horizon=timedelta(minutes=1))
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        without = World(horizon=timedelta(minutes=1), verified=False, worker=world.worker)
        await bench.restart([without.capability.build()])
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert world.effects == [1, 1]


@pytest.mark.rule("INT-4")
async def test_an_open_intent_is_not_offered_again_without_a_verifier() -> None:
    world = World()
    world.denies = Stage.SEAL
    async with world.bench() as bench:
        done = await executed(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        without = World(verified=False, worker=world.worker)
        await bench.restart([without.capability.build()])
        bench.wait(LATER_S)
        await bench.olga.reconcile(undone, insist=True)
        record = await bench.record(undone)
    assert (record.status, record.attention) == (Status.OUTCOME_UNKNOWN, "ledger.action_denied")
    assert world.effects == [1]


@pytest.mark.rule("INT-2", "INT-4")
@pytest.mark.parametrize("says", [False, None, "yes", 1])
async def test_a_verifier_that_does_not_say_yes_leaves_no_intent_and_frees_the_slot(
    says: object,
) -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.right = says
        refused = await bench.record(await bench.alice.compensate(done, WITHDRAWAL))
        assert (refused.status, refused.error and refused.error.code) == (
            Status.FAILED,
            "ledger.action_denied",
        )
        assert world.worker.ledger_of_all.operations[0].compensation is None
        world.right = True
        assert (await bench.alice.compensate(done, WITHDRAWAL)).status is WireStatus.COMPENSATED


@pytest.mark.rule("INT-4")
async def test_a_grant_that_was_revoked_since_allows_neither_effect_nor_compensation() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.granted = False
        undone = await bench.record(await bench.alice.compensate(done, WITHDRAWAL))
        again = await bench.record(await executed(bench))
    assert undone.error is not None
    assert again.error is not None
    assert (undone.error.code, again.error.code) == ("ledger.grant_denied", "ledger.grant_denied")
    assert world.effects == [1]


@pytest.mark.rule("INT-2")
@pytest.mark.case("APR-09")
@pytest.mark.parametrize("stage", [Stage.PERMIT, Stage.SEAL])
async def test_a_verifier_that_turns_between_intent_and_seal_leaves_it_to_a_person(
    stage: Stage,
) -> None:
    world = World()
    world.denies = stage
    async with world.bench() as bench:
        done = await executed(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        record = await bench.record(undone)
        assert (record.status, record.attention) == (
            Status.OUTCOME_UNKNOWN,
            "ledger.action_denied",
        )
        assert record.provider_operation is not None
        intent = world.worker.ledger_of_all.operations[0].compensation
        assert intent is not None
        assert intent.state is LedgerState.PENDING
        code = await refusal(bench.alice.compensate(done, WITHDRAWAL))
        assert code == "transaction.compensation_exists"
        assert world.effects == [1]
        world.denies = None
        bench.wait(LATER_S)
        await bench.sweep()
        assert world.effects == [1]
        found = await bench.alice.reconcile(undone)
    assert (found.status, found.verdict) == (WireStatus.RECONCILED, Verdict.COMMITTED)
    assert world.effects == [1, 1]


@pytest.mark.rule("INT-3")
async def test_a_compensation_that_was_lost_is_looked_up_and_never_run_again() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        assert undone.status is WireStatus.OUTCOME_UNKNOWN
        world.worker.provider.after = None
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert world.effects == [1, 1]
    assert world.worker.provider.entered["compensate"] == 1


@pytest.mark.rule("INT-3")
async def test_its_owner_offers_a_lost_compensation_again_and_the_journal_has_it() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        world.worker.provider.after = None
        bench.wait(LATER_S)
        asked = len(world.asked)
        found = await bench.alice.reconcile(undone)
    assert (found.status, found.verdict) == (WireStatus.RECONCILED, Verdict.COMMITTED)
    assert [question.stage for question in world.asked[asked:]] == [Stage.PERMIT, Stage.SEAL]
    assert world.worker.provider.entered["compensate"] == 1


@pytest.mark.rule("INT-3", "INT-3a")
async def test_an_inverse_that_is_found_absent_keeps_its_slot_for_good() -> None:
    world = World()
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.before = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        world.worker.provider.before = None
        bench.wait(LATER_S)
        await bench.sweep()
        assert (await bench.record(undone)).verdict is Verdict.NOT_COMMITTED
        code = await refusal(bench.alice.compensate(done, WITHDRAWAL))
    assert code == "transaction.compensation_recovery_required"
    assert world.effects == [1]


@pytest.mark.rule("INT-3")
async def test_version_five_cannot_look_a_compensation_up_so_a_person_is_called() -> None:
    world = World(version=Version.LINES)
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
    assert (record.status, record.attention) == (
        Status.OUTCOME_UNKNOWN,
        "worker.lookup_unsupported",
    )


@pytest.mark.rule("INT-3")
async def test_an_inverse_whose_input_is_not_kept_is_looked_up_without_it() -> None:
    world = World(redacted=True)
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)


@pytest.mark.rule("INT-3")
async def test_an_inverse_whose_input_is_not_kept_is_offered_again_only_with_it() -> None:
    world = World(redacted=True)
    world.denies = Stage.SEAL
    async with world.bench() as bench:
        done = await executed(bench)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        world.denies = None
        bench.wait(LATER_S)
        await bench.alice.reconcile(undone)
        record = await bench.record(undone)
        assert (record.status, record.error and record.error.code) == (
            Status.OUTCOME_UNKNOWN,
            "action.input_required",
        )
        assert world.effects == [1]
        bench.wait(LATER_S)
        found = await bench.alice.reconcile(undone, input={"undo": "release"})
    assert (found.status, found.verdict) == (WireStatus.RECONCILED, Verdict.COMMITTED)
    assert world.effects == [1, 1]


@pytest.mark.rule("INT-3")
async def test_what_a_person_rules_in_the_journal_reaches_the_ledger_and_then_the_record() -> None:
    world = World()
    world.worker.provider.found = lambda _: None
    async with world.bench() as bench:
        done = await executed(bench)
        world.worker.provider.after = hangs_up(world)
        undone = await bench.alice.compensate(done, WITHDRAWAL)
        (operation,) = world.worker.ledger_of_all.operations
        assert operation.compensation is not None
        resolve(
            world.worker.journal.open(),
            JournalLimits(),
            operation.operation_key,
            operation.compensation.compensation_key,
            Succeeded(ToolPayload.json({"seen": "by olga"})),
            Ruling(who="olga", why="it is gone", evidence="ticket 7"),
            old_run_gone=True,
        )
        bench.wait(LATER_S)
        await bench.sweep()
        record = await bench.record(undone)
        (operation,) = world.worker.ledger_of_all.operations
        code = await refusal(bench.olga.reconcile(undone, insist=True))
    assert operation.compensation is not None
    assert operation.compensation.state is LedgerState.SUCCEEDED
    assert (record.status, record.verdict) == (Status.RECONCILED, Verdict.COMMITTED)
    assert code == "transaction.reconcile_state_invalid"
    assert world.effects == [1, 1]


# ── INT-3a, INT-4: what is registered ────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-4")
async def test_without_a_verifier_there_is_no_compensation() -> None:
    world = World(verified=False)
    async with world.bench() as bench:
        done = await executed(bench)
        code = await refusal(bench.alice.compensate(done, {"undo": "release"}))
    assert code == "transaction.mode_not_supported"
    assert world.effects == [1]


@pytest.mark.rule("INT-3a")
def test_a_compensation_without_a_grant_for_it_is_not_registered() -> None:
    world = World(grant=CapabilityGrant.json(TOOL))
    with pytest.raises(Misuse, match=r"capability\.invalid") as refused:
        world.capability.build()
    assert "worker_grant" in str(refused.value.details["faults"])


def test_a_second_verifier_is_refused() -> None:
    capability: WorkerCapability = World().capability
    with pytest.raises(Misuse, match="verifier_twice"):
        capability.verify_compensation(lambda _question, _original: True)


@pytest.mark.rule("INT-1")
async def test_two_transactions_have_two_ledgers_and_two_keys() -> None:
    world = World()
    async with world.bench() as bench:
        first = await bench.record(await executed(bench))
        second = await bench.record(await executed(bench))
    assert len(world.worker.ledgers) == 2
    assert first.provider_operation != second.provider_operation
    assert world.effects == [1, 1]
    assert world.worker.closed == 0
