"""Version 5 against what another implementation recorded: our two sessions say the same bytes."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from amends.contracts.errors import Refused
from amends.contracts.worker_grant import Manifest
from amends.contracts.worker_messages import Message
from amends.contracts.worker_wire import decode_any, decode_record, encode_record
from amends.protocol.bootstrap import Bootstrap, SessionKey, read_bootstrap
from amends.protocol.breaking import ChannelBroken
from amends.protocol.events import Answered, Asked, AskRefused, SessionOpened
from amends.protocol.host import HostSession
from amends.protocol.lines import LineCodec
from amends.protocol.matching import outcome_of
from amends.protocol.table import SessionState
from amends.protocol.versions import Role, Version
from amends.protocol.worker import WorkerSession

HERE: Final = Path(__file__).parent
RECORDED: Final[Any] = json.loads((HERE / "worker-v5-recorded.json").read_text("utf-8"))
COMPUTED: Final[Any] = json.loads((HERE / "worker-v5.json").read_text("utf-8"))
SESSION: Final = RECORDED["session"]
NEGATIVE: Final = RECORDED["negative"]

BREAKS: Final = {
    "wrong_tag": "channel.not_authentic",
    "wrong_sequence_gap": "channel.out_of_sequence",
    "wrong_session_key": "channel.not_authentic",
    "uppercase_tag": "channel.malformed",
    "upper_case_operation_key": "channel.not_authentic",
}
REFUSES: Final = {
    "changed_grant_fingerprint": "worker.grant_mismatch",
    "wrong_tenant_scope_on_existing": "worker.tenant_mismatch",
    "duplicate_request_id": "worker.request_repeated",
    "compensation_input_too_large": "worker.input_too_large",
}
LEFT_TO_THE_JOURNAL: Final = {
    "changed_compensation_input",
    "compensation_of_failed_operation",
    "changed_operation_input",
}


def line(frame: str) -> bytes:
    return frame.encode() + b"\n"


def sessions(session_id: str, key: str) -> tuple[HostSession, WorkerSession]:
    bootstrap = Bootstrap(session_id, SessionKey(bytes.fromhex(key)), Version.LINES)
    manifest = decode_record(SESSION["manifest_json"].encode(), Manifest, max_bytes=10_000)
    tenant = SESSION["tenant_scope"]
    return (
        HostSession(bootstrap, manifest.grants, tenant_scope=tenant),
        WorkerSession(bootstrap, tenant_scope=tenant),
    )


def replay(host: HostSession, worker: WorkerSession, steps: list[Any]) -> None:
    """Both sides play the recording, and each makes the other's recorded frames itself."""
    for step in steps:
        frame = line(step["host_frame"])
        worker.feed(frame)
        event = worker.next_event()
        if step["worker_frame"] is None:
            assert isinstance(event, SessionOpened)
            assert host.open_session() == frame
            continue
        assert isinstance(event, Asked)
        assert host.ask(event.message) == frame
        host.feed(line(step["worker_frame"]))
        answered = host.next_event()
        assert isinstance(answered, Answered)
        outcome = outcome_of(answered.answer)
        assert outcome is not None
        request_id = event.message.request.request_id
        worker.charge(request_id)
        assert worker.answer(request_id, outcome) == line(step["worker_frame"])


@pytest.mark.rule("FR-1", "FR-4")
def test_a_recorded_conversation_is_ours_byte_for_byte() -> None:
    host, worker = sessions(SESSION["session_id"], SESSION["session_key_hex"])
    replay(host, worker, RECORDED["conversation"])
    assert host.state is worker.state is SessionState.OPEN
    assert host.waiting == worker.waiting == ()


@pytest.mark.rule("FR-3")
def test_the_recorded_bootstrap_is_read_and_written_alike() -> None:
    recorded = RECORDED["bootstrap"]
    bootstrap = read_bootstrap(bytes.fromhex(recorded["hex"]))
    key = SessionKey(bytes.fromhex(recorded["session_key_hex"]))
    assert bootstrap == Bootstrap(recorded["session_id"], key, Version.LINES)
    assert bootstrap.preamble().hex() == recorded["hex"]


@pytest.mark.rule("FR-1")
@pytest.mark.parametrize("frame", COMPUTED["frames"], ids=lambda frame: frame["session_id"])
def test_a_computed_frame_has_its_tag(frame: Any) -> None:
    key = SessionKey(bytes.fromhex(frame["session_key_hex"]))
    codec = LineCodec(Bootstrap(frame["session_id"], key, Version.LINES), Role(frame["sender"]))
    message = json.dumps(frame["message"], separators=(",", ":")).encode()
    sealed = json.loads(codec.seal(message))
    assert sealed == {
        "sequence": frame["sequence"],
        "message": frame["message"],
        "auth_tag": frame["auth_tag"],
    }


@pytest.mark.rule("FR-4")
@pytest.mark.parametrize("one", NEGATIVE, ids=lambda one: one["name"])
def test_every_recorded_refusal_of_the_channel_is_a_refusal_of_ours(one: Any) -> None:
    """But for what only a journal can know, which passes here and is refused there."""
    host, worker = sessions(one["session_id"], one["session_key_hex"])
    replay(host, worker, one["prefix"])
    worker.feed(line(one["frame"]))
    if one["name"] in BREAKS:
        with pytest.raises(ChannelBroken) as caught:
            worker.next_event()
        assert caught.value.code == BREAKS[one["name"]]
        assert worker.state is SessionState.POISONED
        return
    event = worker.next_event()
    assert worker.state is SessionState.OPEN
    if one["name"] in LEFT_TO_THE_JOURNAL:
        assert isinstance(event, Asked)
    else:
        assert isinstance(event, AskRefused)
        assert (event.error.code, event.reply) == (REFUSES[one["name"]], b"")


def test_the_recorded_refusals_are_all_sorted() -> None:
    names = {one["name"] for one in NEGATIVE}
    assert names == BREAKS.keys() | REFUSES.keys() | LEFT_TO_THE_JOURNAL


def test_every_recorded_message_is_read_and_written_alike() -> None:
    frames = [
        frame
        for step in [*RECORDED["conversation"], *(s for one in NEGATIVE for s in one["prefix"])]
        for frame in (step["host_frame"], step["worker_frame"])
        if frame
    ]
    for frame in frames:
        message = frame[frame.index('"message":') + 10 : frame.rindex(',"auth_tag"')].encode()
        read = decode_any(message, Message, max_bytes=1_048_576)
        assert encode_record(read) == message


def test_a_key_in_upper_case_is_refused_in_an_authentic_frame_too() -> None:
    frame = next(one for one in NEGATIVE if one["name"] == "upper_case_operation_key")["frame"]
    message = frame[frame.index('"message":') + 10 : frame.rindex(',"auth_tag"')].encode()
    with pytest.raises(Refused, match="operation_key_invalid"):
        decode_any(message, Message, max_bytes=1_048_576)


def takes(codec: LineCodec, data: bytes) -> bool:
    try:
        return codec.open(bytearray(data)) is not None
    except ChannelBroken:
        return False
    finally:
        codec._scanned = 0  # the next trial is another buffer


@pytest.mark.rule("FR-1", "FR-4")
@pytest.mark.case("BIG-03")
@pytest.mark.fault(55)
@pytest.mark.parametrize("side", ["host_frame", "worker_frame"])
def test_no_altered_byte_of_the_recorded_conversation_is_taken(side: str) -> None:
    """Each byte flipped, left out, and with another before it; frames swapped and cut out."""
    frames = [line(step[side]) for step in RECORDED["conversation"] if step[side]]
    key = SessionKey(bytes.fromhex(SESSION["session_key_hex"]))
    receiver = Role.WORKER if side == "host_frame" else Role.HOST
    codec = LineCodec(Bootstrap(SESSION["session_id"], key, Version.LINES), receiver)
    for number, frame in enumerate(frames):
        for at, byte in enumerate(frame):
            before, after = frame[:at], frame[at + 1 :]
            assert not takes(codec, before + bytes([byte ^ 1]) + after)
            assert not takes(codec, before + after)
            assert not takes(codec, before + b"x" + frame[at:])
        assert not any(takes(codec, later) for later in frames[number + 1 :])
        assert takes(codec, frame)
