"""Bundles: what a writer makes is read back, and nothing else is."""

import hashlib
import json
from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from amends.contracts.errors import Corrupt
from amends.contracts.evidence import Receipt
from amends.contracts.ids import TenantId
from amends.receipts.bundle import (
    FORMAT,
    Bundle,
    ChainLine,
    Footer,
    Header,
    SealFault,
    key_ring,
    write_lines,
)
from amends.receipts.keyset import jwk_of
from amends.receipts.signing import KeyRing, PublishedKey, Signer
from amends.receipts.verify import verify_chain
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import CHAIN, OTHER_SIGNER, RING, SIGNER, START, grown

KEYS: Final = tuple(map(jwk_of, RING.published))
HEADER: Final = Header(format=FORMAT, store="lineage", keys=KEYS)

pytestmark = pytest.mark.rule("RC-3")


def chain(*receipts: Receipt) -> ChainLine:
    return ChainLine(tenant=TenantId("acme"), chain=CHAIN, receipts=receipts)


def written(*chains: ChainLine, signer: Signer | None = SIGNER) -> list[bytes]:
    return list(write_lines(HEADER, chains, signer))


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
    assert first["format"] == "amends-receipts-2"
    assert [receipt["number"] for receipt in second["receipts"]] == [1, 2, 3]
    assert (last["chains"], last["receipts"], last["key_id"]) == (1, 3, SIGNER.key_id)
    assert last["digest"] == hashlib.sha256(LINES[0] + LINES[1]).hexdigest()


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
        LINES[0].replace(KEYS[0].x.encode(), b"AAAA"),
        LINES[0].replace(b'"kty":"OKP"', b'"kty":"RSA"'),
        LINES[0].replace(b'"store":"lineage",', b'"store":"lineage","whole":false,'),
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
        Bundle([LINES[0].replace(b"receipts-2", b"receipts-3")])


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


def test_lines_without_their_line_feeds_are_read() -> None:
    bare = [line.rstrip() for line in LINES]
    assert read(bare) == [ONE]
    assert seal_of(bare) is None


# ── the seal ─────────────────────────────────────────────────────────────────────────────────────


def seal_of(lines: list[bytes], keys: KeyRing = RING) -> SealFault | None:
    bundle = Bundle(lines)
    assert all(verify_chain(one.receipts, RING).ok for one in bundle.chains())
    return bundle.seal_fault(keys)


def resealed(lines: list[bytes], **fields: object) -> list[bytes]:
    """The same lines, counted anew, with a footer that says what somebody without a key can say."""
    chains = [msgspec.json.decode(line, type=ChainLine) for line in lines[1:-1]]
    *kept, last = list(write_lines(HEADER, chains))
    footer = msgspec.json.decode(last, type=Footer)
    return [*kept, msgspec.json.encode(msgspec.structs.replace(footer, **fields)) + b"\n"]


def test_a_bundle_is_sealed_with_the_stores_key() -> None:
    assert seal_of(LINES) is None
    assert seal_of(LINES, KeyRing([*RING, OTHER_SIGNER.public_key])) is None


def test_whole_chains_that_were_taken_out_or_exchanged_break_the_seal() -> None:
    """Every line is genuine, every count is right: only the seal can tell."""
    lines = written(ONE, chain(*grown([1])))
    footer = msgspec.json.decode(lines[-1], type=Footer)
    assert seal_of([lines[0], lines[2], lines[1], lines[3]]) is SealFault.ALTERED
    fewer = resealed(
        [lines[0], lines[1], lines[3]], signature=footer.signature, key_id=SIGNER.key_id
    )
    assert seal_of(fewer) is SealFault.ALTERED


def test_a_seal_that_was_taken_away_is_missed_by_whoever_has_keys() -> None:
    assert seal_of(written(ONE, signer=None)) is SealFault.UNSEALED
    assert seal_of(resealed(LINES, key_id=SIGNER.key_id)) is SealFault.UNSEALED
    assert seal_of(written(ONE, signer=None), KeyRing()) is None


def test_a_seal_of_another_key_is_told_from_one_of_a_key_in_other_hands() -> None:
    assert seal_of(written(ONE, signer=OTHER_SIGNER)) is SealFault.KEY_UNKNOWN
    shared = PublishedKey(public_key=SIGNER.public_key, compromised=START)
    assert seal_of(LINES, KeyRing([shared])) is SealFault.KEY_COMPROMISED


@pytest.mark.parametrize("key", ["", "zz", "00" * 31, "00" * 33])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with refused_with("receipt.key_malformed"):
        key_ring([key])
