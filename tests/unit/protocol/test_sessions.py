"""Sessions of both roles: how they begin, what they take in which state, what poisons them."""

import pickle
from typing import Any

import pytest

from amends.contracts.errors import AmendsError, Misuse, PeerViolation, Refused
from amends.contracts.worker_grant import CapabilityGrant, Manifest
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import (
    CloseSession,
    Indeterminate,
    NoRecord,
    OpenSession,
    TerminalRecord,
)
from amends.contracts.worker_payload import (
    Cancelled,
    Failed,
    Pending,
    Running,
    Succeeded,
    SucceededOversize,
    ToolPayload,
)
from amends.protocol.bootstrap import Bootstrap, SessionKey
from amends.protocol.breaking import ChannelBroken
from amends.protocol.events import (
    Answered,
    Asked,
    AskRefused,
    Greeted,
    HostProved,
    SessionClosed,
    SessionOpened,
    WorkerProved,
)
from amends.protocol.host import HostSession
from amends.protocol.matching import answer_to, kind_of
from amends.protocol.session import Session
from amends.protocol.table import MessageKind, SessionState, following
from amends.protocol.versions import MAX_FRAME, Role, Version
from amends.protocol.worker import WorkerSession
from tests.unit.protocol.pair import (
    ANSWERS,
    GRANTS,
    HASH,
    ORDER,
    REQUESTS,
    SESSION,
    TENANT,
    Pair,
    bootstrap,
    changed,
    conversation,
    forged,
    greet,
    host_session,
    message_of,
    opened,
    outcome_for,
    pair_at,
    worker_session,
)

S, K = SessionState, MessageKind
SEALED_ONLY = {K.COMPENSATION_STATE_REQUEST, K.COMPENSATION_STATE, K.REJECTED}
GREETINGS = {K.HOST_HELLO, K.WORKER_HELLO}


def code_of(call: Any) -> str:
    with pytest.raises(AmendsError) as caught:
        call()
    return caught.value.code


def broken_by(session: Session, frame: bytes) -> ChannelBroken:
    """What the frame breaks; and from then on nothing passes."""
    session.feed(frame)
    with pytest.raises(ChannelBroken) as caught:
        session.next_event()
    assert session.state is S.POISONED
    for call in (session.next_event, session.end, lambda: session.feed(b"")):
        assert code_of(call) == "channel.poisoned"
    return caught.value


def requests_of(version: Version) -> list[MessageKind]:
    return [k for k in REQUESTS if version is Version.SEALED or k not in SEALED_ONLY]


# ── the beginning ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("FR-5", "WS-4")
def test_a_session_of_version_6_greets_proves_and_opens_in_order() -> None:
    pair = Pair()
    states = [pair.host.state]
    greeted = pair.to_worker(pair.host.start())
    assert isinstance(greeted, Greeted)
    finished = pair.to_host(greeted.reply)
    assert isinstance(finished, Greeted)
    assert pair.to_worker(finished.reply) == HostProved()
    states.append(pair.worker.state)
    assert pair.to_host(pair.prove()) == WorkerProved(4, 9, HASH)
    states.append(pair.host.state)
    assert pair.to_worker(pair.host.open_session()) == SessionOpened(pair.host.manifest)
    assert [*states, pair.worker.state] == [S.HOST_HELLO, S.WORKER_FINISHED, S.READY, S.OPEN]


def test_a_session_of_version_5_begins_with_its_manifest() -> None:
    pair = Pair(Version.LINES)
    assert pair.to_worker(pair.host.open_session()) == SessionOpened(pair.host.manifest)
    assert code_of(host_session(Version.LINES).start) == "misuse.channel_state"


def test_bytes_may_come_one_at_a_time_or_all_at_once() -> None:
    pair = opened()
    for byte in pair.host.ask(message_of(K.INVOKE)):
        assert pair.worker.next_event() is None
        pair.worker.feed(bytes([byte]))
    assert isinstance(pair.worker.next_event(), Asked)
    frames = [pair.host.ask(message_of(K.CANCEL, request_id=f"r-{n}")) for n in (2, 3)]
    pair.worker.feed(b"".join(frames))
    assert isinstance(pair.worker.next_event(), Asked)
    assert isinstance(pair.worker.next_event(), Asked)
    assert pair.worker.next_event() is None


@pytest.mark.parametrize("nonce", [b"", b"x" * 31])
def test_a_greeting_takes_a_whole_nonce(nonce: bytes) -> None:
    boot = bootstrap()
    for make in (
        lambda: HostSession(boot, GRANTS, tenant_scope=TENANT, nonce=nonce),
        lambda: WorkerSession(boot, tenant_scope=TENANT, nonce=nonce),
    ):
        assert code_of(make) == "misuse.channel_nonce"


# ── what each kind of request leads to ───────────────────────────────────────────────────────────


@pytest.mark.rule("FR-2")
@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_request_is_asked_charged_and_answered(version: Version, answer: MessageKind) -> None:
    if version is Version.LINES and answer in SEALED_ONLY:
        pair = opened(version)
        refused = message_of(ANSWERS[answer], version)
        assert code_of(lambda: pair.host.ask(refused)) == "misuse.channel_state"
        return
    pair = opened(version)
    message, outcome = message_of(ANSWERS[answer], version), outcome_for(answer)
    assert pair.ask(message) == Asked(message)
    assert pair.host.waiting == pair.worker.waiting == ("r-1",)
    pair.worker.charge("r-1")
    answered = pair.to_host(pair.worker.answer("r-1", outcome))
    assert isinstance(answered, Answered)
    assert answered.message == message
    assert answered.answer.result.request_id == "r-1"
    assert [*pair.host.waiting, *pair.worker.waiting] == []


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (K.DISPATCH_OPERATION, Running()),
        (K.DISPATCH_OPERATION, Failed("no")),
        (K.DISPATCH_OPERATION, Cancelled()),
        (K.DISPATCH_OPERATION, SucceededOversize(HASH, 999)),
        (K.DISPATCH_OPERATION, Indeterminate()),
        (K.COMPENSATE_OPERATION, Indeterminate()),
        (K.RECONCILE_OPERATION, NoRecord()),
        (K.COMPENSATION_STATE_REQUEST, Pending()),
        (K.COMPENSATION_STATE_REQUEST, Running()),
        (K.COMPENSATION_STATE_REQUEST, Indeterminate()),
        (K.COMPENSATION_STATE_REQUEST, TerminalRecord(Failed("no"))),
        (K.COMPENSATION_STATE_REQUEST, TerminalRecord(Succeeded(ToolPayload.json({})))),
        (K.CANCEL, False),
    ],
)
def test_version_6_can_say_every_outcome(kind: MessageKind, outcome: Any) -> None:
    assert isinstance(opened().answered(message_of(kind), outcome), Answered)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (K.DISPATCH_OPERATION, True),
        (K.DISPATCH_OPERATION, NoRecord()),
        (K.DISPATCH_OPERATION, Pending()),
        (K.CANCEL, Running()),
        (K.COMPENSATION_STATE_REQUEST, Failed("no")),
    ],
)
def test_an_outcome_that_is_no_answer_is_a_misuse(kind: MessageKind, outcome: Any) -> None:
    pair = opened()
    pair.ask(message_of(kind))
    pair.worker.charge("r-1")
    assert code_of(lambda: pair.worker.answer("r-1", outcome)) == "misuse.answer_kind"
    assert pair.worker.waiting == ("r-1",)


@pytest.mark.parametrize("outcome", [SucceededOversize(HASH, 999), Indeterminate()])
def test_version_5_has_no_word_for_what_it_does_not_know(outcome: Any) -> None:
    pair = opened(Version.LINES)
    pair.ask(message_of(K.DISPATCH_OPERATION, Version.LINES))
    pair.worker.charge("r-1")
    code = code_of(lambda: pair.worker.answer("r-1", outcome))
    assert code == "worker.status_unknown_to_version"
    assert isinstance(pair.to_host(pair.worker.answer("r-1", Running())), Answered)


@pytest.mark.rule("FR-5")
@pytest.mark.parametrize("version", Version)
def test_a_head_is_there_exactly_in_version_6(version: Version) -> None:
    pair, other = opened(version), Version.LINES if version is Version.SEALED else Version.SEALED
    wrong = message_of(K.DISPATCH_OPERATION, other)
    request: Any = wrong.request
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    message = type(wrong)(type(request)(**fields | {"protocol_version": version.value}))
    assert code_of(lambda: pair.host.ask(message)) == "worker.head_required"
    broken = broken_by(pair.worker, forged(pair.host, message))
    assert broken.code == "channel.message_malformed"
    assert broken.details == {"reason": "worker.head_required"}


@pytest.mark.fault(61)
@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (ToolPayload.text("x"), "worker.format_not_granted"),
        (ToolPayload.json(["x" * 99]), "worker.output_too_large"),
    ],
)
@pytest.mark.parametrize("version", Version)
def test_an_output_beyond_the_grant_is_refused_by_both_sides(
    version: Version, payload: ToolPayload, code: str
) -> None:
    pair, message = opened(version), message_of(K.DISPATCH_OPERATION, version)
    pair.ask(message)
    pair.worker.charge("r-1")
    assert code_of(lambda: pair.worker.answer("r-1", Succeeded(payload))) == code
    lie = forged(pair.worker, answer_to(message, Succeeded(payload)))
    assert broken_by(pair.host, lie).details == {"reason": code}


# ── refusals: the channel stays whole, and nothing is spent ──────────────────────────────────────


@pytest.mark.rule("GR-6")
def test_a_refusal_of_the_worker_is_told_and_spends_nothing() -> None:
    pair = opened()
    wrong = message_of(K.DISPATCH_OPERATION)
    wrong = type(wrong)(changed(wrong.request, tool="refund"))
    event = pair.to_worker(forged(pair.host, wrong))
    assert isinstance(event, AskRefused)
    assert (event.message, event.error.code) == (wrong, "worker.tool_not_granted")
    assert pair.worker.waiting == ()
    assert isinstance(pair.ask(message_of(K.DISPATCH_OPERATION)), Asked)


@pytest.mark.rule("FR-5", "GR-6")
def test_a_rejected_request_ends_and_gives_its_id_back_unless_it_was_charged() -> None:
    pair = opened()
    message = message_of(K.DISPATCH_OPERATION)
    pair.ask(message)
    event = pair.to_host(pair.worker.reject("r-1", "worker.calls_spent"))
    assert event.answer.result.code == "worker.calls_spent"
    assert pair.host.waiting == pair.worker.waiting == ()
    assert isinstance(pair.to_worker(forged(pair.host, message)), Asked)
    pair.worker.charge("r-1")
    pair.worker.reject("r-1", "worker.calls_spent")
    assert isinstance(pair.to_worker(forged(pair.host, message)), AskRefused)


def test_a_rejection_says_a_code_of_ours_and_nothing_else() -> None:
    pair = opened()
    pair.ask(message_of(K.INVOKE))
    assert code_of(lambda: pair.worker.reject("r-1", "card 4242")) == "worker.message_invalid"
    assert pair.worker.waiting == ("r-1",)


def test_version_5_rejects_in_silence() -> None:
    pair = opened(Version.LINES)
    pair.ask(message_of(K.INVOKE, Version.LINES))
    assert pair.worker.reject("r-1", "worker.calls_spent") == b""
    assert pair.worker.waiting == ()


@pytest.mark.rule("GR-5", "GR-6")
@pytest.mark.fault(61)
def test_the_host_refuses_before_it_uses_a_number() -> None:
    pair = opened(Version.LINES)
    message = message_of(K.DISPATCH_OPERATION, Version.LINES)
    wrong = type(message)(changed(message.request, payload=ToolPayload.text("x")))
    assert code_of(lambda: pair.host.ask(wrong)) == "worker.format_not_granted"
    frame = pair.host.ask(message)
    assert frame.startswith(b'{"sequence":2,')
    assert code_of(lambda: pair.host.ask(message)) == "worker.request_repeated"
    assert pair.host.waiting == ("r-1",)


@pytest.mark.parametrize("version", Version)
def test_a_frame_that_would_be_too_large_uses_no_number_and_no_id(version: Version) -> None:
    grant = CapabilityGrant.text("note")
    grants = [CapabilityGrant.text("note"), GRANTS[0]]
    limit = 256 * 1024
    grants[0] = CapabilityGrant("note", grant.format, 9, limit)
    host = HostSession(bootstrap(version), grants, tenant_scope=TENANT, nonce=b"h" * 32)
    pair = Pair(version)
    pair.host = host
    if version is Version.SEALED:
        greet(pair)
    pair.to_worker(host.open_session())
    message = message_of(K.INVOKE, version)
    large = type(message)(
        changed(message.request, tool="note", payload=ToolPayload.text("\x01" * limit))
    )
    assert code_of(lambda: host.ask(large)) == "worker.frame_too_large"
    assert isinstance(pair.ask(message), Asked)


def test_charging_twice_spends_once_and_answering_takes_a_charge() -> None:
    pair = opened()
    pair.ask(message_of(K.DISPATCH_OPERATION))
    assert code_of(lambda: pair.worker.answer("r-1", Running())) == "misuse.request_uncharged"
    for _ in range(9):
        pair.worker.charge("r-1")
    pair.worker.answer("r-1", Running())
    assert code_of(lambda: pair.worker.charge("r-1")) == "misuse.request_unknown"
    assert code_of(lambda: pair.worker.answer("r-1", Running())) == "misuse.request_unknown"


@pytest.mark.rule("GR-6")
def test_of_two_requests_at_once_only_one_gets_the_last_call() -> None:
    pair = opened()
    for number in range(2):
        pair.answered(message_of(K.INVOKE, request_id=f"r-{number}"), Running())
    for number in (2, 3):
        event = pair.to_worker(forged(pair.host, message_of(K.INVOKE, request_id=f"r-{number}")))
        assert isinstance(event, Asked)
    pair.worker.charge("r-3")
    assert code_of(lambda: pair.worker.charge("r-2")) == "worker.calls_spent"
    assert pair.worker.waiting == ("r-2", "r-3")


# ── the table, met by a peer that does not keep to it ────────────────────────────────────────────


@pytest.mark.rule("FR-2", "FR-5", "FR-6")
@pytest.mark.parametrize("receiver", Role)
@pytest.mark.parametrize(
    ("version", "state"), [(version, state) for version in Version for state in ORDER[version]]
)
def test_every_message_received_in_every_state_is_taken_or_poisons(
    version: Version, state: SessionState, receiver: Role
) -> None:
    for kind in set(MessageKind) - GREETINGS:
        pair = pair_at(version, state)
        session = pair.worker if receiver is Role.WORKER else pair.host
        sender = pair.host if receiver is Role.WORKER else pair.worker
        if session.state is not state or session._codec is None or sender._codec is None:
            continue
        known = message_of(kind, version, transcript=sender._transcript or HASH)
        frame = forged(sender, known)
        if version is Version.LINES and kind in SEALED_ONLY:
            assert broken_by(session, frame).code in {
                "channel.message_unexpected",
                "channel.message_malformed",
            }
        elif (after := following(state, receiver.other, kind, version)) is None:
            assert broken_by(session, frame).code == "channel.message_unexpected"
        elif sender is pair.worker and state in {S.OPEN, S.CLOSING}:
            assert broken_by(session, frame).code == "channel.answer_unasked"
        else:
            session.feed(frame)
            assert session.next_event() is not None
            assert session.state is after


@pytest.mark.parametrize("version", Version)
def test_every_message_sent_in_every_state_is_sealed_or_a_misuse(version: Version) -> None:
    for state in ORDER[version]:
        for kind in requests_of(version):
            pair = pair_at(version, state)
            if state is S.OPEN:
                assert pair.host.ask(message_of(kind, version))
            else:
                assert code_of(lambda p=pair, k=kind: p.host.ask(message_of(k, version))) == (
                    "misuse.channel_state"
                )


def test_what_comes_before_its_time_breaks_the_channel() -> None:
    assert broken_by(host_session(), b"x").code == "channel.message_unexpected"
    assert host_session().next_event() is None


@pytest.mark.rule("FR-6")
def test_a_request_after_the_close_is_told_so_in_the_farewell() -> None:
    pair = opened()
    pair.to_worker(pair.host.close())
    late = forged(pair.host, message_of(K.INVOKE))
    broken = broken_by(pair.worker, late)
    assert broken.code == "channel.message_unexpected"
    host = pair_at(Version.SEALED, S.OPEN).host
    host.ask(message_of(K.INVOKE))
    host.feed(broken.farewell)
    event: Any = host.next_event()
    assert event.answer.result.code == "channel.message_unexpected"
    assert broken_by(pair_at(Version.LINES, S.OPEN).worker, b"x\n").farewell == b""


@pytest.mark.rule("FR-2")
def test_answers_that_are_owed_may_come_after_the_close() -> None:
    pair = opened()
    pair.ask(message_of(K.INVOKE))
    assert pair.to_worker(pair.host.close()) == SessionClosed()
    pair.worker.charge("r-1")
    assert isinstance(pair.to_host(pair.worker.answer("r-1", Running())), Answered)
    assert pair.host.state is pair.worker.state is S.CLOSING


@pytest.mark.rule("FR-2")
@pytest.mark.fault(61)
@pytest.mark.parametrize("field", ["tool", "operation_key", "compensation_key", "tenant_scope"])
def test_an_answer_that_does_not_repeat_its_request_breaks_the_channel(field: str) -> None:
    pair, message = opened(), message_of(K.COMPENSATE_OPERATION)
    pair.ask(message)
    answer: Any = answer_to(message, Running())
    other = {"compensation_key": "cmp-" + "f" * 64}.get(field, "other")
    lie = type(answer)(changed(answer.result, **{field: other}))
    broken = broken_by(pair.host, forged(pair.worker, lie))
    assert (broken.code, broken.details) == ("channel.answer_mismatch", {"field": field})


@pytest.mark.rule("FR-2")
def test_an_answer_of_another_kind_breaks_the_channel() -> None:
    for wrong in (
        message_of(K.RESULT),
        answer_to(message_of(K.RECONCILE_OPERATION), NoRecord()),
        answer_to(message_of(K.CANCEL), True),
    ):
        pair = opened()
        pair.ask(message_of(K.DISPATCH_OPERATION))
        broken = broken_by(pair.host, forged(pair.worker, wrong))
        assert (broken.code, broken.details) == ("channel.answer_mismatch", {"field": "type"})


def test_an_operation_cannot_be_answered_with_what_only_a_look_up_says() -> None:
    pair, message = opened(), message_of(K.DISPATCH_OPERATION)
    pair.ask(message)
    answer: Any = answer_to(message, Running())
    lie = type(answer)(changed(answer.result, status=NoRecord()))
    assert broken_by(pair.host, forged(pair.worker, lie)).details == {"field": "type"}


@pytest.mark.parametrize("version", Version)
def test_a_session_is_opened_with_what_was_announced_and_for_itself(version: Version) -> None:
    pair = pair_at(version, S.READY)
    mine = pair.host.manifest
    others = [
        Manifest(mine.protocol_version, "session-2", mine.grants),
        Manifest(11 - version.value, mine.session_id, mine.grants),
    ]
    if version is Version.SEALED:
        others.append(Manifest(mine.protocol_version, mine.session_id, mine.grants[:1]))
    for other in others:
        pair = pair_at(version, S.READY)
        broken = broken_by(pair.worker, forged(pair.host, OpenSession(other)))
        assert broken.code == "channel.session_mismatch"


def test_a_close_for_another_session_breaks_the_channel() -> None:
    pair = opened()
    lie = forged(pair.host, CloseSession(6, "session-2"))
    assert broken_by(pair.worker, lie).code == "channel.session_mismatch"


@pytest.mark.rule("FR-5")
@pytest.mark.parametrize("receiver", Role)
def test_a_proof_of_another_transcript_proves_nothing(receiver: Role) -> None:
    state = S.HOST_FINISHED if receiver is Role.WORKER else S.WORKER_FINISHED
    pair = pair_at(Version.SEALED, state)
    kind = K.HOST_FINISHED if receiver is Role.WORKER else K.WORKER_FINISHED
    session, sender = (
        (pair.worker, pair.host) if receiver is Role.WORKER else (pair.host, pair.worker)
    )
    frame = forged(sender, message_of(kind, transcript=Fingerprint("0" * 64)))
    assert broken_by(session, frame).code == "channel.not_authentic"


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_end_between_frames_names_what_will_not_be_answered() -> None:
    pair = opened()
    pair.ask(message_of(K.INVOKE))
    assert pair.host.end() == ("r-1",)
    assert pair.host.state is S.ENDED
    assert pair.host.next_event() is None
    assert code_of(lambda: pair.host.ask(message_of(K.CANCEL))) == "misuse.channel_state"


@pytest.mark.parametrize("version", Version)
def test_an_end_inside_a_frame_poisons(version: Version) -> None:
    pair = opened(version)
    pair.worker.feed(pair.host.ask(message_of(K.INVOKE, version))[:-1])
    assert pair.worker.next_event() is None
    assert code_of(pair.worker.end) == "channel.truncated"
    assert pair.worker.state is S.POISONED


@pytest.mark.rule("FR-6")
def test_a_poisoned_session_sends_nothing_either() -> None:
    pair = opened()
    pair.ask(message_of(K.INVOKE))
    pair.worker.charge("r-1")
    pair.worker.poison()
    pair.host.poison()
    for call in (
        lambda: pair.worker.answer("r-1", Running()),
        lambda: pair.worker.reject("r-1", "worker.calls_spent"),
        lambda: pair.worker.charge("r-1"),
        lambda: pair.host.ask(message_of(K.CANCEL)),
        pair.host.close,
    ):
        with pytest.raises(PeerViolation) as caught:
            call()
        assert caught.value.code == "channel.poisoned"


@pytest.mark.fault(61)
@pytest.mark.parametrize("version", Version)
def test_a_peer_cannot_make_a_session_hold_more_than_one_frame(version: Version) -> None:
    pair = opened(version)
    endless = b"x" * (MAX_FRAME + 1)
    frame = endless if version is Version.LINES else b"\x06\x03\x00\x10\x00\x01"
    assert broken_by(pair.worker, frame).code == "channel.too_large"
    if version is Version.LINES:
        assert broken_by(opened(version).worker, endless + b"\n").code == "channel.too_large"


# ── sessions and their keys ──────────────────────────────────────────────────────────────────────


@pytest.mark.rule("FR-5")
@pytest.mark.fault(59)
def test_a_worker_that_begins_anew_takes_nothing_of_the_session_before() -> None:
    """The same bootstrap and another nonce: another transcript, and other keys."""
    before = opened()
    old = [frame for host, frame in before.passed if host][1:]
    old.append(before.host.ask(message_of(K.DISPATCH_OPERATION)))
    for frame in old:
        pair = Pair()
        pair.worker = WorkerSession(bootstrap(), tenant_scope=TENANT, nonce=b"W" * 32)
        pair.to_worker(pair.host.start())
        assert broken_by(pair.worker, frame).code == "channel.not_authentic"


@pytest.mark.rule("FR-4")
@pytest.mark.fault(62)
@pytest.mark.parametrize("version", Version)
def test_an_open_session_keeps_its_key_while_new_ones_use_another(version: Version) -> None:
    old, new = opened(version), Pair(version)
    other = Bootstrap(SESSION, SessionKey(b"n" * 32), version)
    new.host = HostSession(other, GRANTS, tenant_scope=TENANT, nonce=b"h" * 32)
    new.worker = WorkerSession(other, tenant_scope=TENANT, nonce=b"w" * 32)
    if version is Version.SEALED:
        greet(new)
    new.to_worker(new.host.open_session())
    asked = message_of(K.INVOKE, version)
    for pair in (old, new):
        assert isinstance(pair.answered(asked, Running()), Answered)
    crossed = new.host.ask(message_of(K.INVOKE, version, "r-2"))
    assert broken_by(old.worker, crossed).code == "channel.not_authentic"


# ── secrets and shapes ───────────────────────────────────────────────────────────────────────────


def test_a_session_shows_its_name_and_state_only() -> None:
    pair = opened()
    assert repr(pair.host) == "HostSession('session-1', open)"
    assert repr(pair.worker) == "WorkerSession('session-1', open)"
    assert "010203" not in repr(vars(pair.host)) + repr(vars(pair.worker))
    with pytest.raises((Misuse, TypeError)):
        pickle.dumps(pair.host)


@pytest.mark.parametrize("version", Version)
def test_a_whole_conversation_has_every_kind_of_the_version(version: Version) -> None:
    assert len(conversation(version)) == {Version.LINES: 12, Version.SEALED: 20}[version]


def test_names_are_checked_before_a_session_exists() -> None:
    with pytest.raises(Refused):
        WorkerSession(bootstrap(session="S"), tenant_scope=TENANT, nonce=b"w" * 32)
    with pytest.raises(Refused):
        WorkerSession(bootstrap(), tenant_scope="", nonce=b"w" * 32)
    with pytest.raises(Misuse):
        worker_session().prove(fence=1, journal_revision=1, journal_hash=HASH)
    assert kind_of(message_of(K.CANCEL)) is K.CANCEL
