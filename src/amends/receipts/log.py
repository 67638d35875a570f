"""What checkpoints prove of receipts that came with them, or are all there (RC-3).

Two ways. A bundle of some chains brings paths: from receipts to a checkpoint, and from each
checkpoint to the next. Whoever has every receipt needs none: the roots follow from the receipts.
Either way a checkpoint that somebody kept from before, outside, is the one that counts: it shows
that nothing was changed, taken away or put in before it.

What paths cannot show: that a chain has no further receipt in the log. For that, a bundle has to be
whole, or the head of the chain has to be known.

Pure: no clock, no IO. Deliberately not here: what is wrong with a chain by itself (`verify`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

import msgspec

from amends.receipts.bundle import ChainLine, Inclusion, Published
from amends.receipts.checkpoint import LogFault, Note, check_note, leaf_of, read_note
from amends.receipts.merkle import Frontier, Hash, is_consistent, is_included
from amends.receipts.signing import KeyRing
from amends.receipts.verify import Pin

_HASH_LENGTH: Final = 32


class LogFinding(msgspec.Struct, frozen=True):
    """What is wrong with a checkpoint, named by its size, or with the log beside it."""

    code: LogFault
    size: int


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints of a store, by size, as far as they hold; and what was found of them.

    `trusted` are those whose time counts: somebody kept them, or their key was nobody else's.
    """

    notes: Mapping[int, Note]
    trusted: frozenset[int]
    findings: tuple[LogFinding, ...]


class Came(msgspec.Struct, frozen=True):
    """Checkpoints that came with receipts, and where the paths between them lead nowhere."""

    notes: tuple[Note, ...] = ()
    findings: tuple[LogFinding, ...] = ()


def read_published(published: Sequence[Published]) -> Came:
    """The checkpoints of a bundle, each of which must go on from the one before it.

    Raises `Corrupt` (`checkpoint.malformed`).
    """
    notes = tuple([read_note(one.note) for one in published])
    paths = [_hashes(one.path) for one in published]
    findings = [
        LogFinding(LogFault.INCONSISTENT, after.head.size)
        for (before, after), path in zip(pairwise(notes), paths[1:], strict=True)
        if path is None or not _goes_on(before, after, path)
    ]
    return Came(notes, tuple(findings))


def open_books(lineage: str, came: Came, kept: Sequence[Note], keys: KeyRing) -> Books:
    """Judge the checkpoints that came with receipts, beside those that somebody kept.

    With an empty ring no signature is asked for.
    """
    everyone = [*came.notes, *kept]
    findings = {
        *_foreign(everyone, lineage),
        *_badly_signed(came.notes, keys, kept=False),
        *_badly_signed(kept, keys, kept=True),
        *came.findings,
        *_contradicting(everyone),
    }
    faulty = {one.size for one in findings}
    known = {_size(one): one for one in everyone if _size(one) not in faulty}
    believed = {_size(one) for one in came.notes if _is_believed(one, keys)}
    return Books(
        notes=known,
        trusted=frozenset((believed | set(map(_size, kept))) & known.keys()),
        findings=tuple(sorted(findings, key=lambda one: (one.size, one.code))),
    )


def unproven(books: Books, came: Came, kept: Sequence[Note]) -> tuple[LogFinding, ...]:
    """Kept checkpoints to which nothing leads that came with the receipts."""
    reached = set(map(_size, came.notes))
    sizes = [_size(note) for note in kept if _size(note) in books.notes]
    return tuple([LogFinding(LogFault.UNPROVEN, size) for size in sizes if size not in reached])


def check_paths(line: ChainLine, books: Books) -> tuple[tuple[Pin, ...], tuple[LogFinding, ...]]:
    """What the paths of a chain pin, and those that lead nowhere."""
    hashes = {one.number: one.hash for one in reversed(line.receipts)}
    return follow_paths(line.proofs, hashes, books)


def follow_paths(
    proofs: Iterable[Inclusion], hashes: Mapping[int, str], books: Books
) -> tuple[tuple[Pin, ...], tuple[LogFinding, ...]]:
    """What paths pin of receipts, given by their hashes and numbers, and those that lead nowhere.

    A path to a checkpoint that itself does not hold says nothing, and is no further fault.
    """
    pins: list[Pin] = []
    findings: list[LogFinding] = []
    wrong = {one.size for one in books.findings}
    for proof in proofs:
        note = books.notes.get(proof.size)
        if note is None or not _leads(proof, hashes.get(proof.number), note):
            if proof.size not in wrong:
                findings.append(LogFinding(LogFault.PROOF_INVALID, proof.size))
        elif proof.size in books.trusted:
            pins.append(Pin(proof.number, note.head.at))
    return tuple(pins), tuple(findings)


def pins_by_place(line: ChainLine, books: Books) -> tuple[Pin, ...]:
    """What the checkpoints pin of a chain whose places in the log are known."""
    sizes = sorted(books.trusted)
    pins: list[Pin] = []
    for receipt, place in zip(line.receipts, line.places, strict=False):
        covering = bisect_right(sizes, place)
        if covering < len(sizes):
            pins.append(Pin(receipt.number, books.notes[sizes[covering]].head.at))
    return tuple(pins)


def check_whole(leaves: Iterable[Hash], books: Books, count: int) -> Iterator[LogFinding]:
    """Hold every receipt of a log, in its order, against the checkpoints.

    `count` is how many receipts there are said to be; where they have no place each, the log ends
    at the first place that is free.
    """
    frontier = Frontier()
    feed = iter(leaves)
    for size, note in sorted(books.notes.items()):
        frontier = frontier.grown(islice(feed, size - frontier.size))
        if frontier.size < size:
            yield LogFinding(LogFault.CUT, size)
        elif frontier.root() != note.head.root:
            yield LogFinding(LogFault.DIFFERS, size)
    total = frontier.size + sum(1 for _ in feed)
    if total < count:
        yield LogFinding(LogFault.CUT, total)


def in_order(leaves: Mapping[int, Hash]) -> Iterator[Hash]:
    """Leaves by their places, up to the first place that nobody takes."""
    place = 0
    while (leaf := leaves.get(place)) is not None:
        yield leaf
        place += 1


def leaf_or_none(receipt_hash: str) -> Hash | None:
    """The leaf of a receipt; none for one whose hash is no hash."""
    try:
        return leaf_of(receipt_hash)
    except ValueError:
        return None


def _leads(proof: Inclusion, receipt_hash: str | None, note: Note) -> bool:
    """Whether a path leads from the receipt that it names to the checkpoint that it names."""
    leaf = None if receipt_hash is None else leaf_or_none(receipt_hash)
    path = _hashes(proof.path)
    if leaf is None or path is None:
        return False
    return is_included(leaf, proof.place, path, note.head.size, note.head.root)


def _foreign(notes: Sequence[Note], lineage: str) -> Iterator[LogFinding]:
    for note in notes:
        if note.head.lineage != lineage:
            yield LogFinding(LogFault.FOREIGN, note.head.size)


def _size(note: Note) -> int:
    return note.head.size


def _goes_on(before: Note, after: Note, path: Sequence[Hash]) -> bool:
    earlier, later = before.head, after.head
    is_later = earlier.size < later.size
    return is_later and is_consistent(earlier.size, earlier.root, later.size, later.root, path)


def _contradicting(notes: Sequence[Note]) -> Iterator[LogFinding]:
    """Two checkpoints of one size with two roots: two histories."""
    roots: dict[int, Hash] = {}
    for note in notes:
        if roots.setdefault(note.head.size, note.head.root) != note.head.root:
            yield LogFinding(LogFault.INCONSISTENT, note.head.size)


def _badly_signed(notes: Sequence[Note], keys: KeyRing, *, kept: bool) -> Iterator[LogFinding]:
    """A kept one is asked for a genuine signature only: its time is vouched for by its keeper."""
    for note in notes if len(keys) else ():
        key_id, fault = check_note(note, keys)
        key = None if key_id is None else keys.get(key_id)
        if fault is not None:
            yield LogFinding(fault, note.head.size)
        elif key is not None and not kept:
            if key.compromised is not None and note.head.at >= key.compromised:
                yield LogFinding(LogFault.KEY_COMPROMISED, note.head.size)
            elif not key.spans(note.head.at):
                yield LogFinding(LogFault.KEY_OUT_OF_SPAN, note.head.size)


def _is_believed(note: Note, keys: KeyRing) -> bool:
    """Whether nobody else can have signed it with an earlier date."""
    key_id, _ = check_note(note, keys)
    key = None if key_id is None else keys.get(key_id)
    return key is not None and key.compromised is None


def _hashes(path: Sequence[str]) -> tuple[Hash, ...] | None:
    """A path in bytes; none where it holds something else than hashes."""
    try:
        hashes = tuple([bytes.fromhex(step) for step in path])
    except ValueError:
        return None
    return hashes if all(len(one) == _HASH_LENGTH for one in hashes) else None
