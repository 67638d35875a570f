"""Decoders of frames, messages, journals, ledgers and envelopes: any input is a value or a code.

Each example changes one written document of every kind in the same way, and every decoder has to
read what came of it. So there are as many inputs to each decoder as examples: 10 000 in
`make test`, a million in `make soak`, in parts, since Hypothesis remembers every example of a test.
"""

import os
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amends.contracts.errors import AmendsError
from amends.contracts.worker_messages import Message
from amends.contracts.worker_wire import decode_any, encode_record
from amends.journal.document import decode_journal, encode_journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.protocol.lines import LineCodec
from amends.protocol.records import Keys, RecordCodec
from amends.protocol.table import MessageKind
from amends.protocol.versions import Role, Version
from amends.sealed.envelopes import NOTHING, seal, seal_5, unseal
from tests.unit.journal.stage import undone
from tests.unit.ledger.stage import intended
from tests.unit.protocol.pair import SESSION, bootstrap, message_of
from tests.unit.sealed.stage import KEYS, PLACE

EXAMPLES: Final = 50 * settings.default.max_examples  # type: ignore[union-attr]  # a profile is loaded
PARTS: Final = int(os.environ.get("AMENDS_SOAK_PARTS", "1"))
LIMIT: Final = 256 * 1024
SESSION_KEYS: Final = Keys(bytes(range(32)), bytes(range(1, 33)))
MESSAGE: Final = encode_record(message_of(MessageKind.COMPENSATE_OPERATION, Version.SEALED))
PIECES: Final = (
    st.binary(max_size=8)
    | st.text(max_size=4).map(str.encode)
    | st.sampled_from([b'"', b"\\ud800", b"[" * 4_000, b"9" * 5_000, b"-0.0", b"1e999", b"null"])
    | st.sampled_from(
        [b"{}", b"\xff\xff\xff\xff", b"\r\n", b"\x00", b'{"a":1,"a":2}', b"\xef\xbb\xbf"]
    )
)


class Change(NamedTuple):
    """A piece in the place of some bytes, at so many 65536ths of a document."""

    at: int
    length: int
    piece: bytes

    def of(self, data: bytes) -> bytes:
        start = self.at * len(data) >> 16
        return data[:start] + self.piece + data[start + self.length :]


CHANGES: Final = st.builds(Change, st.integers(0, 2**16), st.integers(0, 40), PIECES)


class Decoder(NamedTuple):
    """What reads one kind of document, one that it takes, and what its codes begin with."""

    written: bytes
    read: Callable[[bytes], object]
    families: frozenset[str]


def read_record(data: bytes) -> object:
    return RecordCodec(SESSION_KEYS, SESSION, Role.WORKER).open(bytearray(data))


def read_line(data: bytes) -> object:
    return LineCodec(bootstrap(Version.LINES), Role.WORKER).open(bytearray(data))


def read_message(data: bytes) -> object:
    return decode_any(data, Message, max_bytes=LIMIT)


def read_journal(data: bytes) -> object:
    return decode_journal(data, max_bytes=LIMIT)


def open_record(data: bytes) -> object:
    return unseal(PLACE, KEYS, data)


CHANNEL: Final = frozenset({"channel"})
SEALED: Final = frozenset({"sealed"})
DECODERS: Final = (
    Decoder(RecordCodec(SESSION_KEYS, SESSION, Role.HOST).seal(MESSAGE), read_record, CHANNEL),
    Decoder(LineCodec(bootstrap(Version.LINES), Role.HOST).seal(MESSAGE), read_line, CHANNEL),
    Decoder(MESSAGE, read_message, frozenset({"input", "worker"})),
    Decoder(encode_journal(undone()), read_journal, frozenset({"journal"})),
    Decoder(encode_ledger(intended()[0]), decode_ledger, frozenset({"ledger"})),
    Decoder(
        seal(PLACE, KEYS, b"payload", revision=1, previous=NOTHING, fence=1), open_record, SEALED
    ),
    Decoder(seal_5(PLACE, KEYS, b"payload", revision=1), open_record, SEALED),
)


def family_of(decoder: Decoder, data: bytes) -> str:
    """What the code of the refusal begins with; nothing where there is none."""
    try:
        decoder.read(data)
    except AmendsError as error:
        return error.code.partition(".")[0]
    return ""


def test_every_decoder_takes_what_was_written() -> None:
    assert all(decoder.read(decoder.written) is not None for decoder in DECODERS)


@pytest.mark.rule("FR-6", "ST-1")
@pytest.mark.fault(58)
@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=EXAMPLES)
@given(changes=st.lists(CHANGES, min_size=1, max_size=2), is_cut=st.booleans())
def test_whatever_is_changed_is_read_or_refused_with_a_code(
    part: int, changes: list[Change], is_cut: bool
) -> None:
    for decoder in DECODERS:
        data = decoder.written
        for change in changes:
            data = change.of(data)
        if is_cut:
            data = data[: changes[0].at * len(data) >> 16]
        assert family_of(decoder, data) in {"", *decoder.families}
