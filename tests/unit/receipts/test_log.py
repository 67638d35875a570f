"""What checkpoints show of receipts, and each way in which they can fail to."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from amends.receipts.bundle import ChainLine, Published
from amends.receipts.checkpoint import LogFault, Note, read_note
from amends.receipts.log import (
    Books,
    Came,
    LogFinding,
    check_paths,
    check_whole,
    in_order,
    leaf_or_none,
    open_books,
    pins_by_place,
    read_published,
    unproven,
)
from amends.receipts.merkle import Tree
from amends.receipts.signing import KeyRing, PublishedKey
from amends.receipts.verify import Pin
from amends.testing.refusals import refused_with
from tests.unit.receipts.chains import OTHER_SIGNER, RING, SIGNER, START
from tests.unit.receipts.logs import (
    LINEAGE,
    LOG,
    TREE,
    inclusion,
    kept,
    leaves,
    line,
    note,
    published,
)

pytestmark = pytest.mark.rule("RC-3")

OTHER_TREE: Final = Tree([b"\x07" * 32] * 9)


def books(
    *sizes: int, kept: tuple[Note, ...] = (), keys: KeyRing = RING, came: Came | None = None
) -> Books:
    return open_books(LINEAGE, came or read_published(published(*sizes)), kept, keys)


def codes(found: Books) -> list[tuple[LogFault, int]]:
    return [(one.code, one.size) for one in found.findings]


def came(*notes: str) -> Came:
    return Came(tuple(map(read_note, notes)))


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────


def test_checkpoints_that_lead_to_one_another_hold() -> None:
    found = books(2, 5, 9, kept=(kept(2),))
    assert found.findings == ()
    assert set(found.notes) == set(found.trusted) == {2, 5, 9}


@pytest.mark.parametrize(
    ("change", "size"),
    [
        (lambda two, nine: [two, Published(nine.note)], 9),
        (lambda two, nine: [two, Published(nine.note, (*nine.path, "00" * 32))], 9),
        (lambda two, nine: [two, Published(nine.note, ("zz", *nine.path[1:]))], 9),
        (lambda two, nine: [two, Published(nine.note, ("00", *nine.path[1:]))], 9),
        (lambda two, nine: [nine, two], 2),
        (lambda two, nine: [two, nine, nine], 9),
    ],
)
def test_checkpoints_that_do_not_lead_to_one_another_are_told(
    change: Callable[[Published, Published], list[Published]], size: int
) -> None:
    read = read_published(change(*published(2, 9)))
    assert read.findings == (LogFinding(LogFault.INCONSISTENT, size),)
    assert size not in books(came=read).notes


def test_a_checkpoint_that_is_none_is_refused() -> None:
    with refused_with("checkpoint.malformed"):
        read_published([Published("nothing")])


def test_a_checkpoint_of_another_store_is_told() -> None:
    other = read_note(note(5, lineage="0198bb"))
    assert codes(books(9, kept=(other,))) == [(LogFault.FOREIGN, 5)]


def test_two_checkpoints_of_one_size_with_two_roots_are_two_histories() -> None:
    other = read_note(note(9, tree=OTHER_TREE))
    found = books(9, kept=(other,))
    assert codes(found) == [(LogFault.INCONSISTENT, 9)]
    assert found.notes == {}


def test_who_signed_a_checkpoint_is_looked_at() -> None:
    by_another = came(note(9, signer=OTHER_SIGNER))
    assert codes(books(came=by_another)) == [(LogFault.KEY_UNKNOWN, 9)]
    forged = came(note(9).replace("\n9\n", "\n8\n"))
    assert codes(books(came=forged)) == [(LogFault.SIGNATURE_INVALID, 8)]
    nobody = books(came=forged, keys=KeyRing())
    assert (nobody.findings, nobody.trusted) == ((), frozenset())


def test_a_checkpoint_after_its_key_was_in_other_hands_is_told_unless_it_was_kept() -> None:
    """Whoever kept it vouches for its time; one that only came may have been dated back."""
    shared = PublishedKey(public_key=SIGNER.public_key, compromised=START + timedelta(minutes=5))
    keys = KeyRing([shared])
    found = books(2, 9, keys=keys)
    assert codes(found) == [(LogFault.KEY_COMPROMISED, 9)]
    assert (set(found.notes), found.trusted) == ({2}, frozenset())
    assert books(2, kept=(kept(9), kept(2)), keys=keys).trusted == {2, 9}


def test_a_checkpoint_of_a_key_that_was_out_of_use_is_told() -> None:
    ended = PublishedKey(public_key=SIGNER.public_key, until=START - timedelta(hours=1))
    assert codes(books(9, keys=KeyRing([ended]))) == [(LogFault.KEY_OUT_OF_SPAN, 9)]


def test_a_kept_checkpoint_to_which_no_path_leads_is_not_proven() -> None:
    read = read_published(published(2, 9))
    found = books(2, 9, kept=(kept(2), kept(5)))
    assert unproven(found, read, (kept(2), kept(5))) == (LogFinding(LogFault.UNPROVEN, 5),)


# ── paths of some chains ─────────────────────────────────────────────────────────────────────────


def test_paths_pin_the_receipts_of_a_chain() -> None:
    pins, found = check_paths(line("txn_2", (1, 2), (3, 9)), books(2, 9))
    assert found == ()
    assert pins == (
        Pin(1, START + timedelta(minutes=2)),
        Pin(3, START + timedelta(minutes=9)),
    )


def test_a_path_to_a_checkpoint_whose_time_counts_for_nothing_pins_nothing() -> None:
    keys = KeyRing([PublishedKey(public_key=SIGNER.public_key, compromised=START + timedelta(1))])
    assert check_paths(line("txn_2", (3, 9)), books(9, keys=keys)) == ((), ())


WRONG: Final[dict[str, Callable[[ChainLine], ChainLine]]] = {
    "another receipt": lambda one: with_proof(one, number=2),
    "no receipt": lambda one: with_proof(one, number=9),
    "another place": lambda one: with_proof(one, place=3),
    "a place beyond": lambda one: with_proof(one, place=9),
    "no checkpoint": lambda one: with_proof(one, size=5),
    "another path": lambda one: with_proof(one, path=inclusion("txn_2", 2, 9).path),
    "no hashes": lambda one: with_proof(one, path=("zz",)),
    "receipts without hashes": lambda one: msgspec.structs.replace(
        one, receipts=(*one.receipts[:2], msgspec.structs.replace(one.receipts[2], hash="zz"))
    ),
}


def with_proof(one: ChainLine, **fields: object) -> ChainLine:
    (proof,) = one.proofs
    return msgspec.structs.replace(one, proofs=(msgspec.structs.replace(proof, **fields),))


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_path_that_leads_nowhere_is_told(change: Callable[[ChainLine], ChainLine]) -> None:
    pins, found = check_paths(change(line("txn_2", (3, 9))), books(9))
    assert pins == ()
    assert [one.code for one in found] == [LogFault.PROOF_INVALID]


def test_a_path_to_a_checkpoint_that_does_not_hold_is_no_further_fault() -> None:
    wrong = books(came=came(note(9, signer=OTHER_SIGNER)))
    assert check_paths(line("txn_2", (3, 9)), wrong) == ((), ())


# ── a whole log ──────────────────────────────────────────────────────────────────────────────────


def test_every_checkpoint_follows_from_the_whole_log() -> None:
    assert list(check_whole(leaves(), books(2, 5, 9), 9)) == []
    assert list(check_whole(leaves(), books(2), 9)) == []
    assert list(check_whole([], books(came=Came()), 0)) == []


def test_a_log_that_was_changed_differs_from_every_checkpoint_behind_that() -> None:
    changed = [*leaves()[:3], b"\x07" * 32, *leaves()[4:]]
    assert list(check_whole(changed, books(2, 5, 9), 9)) == [
        LogFinding(LogFault.DIFFERS, 5),
        LogFinding(LogFault.DIFFERS, 9),
    ]


def test_a_log_whose_end_was_cut_off_is_shorter_than_a_checkpoint() -> None:
    assert list(check_whole(leaves()[:7], books(2, 5, 9), 7)) == [LogFinding(LogFault.CUT, 9)]


def test_a_place_that_nobody_takes_ends_the_log() -> None:
    placed = dict(enumerate(leaves()))
    del placed[4]
    assert list(in_order(placed)) == leaves()[:4]
    assert list(check_whole(in_order(placed), books(came=Came()), 8)) == [
        LogFinding(LogFault.CUT, 4)
    ]


def test_places_pin_each_receipt_by_the_first_checkpoint_behind_it() -> None:
    found = pins_by_place(line("txn_2", places=True), books(2, 5))
    assert found == (Pin(1, START + timedelta(minutes=2)), Pin(2, START + timedelta(minutes=5)))


def test_what_is_no_hash_has_no_leaf() -> None:
    assert leaf_or_none(LOG[0].hash) == leaves()[0]
    assert leaf_or_none("zz") is None
    assert TREE.size == len(LOG)
