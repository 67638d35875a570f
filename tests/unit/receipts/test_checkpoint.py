"""Checkpoints as signed notes: the form that others know, and nothing else under its name."""

import base64
import hashlib
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from amends.receipts.checkpoint import (
    LEAF_TAG,
    LogFault,
    TreeHead,
    check_note,
    leaf_of,
    read_note,
    write_note,
)
from amends.receipts.signing import SIGNATURE_TAG, KeyRing
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import OTHER_SIGNER, RING, SIGNER, START

pytestmark = pytest.mark.rule("RC-3")

HEAD: Final = TreeHead(lineage="0198aa", size=11, root=bytes(range(32)), at=START)
NOTE: Final = write_note(HEAD, SIGNER)


def test_a_checkpoint_is_written_as_a_signed_note() -> None:
    text, _, signature = NOTE.partition("\n\n")
    root = base64.b64encode(bytes(range(32))).decode()
    assert text.split("\n") == ["amends/0198aa", "11", root, "time 2025-03-01T12:00:00.120000Z"]
    dash, name, encoded = signature.rstrip("\n").split(" ")
    assert (dash, name) == ("—", "amends/0198aa")
    raw = base64.b64decode(encoded)
    named = hashlib.sha256(b"amends/0198aa\n\x01" + SIGNER.public_key).digest()[:4]
    assert raw == named + SIGNER.sign(f"{text}\n".encode())


def test_a_note_is_read_back_and_its_signer_is_found() -> None:
    note = read_note(NOTE)
    assert (note.head, note.text) == (HEAD, NOTE)
    assert check_note(note, RING) == (SIGNER.key_id, None)
    both = KeyRing([OTHER_SIGNER.public_key, *RING])
    assert check_note(note, both) == (SIGNER.key_id, None)


def test_a_key_that_is_not_there_is_told_from_a_signature_that_is_not_genuine() -> None:
    assert check_note(read_note(NOTE), KeyRing()) == (None, LogFault.KEY_UNKNOWN)
    other = KeyRing([OTHER_SIGNER.public_key])
    assert check_note(read_note(NOTE), other) == (None, LogFault.KEY_UNKNOWN)
    grown = NOTE.replace("\n11\n", "\n12\n")
    assert check_note(read_note(grown), RING) == (None, LogFault.SIGNATURE_INVALID)


def test_what_witnesses_add_is_passed_over() -> None:
    by_another = base64.b64encode(bytes(80)).decode()
    short = base64.b64encode(bytes(12)).decode()
    witnessed = f"{NOTE}— witness.example {by_another}\n— amends/0198aa {short}\n"
    note = read_note(witnessed)
    assert check_note(note, RING) == (SIGNER.key_id, None)
    assert len(note.signatures) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("amends/", "other/"),
        ("amends/0198aa", "amends/"),
        ("amends/0198aa", "amends/01 98aa"),
        ("\n11\n", "\n011\n"),
        ("\n11\n", "\n-1\n"),
        ("\n11\n", "\n١١\n"),
        ("\n11\n", "\n"),
        ("AAEC", "AAE"),
        ("AAEC", "!AEC"),
        ("AAECAwQF", ""),
        ("time ", "at "),
        ("12:00:00.120000Z", "12:00:00.12Z"),
        ("12:00:00.120000Z", "25:00:00Z"),
        ("12:00:00.120000Z", "12:00:00.120000"),
        ("Z\n\n", "Z\nmore\n\n"),
        ("\n\n", "\n"),
        ("— ", "- "),
        ("— amends/0198aa ", "— "),
        ("— amends/0198aa ", "—  "),
    ],
)
def test_what_is_no_checkpoint_is_refused(old: str, new: str) -> None:
    assert old in NOTE
    with refused_with("checkpoint.malformed"):
        read_note(NOTE.replace(old, new))


@pytest.mark.parametrize(
    "text", ["", "\n\n", NOTE.rstrip("\n"), NOTE[:-4] + "\n", NOTE + "— x AAAA\n" * 8_000]
)
def test_a_text_that_was_cut_or_is_endless_is_refused(text: str) -> None:
    with refused_with("checkpoint.malformed"):
        read_note(text)


def test_a_signature_line_must_hold_more_than_the_name_of_a_key() -> None:
    with refused_with("checkpoint.malformed"):
        read_note(f"{NOTE}— witness.example AAAAAA==\n")


@pytest.mark.parametrize("lineage", ["", "two words", "line\nfeed", "-first", "x" * 129])
def test_a_lineage_that_a_note_cannot_name_is_a_mistake_of_the_program(lineage: str) -> None:
    head = msgspec.structs.replace(HEAD, lineage=lineage)
    with refused_with("misuse.checkpoint_lineage"):
        write_note(head, SIGNER)


def test_no_checkpoint_can_pass_for_a_receipts_signature() -> None:
    """What is signed begins differently, whatever the lineage is called."""
    assert not HEAD.text.startswith(SIGNATURE_TAG)
    assert not SIGNATURE_TAG.startswith(b"amends/")


def test_a_leaf_is_a_receipts_hash_behind_a_tag_and_a_byte() -> None:
    digest = "ab" * 32
    expected = hashlib.sha256(b"\x00" + LEAF_TAG + bytes.fromhex(digest)).digest()
    assert leaf_of(digest) == expected


def test_a_head_says_when_it_was_so() -> None:
    later = msgspec.structs.replace(HEAD, at=START + timedelta(days=1))
    assert later.text != HEAD.text
