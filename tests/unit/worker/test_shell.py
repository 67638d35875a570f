"""The worker's order, and everything that is no definite and durable status (WS-1 to WS-5)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError, OutcomeUnknown, Refused, Unavailable
from amends.contracts.worker_grant import CapabilityGrant, grant_fingerprint
from amends.contracts.worker_identity import CompensationKey, OperationKey
from amends.contracts.worker_messages import (
    AskCompensationState,
    Cancel,
    CancellationRequest,
    CompensationStateRequest,
    Indeterminate,
    Invoke,
    InvokeRequest,
    NoRecord,
    ReconcileOperation,
    ReconciliationRequest,
    TerminalRecord,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    PayloadFormat,
    Pending,
    Running,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.host.channel import WorkerChannel
from amends.host.workflow import Workflow
from amends.journal.capacity import JournalLimits
from amends.journal.observation import without_body
from amends.journal.records import Ruling, find_record
from amends.ledger.records import LedgerState
from amends.testing.durable import Moment
from amends.worker.adapters import Adapter, Call
from amends.worker.ruling import supersede
from amends.worker.service import LOOKUPS_OF_ENTRY
from amends.worker.shell import JournalAccess
from tests.unit.worker.stage import DONE, GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, WIDE, Both


def fails(_: object) -> object:
    raise RuntimeError("no idea")


async def waits(_: object) -> object:
    await asyncio.sleep(60)
    return None


NO_STATUS: Final[dict[str, Callable[[Call], object]]] = {
    "an exception": fails,
    "a time limit": waits,
    "a number": lambda _: 7,
    "a text for a grant of JSON": lambda _: "done",
    "a value that is no JSON": lambda _: {"when": object()},
    "a payload of another format": lambda _: ToolPayload.text("done"),
    "a success with what is no payload": lambda _: Succeeded({"done": True}),  # type: ignore[arg-type]  # as a careless adapter would
    "a payload that nothing can write": lambda _: ToolPayload(PayloadFormat.JSON, "\ud800"),
}


@pytest.mark.rule("WS-1")
async def test_the_admission_is_durable_before_the_handler_and_its_end_before_the_answer() -> None:
    both = Both()
    seen: list[str] = []

    def note(moment: Moment, payload: bytes) -> None:
        seen.append(f"{moment} {'succeeded' if b'succeeded' in payload else 'pending'}")

    both.journal.at = note
    both.provider.before = lambda _: seen.append("entered")
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        await workflow.dispatch(channel, key, INPUT)
        seen.append("answered")
    assert seen == [
        "before pending",
        "after pending",
        "entered",
        "before succeeded",
        "after succeeded",
        "answered",
    ]


@pytest.mark.rule("WS-1", "WJ-2")
async def test_what_is_there_is_answered_and_never_entered_again() -> None:
    both = Both()
    workflow, target = await both.intended(WIDE)
    both.provider.after = lambda _: Running()
    async with both.channel(WIDE) as channel:
        assert await workflow.compensate(channel, target) == Running()
        both.provider.found = lambda _: DONE
        assert await workflow.compensate(channel, target) == DONE
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("WS-2")
@pytest.mark.parametrize("how", NO_STATUS)
async def test_an_original_without_a_definite_status_poisons_and_says_indeterminate(
    how: str,
) -> None:
    both = Both()
    both.provider.adapter = slow_adapter(both, NO_STATUS[how])
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        assert await workflow.dispatch(channel, key, INPUT) == Indeterminate()
    assert isinstance(both.ends, OutcomeUnknown)
    assert both.ends.code == "worker.indeterminate_operation"
    record = find_record(both.kept, key)
    assert record is not None
    assert record.state == Pending()
    assert workflow.ledger.operations[0].state is LedgerState.PENDING


def slow_adapter(both: Both, after: Callable[[Call], object]) -> Adapter:
    """The provider's adapter with a short limit."""
    both.provider.after = after
    adapter = Adapter(GRANT.tool, contract=both.provider.adapter.contract, handler_limit_s=0.05)
    adapter.dispatch(both.provider.publish)
    adapter.compensate(both.provider.withdraw)
    adapter.status(both.provider.find)
    adapter.compensation_status(both.provider.find_inverse)
    return adapter


@pytest.mark.rule("WS-2")
@pytest.mark.fault(30)
@pytest.mark.parametrize("how", NO_STATUS)
async def test_an_inverse_without_a_definite_status_is_looked_up_and_never_run_again(
    how: str,
) -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.adapter = slow_adapter(both, NO_STATUS[how])
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == Indeterminate()
        with pytest.raises(AmendsError):
            await workflow.compensate(channel, target)
    assert both.ends is not None
    assert both.ends.code == "worker.indeterminate_compensation"
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == DONE
    assert both.provider.entered["compensate"] == 1
    assert both.provider.effects.total() == 2


@pytest.mark.rule("WS-2")
@pytest.mark.fault(31)
async def test_an_end_that_cannot_be_written_poisons_and_memory_goes_back() -> None:
    both = Both()
    workflow, target = await both.intended()

    def fail(moment: Moment, payload: bytes) -> None:
        if moment is Moment.BEFORE and payload.count(b"succeeded") == 2:
            raise coded("sealed.write_failed")

    both.journal.at = fail
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == Indeterminate()
    assert both.ends is not None
    assert both.ends.code == "worker.indeterminate_compensation"
    both.journal.at = None
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == DONE
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("WS-1")
@pytest.mark.fault(41)
@pytest.mark.parametrize("moment", list(Moment))
async def test_an_admission_that_cannot_be_written_never_enters_a_handler(moment: Moment) -> None:
    both = Both()
    workflow, target = await both.intended()

    def fail(when: Moment, _: bytes) -> None:
        if when is moment:
            raise coded("sealed.too_large", {"limit": 1})

    both.journal.at = fail
    async with both.channel() as channel:
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await workflow.compensate(channel, target)
    assert isinstance(both.ends, Unavailable | Refused)
    assert both.provider.entered["compensate"] == 0


async def test_a_definite_failure_is_recorded_and_told() -> None:
    both = Both()
    both.provider.before = lambda _: Failed("no such version")
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        assert await workflow.dispatch(channel, key, INPUT) == Failed("no such version")
    assert workflow.ledger.operations[0].state is LedgerState.FAILED
    assert both.provider.effects.total() == 0


@pytest.mark.rule("WS-2")
@pytest.mark.case("BIG-04")
async def test_an_output_over_the_limit_leaves_digest_and_size_of_a_success() -> None:
    both = Both()
    both.provider.after = lambda _: {"log": "x" * 70_000}
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        answered = await workflow.dispatch(channel, key, INPUT)
        assert await workflow.reconcile(channel, key) == answered
    assert isinstance(answered, SucceededOversize)
    assert answered.size == 70_010
    assert both.provider.entered == {"dispatch": 1}
    assert workflow.ledger.operations[0].state is LedgerState.SUCCEEDED


NARROW: Final = CapabilityGrant("release.publish", max_calls=8, max_output_bytes=4)
TEXT: Final = CapabilityGrant(
    "release.publish", PayloadFormat.TEXT, max_output_bytes=262_144, max_compensations=1
)


@pytest.mark.rule("WS-1", "WJ-2")
async def test_a_success_whose_output_this_session_may_not_give_is_told_by_digest_and_size() -> (
    None
):
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        with suppress(OutcomeUnknown):
            channel._limits = (0.0, 1.0)
            await workflow.dispatch(channel, key, INPUT)
    async with both.channel(NARROW) as channel:
        answered = await workflow.dispatch(channel, key, INPUT)
        assert await workflow.reconcile(channel, key) == answered
    assert both.ends is None
    assert answered == without_body(DONE)
    assert workflow.ledger.operations[0].state is LedgerState.SUCCEEDED
    assert both.provider.entered["dispatch"] == 1


@pytest.mark.rule("WS-1")
async def test_an_output_that_no_frame_can_carry_is_told_by_digest_and_size() -> None:
    both = Both()
    both.provider.after = lambda _: "\x01" * 200_000
    workflow, text = await both.workflow(), ToolPayload.text("1.2.3")
    key = await workflow.record(replace(INTENT, payload=text))
    target = workflow.target(key, SCOPE, TEXT, text)
    async with both.channel(TEXT) as channel:
        answered = await workflow.dispatch(channel, key, text)
        await workflow.record_compensation(target, NONCE)
        assert await workflow.compensate(channel, target) == answered
        assert await workflow.compensation_state(channel, target) == TerminalRecord(answered)  # type: ignore[arg-type]  # it has ended
    assert isinstance(answered, SucceededOversize)
    assert answered.size == 200_000
    assert both.ends is None
    assert isinstance(both.kept.records[0].state, Succeeded)


# ── looking up ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-3")
@pytest.mark.fault(29)
async def test_a_look_up_ends_an_open_inverse_and_enters_no_inverse_handler() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.after = fails
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    async with both.channel() as channel:
        state = await workflow.compensation_state(channel, target)
    assert state == TerminalRecord(DONE)
    assert both.provider.entered["compensate"] == 1
    held = workflow.ledger.operations[0].compensation
    assert held is not None
    assert held.state is LedgerState.SUCCEEDED


@pytest.mark.rule("WS-1", "WS-3")
async def test_what_another_session_saw_running_is_not_said_to_run() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.before = lambda _: Running()
    both.provider.found = lambda _: None
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == Running()
        assert await workflow.compensation_state(channel, target) == Running()
    async with both.channel() as channel:
        assert await workflow.compensation_state(channel, target) == Indeterminate()
        assert await workflow.compensate(channel, target) == Indeterminate()


def test_nobody_is_taken_for_gone_unless_somebody_says_so() -> None:
    both = Both()
    access = JournalAccess(scope=SCOPE, open=both.journal.open, used=both.used)
    assert access.predecessor_gone() is False


@pytest.mark.rule("WS-3")
async def test_that_it_did_not_happen_counts_only_once_the_old_worker_is_gone() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.before = fails
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    async with both.channel(predecessor_gone=False) as channel:
        assert await workflow.compensation_state(channel, target) == Indeterminate()
    async with both.channel(predecessor_gone=True) as channel:
        state = await workflow.compensation_state(channel, target)
    assert state == TerminalRecord(Failed("it is not there"))


@pytest.mark.rule("WS-3")
async def test_a_horizon_that_passed_since_the_opening_is_as_good() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.before = fails
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    adapter = Adapter(GRANT.tool, contract=both.provider.adapter.contract, horizon_s=0.05)
    adapter.compensation_status(both.provider.find_inverse)
    both.provider.adapter = adapter
    async with both.channel(predecessor_gone=False) as channel:
        assert await workflow.compensation_state(channel, target) == Indeterminate()
        await asyncio.sleep(0.06)
        state = await workflow.compensation_state(channel, target)
    assert state == TerminalRecord(Failed("it is not there"))


@pytest.mark.rule("WS-3")
@pytest.mark.case("IDR-04")
@pytest.mark.parametrize("found", [None, RuntimeError, 7, Succeeded(7)])  # type: ignore[arg-type]  # as a careless adapter would
async def test_a_look_up_that_cannot_tell_leaves_the_entry_open(found: object) -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.before = fails
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    both.provider.found = fails if found is RuntimeError else lambda _: found
    async with both.channel() as channel:
        assert await workflow.compensation_state(channel, target) == Indeterminate()
        assert await workflow.compensate(channel, target) == Indeterminate()
    assert both.provider.entered["compensate"] == 1


@pytest.mark.rule("WS-3")
async def test_one_session_looks_one_entry_up_a_bounded_number_of_times() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.before = fails
    async with both.channel() as channel:
        await workflow.compensate(channel, target)
    both.provider.found = lambda _: None
    async with both.channel() as channel:
        for _ in range(LOOKUPS_OF_ENTRY + 3):
            assert await workflow.compensate(channel, target) == Indeterminate()
    assert both.provider.entered["compensation_status"] == LOOKUPS_OF_ENTRY


async def test_an_original_can_be_looked_up_and_one_that_is_unknown_is_none() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        assert await workflow.reconcile(channel, key) == NoRecord()
        await workflow.dispatch(channel, key, INPUT)
        assert await workflow.reconcile(channel, key) == DONE


async def test_an_inverse_that_is_unknown_is_none() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        assert await workflow.compensation_state(channel, target) == NoRecord()


# ── side by side ─────────────────────────────────────────────────────────────────────────────────


async def test_the_same_operation_asked_twice_at_once_runs_once_and_both_hear_its_end() -> None:
    both = Both()
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    both.provider.before = wait
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        one = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        other = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.05)
        going.set()
        assert await one == await other == DONE
    assert both.provider.entered["dispatch"] == 1


async def test_the_same_operation_asked_twice_at_once_runs_once_and_neither_hears_of_an_end() -> (
    None
):
    both = Both()
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()
        raise RuntimeError("no idea")

    both.provider.before = wait
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        asking = [asyncio.ensure_future(workflow.dispatch(channel, key, INPUT)) for _ in range(3)]
        await asyncio.sleep(0.05)
        going.set()
        said = await asyncio.gather(*asking, return_exceptions=True)
    assert said[0] == Indeterminate()
    assert all(one == Indeterminate() or isinstance(one, OutcomeUnknown) for one in said)
    assert both.provider.entered["dispatch"] == 1


@pytest.mark.rule("WS-2")
async def test_a_session_that_is_poisoned_ends_the_wire_and_leaves_nothing_at_work() -> None:
    both = Both()
    entered, gone = asyncio.Event(), asyncio.Event()

    async def work(call: Call) -> object:
        if call.input == {"version": "2"}:
            await entered.wait()
            raise RuntimeError("no idea")
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            gone.set()
        return None

    both.provider.before = work
    workflow, other = await both.workflow(), ToolPayload.json({"version": "2"})
    keys = [await workflow.record(replace(INTENT, payload=one)) for one in (INPUT, other)]
    async with both.channel(WIDE) as channel:
        working = asyncio.ensure_future(workflow.dispatch(channel, keys[0], INPUT))
        assert await workflow.dispatch(channel, keys[1], other) == Indeterminate()
        with pytest.raises(OutcomeUnknown):
            await working
        assert gone.is_set()
        assert await both.wires[0].receive() == b""
    assert [record.state for record in both.kept.records] == [Pending(), Pending()]


async def test_the_state_of_an_inverse_that_is_at_work_is_pending() -> None:
    both = Both()
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    workflow, target = await both.intended()
    both.provider.before = wait
    async with both.channel() as channel:
        compensating = asyncio.ensure_future(workflow.compensate(channel, target))
        await asyncio.sleep(0.05)
        assert await workflow.compensation_state(channel, target) == Pending()
        going.set()
        assert await compensating == DONE


async def test_a_handler_is_told_to_stop_and_says_itself_whether_it_did() -> None:
    both = Both()

    async def stop(call: Call) -> object:
        await call.cancelled.wait()
        return Cancelled()

    both.provider.before = stop
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        running = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.05)
        names = channel.names()
        target = f"r-{int(names['request_id'][2:]) - 1}"
        answer = await channel.ask(Cancel(CancellationRequest(**names, target_request_id=target)))
        assert answer.result.cancelled is False  # type: ignore[union-attr]  # it is such an answer
        assert await running == Cancelled()


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


async def refused(channel: WorkerChannel, message: object) -> str:
    with pytest.raises(Refused) as caught:
        await channel.ask(message)  # type: ignore[arg-type]  # any request
    assert caught.value.code == "worker.rejected"
    return str(caught.value.details["code"])


@pytest.mark.rule("WS-5")
async def test_an_adapter_without_a_contract_gets_nothing_durable() -> None:
    both = Both()
    both.provider.adapter = Adapter(GRANT.tool)
    both.provider.adapter.dispatch(both.provider.publish)
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        with pytest.raises(Refused) as caught:
            await workflow.dispatch(channel, key, INPUT)
    assert caught.value.details["code"] == "worker.contract_missing"
    assert not both.kept.records


@pytest.mark.rule("WS-5")
async def test_an_adapter_without_an_inverse_handler_refuses_and_the_journal_knows_nothing() -> (
    None
):
    both = Both()
    workflow, target = await both.intended()
    adapter = Adapter(GRANT.tool, contract=both.provider.adapter.contract)
    adapter.dispatch(both.provider.publish)
    adapter.status(both.provider.find)
    both.provider.adapter = adapter
    async with both.channel() as channel:
        with pytest.raises(Refused) as caught:
            await workflow.compensate(channel, target)
    assert caught.value.details["code"] == "worker.handler_missing"
    assert both.kept.records[0].compensation is None


async def test_a_call_without_an_identity_is_refused() -> None:
    both = Both()
    async with both.channel() as channel:
        request = InvokeRequest(**channel.names(), tool=GRANT.tool, payload=INPUT)
        assert await refused(channel, Invoke(request)) == "worker.handler_missing"
    assert both.ends is None


@pytest.mark.rule("GR-6")
async def test_what_the_journal_refuses_costs_nothing_and_the_session_goes_on() -> None:
    both = Both()
    await both.succeeded()
    record = both.kept.records[0]
    async with both.channel() as channel:
        for _ in range(3):
            ask = CompensationStateRequest(
                **channel.names(),
                tool=GRANT.tool,
                operation_key=OperationKey("op-" + "9" * 64),
                compensation_key=CompensationKey("cmp-" + "9" * 64),
                tenant_scope=SCOPE,
                grant_fingerprint=grant_fingerprint(GRANT),
                head=record.head,
            )
            answer = await channel.ask(AskCompensationState(ask))
            assert answer.result.state == NoRecord()  # type: ignore[union-attr]  # it is such an answer
        look = ReconciliationRequest(
            **channel.names(), tool=GRANT.tool, operation_key=record.operation_key, head=record.head
        )
        assert (await channel.ask(ReconcileOperation(look))).result.status == DONE  # type: ignore[union-attr]  # it is such an answer


@pytest.mark.rule("GR-3")
@pytest.mark.fault(50)
async def test_a_session_with_another_grant_refuses_a_stored_intent() -> None:
    both = Both()
    workflow, target = await both.intended(GRANT)
    async with both.channel(WIDE) as channel:
        with pytest.raises(Refused, match="grant_mismatch"):
            await workflow.compensate(channel, target)
    assert both.provider.entered["compensate"] == 0


@pytest.mark.rule("GR-4")
@pytest.mark.parametrize("was_admitted", [False, True])
async def test_a_stranded_intent_goes_on_under_a_grant_that_a_person_chose(
    was_admitted: bool,
) -> None:
    both = Both()
    workflow, target = await both.intended(GRANT)
    if was_admitted:
        both.provider.after = fails
        async with both.channel(GRANT) as channel:
            await workflow.compensate(channel, target)
        both.provider.after = None
    await workflow.supersede_grant(target.operation_key, WIDE, who="olga", why="compared both")
    moved = workflow.target(target.operation_key, SCOPE, WIDE, INVERSE)
    async with both.channel(WIDE) as channel:
        if was_admitted:
            with pytest.raises(Refused) as caught:
                await workflow.compensate(channel, moved)
            assert caught.value.details["code"] == "journal.compensation_differs"
        else:
            assert await workflow.compensate(channel, moved) == DONE
    if was_admitted:
        held = both.kept.records[0].compensation
        assert held is not None
        ruling = Ruling(who="olga", why="compared both", evidence="ticket 7")
        keys = target.operation_key, held.compensation_key
        supersede(both.journal.open(), JournalLimits(), *keys, grant_fingerprint(WIDE), ruling)
        async with both.channel(WIDE) as channel:
            assert await workflow.compensate(channel, moved) == DONE
    assert both.provider.entered["compensate"] == 1


# ── opening ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("WS-4")
async def test_no_session_is_served_twice() -> None:
    both = Both()
    async with both.channel():
        pass
    both.sessions = 0
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        async with both.channel():
            pass
    assert both.ends is not None
    assert both.ends.code == "worker.session_used"


@pytest.mark.rule("WS-4")
async def test_a_host_that_proves_nothing_takes_no_fence() -> None:
    both = Both()
    fence = both.journal.fence
    async with both.channel():
        assert both.journal.fence == fence + 1
    host, worker = both.wires
    assert both.journal.fence == fence + 1
    both.sessions += 1
    shell = both.shell(worker_end=worker)
    host.peer, worker.peer = worker, host
    worker.arrive(b"\x06\x01\x00\x00\x00\x02{}")
    with pytest.raises(AmendsError, match="channel"):
        await shell.run()
    assert both.journal.fence == fence + 1


@pytest.mark.rule("WS-4")
@pytest.mark.fault(20, 22)
async def test_a_worker_that_was_fenced_out_persists_nothing_and_enters_nothing() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:
        both.journal.open()
        with pytest.raises(OutcomeUnknown):
            await workflow.compensate(channel, target)
    assert both.ends is not None
    assert both.ends.code == "sealed.fenced"
    assert both.provider.entered["compensate"] == 0


async def test_a_journal_of_another_scope_is_not_served() -> None:
    both = Both()
    both.journal.payload = both.journal.payload.replace(SCOPE.encode(), b"tenant-of-others")
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        async with both.channel():
            pass
    assert both.ends is not None
    assert both.ends.code == "journal.scope_mismatch"


@pytest.mark.fault(45)
async def test_a_host_that_leaves_is_not_waited_for_but_the_handler_is() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    both.provider.before = wait
    async with both.channel() as channel:
        asking = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.05)
        await channel.close()
        going.set()
        with pytest.raises(OutcomeUnknown):
            await asking
    record = find_record(both.kept, key)
    assert record is not None
    assert record.state == DONE


@pytest.mark.fault(55)
async def test_a_broken_frame_ends_the_session_and_what_runs_is_written_down() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    both.provider.before = wait
    async with both.channel() as channel:
        asking = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.05)
        both.wires[1].arrive(b"\x06\x03\x00\x00\x00\x10" + bytes(16))
        going.set()
        with pytest.raises(OutcomeUnknown):
            await asking
    assert both.ends is not None
    assert both.ends.code == "channel.not_authentic"
    assert both.kept.records[0].state == DONE


async def restored_host(both: Both) -> tuple[Both, Workflow, OperationKey]:
    """A later host over the same journal, whose ledger is from before."""
    workflow, target = await both.intended(WIDE)
    async with both.channel(WIDE) as channel:
        await workflow.compensate(channel, target)
    other = Both()
    other.journal, other.used, other.sessions = both.journal, both.used, 50
    other.ledger.fence = 40
    workflow = await other.workflow()
    return other, workflow, await workflow.record(INTENT)


@pytest.mark.rule("FR-5")
@pytest.mark.fault(37)
async def test_a_look_up_whose_head_contradicts_is_answered_and_freezes_the_journal() -> None:
    both = Both()
    other, workflow, key = await restored_host(both)
    async with other.channel(WIDE) as channel:
        assert await workflow.reconcile(channel, key) == DONE
        assert both.kept.frozen == key
        fresh = await workflow.record(replace(INTENT, nonce=b"another"))
        with pytest.raises(Refused) as caught:
            await workflow.dispatch(channel, fresh, INPUT)
    assert caught.value.details["code"] == "journal.frozen"


@pytest.mark.rule("FR-5")
async def test_a_look_up_moves_the_head_on_so_that_an_older_host_is_refused() -> None:
    both = Both()
    old, key = await both.succeeded()
    async with both.channel(WIDE) as channel:
        await (await both.workflow()).reconcile(channel, key)
        with pytest.raises(Refused) as caught:
            await old.reconcile(channel, key)
    assert caught.value.details["code"] == "journal.head_stale"


@pytest.mark.rule("FR-5")
@pytest.mark.fault(18, 37)
async def test_heads_that_contradict_freeze_the_journal_durably() -> None:
    both = Both()
    other, workflow, key = await restored_host(both)
    async with other.channel(WIDE) as channel:
        with pytest.raises(Refused) as caught:
            await workflow.dispatch(channel, key, INPUT)
        assert caught.value.details["code"] == "journal.heads_contradict"
    assert both.kept.frozen == key
