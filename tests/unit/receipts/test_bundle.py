"""Bundles: what a writer makes is read back, and nothing else is."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.receipts.bundle import Bundle, ChainLine, Footer, Header, key_ring, write_lines
from amends.receipts.verify import verify_chain
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import CHAIN, RING, SIGNER, grown

HEADER: Final = Header(store="lineage", keys=(SIGNER.public_key.hex(),))

pytestmark = pytest.mark.rule("RC-3")


def chain(*receipts: Receipt) -> ChainLine:
    return ChainLine(tenant=TenantId("acme"), chain=CHAIN, receipts=receipts)


def written(*chains: ChainLine) -> list[bytes]:
    return list(write_lines(HEADER, chains))


ONE: Final = chain(*grown([2, 1]))
LINES: Final = written(ONE)


def read(lines: list[bytes]) -> list[ChainLine]:
    return list(Bundle(lines).chains())


def test_what_was_written_is_read_back_and_verifies() -> None:
    bundle = Bundle(written(ONE, chain(*grown([1]))))
    assert bundle.header == HEADER
    assert list(bundle.keys) == [SIGNER.public_key]
    chains = list(bundle.chains())
    assert chains == [ONE, chain(*grown([1]))]
    assert all(verify_chain(one.receipts, bundle.keys).ok for one in chains)
    assert verify_chain(chains[0].receipts, RING).ok


def test_a_bundle_of_nothing_is_a_bundle() -> None:
    assert read(written()) == []


def test_every_line_is_one_json_document() -> None:
    first, second, last = (json.loads(line) for line in LINES)
    assert first["format"] == "amends-receipts-1"
    assert [receipt["number"] for receipt in second["receipts"]] == [1, 2, 3]
    assert last == {"chains": 1, "receipts": 3}


# ── what is no bundle ────────────────────────────────────────────────────────────────────────────

CHANGED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "another member at the top": lambda line: line.replace(b"{", b'{"more":1,', 1),
    "another member in a step": lambda line: line.replace(b'"step":{', b'"step":{"note":"x",', 1),
    "another member in an operation": lambda line: line.replace(
        b'"provider":"stripe"', b'"provider":"stripe","secret":"x"', 1
    ),
    "a member twice": lambda line: line.replace(b'"number":2', b'"number":9,"number":2', 1),
    "a default that is spelled out": lambda line: line.replace(
        b'"step":{', b'"step":{"code":null,', 1
    ),
    "another type": lambda line: line.replace(b'"number":2', b'"number":"2"', 1),
    "an unknown kind of step": lambda line: line.replace(b'"planned"', b'"half_planned"', 1),
    "half a line": lambda line: line[: len(line) // 2],
    "no line": lambda _: b"\n",
    "no text": lambda _: b"\xff\xfe\n",
    "very deep": lambda _: b"[" * 100_000,
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_line_that_no_writer_makes_is_refused_with_its_number(
    change: Callable[[bytes], bytes],
) -> None:
    changed = change(LINES[1])
    assert changed != LINES[1]
    with refused_with("bundle.malformed") as caught:
        read([LINES[0], changed, LINES[2]])
    assert caught.error.details == {"line": 2}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_no_refusal_repeats_what_was_read(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Corrupt) as caught:
        read([LINES[0], change(LINES[1]).replace(b"txn_1", b"canary"), LINES[2]])
    assert "canary" not in repr((caught.value, caught.value.details, caught.value.__cause__))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\n",
        b"[]\n",
        LINES[0].replace(b'"keys":[', b'"keys":["zz",'),
        LINES[0].replace(SIGNER.public_key.hex().encode(), b"00"),
        LINES[0].replace(b'"store"', b'"shop"'),
    ],
)
def test_a_bundle_that_does_not_begin_as_one_is_refused(first: bytes) -> None:
    with refused_with("bundle.malformed") as caught:
        Bundle([first, *LINES[1:]])
    assert caught.error.details == {"line": 1}


def test_an_empty_file_is_no_bundle() -> None:
    with refused_with("bundle.malformed"):
        Bundle([])


def test_a_format_of_a_later_version_is_refused_as_such() -> None:
    with refused_with("bundle.unknown_format"):
        Bundle([LINES[0].replace(b"receipts-1", b"receipts-2")])


@pytest.mark.parametrize(
    "lines",
    [
        LINES[:1],
        LINES[:2],
        [LINES[0], LINES[2]],
        [LINES[0], LINES[1], LINES[1], LINES[2]],
        written(ONE, ONE)[:2] + written(ONE, ONE)[3:],
    ],
)
def test_a_bundle_that_was_cut_or_spliced_shows(lines: list[bytes]) -> None:
    with refused_with("bundle.cut"):
        read(lines)


def test_what_follows_the_end_is_refused() -> None:
    with refused_with("bundle.malformed") as caught:
        read([*LINES, LINES[1]])
    assert caught.error.details == {"line": 4}


def test_a_last_line_without_its_line_feed_is_read() -> None:
    assert read([*LINES[:2], LINES[2].rstrip()]) == [ONE]


def test_a_footer_is_told_from_a_chain() -> None:
    footer = Footer(chains=1, receipts=3)
    assert LINES[2] == b'{"chains":%d,"receipts":%d}\n' % (footer.chains, footer.receipts)


@pytest.mark.parametrize("key", ["", "zz", "00" * 31, "00" * 33])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with refused_with("receipt.key_malformed"):
        key_ring([key])
