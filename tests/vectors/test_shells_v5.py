"""The worker's shell in the place of the implementation that was recorded, and a v5 pair of ours.

The shell is given the recorded host's frames and has to answer with the recorded worker's frames,
enter its adapters as often, and leave the recorded journal behind, byte for byte.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from amends.contracts.errors import AmendsError, PeerViolation, Refused
from amends.contracts.persistence import DurableRecord
from amends.contracts.worker_payload import Running, Status, Succeeded
from amends.contracts.worker_wire import decode_any
from amends.journal.capacity import LIMITS_5
from amends.journal.document import encode_journal
from amends.journal.records import FORMAT_5, open_journal
from amends.ledger.recovery import Recovery
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.versions import Version
from amends.testing.durable import MemoryRecord, MemorySessions
from amends.testing.wires import make_wire
from amends.worker.adapters import Adapter, AdapterContract, Adapters, Call, LookUp
from amends.worker.shell import JournalAccess, WorkerShell
from tests.unit.worker.stage import DONE, GRANT, INPUT, INTENT, INVERSE, NONCE, SCOPE, Both

RECORDED: Final[Any] = json.loads(
    Path(__file__).with_name("worker-v5-recorded.json").read_text("utf-8")
)
SESSION: Final = RECORDED["session"]
TOOLS: Final = ("release.publish", "note.write", "status.read")
BROKEN: Final = {
    "wrong_tag",
    "wrong_sequence_gap",
    "wrong_session_key",
    "uppercase_tag",
    "upper_case_operation_key",
}


class Recording:
    """Adapters that report what the recorded worker answered, and count how often."""

    def __init__(self, steps: list[Any]) -> None:
        self.statuses = dict(filter(None, map(_status, steps)))
        self.entered = {"dispatch": 0, "compensate": 0, "reconcile": 0}

    def adapters(self) -> Adapters:
        return Adapters(*map(self._adapter, TOOLS))

    def _adapter(self, tool: str) -> Adapter:
        adapter = Adapter(tool, contract=AdapterContract.RECONCILIATION)
        adapter.dispatch(self.dispatch)
        adapter.compensate(self.compensate)
        adapter.status(self.find)
        adapter.compensation_status(self.find_inverse)
        return adapter

    async def dispatch(self, call: Call) -> Status:
        self.entered["dispatch"] += 1
        return self.statuses[call.key]

    async def compensate(self, call: Call) -> Status:
        self.entered["compensate"] += 1
        return self.statuses[call.key]

    async def find(self, _: LookUp) -> None:
        self.entered["reconcile"] += 1

    async def find_inverse(self, _: LookUp) -> None:
        self.entered["reconcile"] += 1


def _status(step: Mapping[str, Any]) -> tuple[str, Status] | None:
    if step["worker_frame"] is None:
        return None
    result = json.loads(step["worker_frame"])["message"]["result"]
    text = step["worker_frame"]
    body = text[text.index('"status":') + 9 : text.rindex('}},"auth_tag"')].encode()
    status: Status = decode_any(body, Status, max_bytes=1_000_000)
    return result.get("compensation_key") or result["operation_key"], status


class Play:
    """One shell on a wire, which is given recorded frames."""

    def __init__(self, session_id: str, key: str, steps: list[Any]) -> None:
        self.recording = Recording(steps)
        journal = open_journal(SESSION["tenant_scope"], format_version=FORMAT_5)
        self.journal = MemoryRecord(encode_journal(journal))
        self.opened = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.host, worker = make_wire()
        self.shell = WorkerShell(
            worker,
            Bootstrap(session_id, SessionKey(bytes.fromhex(key)), Version.LINES),
            self.recording.adapters(),
            JournalAccess(
                scope=SESSION["tenant_scope"],
                open=self._open,
                used=MemorySessions(),
                limits=LIMITS_5,
            ),
        )
        self.running = asyncio.ensure_future(self.shell.run())

    def _open(self) -> DurableRecord:
        self._loop.call_soon_threadsafe(self.opened.set)
        return self.journal.open()

    async def step(self, step: Mapping[str, Any]) -> None:
        before = dict(self.recording.entered)
        await self.host.send(step["host_frame"].encode() + b"\n")
        if step["worker_frame"] is not None:
            assert await self.host.receive() == step["worker_frame"].encode() + b"\n"
        await self.opened.wait()
        if "adapter_calls" in step:
            calls = {kind: n - before[kind] for kind, n in self.recording.entered.items()}
            assert calls == step["adapter_calls"]
        if "journal_json" in step:
            assert self.journal.payload.decode() == step["journal_json"]
            assert self.journal.revision - 1 == step["journal_revision"]


@pytest.mark.rule("FR-4", "WJ-1", "WS-1")
async def test_the_shell_takes_the_place_of_the_recorded_worker() -> None:
    steps = RECORDED["conversation"]
    play = Play(SESSION["session_id"], SESSION["session_key_hex"], steps)
    for step in steps:
        await play.step(step)
    await play.host.close()
    await play.running


@pytest.mark.rule("FR-4", "FR-6")
@pytest.mark.parametrize("one", RECORDED["negative"], ids=lambda one: one["name"])
async def test_every_recorded_refusal_enters_no_handler_and_leaves_the_recorded_journal(
    one: Any,
) -> None:
    play = Play(one["session_id"], one["session_key_hex"], one["prefix"])
    for step in one["prefix"]:
        await play.step(step)
    entered = dict(play.recording.entered)
    await play.host.send(one["frame"].encode() + b"\n")
    with pytest.raises(AmendsError) as caught:
        await play.running
    assert isinstance(caught.value, PeerViolation if one["name"] in BROKEN else Refused)
    assert play.recording.entered == entered
    assert play.journal.payload.decode() == one["journal_json_after"]
    assert play.journal.revision - 1 == one["journal_revision_after"]
    assert await play.host.receive() == b""


@pytest.mark.rule("FR-4", "WS-1", "PM-6")
async def test_a_pair_of_ours_plays_the_whole_sequence_in_version_5() -> None:
    both = Both(Version.LINES)
    workflow, key = await both.succeeded()
    target = workflow.target(key, SCOPE, GRANT, INVERSE)
    await workflow.record_compensation(target, NONCE)
    async with both.channel() as channel:
        assert isinstance(await workflow.compensate(channel, target), Succeeded)
        assert await workflow.reconcile(channel, key) == DONE
    assert workflow.recovery(key) is Recovery.REPORT
    assert both.provider.effects.total() == 2
    assert b'"head"' not in both.journal.payload


async def test_version_5_closes_the_channel_where_it_has_no_words() -> None:
    both = Both(Version.LINES)
    both.provider.after = lambda _: 7
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    for _ in range(2):
        async with both.channel() as channel:
            with pytest.raises(AmendsError, match="no_answer"):
                await workflow.dispatch(channel, key, INPUT)
        both.provider.found = lambda _: None
    assert both.ends is not None
    assert both.ends.code == "worker.status_unknown_to_version"
    assert both.provider.entered["dispatch"] == 1


async def test_version_5_says_of_what_runs_that_it_runs() -> None:
    both = Both(Version.LINES)
    both.provider.after = lambda _: Running()
    both.provider.found = lambda _: None
    workflow = await both.workflow()
    key = await workflow.record(INTENT)
    async with both.channel() as channel:
        assert await workflow.dispatch(channel, key, INPUT) == Running()
    async with both.channel() as channel:
        assert await workflow.reconcile(channel, key) == Running()


def test_the_answers_of_the_recording_are_read() -> None:
    assert len(Recording(RECORDED["conversation"]).statuses) == 6
