"""The log of a store, and what can be proved of it: paths to checkpoints and between them.

The whole log is read once, a hash for each receipt, and a tree is made of it; that takes a second
for some hundred thousand receipts. Places count receipts from 0 in the order of the feed, whatever
gaps its positions have.

A log that does not lead through its own checkpoints is read all the same: whoever is handed what
comes of it finds that out. Nothing here writes to the store. Deliberately not here: checking.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from amends.contracts.codes import coded
from amends.contracts.errors import Conflict, Unavailable
from amends.contracts.evidence import Tail
from amends.contracts.ids import TenantId, TransactionId
from amends.receipts.bundle import Inclusion, Published
from amends.receipts.chain import chain_of
from amends.receipts.checkpoint import LARGEST, Note, read_note
from amends.receipts.keyset import jwk_of
from amends.receipts.log import leaf_or_none
from amends.receipts.merkle import Tree
from amends.receipts.proof import PROOF_FORMAT, Proof
from amends.stores.surveys import ChainName, Logbook
from amends.wiring.keys import key_path, readable_keys
from amends.wiring.places import Place, beside
from amends.wiring.surveying import survey_of

_NO_HASH: Final = bytes(32)


class ReadLog:
    """The log as it was when it was read, with its own checkpoints and those that were given.

    Raises `Conflict` (`checkpoint.not_of_this_log`) for one that was given and is of another store,
    or of more receipts than there are.
    """

    def __init__(self, book: Logbook, given: Sequence[Note] = ()) -> None:
        self._book = book
        rows = list(book.entries())
        self._positions = [row.position for row in rows]
        self._hashes = [row.hash for row in rows]
        self.leaves: Final = [leaf_or_none(row.hash) or _NO_HASH for row in rows]
        self._tree = Tree(self.leaves)
        self.lineage: Final = book.lineage
        for note in given:
            if note.head.lineage != self.lineage or note.head.size > self.size:
                raise _not_of_this_log()
        own = [read_note(one.note) for one in book.checkpoints()]
        self.notes: Final[Mapping[int, Note]] = {one.head.size: one for one in [*own, *given]}
        self._sizes = sorted(self.notes)

    @property
    def size(self) -> int:
        """How many receipts there are."""
        return self._tree.size

    def hash_at(self, place: int) -> str:
        """The hash of the receipt at a place."""
        return self._hashes[place]

    def places(self, name: ChainName) -> dict[int, int]:
        """The place in the log of each receipt of a chain, by its number.

        A receipt that was added since the log was read has none.
        """
        found, last = self._book.positions(name), self._positions[-1] if self._positions else 0
        return {
            number: bisect_left(self._positions, at) for number, at in found.items() if at <= last
        }

    def covering(self, name: ChainName) -> dict[int, int]:
        """The checkpoints by which a chain had grown, by size, with its last number in each."""
        last: dict[int, int] = {}
        for number, place in sorted(self.places(name).items()):
            at = bisect_right(self._sizes, place)
            if at < len(self._sizes):
                last[self._sizes[at]] = number
        return last

    def inclusions(self, name: ChainName) -> tuple[Inclusion, ...]:
        """The paths of a chain to the checkpoints by which it had grown."""
        places = self.places(name)
        return tuple(
            [
                Inclusion(
                    size=size,
                    number=number,
                    place=places[number],
                    path=_hexed(self._tree.inclusion(places[number], size)),
                )
                for size, number in self.covering(name).items()
                if size <= self.size
            ]
        )

    def published(self, sizes: Iterable[int]) -> tuple[Published, ...]:
        """These checkpoints and the last one, each with the path from the one before it."""
        wanted = sorted({*sizes, *self._sizes[-1:]})
        before = [0, *wanted]
        return tuple(
            [
                Published(self.notes[size].text, self._consistency(earlier, size))
                for earlier, size in zip(before, wanted, strict=False)
            ]
        )

    def _consistency(self, earlier: int, later: int) -> tuple[str, ...]:
        if earlier == 0 or later > self.size:
            return ()
        return _hexed(self._tree.consistency(earlier, later))


def prove(
    store: Place, tenant: TenantId, transaction_id: TransactionId, given: Sequence[Note]
) -> Proof:
    """The paths of a transaction's receipts to the log's checkpoints, and between these.

    Raises `Refused` (`transaction.not_found`), `Unavailable` (`checkpoint.none_yet`) where no
    checkpoint covers any of them, and as `ReadLog`.
    """
    name, known = (
        ChainName(tenant, chain_of(transaction_id)),
        readable_keys(key_path(beside(store))),
    )
    keys = () if known is None else tuple(map(jwk_of, known.published))
    with survey_of(store) as survey, survey.logbook() as book:
        log = ReadLog(book, given)
        if not log.places(name):
            raise coded("transaction.not_found")
        inclusions = log.inclusions(name)
        if not inclusions:
            raise _none_yet()
        proved = {one.number: one.place for one in inclusions}
        sizes = {one.size for one in inclusions} | {note.head.size for note in given}
        return Proof(
            format=PROOF_FORMAT,
            store=log.lineage,
            keys=keys,
            tenant=tenant,
            transaction_id=transaction_id,
            receipts=tuple([Tail(number, log.hash_at(at)) for number, at in proved.items()]),
            checkpoints=log.published(sizes),
            inclusions=inclusions,
        )


def read_note_file(path: Path) -> Note:
    """A checkpoint that somebody kept in a file.

    Raises `Unavailable` (`checkpoint.no_file`) and `Corrupt` (`checkpoint.malformed`).
    """
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1).decode("utf-8", "replace")
    except OSError as error:
        raise Unavailable(
            "checkpoint.no_file",
            "The file with the checkpoint cannot be read.",
            details={"file": path.name},
            next_step="Name a file that holds what amends checkpoint printed.",
        ) from error
    return read_note(text)


def _hexed(path: Sequence[bytes]) -> tuple[str, ...]:
    return tuple([step.hex() for step in path])


def _not_of_this_log() -> Conflict:
    return Conflict(
        "checkpoint.not_of_this_log",
        "The checkpoint is of another store, or of receipts that this one does not have.",
        next_step="Compare the store's lineage with the checkpoint's first line; then check the "
        "store with amends verify --store and that checkpoint.",
    )


def _none_yet() -> Unavailable:
    return Unavailable(
        "checkpoint.none_yet",
        "No checkpoint covers these receipts yet.",
        next_step="Run amends checkpoint, then try again.",
    )
