"""Readers of ledgers, journals and sealed records take what was written, and refuse the rest."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amends.contracts.errors import AmendsError
from amends.journal.document import decode_journal, encode_journal
from amends.ledger.document import decode_ledger, encode_ledger
from amends.sealed.envelopes import NOTHING, seal, seal_5, unseal
from tests.unit.journal.stage import undone
from tests.unit.ledger.stage import intended
from tests.unit.sealed.stage import KEYS, PLACE

LIMIT = 256 * 1024
WRITTEN = (
    encode_ledger(intended()[0]),
    encode_journal(undone()),
    encode_journal(undone(format_version=2)),
    seal(PLACE, KEYS, b"payload", revision=1, previous=NOTHING, fence=1),
    seal(PLACE, KEYS, b"payload", revision=1, previous=NOTHING, fence=1, nonce=b"n" * 12),
    seal_5(PLACE, KEYS, b"payload", revision=1),
)


def read_journal(data: bytes) -> object:
    return decode_journal(data, max_bytes=LIMIT)


def open_record(data: bytes) -> object:
    return unseal(PLACE, KEYS, data)


READERS: tuple[Callable[[bytes], object], ...] = (
    decode_ledger,
    read_journal,
    read_journal,
    open_record,
    open_record,
    open_record,
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Something written, with a piece of it exchanged; or anything at all."""
    data = draw(st.sampled_from(WRITTEN))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 8)))
    piece = draw(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(str.encode)))
    return draw(st.one_of(st.just(data[:start] + piece + data[end:]), st.binary(max_size=64)))


@pytest.mark.rule("GR-ID-1", "ST-1")
@given(spoilt())
@example(b"[" * 100_000)
@example(b'{"format_version":' + b"9" * 5_000 + b"}")
@example(WRITTEN[5].replace(b'"auth_tag":"', b'"auth_tag":"\xc2\x80'))
@example(WRITTEN[3].replace(b'"auth_tag":"', b'"auth_tag":"\\ud800'))
@example(b'{"format_version":2,"namespace":"\\ud800"}')
def test_no_bytes_bring_a_reader_to_anything_but_a_value_or_a_code(data: bytes) -> None:
    for read in set(READERS):
        try:
            read(data)
        except AmendsError:
            continue
        assert data in WRITTEN or is_another_value(data)


def changes_of(data: bytes) -> Iterator[bytes]:
    """Every byte with each of its bits flipped, left out, and written twice."""
    for at in range(len(data)):
        before, byte, after = data[:at], data[at : at + 1], data[at + 1 :]
        yield from (before + bytes([byte[0] ^ 1 << bit]) + after for bit in range(8))
        yield before + after
        yield before + byte + byte + after


@pytest.mark.rule("GR-ID-1", "ST-1")
@pytest.mark.fault(34)
@pytest.mark.parametrize(("data", "read"), list(zip(WRITTEN, READERS, strict=True)))
def test_every_single_change_is_refused_or_makes_another_value(
    data: bytes, read: Callable[[bytes], object]
) -> None:
    written = read(data)
    for changed in changes_of(data):
        try:
            found = read(changed)
        except AmendsError:
            continue
        assert is_another_value(changed) or changed == data
        assert (found == written) == (changed == data)


def is_another_value(data: bytes) -> bool:
    """An exchanged digit may make another ledger or journal; nobody can make another envelope."""
    return data.startswith((b'{"format_version":2,"revision"', b'{"format_version":2,"scope"',
                            b'{"format_version":3,"scope"'))  # fmt: skip
