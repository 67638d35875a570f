"""The host's end of a session: opening, silence, and peers that break the rules."""

import asyncio
import threading

import pytest
from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.errors import AmendsError, OutcomeUnknown, Refused, Unavailable
from amends.contracts.worker_messages import ReconcileOperation, ReconciliationRequest
from amends.contracts.worker_payload import Running
from amends.host.channel import WorkerChannel
from amends.ledger.records import LedgerState
from amends.testing.durable import Moment
from amends.testing.wires import WireEnd, make_wire
from amends.worker.adapters import Call
from tests.unit.worker.stage import DONE, GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, WIDE, Both


def a_channel(both: Both, end: WireEnd, **limits: float) -> WorkerChannel:
    both.sessions += 1
    return WorkerChannel(
        end, both.bootstrap, [GRANT], tenant_scope=SCOPE, nonce=b"h" * 32, **limits
    )


async def test_a_worker_that_says_nothing_is_given_up_and_nothing_was_asked() -> None:
    host, _ = make_wire()
    channel = a_channel(Both(), host, open_limit_s=0.01)
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await channel.open()
    with pytest.raises(AmendsError, match=r"channel\.lost"):
        await host.send(b"more")


async def test_a_worker_that_ends_before_it_opened_is_lost() -> None:
    host, worker = make_wire()
    channel = a_channel(Both(), host)
    worker.cut()
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await channel.open()


async def test_nothing_is_sent_over_a_channel_that_is_not_open() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    host, _ = make_wire()
    with pytest.raises(Unavailable, match=r"channel\.lost"):
        await workflow.dispatch(a_channel(both, host), key, INPUT)
    assert host.sent == []


@pytest.mark.fault(51)
async def test_an_answer_that_does_not_come_is_unknown_and_the_entry_stays_open() -> None:
    both = Both()

    async def wait(_: Call) -> None:
        await asyncio.sleep(0.1)

    both.provider.before = wait
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        channel._limits = (0.01, 1.0)
        with pytest.raises(OutcomeUnknown) as caught:
            await workflow.dispatch(channel, key, INPUT)
        assert caught.value.code == "worker.no_answer"
        assert workflow.ledger.operations[0].state is LedgerState.PENDING
        channel._limits = (5.0, 1.0)
        assert await workflow.dispatch(channel, key, INPUT) == DONE
    assert both.provider.entered["dispatch"] == 1


@pytest.mark.rule("FR-6")
@pytest.mark.fault(55)
async def test_a_worker_that_breaks_a_rule_ends_the_channel_for_all_that_wait() -> None:
    both = Both()
    going = asyncio.Event()

    async def wait(_: Call) -> None:
        await going.wait()

    both.provider.before = wait
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        asking = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await asyncio.sleep(0.02)
        both.wires[0].arrive(b"\x06\x04\x00\x00\x00\x10" + bytes(16))
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(asking, 1)  # at once, and not when its time is up
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await workflow.dispatch(channel, key, INPUT)
        going.set()


async def test_a_wire_that_breaks_while_sending_leaves_the_outcome_unknown() -> None:
    both = Both()
    workflow, target = await both.intended()
    async with both.channel() as channel:

        async def break_off(_: bytes) -> None:
            raise coded("channel.lost")

        both.wires[0].send = break_off  # type: ignore[method-assign,assignment]  # this one wire is broken
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await workflow.compensate(channel, target)
        with pytest.raises(Unavailable, match=r"channel\.lost"):
            await workflow.compensate(channel, target)


async def test_a_budget_that_is_spent_is_refused_before_anything_is_sent() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    async with both.channel() as channel:
        frames = len(both.wires[0].sent)
        request = ReconciliationRequest(
            **channel.names(), tool="another.tool", operation_key=both.kept.records[0].operation_key
        )
        with pytest.raises(Refused, match="tool_not_granted"):
            await channel.ask(ReconcileOperation(request))
        with pytest.raises(Refused, match="tool_not_granted"):
            channel.grant("another.tool")
        assert len(both.wires[0].sent) == frames
    assert workflow.ledger.operations[0].operation_key == key


async def test_the_worker_s_proof_says_where_its_journal_stands() -> None:
    both = Both()
    async with both.channel() as channel:
        assert channel.proof is not None
        assert channel.proof.fence == both.journal.fence
        assert channel.tenant_scope == SCOPE
    await channel.close()


@pytest.mark.fault(31)
async def test_a_host_that_cannot_write_its_ledger_licenses_nothing_more() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    target = workflow.target(key, SCOPE, GRANT, INVERSE)

    def fail(*_: object) -> None:
        raise coded("sealed.write_failed")

    both.ledger.at = fail
    with pytest.raises(Unavailable, match="write_failed"):
        await workflow.record_compensation(target, NONCE)
    both.ledger.at = None
    async with both.channel() as channel:
        for attempt in (
            workflow.compensate(channel, target),
            workflow.record(INTENT),
            workflow.dispatch(channel, key, INPUT),
        ):
            with pytest.raises(Unavailable, match=r"sealed\.poisoned"):
                await attempt
    again = await both.workflow()
    assert await again.record_compensation(target, NONCE)


@pytest.mark.rule("WS-4")
@pytest.mark.fault(22)
async def test_a_host_that_was_fenced_out_persists_nothing() -> None:
    both = Both()
    workflow, key = await both.succeeded()
    await both.workflow()
    with pytest.raises(AmendsError, match=r"sealed\.fenced"):
        await workflow.record_compensation(workflow.target(key, SCOPE, GRANT, INVERSE), NONCE)


@pytest.mark.rule("FR-5")
@pytest.mark.fault(22)
@pytest.mark.case("TIM-05")
async def test_a_frame_of_a_host_that_was_replaced_is_refused_by_the_journal() -> None:
    both = Both()
    late = await both.workflow()
    key = await late.record(INTENT)
    both.provider.after = lambda _: Running()
    async with both.channel(WIDE) as channel:
        await (await both.workflow()).dispatch(channel, key, INPUT)
    async with both.channel(WIDE) as channel:
        with pytest.raises(Refused) as caught:
            await late.dispatch(channel, key, INPUT)
    assert caught.value.details["code"] == "journal.head_stale"
    with pytest.raises(AmendsError, match=r"sealed\.fenced"):
        await late.record(replace(INTENT, nonce=b"another"))
    assert both.provider.entered["dispatch"] == 1


async def test_whoever_is_cancelled_while_the_ledger_is_written_finds_it_written() -> None:
    both = Both()
    workflow = await both.workflow()
    loop, began, goes_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slowly(moment: Moment, _: bytes) -> None:
        if moment is Moment.BEFORE:
            loop.call_soon_threadsafe(began.set)
            goes_on.wait(5)

    both.ledger.at = slowly
    recording = asyncio.ensure_future(workflow.record(INTENT))
    await began.wait()
    recording.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await recording
    assert len(workflow.ledger.operations) == 1
    both.ledger.at = None
    assert await workflow.record(INTENT) == workflow.ledger.operations[0].operation_key


async def test_a_worker_that_takes_nothing_more_does_not_hold_the_host_up() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        channel._limits = (0.05, 1.0)

        async def never(_: bytes) -> None:
            await asyncio.sleep(60)

        both.wires[0].send = never  # type: ignore[method-assign,assignment]  # this one wire is stuck
        with pytest.raises(OutcomeUnknown, match="no_answer"):
            await workflow.dispatch(channel, key, INPUT)
    assert workflow.ledger.operations[0].state is LedgerState.PENDING
