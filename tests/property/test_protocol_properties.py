"""The channel against every value: any bytes, any payload, any way to narrow a grant."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.contracts.errors import AmendsError, Refused
from amends.contracts.worker_grant import CapabilityGrant, Resource, ResourceKind
from amends.contracts.worker_json import read_json, write_json
from amends.contracts.worker_messages import Message
from amends.contracts.worker_payload import PayloadFormat, Succeeded, ToolPayload
from amends.contracts.worker_wire import decode_any, decode_record, encode_record
from amends.protocol.attenuation import attenuate, check_within
from amends.protocol.bootstrap import read_bootstrap
from amends.protocol.session import Session
from amends.protocol.table import MessageKind, SessionState
from amends.protocol.versions import Version
from tests.unit.protocol.pair import ORDER, Pair, bootstrap, message_of, pair_at

NUMBERS: Final = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS: Final = st.text(st.characters(codec="utf-8"))
VALUES: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
CONTAINERS: Final = st.lists(VALUES, max_size=4) | st.dictionaries(TEXTS, VALUES, max_size=4)
PAYLOADS: Final = CONTAINERS.map(ToolPayload.json) | TEXTS.map(ToolPayload.text)
RESOURCES: Final = st.lists(
    st.builds(Resource, st.sampled_from(ResourceKind), st.sampled_from("abc")),
    unique=True,
    max_size=5,
).map(tuple)
POSITIVE: Final = st.integers(1, 9)
GRANTS: Final = st.builds(
    CapabilityGrant,
    st.sampled_from("ab"),
    st.sampled_from(PayloadFormat),
    POSITIVE,
    POSITIVE,
    POSITIVE,
    st.integers(0, 9),
    RESOURCES,
)
KINDS: Final = st.sampled_from(
    sorted(set(MessageKind) - {MessageKind.HOST_HELLO, MessageKind.WORKER_HELLO})
)


def code_of(call: Callable[[], object]) -> str:
    """The code that the call is refused with, or nothing."""
    try:
        call()
    except AmendsError as error:
        return error.code
    return ""


def kind_of_value(value: Any) -> Any:
    """The value with the type of every number beside it, since 1 == 1.0 == True."""
    if isinstance(value, dict):
        return {key: kind_of_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [kind_of_value(inner) for inner in value]
    return (type(value), repr(value))


@given(CONTAINERS)
def test_what_is_written_reads_back_as_the_same_value_and_the_same_text(value: Any) -> None:
    text = write_json(value)
    again = read_json(text)
    assert kind_of_value(again) == kind_of_value(value)
    assert write_json(again) == text


@given(st.binary(max_size=200) | TEXTS.map(str.encode))
def test_any_text_is_read_or_refused_with_a_code(data: bytes) -> None:
    for forms in (CapabilityGrant, Message):
        code = code_of(partial(decode_any, data, forms, max_bytes=10_000))
        assert code.partition(".")[0] in {"", "input", "worker"}


@pytest.mark.rule("FR-4")
@given(PAYLOADS)
def test_a_payload_is_the_same_after_the_wire_and_after_its_canonical_form(
    payload: ToolPayload,
) -> None:
    state = Succeeded(payload)
    assert decode_record(encode_record(state), Succeeded, max_bytes=2**21) == state
    assert ToolPayload.from_canonical(payload.canonical) == payload


@given(KINDS, st.sampled_from(Version))
def test_every_message_is_the_same_after_the_wire(kind: MessageKind, version: Version) -> None:
    message = message_of(kind, version)
    read = decode_any(encode_record(message), type(message), max_bytes=10_000)
    assert read == message
    assert encode_record(read) == encode_record(message)


@pytest.mark.rule("FR-6")
@pytest.mark.fault(58)
@given(
    st.data(),
    st.sampled_from([(version, state) for version in Version for state in ORDER[version]]),
)
def test_any_bytes_lead_to_nothing_or_to_poison_with_a_code(
    data: st.DataObject, where: tuple[Version, SessionState]
) -> None:
    pair = pair_at(*where)
    chunks = data.draw(st.lists(st.binary(max_size=60) | _almost_frames(pair), max_size=4))
    for session in (pair.host, pair.worker):
        code = code_of(partial(_fed, session, chunks))
        ended = SessionState.POISONED if code else SessionState.ENDED
        assert session.state is ended
        assert code.partition(".")[0] in {"", "channel"}


def _fed(session: Session, chunks: list[bytes]) -> None:
    for chunk in chunks:
        session.feed(chunk)
        assert session.next_event() is None
    session.end()


def _almost_frames(pair: Pair) -> st.SearchStrategy[bytes]:
    """Bytes that begin like frames."""
    line = b'{"sequence":1,"message":{"type":"open_session"},"auth_tag":"' + b"0" * 64 + b'"}\n'
    heads = st.sampled_from([b"\x06\x01", b"\x06\x02", b"\x06\x03", b"\x06\x04"])
    records = st.builds(
        lambda head, body: head + len(body).to_bytes(4, "big") + body, heads, st.binary(max_size=40)
    )
    return st.just(line) | records


@given(st.binary(max_size=80))
def test_any_bootstrap_is_read_or_refused_with_a_code(data: bytes) -> None:
    code = code_of(lambda: read_bootstrap(data))
    assert code in {"", "channel.bootstrap_malformed"}
    assert code or read_bootstrap(data).preamble() == data


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_bootstrap_is_another_one_or_none(index: int, change: int) -> None:
    preamble = bytearray(bootstrap().preamble())
    preamble[index % len(preamble)] ^= change
    code = code_of(lambda: read_bootstrap(bytes(preamble)))
    assert code in {"", "channel.bootstrap_malformed"}
    assert code or read_bootstrap(bytes(preamble)) != bootstrap()


@pytest.mark.rule("GR-2")
@given(GRANTS, POSITIVE, POSITIVE, POSITIVE, st.integers(0, 9), RESOURCES)
def test_narrowing_never_widens(
    grant: CapabilityGrant,
    calls: int,
    inputs: int,
    outputs: int,
    compensations: int,
    resources: tuple[Resource, ...],
) -> None:
    wider = (
        calls > grant.max_calls
        or inputs > grant.max_input_bytes
        or outputs > grant.max_output_bytes
        or compensations > grant.max_compensations
        or not set(resources) <= set(grant.resources)
    )
    inner = CapabilityGrant(
        grant.tool, grant.format, calls, inputs, outputs, compensations, resources
    )
    limits: Any = {
        "max_calls": calls,
        "max_input_bytes": inputs,
        "max_output_bytes": outputs,
        "max_compensations": compensations,
        "resources": resources,
    }
    assert code_of(lambda: attenuate(grant, **limits)) == ("worker.grant_widened" if wider else "")
    assert wider or attenuate(grant, **limits) == inner


@pytest.mark.rule("GR-2")
@given(GRANTS, GRANTS, GRANTS)
def test_what_lies_within_lies_within_all_around_it(
    outer: CapabilityGrant, middle: CapabilityGrant, inner: CapabilityGrant
) -> None:
    if _within(outer, middle) and _within(middle, inner):
        assert _within(outer, inner)
    assert _within(outer, outer)


def _within(outer: CapabilityGrant, inner: CapabilityGrant) -> bool:
    try:
        check_within(outer, inner)
    except Refused:
        return False
    return True
