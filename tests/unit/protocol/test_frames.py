"""Frames of both versions, with every bit changed, every end cut off, and in every wrong order.

Every frame of a conversation in which every kind of message passes is tried. A codec that refuses
stays where it was, which is what lets one codec try them all.
"""

import json
from typing import Any

import pytest

from amends.contracts.worker_wire import encode_record
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.breaking import ChannelBroken
from amends.protocol.greeting import derive_keys, transcript_of
from amends.protocol.lines import LineCodec
from amends.protocol.records import HEADER, RecordCodec
from amends.protocol.table import MessageKind, SessionState
from amends.protocol.versions import Role, Version
from tests.unit.protocol.pair import (
    COMPENSATION,
    KEY,
    OPERATION,
    SESSION,
    TENANT,
    Pair,
    bootstrap,
    conversation,
    host_session,
    message_of,
    opened,
    worker_session,
)

LINES, SEALED = Version.LINES, Version.SEALED
TALKS = {version: conversation(version) for version in Version}
GREETING_FRAMES = 2


def frames_of(version: Version, sender: Role) -> list[bytes]:
    """What this side sent, without the greetings, which are not sealed."""
    skipped = 0 if version is LINES else 1
    return [frame for host, frame in TALKS[version] if host is (sender is Role.HOST)][skipped:]


def codec_for(
    version: Version, receiver: Role, key: SessionKey = KEY, session: str = SESSION
) -> LineCodec | RecordCodec:
    if version is LINES:
        return LineCodec(Bootstrap(session, key, version), receiver)
    hellos = [frame for _, frame in TALKS[version][:GREETING_FRAMES]]
    return RecordCodec(derive_keys(key, transcript_of(*hellos)), session, receiver)


def takes(codec: LineCodec | RecordCodec, data: bytes) -> bool:
    """Whether the codec takes a message out of these bytes; waiting for more is no."""
    try:
        return codec.open(bytearray(data)) is not None
    except ChannelBroken:
        return False
    finally:
        if isinstance(codec, LineCodec):
            codec._scanned = 0  # the next trial is another buffer


def flips(frame: bytes) -> Any:
    for index, byte in enumerate(frame):
        for bit in range(8):
            yield frame[:index] + bytes([byte ^ 1 << bit]) + frame[index + 1 :]


@pytest.mark.rule("FR-1", "FR-5")
@pytest.mark.fault(55)
@pytest.mark.parametrize("sender", Role)
@pytest.mark.parametrize("version", Version)
def test_every_flipped_bit_and_every_truncation_of_every_frame_is_refused(
    version: Version, sender: Role
) -> None:
    codec = codec_for(version, sender.other)
    for frame in frames_of(version, sender):
        assert not any(takes(codec, changed) for changed in flips(frame))
        assert not any(takes(codec, frame[:end]) for end in range(len(frame)))
        assert takes(codec, frame)


@pytest.mark.rule("FR-1")
@pytest.mark.parametrize("sender", Role)
def test_every_other_byte_in_a_line_is_refused(sender: Role) -> None:
    frame = codec_for(LINES, sender).seal(b'{"type":"cancel"}')
    codec = codec_for(LINES, sender.other)
    for index in range(len(frame)):
        others = (frame[:index] + bytes([byte]) + frame[index + 1 :] for byte in range(256))
        assert sum(takes(codec, other) for other in others if other != frame) == 0


@pytest.mark.rule("FR-1", "FR-5")
@pytest.mark.fault(55)
@pytest.mark.parametrize("sender", Role)
@pytest.mark.parametrize("version", Version)
def test_replay_reorder_drop_and_reflection_are_refused(version: Version, sender: Role) -> None:
    frames = frames_of(version, sender)
    receiver, own = codec_for(version, sender.other), codec_for(version, sender)
    for number, frame in enumerate(frames):
        later = frames[number + 1 :]
        assert not any(takes(receiver, other) for other in later), "out of order, or one was lost"
        assert takes(receiver, frame)
        assert not any(takes(receiver, old) for old in frames[: number + 1]), "once more"
        assert not takes(own, frame), "sent back"


@pytest.mark.rule("FR-1", "FR-5")
@pytest.mark.fault(56)
@pytest.mark.parametrize("sender", Role)
@pytest.mark.parametrize("version", Version)
def test_frames_of_another_session_or_key_are_refused(version: Version, sender: Role) -> None:
    frame = frames_of(version, sender)[0]
    assert takes(codec_for(version, sender.other), frame)
    assert not takes(codec_for(version, sender.other, session="session-2"), frame)
    assert not takes(codec_for(version, sender.other, SessionKey(b"k" * 32)), frame)


def test_the_two_directions_have_two_keys() -> None:
    keys = derive_keys(KEY, transcript_of(b"a", b"b"))
    others = [derive_keys(KEY, transcript_of(*two)) for two in ((b"ab", b""), (b"b", b"a"))]
    assert len({keys.host, keys.worker, *(key for pair in others for key in pair)}) == 6


@pytest.mark.rule("FR-1")
def test_a_correct_frame_with_a_wrong_number_advances_nothing() -> None:
    sender, receiver = codec_for(LINES, Role.HOST), codec_for(LINES, Role.WORKER)
    first, second = sender.seal(b"{}"), sender.seal(b"{}")
    with pytest.raises(ChannelBroken) as caught:
        receiver.open(bytearray(second))
    assert caught.value.code == "channel.out_of_sequence"
    assert takes(receiver, first)


@pytest.mark.rule("FR-1")
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.replace(b'"message":', b'"message": '),
        lambda frame: frame.replace(b'"sequence":1', b'"sequence":01'),
        lambda frame: frame.replace(b'"sequence":1', b'"sequence":1.0'),
        lambda frame: b" " + frame,
        lambda frame: frame[:-1] + b"\r\n",
        lambda frame: json.dumps(json.loads(frame)).encode() + b"\n",
        lambda frame: b"\n" + frame,
    ],
)
def test_a_line_has_one_form(change: Any) -> None:
    frame = codec_for(LINES, Role.HOST).seal(b'{"type":"cancel"}')
    with pytest.raises(ChannelBroken) as caught:
        codec_for(LINES, Role.WORKER).open(bytearray(change(frame)))
    assert caught.value.code == "channel.malformed"


FIELDS = {
    "tenant scope": (TENANT.encode(), b"tenant-b"),
    "tool": (b'"tool":"pay"', b'"tool":"note"'),
    "operation key": (OPERATION.encode(), b"op-" + b"9" * 64),
    "compensation key": (COMPENSATION.encode(), b"cmp-" + b"9" * 64),
    "input": (b'"amount":5', b'"amount":6'),
    "grant fingerprint": (b'"grant_fingerprint":"', b'"grant_fingerprint":"0'),
    "session id": (b'"session-1"', b'"session-2"'),
    "version": (b'"protocol_version":5', b'"protocol_version":6'),
    "request id": (b'"r-1"', b'"r-2"'),
    "type": (b'"compensate_operation"', b'"dispatch_operation"'),
    "number": (b'"sequence":2', b'"sequence":3'),
}


@pytest.mark.rule("FR-1", "FR-6")
@pytest.mark.case("FRM-01")
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_was_swapped_in_a_sealed_frame_is_refused_unread(field: str) -> None:
    pair = opened(LINES)
    frame = pair.host.ask(message_of(MessageKind.COMPENSATE_OPERATION, LINES))
    swapped = frame.replace(*FIELDS[field])
    assert swapped != frame
    pair.worker.feed(swapped)
    with pytest.raises(ChannelBroken) as caught:
        pair.worker.next_event()
    assert caught.value.code == "channel.not_authentic"
    assert (pair.worker.waiting, pair.worker.state) == ((), SessionState.POISONED)


@pytest.mark.rule("FR-5", "FR-6")
@pytest.mark.case("FRM-01")
def test_a_byte_that_was_swapped_in_a_sealed_record_is_refused_unread() -> None:
    length = len(opened().host.ask(message_of(MessageKind.COMPENSATE_OPERATION)))
    for index in range(HEADER.size, length, 7):
        pair = opened()
        frame = bytearray(pair.host.ask(message_of(MessageKind.COMPENSATE_OPERATION)))
        frame[index] ^= 0x20
        pair.worker.feed(bytes(frame))
        with pytest.raises(ChannelBroken) as caught:
            pair.worker.next_event()
        assert caught.value.code == "channel.not_authentic"
        assert (pair.worker.waiting, pair.worker.state) == ((), SessionState.POISONED)


@pytest.mark.rule("FR-5")
@pytest.mark.fault(55, 57)
def test_no_session_comes_of_a_greeting_with_a_flipped_bit() -> None:
    hello = host_session().start()
    reply = worker_session()
    reply.feed(hello)
    event: Any = reply.next_event()
    for changed in flips(hello):
        assert not _proves_host(changed)
    for changed in flips(event.reply):
        assert not _proves_worker(changed)


def _proves_host(hello: bytes) -> bool:
    """Whether a worker that got this greeting takes the host for the host."""
    host, worker = host_session(), worker_session()
    host.start()
    try:
        worker.feed(hello)
        greeted: Any = worker.next_event()
        if greeted is None:
            return False
        host.feed(greeted.reply)
        finished: Any = host.next_event()
        worker.feed(finished.reply)
        return worker.next_event() is not None
    except ChannelBroken:
        return False


def _proves_worker(reply: bytes) -> bool:
    """Whether a host that got this answer is taken for the host by the worker that sent another."""
    pair = Pair()
    pair.to_worker(pair.host.start())
    try:
        pair.host.feed(reply)
        finished: Any = pair.host.next_event()
        return finished is not None and pair.to_worker(finished.reply) is not None
    except ChannelBroken:
        return False


@pytest.mark.rule("FR-4", "FR-5")
@pytest.mark.fault(57)
@pytest.mark.parametrize(
    "change",
    [
        (b'"versions":[6]', b'"versions":[5]'),
        (b'"versions":[6]', b'"versions":[5,6]'),
        (b'"versions":[6]', b'"versions":[]'),
        (b"session-1", b"session-2"),
        (TENANT.encode(), b"tenant-b"),
    ],
)
def test_a_greeting_for_something_else_is_refused(change: tuple[bytes, bytes]) -> None:
    hello = host_session().start()
    body = hello[6:].replace(*change)
    worker = worker_session()
    worker.feed(hello[:2] + len(body).to_bytes(4, "big") + body)
    with pytest.raises(ChannelBroken) as caught:
        worker.next_event()
    assert caught.value.code == "channel.session_mismatch"


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b'{"nonce":"x"}'])
def test_a_greeting_that_cannot_be_read_is_refused(body: bytes) -> None:
    worker = worker_session()
    worker.feed(b"\x06\x01" + len(body).to_bytes(4, "big") + body)
    with pytest.raises(ChannelBroken) as caught:
        worker.next_event()
    assert caught.value.code == "channel.message_malformed"


@pytest.mark.parametrize("field", ["nonce", "session_id", "tenant_scope", "manifest_fingerprint"])
def test_a_greeting_with_a_field_that_has_not_its_form_is_refused(field: str) -> None:
    hello = json.loads(host_session().start()[HEADER.size :])
    body = json.dumps(hello | {field: "No Token"}, separators=(",", ":")).encode()
    worker = worker_session()
    worker.feed(b"\x06\x01" + len(body).to_bytes(4, "big") + body)
    with pytest.raises(ChannelBroken) as caught:
        worker.next_event()
    assert caught.value.code == "channel.message_malformed"


@pytest.mark.parametrize(
    ("field", "value"),
    [("fence", -1), ("fence", 2**63), ("journal_revision", -1), ("journal_hash", "no hash")],
)
def test_a_proof_of_a_worker_with_a_field_that_has_not_its_form_is_refused(
    field: str, value: object
) -> None:
    pair = Pair()
    finished = pair.to_host(pair.to_worker(pair.host.start()).reply).reply
    pair.to_worker(finished)
    codec: Any = pair.worker._codec
    written = json.loads(encode_record(message_of(MessageKind.WORKER_FINISHED)))
    pair.host.feed(codec.seal(json.dumps(written | {field: value}).encode()))
    with pytest.raises(ChannelBroken) as caught:
        pair.host.next_event()
    assert caught.value.code == "channel.message_malformed"


@pytest.mark.rule("FR-5")
def test_a_greeting_that_is_sent_back_or_echoed_is_refused() -> None:
    host = host_session()
    hello = host.start()
    host.feed(hello)
    with pytest.raises(ChannelBroken):
        host.next_event()
    host, worker = host_session(), worker_session()
    worker._nonce = b"h" * 32  # what an echo would need the worker to have drawn
    worker.feed(host.start())
    with pytest.raises(ChannelBroken) as caught:
        worker.next_event()
    assert caught.value.code == "channel.session_mismatch"


@pytest.mark.rule("FR-5")
def test_a_worker_that_greets_for_another_manifest_is_refused() -> None:
    pair = Pair()
    reply = pair.to_worker(pair.host.start()).reply
    start = reply.index(b'"manifest_fingerprint":"') + 24
    pair.host.feed(reply[:start] + b"0" * 64 + reply[start + 64 :])
    with pytest.raises(ChannelBroken) as caught:
        pair.host.next_event()
    assert caught.value.code == "channel.session_mismatch"


@pytest.mark.rule("FR-4")
@pytest.mark.fault(57)
def test_neither_version_takes_a_frame_of_the_other() -> None:
    for receiver, frame in (
        (worker_session(LINES), host_session().start() + b"\n"),
        (worker_session(), host_session(LINES).open_session()),
    ):
        receiver.feed(frame)
        with pytest.raises(ChannelBroken) as caught:
            receiver.next_event()
        assert caught.value.code == "channel.malformed"
    assert bootstrap(LINES).preamble() != bootstrap(SEALED).preamble()
