"""Messages between host and worker: their text, and which identities they refuse."""

from typing import Any

import pytest

from amends.contracts.errors import Refused
from amends.contracts.worker_identity import Fingerprint
from amends.contracts.worker_messages import LedgerHead, Message
from amends.contracts.worker_wire import decode_any, encode_record
from amends.protocol.table import MessageKind as K
from amends.protocol.versions import Version
from tests.unit.protocol.pair import HASH, changed, message_of

HEX = "0" * 64


def code_of(call: Any) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.code


@pytest.mark.rule("GR-ID-1", "GR-ID-2")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("request_id", "", "worker.token_invalid"),
        ("session_id", "S", "worker.token_invalid"),
        ("tool", "a b", "worker.token_invalid"),
        ("tenant_scope", "x" * 129, "worker.token_invalid"),
        ("operation_key", "cmp-" + HEX, "worker.operation_key_invalid"),
        ("operation_key", "OP-1", "worker.operation_key_invalid"),
        ("compensation_key", "cmp-1", "worker.compensation_key_invalid"),
        ("grant_fingerprint", "F" * 64, "worker.fingerprint_invalid"),
    ],
)
def test_no_message_holds_an_identity_of_the_wrong_form(field: str, value: str, code: str) -> None:
    request = message_of(K.COMPENSATE_OPERATION).request
    assert code_of(lambda: changed(request, **{field: value})) == code
    text = encode_record(message_of(K.COMPENSATE_OPERATION))
    swapped = text.replace(getattr(request, field).encode(), value.encode(), 1)
    assert code_of(lambda: decode_any(swapped, Message, max_bytes=10_000)) == code


@pytest.mark.parametrize(
    "head",
    [(-1, 0, HASH), (0, -1, HASH), (0, 2**63, HASH), (True, 0, HASH), (0, 0, Fingerprint("x"))],
)
def test_a_head_holds_counters_and_a_fingerprint(head: Any) -> None:
    assert code_of(lambda: LedgerHead(*head)) in {
        "worker.message_invalid",
        "worker.fingerprint_invalid",
    }


def test_a_message_of_version_5_has_no_head_in_its_text() -> None:
    assert b"head" not in encode_record(message_of(K.DISPATCH_OPERATION, Version.LINES))
    assert b'"head":{"attempt_fence":7,' in encode_record(message_of(K.DISPATCH_OPERATION))


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b'{"type":"unheard_of"}',
        b'{"type":"cancel"}',
        b'{"type":"cancel","request":{}}',
        b'{"type":"close_session","protocol_version":5,"session_id":"s","more":1}',
        b'{"type":"close_session","protocol_version":"5","session_id":"s"}',
    ],
)
def test_what_is_no_message_is_refused(text: bytes) -> None:
    assert code_of(lambda: decode_any(text, Message, max_bytes=999)) == "worker.message_invalid"


@pytest.mark.rule("GR-ID-1")
@pytest.mark.parametrize("kind", sorted(set(K) - {K.HOST_HELLO, K.WORKER_HELLO}))
def test_any_change_to_an_authentic_message_leaves_a_message_or_a_coded_refusal(kind: K) -> None:
    """Whoever has the keys can write anything; nothing of it leads to an error without a code."""
    message = message_of(kind)
    text, forms = encode_record(message), Message | type(message)
    for at in range(len(text)):
        for piece in (b"", b'"', b"[", b"}", b",", b"9", b"-", b"\\", b"\xff", b"\x00"):
            read_or_refused(text[:at] + piece + text[at + 1 :], forms)


def read_or_refused(text: bytes, forms: Any) -> None:
    try:
        decode_any(text, forms, max_bytes=10_000)
    except Refused as refusal:
        assert refusal.code.partition(".")[0] in {"input", "worker"}  # noqa: PT017 - both are right


def test_messages_show_no_payload() -> None:
    assert "amount" not in repr(message_of(K.COMPENSATE_OPERATION))
