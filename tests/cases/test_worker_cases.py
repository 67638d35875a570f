"""Public failures of workers, their frames and journals, replayed on both sides of one channel."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import pytest

from amends.contracts.errors import (
    AmendsError,
    Conflict,
    Corrupt,
    OutcomeUnknown,
    PeerViolation,
)
from amends.contracts.persistence import content_digest
from amends.contracts.worker_messages import (
    AnswerMessage,
    DispatchOperation,
    Indeterminate,
    OperationAnswer,
    OperationRequest,
    OperationResult,
    TerminalRecord,
)
from amends.contracts.worker_payload import Succeeded, ToolPayload
from amends.contracts.worker_wire import decode_record, encode_record
from amends.host.channel import WorkerChannel
from amends.host.workflow import Workflow
from amends.journal.document import encode_journal
from amends.journal.observation import observe_compensation, without_body
from amends.journal.records import find_record
from amends.journal.rulings import archive
from amends.ledger.document import encode_ledger
from amends.ledger.operations import Envoy, apply_operation, request_operation
from amends.ledger.plans import open_ledger
from amends.ledger.records import LedgerState
from amends.ledger.recovery import Recovery
from amends.sealed.disk import Disk
from amends.sealed.envelopes import NOTHING, seal, unseal
from amends.sealed.files import SealedFile
from amends.testing.durable import MemoryRecord
from amends.testing.refusals import refused_with
from amends.testing.wires import make_wire
from amends.worker.adapters import Call
from amends.worker.service import LOOKUPS_OF_ENTRY
from tests.unit.sealed.stage import KEYS, PLACE, folder_in, record_of
from tests.unit.worker.stage import DONE, GRANT, INPUT, INTENT, PLAN, WIDE, Both
from tests.unit.worker.test_every_write import OnDisk
from tests.unit.worker.test_shell import slow_adapter

MANY: Final = msgspec.structs.replace(WIDE, max_calls=200)


def refund(number: int) -> Succeeded:
    return Succeeded(ToolPayload.json({"refund": f"re_{number}"}))


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


async def arrives_twice(both: Both, workflow: Workflow, key: str, _: list[bytes]) -> None:
    async with both.channel(WIDE) as channel:
        await workflow.reconcile(channel, key)
        await delivered(both, both.wires[0].sent[-1])


async def arrives_swapped(both: Both, workflow: Workflow, key: str, _: list[bytes]) -> None:
    held: list[bytes] = []
    async with both.channel(WIDE) as channel:
        await asyncio.sleep(0.02)
        arrive = both.wires[1].arrive
        both.wires[1].arrive = held.append  # type: ignore[assignment, method-assign]  # a wire that holds back
        asking = [asyncio.ensure_future(workflow.reconcile(channel, key)) for _ in range(2)]
        await asyncio.sleep(0.02)
        both.wires[1].arrive = arrive  # type: ignore[method-assign]  # and lets go
        assert len(held) == 2
        await delivered(both, *reversed(held))
        await asyncio.gather(*asking, return_exceptions=True)


async def arrives_a_day_later(both: Both, _: Workflow, __: str, frames: list[bytes]) -> None:
    async with both.channel(WIDE):
        await delivered(both, frames[-2])


async def arrives_after_a_restart(both: Both, _: Workflow, __: str, frames: list[bytes]) -> None:
    """The same session, with the same key, at a worker that began anew."""
    wire = make_wire()
    both.wires = wire
    for frame in frames:
        wire[1].arrive(frame)
    wire[1].end()
    await both._serve(both.shell(wire[1]))


async def delivered(both: Both, *frames: bytes) -> None:
    for frame in frames:
        both.wires[1].arrive(frame)
    await asyncio.sleep(0.02)


@pytest.mark.case("FRM-02")
@pytest.mark.parametrize(
    "replay", [arrives_twice, arrives_swapped, arrives_a_day_later, arrives_after_a_restart]
)
async def test_a_frame_is_taken_once_in_its_place_in_its_session(
    replay: Callable[[Both, Workflow, str, list[bytes]], Awaitable[None]],
) -> None:
    both = Both()
    workflow, key = await both.succeeded()
    await replay(both, workflow, key, list(both.wires[0].sent))
    assert both.ends is not None
    assert both.ends.code in {"channel.not_authentic", "worker.session_used"}
    assert both.provider.entered["dispatch"] == 1


@pytest.mark.case("FRM-02")
async def test_an_operation_that_is_asked_again_in_a_new_session_is_answered_existing() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        sent = await channel.send(DispatchOperation(request_of(workflow, channel, key)))
        again = await channel.ask(DispatchOperation(request_of(workflow, channel, key)))
        assert result_of(again).status == result_of(await sent.answer()).status == DONE
    async with both.channel(WIDE) as channel:
        assert await workflow.dispatch(channel, key, INPUT) == DONE
    assert both.provider.entered["dispatch"] == 1


def result_of(answer: AnswerMessage) -> OperationAnswer:
    assert isinstance(answer, OperationResult)
    return answer.result


def request_of(workflow: Workflow, channel: WorkerChannel, key: str) -> OperationRequest:
    envoy = Envoy(channel.protocol_version, channel.session_id, channel.names()["request_id"])
    return request_operation(workflow.ledger, key, INPUT, workflow._keeper.receipt, envoy)


# ── fences ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("FEN-01")
async def test_a_worker_of_the_same_name_that_stalled_overwrites_nothing() -> None:
    both, going, entered = Both(), asyncio.Event(), asyncio.Event()

    async def stall(_: Call) -> object:
        entered.set()
        await going.wait()
        return refund(1)

    both.provider.after = stall
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as first:
        asking = asyncio.ensure_future(workflow.dispatch(first, key, INPUT))
        await entered.wait()
        async with both.channel(WIDE, predecessor_gone=False) as second:
            assert await workflow.reconcile(second, key) == DONE
            held = (both.journal.payload, both.journal.revision, both.journal.fence)
            going.set()
            assert isinstance(await asking, Indeterminate)
            assert (both.journal.payload, both.journal.revision, both.journal.fence) == held
            assert await workflow.reconcile(second, key) == DONE
    assert both.ends is not None
    assert both.ends.code == "worker.indeterminate_operation"
    assert both.provider.entered["dispatch"] == 1


@pytest.mark.case("FEN-02")
async def test_an_answer_without_the_names_of_its_request_changes_nothing() -> None:
    both = Both()
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    other = await workflow.record(msgspec.structs.replace(INTENT, nonce=b"another"))
    async with both.channel(WIDE) as channel:
        sent = request_of(workflow, channel, key)
    right = OperationAnswer(
        protocol_version=sent.protocol_version,
        session_id=sent.session_id,
        request_id=sent.request_id,
        tool=sent.tool,
        operation_key=sent.operation_key,
        status=DONE,
    )
    before = workflow.ledger
    nameless = encode_record(right).replace(b'"request_id":"%b",' % sent.request_id.encode(), b"")
    with refused_with("worker.message_invalid"):
        decode_record(nameless, OperationAnswer, max_bytes=10_000)
    for wrong in ({"request_id": "r-0"}, {"session_id": "session-0"}, {"operation_key": other}):
        with pytest.raises(PeerViolation, match="answer_mismatch"):
            apply_operation(before, sent, msgspec.structs.replace(right, **wrong), GRANT)
    once = apply_operation(before, sent, right, GRANT)
    assert once != before
    assert apply_operation(once, sent, right, GRANT) is once


# ── journals ─────────────────────────────────────────────────────────────────────────────────────

SPOILT: Final[dict[str, Callable[[bytes], bytes]]] = {
    "an empty file": lambda _: b"",
    "all NULs": lambda data: bytes(len(data)),
    "half a record": lambda data: data[: len(data) // 2],
    "a tail of NULs": lambda data: data + bytes(512),
    "JSON of the wrong type": lambda _: b"[]",
    "JSON of another record": lambda _: b'{"format_version":2}',
    "CRLF line ends": lambda data: data + b"\r\n",
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.case("JRN-01")
@pytest.mark.parametrize("spoil", SPOILT)
async def test_a_spoilt_journal_is_refused_left_alone_and_never_taken_for_none(
    tmp_path: Path, spoil: str
) -> None:
    both = OnDisk(tmp_path)
    with closing(both.anchor):
        workflow, key = await both.succeeded()
        spoilt = SPOILT[spoil](record_of(tmp_path).read_bytes())
        record_of(tmp_path).write_bytes(spoilt)
        for _ in range(2):
            with pytest.raises(AmendsError, match=r"channel\.lost"):
                async with both.channel(WIDE) as channel:
                    await workflow.reconcile(channel, key)
            assert both.ends is not None
            assert both.ends.code == "sealed.malformed"
            assert isinstance(both.ends, Corrupt)
    assert record_of(tmp_path).read_bytes() == spoilt
    assert both.provider.entered["dispatch"] == 1


class Grudging(Disk):
    """Takes so many bytes at a time, and after `room` of them none. Flushing costs nothing here."""

    def __init__(self, at_a_time: int, room: int = 10**9) -> None:
        self._at_a_time, self._room = at_a_time, room

    def holds(self, size: int) -> bool:
        return size <= self._room

    def write(self, descriptor: int, data: bytes) -> int:
        taken = super().write(descriptor, data[: min(self._at_a_time, self._room)])
        self._room -= taken
        return taken

    def flush(self, descriptor: int) -> None:
        pass


@pytest.mark.case("JRN-02")
def test_however_little_a_disk_takes_at_once_what_was_acknowledged_is_whole(
    tmp_path: Path,
) -> None:
    old, new = (
        seal(PLACE, KEYS, payload, revision=number, previous=NOTHING, fence=1)
        for number, payload in enumerate((b"the first", b"the second one"), 1)
    )
    for size in range(1, len(new) + 1):
        for disk in (Grudging(size), Grudging(7, room=size)):
            file = SealedFile(folder_in(tmp_path), "journal", max_bytes=10_000, disk=disk)
            SealedFile(
                folder_in(tmp_path), "journal", max_bytes=10_000, disk=Grudging(10_000)
            ).write(old)
            if disk.holds(len(new)):
                file.write(new)
                assert file.read() == new
            else:
                with refused_with("sealed.write_failed"):
                    file.write(new)
                assert file.read() == old
        if size < len(new):
            with refused_with("sealed.malformed"):
                unseal(PLACE, KEYS, new[:size] + old)


# ── compensations ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("CMP-04")
async def test_a_refund_that_is_reported_again_is_one_and_another_one_is_a_conflict() -> None:
    both = Both()
    workflow, target = await both.intended()
    both.provider.after = lambda _: refund(1)
    async with both.channel() as channel:
        assert await workflow.compensate(channel, target) == refund(1)
        ledger, held = workflow.ledger, both.kept.records[0].compensation
        both.provider.found = lambda _: refund(2)
        said = await workflow.compensation_state(channel, target)
        assert said == TerminalRecord(refund(1))
    assert workflow.ledger is ledger
    assert held is not None
    keys = (target.operation_key, held.compensation_key)
    assert observe_compensation(both.kept, *keys, refund(1)) == both.kept
    with pytest.raises(Conflict, match=r"journal\.contradicted"):
        observe_compensation(both.kept, *keys, refund(2))
    assert both.kept.records[0].compensation == held
    assert both.provider.entered["compensate"] == 1


@pytest.mark.case("CMP-08")
async def test_a_success_that_comes_when_the_host_forgot_is_kept_and_told_for_ever() -> None:
    both, going, entered = Both(), asyncio.Event(), asyncio.Event()

    async def late(_: Call) -> None:
        entered.set()
        await going.wait()

    both.provider.before = late
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        asking = asyncio.ensure_future(workflow.dispatch(channel, key, INPUT))
        await entered.wait()
        await channel.close()
        going.set()
        with pytest.raises(OutcomeUnknown):
            await asking
    assert both.kept.records[0].state == DONE
    both.journal.payload = encode_journal(archive(both.kept, key))
    both.ledger = MemoryRecord(encode_ledger(open_ledger(PLAN)))
    forgetful = await both.workflow()
    assert await forgetful.record(INTENT) == key
    async with both.channel(WIDE) as channel:
        assert channel.proof is not None
        assert channel.proof.journal_hash == content_digest(both.journal.payload)
        assert await forgetful.dispatch(channel, key, INPUT) == without_body(DONE)
    assert forgetful.ledger.operations[0].state is LedgerState.SUCCEEDED
    assert both.provider.entered["dispatch"] == 1
    assert find_record(both.kept, key) is not None


# ── what nobody heard of ─────────────────────────────────────────────────────────────────────────


@pytest.mark.case("P5X-03")
async def test_a_success_that_came_too_late_moves_the_operation_forward_once() -> None:
    both, going = Both(), asyncio.Event()

    async def late(_: Call) -> None:
        await going.wait()

    both.provider.adapter = slow_adapter(both, late)
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        assert isinstance(await workflow.dispatch(channel, key, INPUT), Indeterminate)
    going.set()
    assert workflow.recovery(key) is Recovery.LOOK_UP_ORIGINAL
    async with both.channel(WIDE) as channel:
        assert await workflow.reconcile(channel, key) == DONE
        moved = (workflow.ledger, both.provider.entered["status"])
        assert await workflow.reconcile(channel, key) == DONE
    assert (workflow.ledger, both.provider.entered["status"]) == moved
    assert (both.provider.entered["dispatch"], both.provider.effects[key]) == (1, 1)


@pytest.mark.case("P5X-03")
async def test_a_look_up_that_never_tells_is_asked_a_bounded_number_of_times() -> None:
    both = Both()
    both.provider.after = lambda _: 7
    both.provider.found = lambda _: None
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel(WIDE) as channel:
        await workflow.dispatch(channel, key, INPUT)
    async with both.channel(MANY) as channel:
        for _ in range(LOOKUPS_OF_ENTRY):
            assert isinstance(await workflow.reconcile(channel, key), Indeterminate)
        with refused_with("worker.lookups_spent"):
            await workflow.reconcile(channel, key)
    assert both.provider.entered["status"] == LOOKUPS_OF_ENTRY
    assert workflow.recovery(key) is Recovery.LOOK_UP_ORIGINAL


@pytest.mark.case("PAG-04")
async def test_a_recovery_that_ends_after_the_first_of_three_finds_the_other_two() -> None:
    both = Both()
    both.provider.after = lambda _: 7  # nobody knows, and the session is poisoned
    workflow = await both.workflow()
    keys = []
    for number in range(3):
        intent = msgspec.structs.replace(INTENT, nonce=b"%d" % number)
        keys.append(await workflow.record(intent))
        async with both.channel(WIDE) as channel:
            assert isinstance(await workflow.dispatch(channel, keys[-1], INPUT), Indeterminate)
    async with both.channel(WIDE) as channel:
        await workflow.reconcile(channel, keys[0])
    again = await both.workflow()
    first = again.ledger
    async with both.channel(WIDE) as channel:
        assert await again.reconcile(channel, keys[0]) == DONE
        assert again.ledger is first
        for key in keys[1:]:
            assert await again.reconcile(channel, key) == DONE
    assert {one.state for one in again.ledger.operations} == {LedgerState.SUCCEEDED}
    assert set(both.provider.effects.values()) == {1}


ROUNDS: Final = 63
OPERATIONS: Final = 16


@pytest.mark.case("STK-06")
async def test_recovery_beside_new_work_of_the_same_worker_runs_nothing_twice() -> None:
    """A thousand operations, each looked up and offered again at any moment of its run."""
    for seed in range(ROUNDS):
        chance, both = random.Random(seed), Both()
        both.provider.before = lambda _: asyncio.sleep(0)
        workflow = await both.workflow()
        intents = [msgspec.structs.replace(INTENT, nonce=b"%d" % n) for n in range(OPERATIONS)]
        keys = [await workflow.record(intent) for intent in intents]
        async with both.channel(MANY, predecessor_gone=False) as channel:
            acts = [workflow.dispatch(channel, key, INPUT) for key in keys]
            acts += [workflow.reconcile(channel, key) for key in keys]
            chance.shuffle(acts)
            await asyncio.gather(*acts)
        assert [both.provider.effects[key] for key in keys] == [1] * OPERATIONS
        assert both.provider.entered["dispatch"] == OPERATIONS
